"""A syntax tree as arrays over its nodes, and what they say about bytes: no recursion, however deep it is.

NodeTable stand in preorder, so a node's parent stands before it, and deeper nodes of one byte stand later.
"""

import functools
from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tree_sitter

from schemas.structure import NO_NODE, node_type

Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NodeTable:
    """[n] each, int32; the root is 0 and its own parent."""

    kind: Bytes
    """Buckets of schemas.structure; an ERROR is NO_NODE."""
    start: Ints
    end: Ints
    depth: Ints
    parent: Ints
    sibling: Ints
    """Number of siblings before it."""
    before: Ints
    """The sibling right before it; -1 for none."""


def node_table(tree: tree_sitter.Tree) -> NodeTable:
    """All nodes of a tree, at 3 million a second."""
    buckets = _buckets(tree.language)
    kind, start, end, depth = _walk(tree)
    parent = _parents(depth)
    order = np.argsort(parent[1:], kind="stable").astype(np.int32) + 1
    first = np.ones(len(order), dtype=bool)
    first[1:] = parent[order[1:]] != parent[order[:-1]]
    place = np.arange(len(order), dtype=np.int32)
    sibling, before = np.zeros(len(depth), np.int32), np.full(len(depth), -1, np.int32)
    sibling[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    before[order[1:]] = np.where(first[1:], -1, order[:-1])
    known = np.where(kind < len(buckets), kind, len(buckets) - 1)
    return NodeTable(
        kind=buckets[known],
        start=start,
        end=end,
        depth=depth,
        parent=parent,
        sibling=sibling,
        before=before,
    )


@functools.cache
def _buckets(language: tree_sitter.Language) -> Bytes:
    """The bucket of each kind id of a grammar; the last one stands for ERROR, whose id is far off."""
    count = language.node_kind_count
    found = [
        node_type(language.node_kind_for_id(i) or "", is_named=language.node_kind_is_named(i))
        for i in range(count)
    ]
    return np.array([*found, NO_NODE], dtype=np.uint8)


def _walk(tree: tree_sitter.Tree) -> tuple[Ints, Ints, Ints, Ints]:
    kinds, starts, ends, depths = array("i"), array("i"), array("i"), array("i")
    cursor = tree.walk()
    depth = 0
    while True:
        node = cursor.node
        assert node is not None
        kinds.append(node.kind_id)
        starts.append(node.start_byte)
        ends.append(node.end_byte)
        depths.append(depth)
        if cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return _ints(kinds), _ints(starts), _ints(ends), _ints(depths)
            depth -= 1


def _ints(values: "array[int]") -> Ints:
    return np.frombuffer(values, dtype=np.int32)


def _parents(depth: Ints) -> Ints:
    """The last node before each that is one less deep.

    >>> _parents(np.array([0, 1, 2, 1, 2], dtype=np.int32)).tolist()
    [0, 0, 1, 0, 3]
    """
    count = len(depth)
    place = np.arange(count, dtype=np.int64)
    by_depth = np.sort(depth.astype(np.int64) * count + place)
    above = np.searchsorted(by_depth, (depth.astype(np.int64) - 1) * count + place) - 1
    found = by_depth[np.maximum(above, 0)] % count
    return np.where(depth == 0, 0, found).astype(np.int32)


def follow(links: Ints) -> Ints:
    """Return the end of each chain of links; an end links to itself. Costs log2(the longest chain) steps.

    >>> follow(np.array([0, 0, 1, 3, 2], dtype=np.int32)).tolist()
    [0, 0, 0, 3, 0]
    """
    while True:
        further = links[links]
        if np.array_equal(further, links):
            return links
        links = further


def deepest(start: Ints, end: Ints, parent: Ints, size: int) -> Ints:
    """[size] the last of the nested ranges that covers each byte, or -1; parents are -1 at the top.

    >>> ranges = np.array([[0, 4], [1, 3], [2, 3]], dtype=np.int32)
    >>> deepest(ranges[:, 0], ranges[:, 1], np.array([-1, 0, 1], dtype=np.int32), 5).tolist()
    [0, 1, 2, 0, -1]
    """
    unset = -2
    at = np.full(size + 1, unset, dtype=np.int32)
    at[0] = -1
    solid = np.flatnonzero(start < end)
    # Of those that end together the outermost is written last, so what is around all of them wins;
    # of those that begin together, the innermost.
    at[end[solid[::-1]]] = parent[solid[::-1]]
    at[start[solid]] = solid
    place = np.arange(size + 1, dtype=np.int32)
    return at[np.maximum.accumulate(np.where(at != unset, place, 0))[:size]]
