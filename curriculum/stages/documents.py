"""Documents of files: one pass over the history of a repository feeds the writers of all families."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType

from pydantic import JsonValue

from curriculum.corpus import git, history
from curriculum.corpus.skips import Skips
from curriculum.families.render import RenderResult, render, tools
from curriculum.families.write import DocumentWriter
from curriculum.stages.repositories import Repository
from curriculum.stages.stage import Stage
from curriculum.store import Recipe, StagingDirectory
from schemas.document import Document
from schemas.families import FAMILIES, families_of
from schemas.reports import DocumentsReport

SAMPLE_BYTES = 8_000_000
"""Bytes of a family and repository: nobody reads more, and it takes seconds to make."""


class FamilyWriters:
    """Writers of several families' documents, one for each draft, with counts for their manifests."""

    def __init__(self, drafts: Sequence[StagingDirectory], *, sample: int | None = None) -> None:
        self._drafts = {dict(draft.recipe.labels)["family"]: draft for draft in drafts}
        self._sample = sample
        self._files = contextlib.ExitStack()
        self._writers = {
            family: self._files.enter_context(DocumentWriter(draft.path))
            for family, draft in self._drafts.items()
        }
        self._left_out: dict[str, Counter[str]] = {family: Counter() for family in self._drafts}
        self._graphs = {family: _GraphCounts() for family in self._drafts}

    @property
    def families(self) -> list[str]:
        """Families that are written."""
        return list(self._drafts)

    @property
    def are_full(self) -> bool:
        """Return True where a sample was asked for and each family has its own."""
        return not any(self._takes(writer) for writer in self._writers.values())

    def _takes(self, writer: DocumentWriter) -> bool:
        if self._sample is None:
            return True
        return writer.count < self._sample and writer.num_bytes < SAMPLE_BYTES

    def add(self, rendered: RenderResult) -> None:
        """Write documents and add counts; a family that has its sample gets no more."""
        for document in rendered.documents:
            writer = self._writers[document.family]
            if self._takes(writer):
                writer.append(document)
                self._graphs[document.family].add(document)
        for count in rendered.counts:
            self._left_out[count.family][count.reason] += count.number

    def report(
        self,
        more: DocumentsReport,
        by_family: Mapping[str, DocumentsReport] = MappingProxyType({}),
    ) -> None:
        """Record the counts for the manifests; the files are closed by then."""
        for family, draft in self._drafts.items():
            writer = self._writers[family]
            counted = DocumentsReport(
                documents=writer.count,
                num_bytes=writer.num_bytes,
                left_out=dict(sorted(self._left_out[family].items())),
            )
            own = by_family.get(family, DocumentsReport())
            for report in (counted, self._graphs[family].report(), more, own):
                draft.record(report)

    def __enter__(self) -> "FamilyWriters":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._files.__exit__(kind, error, at)


@dataclass(kw_only=True, slots=True)
class _GraphCounts:
    """Counts of chunks and edges in the documents of a family."""

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
        """The counts, if there are any; hop 0 is the target."""
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
    """Documents of all families that are made of files, repository by repository."""

    name = "documents"
    sample: int | None = None
    """Documents of each family of a repository after which reading ends; None to read everything."""

    def tasks(self, inputs: Sequence[Repository]) -> Sequence[Repository]:
        """Return the repositories."""
        return inputs

    def title(self, task: Repository) -> str:
        """Return the repository's name."""
        return task.name

    def recipes(self, task: Repository) -> Sequence[Recipe]:
        """Return the recipe of each family."""
        return [self._recipe(task, family) for family in families_of("changes")]

    def run(self, task: Repository, drafts: Sequence[StagingDirectory]) -> None:
        """Render each change of the history for all families that are missing.

        Raises:
            CorpusError: where the repository can't be read, or more than `max_skipped` of its changes.
        """
        skips = Skips()
        with FamilyWriters(drafts, sample=self.sample) as writers:
            for change in history.read_changes(task.source, task.spec, task.corpus, skips):
                writers.add(render(change, writers.families))
                if writers.are_full:
                    break
        task.refuse_losses(skips)
        writers.report(DocumentsReport(changes=skips.report()))

    def _recipe(self, task: Repository, family: str) -> Recipe:
        config: dict[str, JsonValue] = {
            "family": family,
            "reader": history.REVISION,
            **task.ingredients(),
            **({} if self.sample is None else {"sample": self.sample}),
        }
        return Recipe(
            stage="documents",
            labels=(("family", family), ("repository", task.name)),
            revision=FAMILIES[family].revision,
            config=config,
            tools={"git": git.version(), **tools()},
        )
