"""Documents of files: one pass over a history writes the documents of all families."""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from pydantic import JsonValue

from curriculum.corpus import history
from curriculum.corpus.conversations import conversation_paths
from curriculum.corpus.file_histories import FileHistories
from curriculum.corpus.plain_folder import require_files
from curriculum.corpus.refused_licences import UNKNOWN_LICENCE
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import Source, Sources
from curriculum.families.chosen_changes import render_changes
from curriculum.families.document_writer import DocumentWriter
from curriculum.families.render import RenderResult
from curriculum.graph.syntax_tree import grammar_versions
from curriculum.stages.stage import Stage
from curriculum.store import Recipe, StagingDirectory
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.document import Document
from schemas.errors import CorpusError
from schemas.families import FAMILIES, VERSIONS_FAMILY, families_of
from schemas.reports import DocumentsReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A repository of a corpus with its resolved pin."""

    corpus: CorpusSpec
    spec: RepositorySpec
    source: Source
    git: str
    """Version of the git command that reads the repository."""

    @property
    def name(self) -> str:
        """Name in the corpus."""
        return self.spec.name

    def trained(self) -> "Repository":
        """Return the repository without the commits of the fixed set `later`."""
        corpus = self.corpus.trained()
        spec = next(
            repository for repository in corpus.repositories if repository.name == self.name
        )
        return replace(self, corpus=corpus, spec=spec)

    def ingredients(self) -> dict[str, JsonValue]:
        """Return everything that decides which changes are read, for artefact keys, except git's version."""
        return history.ingredients(self.source, self.spec, self.corpus)

    def refuse_losses(self, skips: Skips) -> None:
        """Raise if `skips` counts too many losses in the history.

        Raises:
            CorpusError: with counts, if more than `max_skipped` of the changes can't be read.
        """
        if skips.lost_share > self.corpus.max_skipped:
            raise CorpusError(
                self.spec.title(),
                f"{skips.lost_share:.1%} of its changes can't be read ({skips.unreadable_words()})",
                cause=f"max_skipped allows {self.corpus.max_skipped:.1%}",
                cure=(
                    "Fix or exclude these files, or raise max_skipped in the corpus file; or set "
                    "on_error: skip to build without the repository"
                ),
            )


def repositories(corpus: CorpusSpec, sources: Sources) -> tuple[Repository, ...]:
    """Return the repositories of a corpus with their resolved pins, in the order of the corpus.

    Raises:
        CorpusError: naming all that don't resolve; nothing except clones is written then.
    """
    found = sources.resolve_all(corpus.repositories)
    return tuple(
        Repository(corpus=corpus, spec=spec, source=source, git=sources.git_version())
        for spec, source in zip(corpus.repositories, found, strict=True)
    )


def require_sources(corpus: CorpusSpec, sources: Sources, *, chat: bool) -> None:
    """Raise unless everything in a corpus can be read. Nothing except clones is written.

    With `chat`, its conversations are checked as well.

    Raises:
        CorpusError: for the first repository that doesn't resolve, a plain folder without readable files,
        or missing conversations.
    """
    for source in corpus.conversations if chat else ():
        conversation_paths(source)
    for repository in repositories(corpus, sources):
        require_files(repository.source, repository.spec, corpus)


SAMPLE_BYTES = 8_000_000
"""Maximum size in bytes of a sample per family and repository. Building this much takes seconds."""


class FamilyWriters(contextlib.ExitStack):
    """Writers for the documents of several families, one per draft. They also count for the manifests."""

    def __init__(self, drafts: Sequence[StagingDirectory], *, sample: int | None = None) -> None:
        super().__init__()
        self._drafts = {dict(draft.recipe.labels)["family"]: draft for draft in drafts}
        self._sample = sample
        self._writers = {
            family: self.enter_context(DocumentWriter(draft.path))
            for family, draft in self._drafts.items()
        }
        self._left_out: dict[str, Counter[str]] = {family: Counter() for family in self._drafts}
        self._graphs = {family: _GraphCounts() for family in self._drafts}
        self._licences = {family: _LicenceCounts() for family in self._drafts}

    @property
    def families(self) -> list[str]:
        """Families that have a writer."""
        return list(self._drafts)

    @property
    def are_full(self) -> bool:
        """True if only a sample was requested, and the sample of each family is complete."""
        return not any(self._takes(writer) for writer in self._writers.values())

    def _takes(self, writer: DocumentWriter) -> bool:
        if self._sample is None:
            return True
        return writer.count < self._sample and writer.num_bytes < SAMPLE_BYTES

    def add(self, rendered: RenderResult) -> None:
        """Write documents and add their counts, except for families whose sample is complete."""
        for document in rendered.documents:
            writer = self._writers[document.family]
            if self._takes(writer):
                writer.append(document)
                self._graphs[document.family].add(document)
                self._licences[document.family].add(document)
        for count in rendered.counts:
            self._left_out[count.family][count.reason] += count.number

    def report(
        self,
        more: DocumentsReport,
        by_family: Mapping[str, DocumentsReport] = MappingProxyType({}),
    ) -> None:
        """Record the counts for the manifests. Call it after the files are closed."""
        for family, draft in self._drafts.items():
            writer = self._writers[family]
            counted = DocumentsReport(
                documents=writer.count,
                num_bytes=writer.num_bytes,
                left_out=dict(sorted(self._left_out[family].items())),
            )
            own = by_family.get(family, DocumentsReport())
            kinds = self._graphs[family].report(), self._licences[family].report()
            for report in (counted, *kinds, more, own):
                draft.record(report)


def write_or_skip(
    corpus: CorpusSpec, drafts: Sequence[StagingDirectory], write: Callable[[], None]
) -> None:
    """Call `write`, which fills drafts from a source. If it fails and the corpus skips it, leave them empty.

    The manifests of empty drafts say why they are empty.

    Raises:
        CorpusError: from `write`, unless the corpus skips the source.
    """
    try:
        write()
    except CorpusError as failed:
        if corpus.on_error == "stop":
            raise
        for draft in drafts:
            for file in filter(Path.is_file, draft.path.rglob("*")):
                file.unlink()
        with FamilyWriters(drafts) as writers:
            writers.report(DocumentsReport(lacks=f"it is skipped: {failed}"))


@dataclass(kw_only=True, slots=True)
class _LicenceCounts:
    """Counts of a family's documents by licence, and by the evidence for the licence."""

    licences: Counter[str] = field(default_factory=Counter)
    evidence: Counter[str] = field(default_factory=Counter)

    def add(self, document: Document) -> None:
        """Count a document, once for each licence among its sources."""
        sources = document.provenance
        self.licences.update({source.licence or UNKNOWN_LICENCE for source in sources})
        self.evidence.update(
            {(source.licence_evidence or UNKNOWN_LICENCE).partition(":")[0] for source in sources}
        )

    def report(self) -> DocumentsReport:
        """Return the counts."""
        return DocumentsReport(
            licences=dict(sorted(self.licences.items())),
            licence_evidence=dict(sorted(self.evidence.items())),
        )


@dataclass(kw_only=True, slots=True)
class _GraphCounts:
    """Counts of chunks and edges in a family's documents."""

    edges: Counter[str] = field(default_factory=Counter)
    """Number of edges by label."""
    kinds: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    hops: Counter[int] = field(default_factory=Counter)

    def add(self, document: Document) -> None:
        """Count the chunks and edges of one document."""
        for edge in document.edges:
            self.edges[edge.label] += 1
            self.kinds[edge.kind] += 1
        for chunk in document.chunks:
            self.forms[chunk.form] += 1
            self.hops[chunk.hop] += 1

    def report(self) -> DocumentsReport:
        """Return the counts; they are empty if there are no chunks. Hop 0 is the target."""
        if not self.forms:
            return DocumentsReport()
        return DocumentsReport(
            edges=dict(sorted(self.edges.items())),
            edge_kinds=dict(sorted(self.kinds.items())),
            chunks=dict(sorted(self.forms.items())),
            hops={str(hop): number for hop, number in sorted(self.hops.items())},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents(Stage[Sequence[Repository], Repository]):
    """Stage that writes the documents of all file families, repository by repository."""

    name = "documents"
    parses = True
    raises_last = True
    sample: int | None = None
    """Number of documents per family and repository after which reading ends; None to read everything."""

    def title(self, task: Repository) -> str:
        """Return the repository's name."""
        return task.name

    def recipes(self, task: Repository) -> Sequence[Recipe]:
        """Return the recipe of each family."""
        return [self._recipe(task, family) for family in families_of("changes")]

    def run(self, task: Repository, drafts: Sequence[StagingDirectory]) -> None:
        """Render each change of the history for all families whose artefacts are missing.

        Raises:
            CorpusError: if the repository or more than `max_skipped` of its changes can't be read. If the
            corpus skips the repository, its artefacts stay empty instead.
        """
        write_or_skip(task.corpus, drafts, functools.partial(self._write, task, drafts))

    def _write(self, task: Repository, drafts: Sequence[StagingDirectory]) -> None:
        skips = Skips()
        histories = FileHistories()
        with FamilyWriters(drafts, sample=self.sample) as writers:
            changes = history.read_changes(task.source, task.spec, task.corpus, skips, histories)
            for rendered in render_changes(changes, writers.families, task.corpus.edit_settings()):
                writers.add(rendered)
                if writers.are_full:
                    break
        task.refuse_losses(skips)
        for draft in drafts:
            if dict(draft.recipe.labels)["family"] == VERSIONS_FAMILY:
                histories.write(draft.path)
        writers.report(DocumentsReport(changes=skips.report()))

    def _edit_settings(self, task: Repository, family: str) -> dict[str, JsonValue]:
        spec = FAMILIES[family]
        settings = task.corpus.edit_settings()
        return settings.not_usual(shows_file=spec.shows_file) if spec.edits_only else {}

    def _recipe(self, task: Repository, family: str) -> Recipe:
        config: dict[str, JsonValue] = {
            "family": family,
            "reader": history.REVISION,
            **task.ingredients(),
            **task.corpus.tolerance(),
            **({} if self.sample is None else {"sample": self.sample}),
            **self._edit_settings(task, family),
        }
        return Recipe(
            stage="documents",
            labels=(("family", family), ("repository", task.name)),
            revision=FAMILIES[family].revision,
            config=config,
            tools={"git": task.git, **grammar_versions()},
        )
