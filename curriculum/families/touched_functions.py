"""Targets of context documents: the functions that a commit touched, distributed over documents."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from operator import attrgetter

import numpy as np

from curriculum.families import cmake_targets
from curriculum.families.document_builder import is_blank
from curriculum.graph.facts import FileFacts, NodeId, Range, RepositoryGraph, reachable
from curriculum.graph.fragments import Fragment, FragmentCosts, whole_fragment
from curriculum.graph.index import facts_of
from curriculum.graph.line_ranges import (
    blank_lines_after,
    blank_lines_before,
    line_starts,
    subtract_ranges,
)
from curriculum.graph.names import TYPES
from schemas.change import CommitChange, FileChange, Hunk
from schemas.corpus import CODE


def targets_of(commit: CommitChange, graph: RepositoryGraph) -> tuple[Fragment, ...]:
    """Return a fragment for each function that a hunk touches, sorted by path and offset.

    No line is in two fragments.

    In a new file, the fragments of functions and types are extended to cover all of its lines. In a changed
    file, they are extended to cover the blank lines between them.
    """
    return tuple(
        fragment
        for change in commit.changes
        if change.language in CODE and change.after is not None and not is_blank(change)
        for fragment in _touched(change, graph)
    )


def touched_functions(facts: FileFacts, text: str, hunks: Sequence[Hunk]) -> list[int]:
    """Return the indices of the functions in which a line was added, changed or removed.

    Of nested functions, only the innermost counts. A hunk that only removes lines touches the function that
    contained these lines, and not a function that ends or begins at their position.
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
    """Return the number of bytes of the functions that a change touched; 1 for a change of a CMake file."""
    if change.after is None or is_blank(change):
        return 0
    if change.language == cmake_targets.LANGUAGE:
        return 1
    if change.language not in CODE:
        return 0
    text = change.after.text
    facts = facts_of(text, change.language)
    touched = touched_functions(facts, text, change.hunks)
    return sum(facts.symbols[number].end - facts.symbols[number].start for number in touched)


def _touched(change: FileChange, graph: RepositoryGraph) -> Iterator[Fragment]:
    source = graph.source(change.path)
    numbers = touched_functions(source.facts, source.file.blob.text, change.hunks)
    found: list[Fragment] = []
    end = 0
    for fragment in (whole_fragment(graph, NodeId(change.path, number)) for number in numbers):
        (span,) = fragment.ranges
        left = subtract_ranges([span], [span._replace(start=0, end=end)])
        if left:
            found.append(replace(fragment, ranges=left))
        end = max(end, span.end)
    data = source.file.blob.text.encode()
    if change.before is not None:
        return _with_blank_lines(found, data)
    return _extend_to_tile(
        sorted((*found, *_types(change.path, source.facts, found)), key=_by_node), len(data)
    )


def _types(path: str, facts: FileFacts, functions: Sequence[Fragment]) -> Iterator[Fragment]:
    """Yield fragments of the types in a file outside of `functions`; none if there are no functions."""
    starts = [function.ranges[0].start for function in functions]
    for number, symbol in enumerate(facts.symbols):
        if symbol.kind in TYPES and (symbol.body is not None or symbol.kind == "alias"):
            above = bisect_right(starts, symbol.start) - 1
            if functions and (above < 0 or functions[above].ranges[-1].end <= symbol.start):
                span = Range(symbol.start, symbol.end)
                node = NodeId(path, number)
                yield Fragment(node=node, form="whole", ranges=(span,), hop=0, via=None)


def _extend_to_tile(definitions: Sequence[Fragment], size: int) -> Iterator[Fragment]:
    """Yield the fragments of a file, extended so that they show all of it.

    Each fragment starts where the previous one ends. It extends to the end of its definition or to the first
    definition inside it; the last one extends to the end of the file. Fragments that would be empty are left
    out.
    """
    start = 0
    for definition, later in zip_longest(definitions, definitions[1:]):
        end = min(definition.ranges[-1].end, later.ranges[0].start) if later else size
        if start < end:
            yield replace(definition, ranges=(Range(start, end),))
            start = end


def _with_blank_lines(fragments: Sequence[Fragment], data: bytes) -> Iterator[Fragment]:
    """Yield the fragments of a file, extended by the blank lines between its functions.

    If only blank lines separate two functions, the lines belong to the lower fragment, so that no gap remains
    between the two.
    """
    spans = [fragment.ranges[0]._replace(end=fragment.ranges[-1].end) for fragment in fragments]
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
    """Targets of one commit, divided into one group per document."""

    groups: tuple[tuple[Fragment, ...], ...]
    too_large: int
    """Number of functions that fit no document."""


_by_node = attrgetter("node")


def distribute_targets(
    targets: Sequence[Fragment], graph: RepositoryGraph, costs: FragmentCosts, room: int
) -> Shares:
    """Divide the targets into groups that cost at most `room` each.

    If all targets fit one group, there is only one. Otherwise, each group belongs to one file. Functions of
    one file that edges connect stay in the same group if they fit.
    """
    fitting = [target for target in targets if costs.size(target) <= room]
    too_large = len(targets) - len(fitting)
    if costs.total_size(fitting) <= room:
        return Shares(groups=(tuple(fitting),) if fitting else (), too_large=too_large)
    groups: list[tuple[Fragment, ...]] = []
    for _, group in groupby(fitting, lambda fragment: fragment.node.path):
        of_file = list(group)
        joined = [of_file] if costs.total_size(of_file) <= room else _connected(of_file, graph)
        groups.extend(_fill_groups(joined, costs, room))
    return Shares(groups=tuple(groups), too_large=too_large)


def _connected(fragments: Sequence[Fragment], graph: RepositoryGraph) -> list[list[Fragment]]:
    """Return groups of fragments that edges connect; groups and their members are in file order."""
    left = {fragment.node: fragment for fragment in fragments}

    def joined(node: NodeId) -> Iterator[NodeId]:
        return (near.node for near in graph.neighbours(node) if near.node in left)

    groups: list[list[Fragment]] = []
    while left:
        nodes = reachable(next(iter(left)), joined)
        groups.append(sorted(map(left.pop, nodes), key=_by_node))
    return groups


def _fill_groups(
    groups: Sequence[Sequence[Fragment]], costs: FragmentCosts, room: int
) -> Iterator[tuple[Fragment, ...]]:
    """Yield the groups; consecutive groups are merged as long as they fit, and too large groups are split."""
    current: list[Fragment] = []
    used = 0
    for group in groups:
        if current and used + costs.total_size(group) > room:
            yield tuple(sorted(current, key=_by_node))
            current, used = [], 0
        for fragment in group:
            cost = costs.size(fragment, current[-1] if current else None)
            if used + cost > room:
                yield tuple(sorted(current, key=_by_node))
                current, used = [], 0
                cost = costs.size(fragment)
            current.append(fragment)
            used += cost
    if current:
        yield tuple(sorted(current, key=_by_node))
