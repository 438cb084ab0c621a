"""v4_context_graph: the functions that a commit touched, among what the syntax trees say is around them.

The build targets that it touched make documents of their own.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, zip_longest

import numpy as np

from curriculum.families import cmake_targets, context
from curriculum.families.context import BUDGET, Excerpt, Mark
from curriculum.families.document_builder import is_blank_change, lines_of
from curriculum.families.render import ExclusionCount, Reason, RenderResult
from curriculum.graph.facts import FileFacts, NodeId, Range, RepositoryGraph
from curriculum.graph.line_ranges import blank_lines_after, blank_lines_before, line_starts, without
from curriculum.graph.names import TYPES
from curriculum.graph.neighbourhood import (
    WHOLE_FILE,
    Costs,
    Fragment,
    Link,
    Neighbourhood,
    SearchOrder,
    Step,
    neighbourhood,
    whole,
)
from schemas.change import CommitChange, FileChange, Hunk
from schemas.corpus import Language
from schemas.document import Document, Edge

CODE: frozenset[Language] = frozenset(("cpp", "c"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """The targets of one commit, a document each."""

    groups: tuple[tuple[Fragment, ...], ...]
    too_large: int
    """Functions that no document can hold."""


def targets_of(commit: CommitChange, graph: RepositoryGraph) -> tuple[Fragment, ...]:
    """Every function that a hunk touches, in the order of paths and places; no line is in two.

    The functions and types of an added file have all of its lines, the functions of a changed one the blank
    lines between them.
    """
    return tuple(
        fragment
        for change in commit.changes
        if change.language in CODE and change.after is not None and not is_blank(change)
        for fragment in _touched(change, graph)
    )


def touched_functions(facts: FileFacts, text: str, hunks: Sequence[Hunk]) -> list[int]:
    """The functions in which a line was added, changed or taken away; of nested ones the innermost.

    A hunk that only removes lines touches the function in which they stood, not those beside a border.
    """
    starts = line_starts(text.encode())
    functions = [
        (number, *np.searchsorted(starts, (symbol.start, symbol.end)).tolist())
        for number, symbol in enumerate(facts.symbols)
        if symbol.kind == "function" and symbol.body is not None
    ]
    owners = np.full(len(starts), -1)
    for number, first, last in functions:
        owners[first:last] = number
    found: set[int] = set()
    for hunk in hunks:
        start, end = hunk.after_start, hunk.after_start + hunk.after_lines
        if hunk.after_lines:
            found.update(owners[start:end].tolist())
        else:
            around = [
                (last - first, -first, n) for n, first, last in functions if first < start < last
            ]
            found.update([min(around)[2]] if around else [])
    return sorted(found - {-1})


def shared_out(
    targets: Sequence[Fragment], graph: RepositoryGraph, costs: Costs, room: int
) -> Shares:
    """The targets in groups that cost `room` at most: all, or those of a file, or some of a file.

    Functions of one file that an edge joins stay together where they fit.
    """
    fitting = [each for each in targets if costs.of(each) <= room]
    too_large = len(targets) - len(fitting)
    if costs.of_all(fitting) <= room:
        return Shares(groups=(tuple(fitting),) if fitting else (), too_large=too_large)
    groups: list[tuple[Fragment, ...]] = []
    for _, each in groupby(fitting, lambda fragment: fragment.node.path):
        of_file = list(each)
        joined = [of_file] if costs.of_all(of_file) <= room else _connected(of_file, graph)
        groups.extend(_filled(joined, costs, room))
    return Shares(groups=tuple(groups), too_large=too_large)


def is_blank(change: FileChange) -> bool:
    """Return True if a change of a file differs in nothing but white space."""
    if change.before is None or change.after is None:
        return False
    return is_blank_change(lines_of(change.before.text), lines_of(change.after.text), change.hunks)


def _touched(change: FileChange, graph: RepositoryGraph) -> Iterator[Fragment]:
    source = graph.source(change.path)
    numbers = touched_functions(source.facts, source.file.blob.text, change.hunks)
    found: list[Fragment] = []
    end = 0
    for fragment in (whole(graph, NodeId(change.path, number)) for number in numbers):
        (span,) = fragment.ranges
        left = without([span], [span._replace(start=0, end=end)])
        if left:
            found.append(replace(fragment, ranges=left))
        end = max(end, span.end)
    data = source.file.blob.text.encode()
    if change.before is not None:
        return _with_blank_lines(found, data)
    return _tiled(sorted((*found, *_types(change.path, source.facts, found)), key=_node), len(data))


def _types(path: str, facts: FileFacts, functions: Sequence[Fragment]) -> Iterator[Fragment]:
    """The types of a file that stand in none of its functions; none where there is no function."""
    starts = [each.ranges[0].start for each in functions]
    for number, symbol in enumerate(facts.symbols):
        if symbol.kind in TYPES and (symbol.body is not None or symbol.kind == "alias"):
            above = bisect_right(starts, symbol.start) - 1
            if functions and (above < 0 or functions[above].ranges[-1].end <= symbol.start):
                span = Range(symbol.start, symbol.end)
                node = NodeId(path, number)
                yield Fragment(node=node, form="whole", ranges=(span,), hop=0, via=None)


def _tiled(definitions: Sequence[Fragment], size: int) -> Iterator[Fragment]:
    """The fragments of a file as wide as it takes to show all of it.

    Each has what stands before it, up to the end of the definition or to the first one in it; the last has
    the rest. One that shares all its lines with the next is left out.
    """
    start = 0
    for each, later in zip_longest(definitions, definitions[1:]):
        end = min(each.ranges[-1].end, later.ranges[0].start) if later else size
        if start < end:
            yield replace(each, ranges=(Range(start, end),))
            start = end


def _with_blank_lines(fragments: Sequence[Fragment], data: bytes) -> Iterator[Fragment]:
    """The fragments of a file with the blank lines that its functions have towards each other."""
    spans = [each.ranges[0]._replace(end=each.ranges[-1].end) for each in fragments]
    borders = [_borders(data, one.end, later.start) for one, later in pairwise(spans)]
    starts = (*(span.start for span in spans[:1]), *(start for _, start in borders))
    ends = (*(end for end, _ in borders), *(span.end for span in spans[-1:]))
    for fragment, span in zip(fragments, map(Range, starts, ends), strict=True):
        yield replace(fragment, ranges=(span,))


def _borders(data: bytes, end: int, start: int) -> tuple[int, int]:
    """The new end and start of fragments that are bytes `[end, start)` apart.

    Blank lines alone belong to the lower fragment, so that the two touch.
    """
    above = blank_lines_after(data, end, start)
    if above == start:
        return end, end
    return above, blank_lines_before(data, start, above)


def _connected(fragments: Sequence[Fragment], graph: RepositoryGraph) -> list[list[Fragment]]:
    """Fragments that edges join, the groups and their members in the order of the file."""
    left = {each.node: each for each in fragments}
    groups: list[list[Fragment]] = []
    while left:
        first = next(iter(left))
        group, waiting = [left.pop(first)], [first]
        while waiting:
            for near in graph.neighbours(waiting.pop()):
                if near.node in left:
                    group.append(left.pop(near.node))
                    waiting.append(near.node)
        groups.append(list(_in_order(group)))
    return groups


def _filled(
    groups: Sequence[Sequence[Fragment]], costs: Costs, room: int
) -> Iterator[tuple[Fragment, ...]]:
    """The groups in order, as many together as fit; one that is too large by itself is cut."""
    current: list[Fragment] = []
    used = 0
    for group in groups:
        if current and used + costs.of_all(group) > room:
            yield _in_order(current)
            current, used = [], 0
        for fragment in group:
            cost = costs.of(fragment, current[-1] if current else None)
            if used + cost > room:
                yield _in_order(current)
                current, used = [], 0
                cost = costs.of(fragment)
            current.append(fragment)
            used += cost
    if current:
        yield _in_order(current)


def _in_order(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    return tuple(sorted(fragments, key=_node))


def _node(fragment: Fragment) -> NodeId:
    return fragment.node


GAP = len(context.gap_line("cpp").encode())


def graph_documents(
    commit: CommitChange, graph: RepositoryGraph, *, family: str, order: SearchOrder
) -> RenderResult:
    """The documents of one commit, whose tree the graph has; equal input gives equal documents.

    The target is every function that the commit touched; what doesn't fit one document is divided.
    """
    targets = targets_of(commit, graph)
    if not targets:
        return _rendered(family, (), {"no_function": 1})
    costs = Costs(lead=lambda path: _lead(graph, path), gap=GAP)
    room = BUDGET - context.frame_bytes(commit, graph.source(targets[0].node.path).file.language)
    shares = shared_out(targets, graph, costs, room)
    composer = _Composer(commit=commit, graph=graph, family=family)
    around = [_around(graph, group, costs, room, order) for group in shares.groups]
    documents = [
        composer.document(group, near.fragments)
        for group, near in zip(shares.groups, around, strict=True)
    ]
    left_out: dict[Reason, int] = {
        "divided": len(documents) if len(documents) > 1 else 0,
        "function_too_large": shares.too_large,
        "repeated_definitions": sum(near.repeated_definitions for near in around),
        "repeated_bytes": sum(near.repeated_bytes for near in around),
    }
    return _rendered(family, documents, left_out)


def _rendered(
    family: str, documents: Sequence[Document], left_out: Mapping[Reason, int]
) -> RenderResult:
    counts = (
        ExclusionCount(family=family, reason=reason, number=number)
        for reason, number in left_out.items()
        if number
    )
    return RenderResult(documents=tuple(documents), counts=tuple(counts))


def _lead(graph: RepositoryGraph, path: str) -> int:
    return context.chunk_bytes(path, graph.source(path).file.language)


def _around(
    graph: RepositoryGraph,
    targets: Sequence[Fragment],
    costs: Costs,
    room: int,
    order: SearchOrder,
) -> Neighbourhood:
    return neighbourhood(graph, targets, room - costs.of_all(targets), order, costs)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Composer:
    """Makes a document of fragments."""

    commit: CommitChange
    graph: RepositoryGraph
    family: str

    def document(self, targets: Sequence[Fragment], around: Sequence[Fragment]) -> Document:
        """`around` has the nearest first."""
        chunks = [*reversed(around), *targets]
        places = {chunk.node: at for at, chunk in enumerate(chunks)}
        outer = {
            path: context.marks_of(self.graph.source(path))
            for path in {chunk.node.path for chunk in chunks}
        }
        inner = {
            path: context.with_statements(outer[path], self.graph.source(path))
            for path in {chunk.node.path for chunk in targets}
        }
        return context.document(
            self.commit,
            self.family,
            [self._excerpt(chunk, outer[chunk.node.path], places) for chunk in reversed(around)],
            [self._excerpt(chunk, inner[chunk.node.path], places) for chunk in targets],
            self._edges(chunks, places),
        )

    def _excerpt(
        self, chunk: Fragment, marks: Sequence[Mark], places: Mapping[NodeId, int]
    ) -> Excerpt:
        source = self.graph.source(chunk.node.path)
        name, symbol = chunk.node.path, "file"
        if chunk.node.number != WHOLE_FILE:
            found = source.facts.symbols[chunk.node.number]
            name, symbol = found.qualified, found.kind
        return Excerpt(
            file=source.file,
            name=name,
            symbol=symbol,
            form=chunk.form,
            ranges=chunk.ranges,
            hop=chunk.hop,
            marks=marks,
            via=None if chunk.via is None else _edge(chunk.via, places),
        )

    def _edges(self, chunks: Sequence[Fragment], places: Mapping[NodeId, int]) -> Iterator[Edge]:
        for chunk in chunks:
            if chunk.node.number != WHOLE_FILE:
                for near in self.graph.neighbours(chunk.node):
                    if near.outward and near.node in places:
                        ends = (chunk.node, near.node)
                        yield _edge(Link(*ends, near.kind, near.label, near.confidence), places)
            if chunk.via is not None:
                yield _edge(chunk.via, places)


def _edge(link: Link, places: Mapping[NodeId, int]) -> Edge:
    return Edge(
        source=places[link.source],
        target=places[link.target],
        kind=link.kind,
        label=link.label,
        confidence=link.confidence,
    )


ORDER = SearchOrder(
    near=(
        Step("calls", outward=True),
        Step("calls", outward=False),
        Step("member", outward=True),
        Step("constructs", outward=True),
        Step("uses", outward=True),
        Step("overrides", outward=True),
        Step("overrides", outward=False),
    ),
    far=(
        Step("member", outward=True),
        Step("uses", outward=True),
        Step("constructs", outward=True),
        Step("inherits", outward=True),
        Step("overrides", outward=True),
        Step("overrides", outward=False),
        Step("member", outward=False),
        Step("inherits", outward=False),
        Step("includes", outward=True),
        Step("calls", outward=True),
        Step("calls", outward=False),
    ),
)
"""Direct callees and callers, then classes, bases, overrides, sibling methods, files, and what is farther."""


def documents(commit: CommitChange, graph: RepositoryGraph, *, family: str) -> RenderResult:
    """Render one commit, whose tree the graph has: documents of functions, then of build targets."""
    functions = graph_documents(commit, graph, family=family, order=ORDER)
    targets = cmake_targets.documents(commit, graph, family=family)
    return RenderResult(
        documents=functions.documents + targets.documents, counts=functions.counts + targets.counts
    )
