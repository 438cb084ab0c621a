"""Targets of a context document: the functions that a commit touched, shared out over documents."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from operator import attrgetter

import numpy as np

from curriculum.families import cmake_targets
from curriculum.families.document_builder import is_blank
from curriculum.graph.facts import FileFacts, NodeId, Range, RepositoryGraph, reached
from curriculum.graph.fragments import Fragment, FragmentCosts, whole
from curriculum.graph.index import facts_of
from curriculum.graph.line_ranges import blank_lines_after, blank_lines_before, line_starts, without
from curriculum.graph.names import TYPES
from schemas.change import CommitChange, FileChange, Hunk
from schemas.corpus import CODE


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


def touched_bytes(change: FileChange) -> int:
    """Return the bytes of the functions that a change touched; 1 for a change of a CMake file."""
    if change.after is None or is_blank(change):
        return 0
    if change.language == cmake_targets.LANGUAGE:
        return 1
    if change.language not in CODE:
        return 0
    text = change.after.text
    facts = facts_of(text, change.language)
    touched = touched_functions(facts, text, change.hunks)
    return sum(facts.symbols[each].end - facts.symbols[each].start for each in touched)


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
    return _tiled(
        sorted((*found, *_types(change.path, source.facts, found)), key=_by_node), len(data)
    )


def _types(path: str, facts: FileFacts, functions: Sequence[Fragment]) -> Iterator[Fragment]:
    """The types of a file that stand in none of its functions; none where there is no function."""
    starts = [function.ranges[0].start for function in functions]
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
    """The fragments of a file with the blank lines that its functions have towards each other.

    Blank lines alone belong to the lower fragment, so that the two touch.
    """
    spans = [each.ranges[0]._replace(end=each.ranges[-1].end) for each in fragments]
    for at, later in enumerate(spans[1:]):
        end, start = spans[at].end, later.start
        above = blank_lines_after(data, end, start)
        is_blank = above == start
        below = end if is_blank else blank_lines_before(data, start, above)
        spans[at] = spans[at]._replace(end=end if is_blank else above)
        spans[at + 1] = later._replace(start=below)
    for fragment, span in zip(fragments, spans, strict=True):
        yield replace(fragment, ranges=(span,))


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """The targets of one commit, a document each."""

    groups: tuple[tuple[Fragment, ...], ...]
    too_large: int
    """Functions that no document can hold."""


_by_node = attrgetter("node")


def shared_out(
    targets: Sequence[Fragment], graph: RepositoryGraph, costs: FragmentCosts, room: int
) -> Shares:
    """The targets in groups that cost `room` at most: all, or those of a file, or some of a file.

    Functions of one file that an edge joins stay together where they fit.
    """
    fitting = [target for target in targets if costs.of(target) <= room]
    too_large = len(targets) - len(fitting)
    if costs.of_all(fitting) <= room:
        return Shares(groups=(tuple(fitting),) if fitting else (), too_large=too_large)
    groups: list[tuple[Fragment, ...]] = []
    for _, each in groupby(fitting, lambda fragment: fragment.node.path):
        of_file = list(each)
        joined = [of_file] if costs.of_all(of_file) <= room else _connected(of_file, graph)
        groups.extend(_filled(joined, costs, room))
    return Shares(groups=tuple(groups), too_large=too_large)


def _connected(fragments: Sequence[Fragment], graph: RepositoryGraph) -> list[list[Fragment]]:
    """Fragments that edges join, the groups and their members in the order of the file."""
    left = {fragment.node: fragment for fragment in fragments}

    def joined(node: NodeId) -> Iterator[NodeId]:
        return (near.node for near in graph.neighbours(node) if near.node in left)

    groups: list[list[Fragment]] = []
    while left:
        nodes = reached(next(iter(left)), joined)
        groups.append(sorted(map(left.pop, nodes), key=_by_node))
    return groups


def _filled(
    groups: Sequence[Sequence[Fragment]], costs: FragmentCosts, room: int
) -> Iterator[tuple[Fragment, ...]]:
    """The groups in order, as many together as fit; one that is too large by itself is cut."""
    current: list[Fragment] = []
    used = 0
    for group in groups:
        if current and used + costs.of_all(group) > room:
            yield tuple(sorted(current, key=_by_node))
            current, used = [], 0
        for fragment in group:
            cost = costs.of(fragment, current[-1] if current else None)
            if used + cost > room:
                yield tuple(sorted(current, key=_by_node))
                current, used = [], 0
                cost = costs.of(fragment)
            current.append(fragment)
            used += cost
    if current:
        yield tuple(sorted(current, key=_by_node))
