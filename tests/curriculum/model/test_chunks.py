import itertools
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curriculum.model import masks as module
from curriculum.model.masks import Boundaries, Chunks, Steps, pieces, ranges

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=8)
SIZES = st.integers(1, 9)


def cut(lengths: list[int]) -> Boundaries:
    return Boundaries.from_doc_ids(
        torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None]
    )


def test_the_example_of_chunks() -> None:
    chunks = Chunks.from_boundaries(Boundaries.from_doc_ids(torch.tensor([[0, 0, 0, 1, 1]])), 2)
    assert chunks.slots.tolist() == [0, 1, 4, 2, 3]
    assert chunks.sizes == (2, 1)
    assert chunks.spans.tolist() == [0, 1]
    assert chunks.span_sizes == (2,)


def test_the_examples_of_placed_and_taken() -> None:
    chunks = Chunks.from_boundaries(Boundaries.from_doc_ids(torch.tensor([[0, 0, 0, 1, 1]])), 2)
    x = torch.tensor([1.0, 2, 3, 4, 5])
    assert chunks.to_chunks(x).tolist() == [[1, 2], [4, 5], [3, 0]]
    assert chunks.to_chunks(x, blank=7).tolist() == [[1, 2], [4, 5], [3, 7]]
    assert chunks.unchunk(chunks.to_chunks(x, blank=7)).tolist() == [1, 2, 3, 4, 5]


def test_the_example_of_steps() -> None:
    steps = Steps.from_lengths(torch.tensor([2, 3]))
    assert steps.places.tolist() == [1, 3, 0, 2, 4]
    assert steps.ranks.tolist() == [1, 0]
    assert steps.sizes == (2, 2, 1)


def test_the_examples_of_pieces_and_ranges() -> None:
    counts, lengths = pieces(torch.tensor([2, 3]), 2)
    assert counts.tolist() == [1, 2]
    assert lengths.tolist() == [2, 2, 1]
    assert ranges(torch.tensor([2, 3])).tolist() == [0, 1, 0, 1, 2]


@settings(max_examples=30)
@given(LENGTHS, SIZES)
def test_what_is_placed_comes_back_and_the_rest_is_padding(lengths: list[int], size: int) -> None:
    chunks = Chunks.from_boundaries(cut(lengths), size)
    x = torch.arange(1, sum(lengths) + 1)
    placed = chunks.to_chunks(x)
    assert torch.equal(chunks.unchunk(placed), x)
    assert int((placed != 0).sum()) == len(x)
    assert len(placed) == sum(-(-length // size) for length in lengths) == sum(chunks.sizes)


@settings(max_examples=30)
@given(LENGTHS, SIZES)
def test_a_chunk_holds_the_next_positions_of_one_document(lengths: list[int], size: int) -> None:
    boundaries = cut(lengths)
    chunks = Chunks.from_boundaries(boundaries, size)
    documents = chunks.to_chunks(boundaries.doc_ids.flatten(), blank=-1)
    positions = chunks.to_chunks(boundaries.position_ids.flatten(), blank=-1)
    for owner, at in zip(documents, positions, strict=True):
        real = at >= 0
        assert len(owner[real].unique()) == 1
        first = int(at[0])
        assert first % size == 0
        assert at[real].tolist() == list(range(first, first + int(real.sum())))


@pytest.mark.parametrize("span", [1, 2, 3, 32])
@settings(max_examples=15)
@given(lengths=LENGTHS, size=SIZES)
def test_both_scans_together_walk_each_document_in_order(
    span: int, lengths: list[int], size: int
) -> None:
    """Chunks of a step continue the first of the step before; spans likewise continue one another."""
    boundaries = cut(lengths)
    with mock.patch.object(module, "SPAN", span):
        chunks = Chunks.from_boundaries(boundaries, size)
    documents = chunks.to_chunks(boundaries.doc_ids.flatten(), blank=-1)[:, 0]
    numbers = chunks.to_chunks(boundaries.position_ids.flatten(), blank=-1)[:, 0] // size
    assert len(chunks.sizes) <= span
    _continued(documents, numbers, chunks.sizes)
    spans = chunks.sizes[0]
    assert sorted(chunks.spans.tolist()) == list(range(spans))
    owners, firsts = torch.empty_like(documents[:spans]), torch.empty_like(numbers[:spans])
    owners[chunks.spans], firsts[chunks.spans] = documents[:spans], numbers[:spans]
    assert bool((firsts % span == 0).all())
    assert firsts[: chunks.span_sizes[0]].tolist() == [0] * len(lengths)
    _continued(owners, firsts // span, chunks.span_sizes)


def _continued(owners: Tensor, numbers: Tensor, sizes: tuple[int, ...]) -> None:
    """Assert that the chunk at rank r of a step follows the chunk at rank r of the step before."""
    assert list(sizes) == sorted(sizes, reverse=True)
    steps = list(
        zip(torch.split(owners, list(sizes)), torch.split(numbers, list(sizes)), strict=True)
    )
    for (owner, number), (later_owner, later_number) in itertools.pairwise(steps):
        k = len(later_owner)
        assert torch.equal(owner[:k], later_owner)
        assert torch.equal(number[:k] + 1, later_number)


def test_rows_of_a_batch_are_documents_of_their_own() -> None:
    chunks = Chunks.from_boundaries(
        Boundaries.from_doc_ids(torch.tensor([[0, 0, 0], [0, 0, 0]])), 4
    )
    assert chunks.to_chunks(torch.arange(1, 7)).tolist() == [[1, 2, 3, 0], [4, 5, 6, 0]]


def test_a_row_of_64k_walks_64_steps() -> None:
    chunks = Chunks.from_boundaries(
        Boundaries.from_doc_ids(torch.zeros(1, 1 << 16, dtype=torch.int32)), 64
    )
    assert (len(chunks.sizes), len(chunks.span_sizes)) == (32, 32)


def test_many_short_documents_walk_one_step() -> None:
    chunks = Chunks.from_boundaries(cut([50] * 100), 64)
    assert (chunks.sizes, chunks.span_sizes) == ((100,), (100,))
