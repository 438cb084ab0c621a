"""Selections: the only place where the whole corpus is seen.

    kept        what is kept, on which side of the split; tokenizers are trained on it
    selection   the same with each document's domain; rows are made by it

One pair is made of the documents of files and decides the sides; each family of graphs has its own on top,
so that rows of files never depend on what graphs say. A changed rule of domains makes selections and rows
anew, and neither documents nor tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.corpus import domains
from curriculum.corpus.select import (
    REVISION,
    SIDES_NAME,
    DocumentsOf,
    KnownFiles,
    ingredients,
    select,
)
from curriculum.stages.stage import Stage
from curriculum.store import Artefact, Recipe, StagingDirectory
from schemas.corpus import CorpusSpec, DomainsSpec
from schemas.families import VERSIONS_FAMILY
from schemas.reports import SelectionReport


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptDocuments:
    """Documents, and the artefact that says what of them is kept."""

    documents: Sequence[Artefact]
    kept: Artefact

    @property
    def of_graphs(self) -> bool:
        """Return True for documents of one family of graphs."""
        return "family" in self.kept.manifest.labels


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept(Stage[Sequence[Artefact], Sequence[Artefact]]):
    """Documents that are kept, and their side of the split; one task sees all of them."""

    name = "selection"
    placement = "each shard"
    corpus: CorpusSpec
    files: KeptDocuments | None = None
    """Files, whose sides hold; then the documents are of one family of graphs."""

    def tasks(self, inputs: Sequence[Artefact]) -> Sequence[Sequence[Artefact]]:
        """Return all documents as one task."""
        return [inputs]

    def title(self, task: Sequence[Artefact]) -> str:
        """Name the documents."""
        return f"kept of {_title(self.corpus, task, of_graphs=self.files is not None)}"

    def recipes(self, task: Sequence[Artefact]) -> Sequence[Recipe]:
        """Return the recipe of what is kept."""
        kept = (self.files.kept.as_input("kept"),) if self.files else ()
        labels = _labels(self.corpus, task, of_graphs=self.files is not None)
        recipe = Recipe(
            stage="selections",
            labels=(*labels, ("step", "kept")),
            revision=REVISION,
            config=ingredients(self.corpus),
            inputs=(
                *kept,
                *(
                    documents.as_input(title(documents))
                    for documents in (*_versions_in(self.files), *task)
                ),
            ),
        )
        return [recipe]

    def run(self, task: Sequence[Artefact], drafts: Sequence[StagingDirectory]) -> None:
        """Find duplicates, apply the rules of quality and split by files."""
        (draft,) = drafts
        known = (
            KnownFiles(
                sides=self.files.kept.path / SIDES_NAME, versions=folders(_versions_in(self.files))
            )
            if self.files
            else None
        )
        draft.record(select(folders(task), self.corpus, draft.path, known=known).report())


def _versions_in(files: KeptDocuments | None) -> list[Artefact]:
    """The documents of files' versions, of those that a selection of graphs knows."""
    listed = files.documents if files else ()
    return [each for each in listed if each.manifest.labels["family"] == VERSIONS_FAMILY]


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection(Stage[KeptDocuments, KeptDocuments]):
    """Kept documents with the domain of each; one task sees all of them."""

    name = "selection"
    placement = "each shard"
    corpus: CorpusSpec
    rules: DomainsSpec

    def tasks(self, inputs: KeptDocuments) -> Sequence[KeptDocuments]:
        """Return all documents as one task."""
        return [inputs]

    def title(self, task: KeptDocuments) -> str:
        """Return the name of the corpus, or of the family of graphs."""
        return _title(self.corpus, task.documents, of_graphs=task.of_graphs)

    def recipes(self, task: KeptDocuments) -> Sequence[Recipe]:
        """Return the recipe of the selection."""
        recipe = Recipe(
            stage="selections",
            labels=_labels(self.corpus, task.documents, of_graphs=task.of_graphs),
            revision=domains.REVISION,
            config=domains.ingredients(self.rules),
            inputs=(
                task.kept.as_input("kept"),
                *(each.as_input(title(each)) for each in task.documents),
            ),
        )
        return [recipe]

    def run(self, task: KeptDocuments, drafts: Sequence[StagingDirectory]) -> None:
        """Decide the domain of each kept document by the rules."""
        (draft,) = drafts
        decided = domains.label_domains(
            folders(task.documents), task.kept.path, self.rules, draft.path
        )
        draft.record(task.kept.reported(SelectionReport))
        draft.record(decided.report())


def _title(corpus: CorpusSpec, documents: Sequence[Artefact], *, of_graphs: bool) -> str:
    return documents[0].manifest.labels["family"] if of_graphs else corpus.name


def _labels(
    corpus: CorpusSpec, documents: Sequence[Artefact], *, of_graphs: bool
) -> tuple[tuple[str, str], ...]:
    family = [("family", documents[0].manifest.labels["family"])] if of_graphs else []
    return (("corpus", corpus.name), *family)


def folders(documents: Sequence[Artefact]) -> list[DocumentsOf]:
    """Return the folder of each artefact of documents, with its repository."""
    return [
        DocumentsOf(repository=each.manifest.labels["repository"], path=each.path)
        for each in documents
    ]


def title(artefact: Artefact) -> str:
    """The role of a family's documents or tokens in other recipes: stage, family, repository."""
    labels = artefact.manifest.labels
    return f"{artefact.manifest.stage} {labels['family']} {labels['repository']}"
