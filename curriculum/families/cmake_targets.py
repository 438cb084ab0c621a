"""v4_context_graph for CMake: the build targets that a commit touched, and the targets and files they use.

The chunks of a document are, from its end to its beginning:

target      the commands of the touched targets
before      the commands of the targets that they link, directly or indirectly
before      the files that the targets compile, as skeletons. With `context: filled`, also the files of linked
            targets, and the targets' own files whole
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from curriculum.families import context_documents
from curriculum.families.context_documents import Excerpt, marks_of
from curriculum.families.document_builder import is_blank
from curriculum.families.render import RenderResult, result_of
from curriculum.graph.cmake import BuildGraph, TargetId, build_graph
from curriculum.graph.facts import Range, RepositoryGraph, SourceFile
from curriculum.graph.line_ranges import line_starts, outside_bodies, size_of, with_text
from curriculum.graph.relation import Traversal, is_related, is_trusted
from schemas.change import CommitChange, FileChange, TreeFile
from schemas.corpus import ContextSettings, Language
from schemas.document import ChunkForm, Document, Edge, EdgeKind

LANGUAGE: Language = "cmake"
MAX_SHARE = 8
"""A file takes at most 1/MAX_SHARE of the budget; a longer file is shown as a skeleton."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Item:
    """Chunk that will be written: the commands of `target` in one file, or a file if `target` is None."""

    file: TreeFile
    target: TargetId | None
    form: ChunkForm
    ranges: tuple[Range, ...]
    hop: int
    owner: TargetId | None
    """Target over which the item was found; it is one hop nearer. None for a target that the commit touched.
    """


def documents(
    commit: CommitChange, graph: RepositoryGraph, *, family: str, settings: ContextSettings
) -> RenderResult:
    """Return the documents of one commit; none if it changes no CMake file.

    `graph` has the commit's tree. If the touched targets don't fit one document, they are distributed over
    several.
    """
    changes = [change for change in commit.changes if change.language == LANGUAGE and change.after]
    if not changes:
        return RenderResult(documents=(), counts=())
    build = build_graph(graph)
    touched = sorted({target for change in changes for target in _touched(change, build)})
    if not touched:
        return result_of(family, (), {"no_build_target": 1})
    room = settings.context_bytes - context_documents.frame_bytes(commit, LANGUAGE)
    groups, too_large = _distribute([_commands(graph, build, target) for target in touched], room)
    documents = [
        _document(
            commit,
            graph,
            build,
            family,
            group,
            _Search(graph=graph, build=build, room=room, settings=settings).run(group),
        )
        for group in groups
    ]
    return result_of(
        family,
        documents,
        {
            "divided": len(documents) if len(documents) > 1 else 0,
            "build_target_too_large": too_large,
            "names_unresolved": sum(build.targets[target].num_unresolved for target in touched),
        },
    )


def _touched(change: FileChange, build: BuildGraph) -> list[TargetId]:
    """Return the targets that have a command in which the change adds, changes or removes a line."""
    if change.after is None or is_blank(change):
        return []
    starts = line_starts(change.after.text.encode()).tolist()
    ends = [(hunk.after_start, hunk.after_start + hunk.after_lines) for hunk in change.hunks]
    return build.touched(change.path, [Range(starts[first], starts[last]) for first, last in ends])


def _distribute(targets: Sequence[tuple[_Item, ...]], room: int) -> tuple[list[list[_Item]], int]:
    """Divide the targets into groups that fit one document each.

    Also return the number of targets that are too large for a document.
    """
    groups: list[list[_Item]] = []
    used, too_large = room, 0
    for items in targets:
        cost = sum(map(_cost, items))
        if cost > room:
            too_large += 1
            continue
        if used + cost > room:
            groups.append([])
            used = 0
        groups[-1].extend(items)
        used += cost
    return groups, too_large


def _cost(item: _Item) -> int:
    lead = context_documents.chunk_bytes(item.file.path, item.file.language)
    gap = len(context_documents.gap_line(item.file.language).encode())
    return lead + size_of(item.ranges) + gap * (len(item.ranges) - 1)


@dataclass(kw_only=True, slots=True)
class _Search:
    """Search for items around the targets, which adds the nearest items first until the budget is used."""

    graph: RepositoryGraph
    build: BuildGraph
    room: int
    settings: ContextSettings
    items: list[_Item] = field(default_factory=list)

    def run(self, targets: Sequence[_Item]) -> list[_Item]:
        """Return the items around the targets, nearest first."""
        self.room -= sum(map(_cost, targets))
        hops = self._targets({item.target for item in targets if item.target})
        seen: set[str] = set()
        for target, hop in hops.items():
            for path in self.build.targets[target].sources:
                if path not in seen and self._follows("compiles", hop, 1.0):
                    seen.add(path)
                    self._take_file(path, hop + 1, target)
        return self.items

    def _targets(self, targets: set[TargetId]) -> dict[TargetId, int]:
        """Add the targets that `targets` link, directly or indirectly.

        Return the distance of each target that is shown.
        """
        hops = dict.fromkeys(sorted(targets), 0)
        waiting = deque(hops)
        while waiting:
            source = waiting.popleft()
            for link in self.build.targets[source].links:
                is_new = link.target not in hops
                if is_new and self._follows("links", hops[source], link.confidence):
                    found = _commands(self.graph, self.build, link.target, hops[source] + 1, source)
                    if found and self._take(found):
                        hops[link.target] = hops[source] + 1
                        waiting.append(link.target)
        return hops

    def _take_file(self, path: str, hop: int, owner: TargetId) -> None:
        source = self.graph.source(path)
        if source.file.language == LANGUAGE:
            return
        for form, ranges in _forms(source, in_full=self._is_filled and hop <= 1):
            item = _Item(
                file=source.file, target=None, form=form, ranges=ranges, hop=hop, owner=owner
            )
            largest = self.settings.context_bytes // MAX_SHARE
            if ranges and _cost(item) <= largest and self._take([item]):
                return

    @property
    def _is_filled(self) -> bool:
        return self.settings.context == "filled"

    def _follows(self, kind: EdgeKind, hop: int, confidence: float) -> bool:
        """Return True if the context follows an edge that starts at a target `hop` links away."""
        before: Traversal | None = ("links", True) if hop else None
        is_wanted = self._is_filled or is_related(before, (kind, True), hop + 1)
        return is_wanted and is_trusted("syntactic", confidence, self.settings.edges)

    def _take(self, items: Sequence[_Item]) -> bool:
        cost = sum(map(_cost, items))
        if cost > self.room:
            return False
        self.room -= cost
        self.items.extend(items)
        return True


def _forms(source: SourceFile, *, in_full: bool) -> Iterator[tuple[ChunkForm, tuple[Range, ...]]]:
    """Yield the forms in which a file can be shown, fullest first."""
    data = source.file.blob.text.encode()
    span = Range(0, len(data))
    lines = with_text(data, outside_bodies(data, span, source.facts.symbols))
    if lines and (in_full or lines == (span,)):
        yield "whole", (span,)
    if lines != (span,):
        yield "skeleton", lines


def _commands(
    graph: RepositoryGraph,
    build: BuildGraph,
    target: TargetId,
    hop: int = 0,
    owner: TargetId | None = None,
) -> tuple[_Item, ...]:
    """Return the commands of a target as items, one per file."""
    return tuple(
        _Item(
            file=graph.source(path).file,
            target=target,
            form="whole",
            ranges=tuple(block.lines for block in blocks),
            hop=hop,
            owner=owner,
        )
        for path, blocks in groupby(build.targets[target].blocks, lambda block: block.path)
    )


def _document(
    commit: CommitChange,
    graph: RepositoryGraph,
    build: BuildGraph,
    family: str,
    targets: Sequence[_Item],
    around: Sequence[_Item],
) -> Document:
    """Return the document of the items in `targets` and the items `around` them.

    `around` is sorted from the nearest to the farthest item; targets are written in file order.
    """
    in_order = sorted(targets, key=lambda item: (item.file.path, item.ranges))
    items = [*reversed(around), *in_order]
    edges = list(_edges(build, items))
    excerpts = [
        Excerpt(
            file=item.file,
            name=item.file.path if item.target is None else item.target.name,
            symbol="file" if item.target is None else "target",
            form=item.form,
            ranges=item.ranges,
            hop=item.hop,
            marks=marks_of(graph.source(item.file.path)) if item.target is None else (),
            via=next(
                (e for e in edges if e.target == at and items[e.source].target == item.owner), None
            ),
        )
        for at, item in enumerate(items)
    ]
    count = len(around)
    return context_documents.document(commit, family, excerpts[:count], excerpts[count:], edges)


def _edges(build: BuildGraph, items: Sequence[_Item]) -> Iterator[Edge]:
    """Yield the edges between the items: links between targets, and files that a target compiles.

    An edge starts at its target's first chunk. A link ends at each chunk of the linked target.
    """
    places: dict[TargetId, list[int]] = {}
    files = {item.file.path: at for at, item in enumerate(items) if item.target is None}
    for at, item in enumerate(items):
        if item.target is not None:
            places.setdefault(item.target, []).append(at)
    for target, (first, *_) in places.items():
        for link in build.targets[target].links:
            for at in places.get(link.target, ()):
                yield _edge(first, at, "links", link.confidence)
        for path in build.targets[target].sources:
            if path in files:
                yield _edge(first, files[path], "compiles", 1.0)


def _edge(source: int, target: int, kind: EdgeKind, confidence: float) -> Edge:
    return Edge(source=source, target=target, kind=kind, label="syntactic", confidence=confidence)
