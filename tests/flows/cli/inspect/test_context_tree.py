"""A context document as a tree: every chunk once, below the chunk that led to it."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.inspection.context_tree import (
    WORDS,
    TreeChunk,
    branches,
    edge_words,
    guides,
    nearest,
    path_of,
    target_parts,
)
from schemas.document import EDGE_KINDS, Chunk, Document, Edge


def test_each_chunk_hangs_below_the_chunk_that_led_to_it(context: Document) -> None:
    assert [(each.depth, each.word, context.chunks[each.chunk].name) for each in branches(context)] == [
        (0, "", "arena::BumpArena::take"),
        (1, "calls", "arena::align_up(std::size_t, std::size_t)"),
        (2, "called by", "arena::<img src=x onerror=alert(3)>"),
        (1, "called by", "main"),
        (1, "overrides", "arena::MemoryResource"),
    ]  # fmt: skip


def test_every_kind_of_edge_has_words_for_both_directions() -> None:
    assert set(WORDS) == set(EDGE_KINDS)
    assert len({word for pair in WORDS.values() for word in pair}) == 2 * len(WORDS)


def _chunk(via: int) -> Chunk:
    return Chunk(
        first_part=0, last_part=1, name="", symbol="function", form="whole", hop=0, via=via
    )


@given(
    st.integers(1, 12).flatmap(
        lambda count: st.lists(
            st.tuples(st.integers(0, count - 1), st.booleans(), st.booleans()),
            min_size=count,
            max_size=count,
        )
    )
)
def test_no_chunk_is_lost_and_none_is_twice_even_where_edges_run_in_circles(
    context: Document, hung: list[tuple[int, bool, bool]]
) -> None:
    edges = tuple(
        Edge(
            source=index if own else other,
            target=other if own else index,
            kind="calls",
            label="syntactic",
            confidence=1.0,
        )
        for index, (other, own, _) in enumerate(hung)
    )
    chunks = tuple(_chunk(-1 if root else index) for index, (_, _, root) in enumerate(hung))
    tree = branches(replace(context, chunks=chunks, edges=edges))
    assert sorted(each.chunk for each in tree) == list(range(len(hung)))
    assert all(after.depth <= before.depth + 1 for before, after in itertools.pairwise(tree))
    for most in (1, 3):
        kept = nearest(tree, most)
        assert len(kept) == min(most, len(tree))
        assert {each.chunk for each in kept} <= {each.chunk for each in tree}
    assert len(guides(tree)) == len(tree)


def _branch(depth: int) -> TreeChunk:
    return TreeChunk(chunk=0, depth=depth)


def test_guides_lead_from_each_branch_to_its_parent() -> None:
    assert guides([_branch(depth) for depth in (0, 1, 2, 1)]) == ["", "├ ", "│ └ ", "└ "]
    assert guides([_branch(depth) for depth in (0, 0, 1)]) == ["", "", "└ "]


def test_the_shallowest_branches_are_kept_in_their_order() -> None:
    tree = [TreeChunk(chunk=number, depth=depth) for number, depth in enumerate((0, 1, 2, 1, 2))]
    assert [each.chunk for each in nearest(tree, 3)] == [0, 1, 3]
    assert nearest(tree, None) == tree


def test_edges_are_counted_by_kind_and_label(context: Document) -> None:
    assert (
        edge_words(context.edges) == "calls 3 (resolved 2, syntactic 1) · overrides 1 (overridden)"
    )
    assert edge_words(()) == ""


def test_the_target_is_what_stands_at_hop_0(context: Document) -> None:
    first, last = target_parts(context)
    assert (first, last) == (9, 11)
    assert {part.kind for part in context.parts[first:last]} == {"target"}
    assert target_parts(replace(context, chunks=())) == (0, 11)


@pytest.mark.parametrize("index", range(5))
def test_a_chunk_comes_from_the_file_of_its_first_part_with_a_source(
    context: Document, index: int
) -> None:
    assert path_of(context, context.chunks[index]) == context.provenance[index].path
