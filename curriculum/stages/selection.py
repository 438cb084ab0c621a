"""Selections: the only stage that reads the whole corpus.

    kept        kept documents and their split; tokenizers are trained on them
    selection   the same with each document's domain; rows are built from it

One pair of these artefacts covers the documents of files, and decides the splits. Each graph family has a
pair of its own, which takes its splits from the pair of files, so that rows of files never depend on graphs.
If domain rules change, selections and rows are rebuilt, but neither documents nor tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.corpus import domains
from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.other_corpora import LEFT_OUT_FILES_NAME, OtherCorpus
from curriculum.corpus.select import (
    REVISION,
    SIDES_NAME,
    KnownFiles,
    ingredients,
    select,
)
from curriculum.corpus.signatures import minhash_version
from curriculum.stages.stage import Stage
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.corpus import CorpusSpec, DomainsSpec
from schemas.errors import CorpusError
from schemas.families import VERSIONS_FAMILY
from schemas.reports import SelectionReport


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptDocuments:
    """Documents, and the artefact that decides which of them are kept."""

    documents: Sequence[Artefact]
    kept: Artefact

    @property
    def of_graphs(self) -> bool:
        """True for documents of a graph family."""
        return "family" in self.kept.manifest.labels


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitDocuments(Stage[Sequence[Artefact], Sequence[Artefact]]):
    """Stage that decides which documents are kept, and their splits; one task covers all documents."""

    name = "selection"
    placement = "each shard"
    corpus: CorpusSpec
    files: KeptDocuments | None = None
    """Files that determine the splits. If they are given, the documents belong to one graph family."""
    others: Sequence[Artefact] = ()
    """Selections of other corpora; files in them are excluded."""

    @staticmethod
    def of_files(store: Store, corpus: CorpusSpec) -> "SplitDocuments":
        """Return the stage for the documents of files.

        Raises:
            CorpusError: naming a corpus of `not_in` that isn't built in this workspace.
        """
        return SplitDocuments(corpus=corpus, others=kept_elsewhere(store, corpus))

    def tasks(self, inputs: Sequence[Artefact]) -> Sequence[Sequence[Artefact]]:
        """Return all documents as one task."""
        return [inputs]

    def title(self, task: Sequence[Artefact]) -> str:
        """Return the title of the documents."""
        return f"kept of {_title(self.corpus, task, of_graphs=self.files is not None)}"

    def recipes(self, task: Sequence[Artefact]) -> Sequence[Recipe]:
        """Return the recipe of the kept documents."""
        kept = (self.files.kept.as_input("kept"),) if self.files else ()
        others = (
            other.as_input(f"left out {other.manifest.labels['corpus']}") for other in self.others
        )
        labels = _labels(self.corpus, task, of_graphs=self.files is not None)
        recipe = Recipe(
            stage="selections",
            labels=(*labels, ("step", "kept")),
            revision=REVISION,
            config=ingredients(self.corpus),
            inputs=(
                *kept,
                *others,
                *(
                    documents.as_input(title(documents))
                    for documents in (*_versions_in(self.files), *task)
                ),
            ),
            tools={} if self.files else {"minhash": minhash_version()},
        )
        return [recipe]

    def run(self, task: Sequence[Artefact], drafts: Sequence[StagingDirectory]) -> None:
        """Find duplicates, apply quality rules, and assign files to splits."""
        (draft,) = drafts
        known = (
            KnownFiles(
                sides=self.files.kept.path / SIDES_NAME,
                left_out=self.files.kept.path / LEFT_OUT_FILES_NAME,
                versions=folders(_versions_in(self.files)),
            )
            if self.files
            else None
        )
        others = [
            OtherCorpus(name=other.manifest.labels["corpus"], selection=other.path)
            for other in self.others
        ]
        selected = select(folders(task), self.corpus, draft.path, known=known, others=others)
        draft.record(selected.report())


def kept_elsewhere(store: Store, corpus: CorpusSpec) -> tuple[Artefact, ...]:
    """Return the newest selection of each corpus that the corpus names in `not_in`.

    Raises:
        CorpusError: naming a corpus that isn't built in this workspace.
    """
    if not corpus.not_in:
        return ()
    newest: dict[str, Artefact] = {}
    for artefact in store.artefacts("selections"):
        labels = artefact.manifest.labels
        is_kept = labels.get("step") == "kept" and "family" not in labels
        known = newest.get(labels["corpus"])
        if is_kept and (known is None or artefact.manifest.created > known.manifest.created):
            newest[labels["corpus"]] = artefact
    for name in corpus.not_in:
        if name not in newest:
            raise CorpusError(
                f"not_in of corpus {corpus.name}",
                repr(name),
                cause=f"no corpus of that name is built in the workspace {store.root}",
                cure=f"Build it first, or remove it from not_in. Built: {', '.join(newest) or 'none'}",
            )
    return tuple(store.load(newest[name].path) for name in dict.fromkeys(corpus.not_in))


def _versions_in(files: KeptDocuments | None) -> list[Artefact]:
    """Return those of `files` that are documents of whole file versions."""
    listed = files.documents if files else ()
    return [
        documents for documents in listed if documents.manifest.labels["family"] == VERSIONS_FAMILY
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection(Stage[KeptDocuments, KeptDocuments]):
    """Stage that adds domains to the kept documents; one task covers all documents."""

    name = "selection"
    placement = "each shard"
    corpus: CorpusSpec
    rules: DomainsSpec

    def tasks(self, inputs: KeptDocuments) -> Sequence[KeptDocuments]:
        """Return all documents as one task."""
        return [inputs]

    def title(self, task: KeptDocuments) -> str:
        """Return the name of the corpus, or of the graph family."""
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
                *(document.as_input(title(document)) for document in task.documents),
            ),
        )
        return [recipe]

    def run(self, task: KeptDocuments, drafts: Sequence[StagingDirectory]) -> None:
        """Decide the domain of each kept document by the domain rules."""
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


def folders(documents: Sequence[Artefact]) -> list[DocumentFolder]:
    """Return the folder of each artefact of documents, with its repository."""
    return [
        DocumentFolder(repository=artefact.manifest.labels["repository"], path=artefact.path)
        for artefact in documents
    ]


def title(artefact: Artefact) -> str:
    """Return the name under which documents or tokens are an input of recipes: stage, family, repository."""
    labels = artefact.manifest.labels
    return f"{artefact.manifest.stage} {labels['family']} {labels['repository']}"
