"""Documents of files: one pass over the history of a repository feeds all their families."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType

from pydantic import JsonValue

from curriculum.corpus import git, history
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import Source, resolve
from curriculum.families.render import REVISIONS, render, tools
from curriculum.families.rendered import Rendered
from curriculum.families.write import DocumentWriter
from curriculum.stages.coordinator import Team
from curriculum.stages.repositories import Repository, clones, repositories
from curriculum.store import Artefact, Draft, Recipe, Store
from schemas.corpus import CorpusSpec
from schemas.document import FILE_FAMILIES, Document
from schemas.reports import DocumentsReport

SAMPLE_BYTES = 8_000_000
"""Of a family and repository: whoever looks at documents reads no more, and it takes seconds to make."""


def documents_of(
    team: Team, corpus: CorpusSpec, *, sample: int | None = None
) -> tuple[Artefact, ...]:
    """The documents of all families that are made of files, repository by repository.

    With `sample`, reading ends once each family of a repository has so many.
    """
    tasks = [_Task(repository=each, sample=sample) for each in repositories(corpus)]
    made = team.each("documents", tasks, _make, lambda task: task.repository.name)
    return tuple(artefact for artefacts in made for artefact in artefacts)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    repository: Repository
    sample: int | None


def _make(store: Store, task: _Task) -> tuple[Artefact, ...]:
    source = resolve(task.repository.spec, cache=clones(store.root))
    recipes = [_recipe(task, source, family) for family in FILE_FAMILIES]

    def fill(drafts: Sequence[Draft]) -> None:
        _fill(task, source, drafts)

    return tuple(store.produce(recipes, fill))


def _recipe(task: _Task, source: Source, family: str) -> Recipe:
    repository = task.repository
    config: dict[str, JsonValue] = {
        "family": family,
        "reader": history.REVISION,
        **history.ingredients(source, repository.spec, repository.corpus),
        **({} if task.sample is None else {"sample": task.sample}),
    }
    return Recipe(
        stage="documents",
        labels=(("family", family), ("repository", repository.name)),
        revision=REVISIONS[family],
        config=config,
        tools={"git": git.version(), **tools()},
    )


def _fill(task: _Task, source: Source, drafts: Sequence[Draft]) -> None:
    repository, skips = task.repository, Skips()
    with Sheaf(drafts, sample=task.sample) as sheaf:
        for change in history.read_changes(source, repository.spec, repository.corpus, skips):
            sheaf.add(render(change, sheaf.families))
            if sheaf.is_full:
                break
    repository.refuse_losses(skips)
    sheaf.report(DocumentsReport(changes=skips.report()))


class Sheaf:
    """The documents of several families on their way to disk, and what was left out of each."""

    def __init__(self, drafts: Sequence[Draft], *, sample: int | None = None) -> None:
        self._drafts = {dict(draft.recipe.labels)["family"]: draft for draft in drafts}
        self._sample = sample
        self._files = contextlib.ExitStack()
        self._writers = {
            family: self._files.enter_context(DocumentWriter(draft.path))
            for family, draft in self._drafts.items()
        }
        self._left_out: dict[str, Counter[str]] = {family: Counter() for family in self._drafts}
        self._context = {family: _Context() for family in self._drafts}

    @property
    def families(self) -> list[str]:
        """The families that are written."""
        return list(self._drafts)

    @property
    def is_full(self) -> bool:
        """Whether a sample was asked for and each family has its own."""
        return not any(self._takes(writer) for writer in self._writers.values())

    def _takes(self, writer: DocumentWriter) -> bool:
        if self._sample is None:
            return True
        return writer.count < self._sample and writer.num_bytes < SAMPLE_BYTES

    def add(self, rendered: Rendered) -> None:
        """Write documents and note counts; a family that has its sample takes no more."""
        for document in rendered.documents:
            writer = self._writers[document.family]
            if self._takes(writer):
                writer.append(document)
                self._context[document.family].add(document)
        for count in rendered.counts:
            self._left_out[count.family][count.reason] += count.number

    def report(
        self,
        more: DocumentsReport,
        by_family: Mapping[str, DocumentsReport] = MappingProxyType({}),
    ) -> None:
        """Put the counts into the manifests; the files are closed by then."""
        for family, draft in self._drafts.items():
            writer = self._writers[family]
            counted = DocumentsReport(
                documents=writer.count,
                num_bytes=writer.num_bytes,
                left_out=dict(sorted(self._left_out[family].items())),
            )
            own = by_family.get(family, DocumentsReport())
            for report in (counted, self._context[family].report(), more, own):
                draft.record(report)

    def __enter__(self) -> "Sheaf":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._files.__exit__(kind, error, at)


@dataclass(kw_only=True, slots=True)
class _Context:
    """What the documents of a family show of graphs."""

    edges: Counter[str] = field(default_factory=Counter)
    """By label."""
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
