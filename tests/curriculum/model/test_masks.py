import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask

from curriculum.model.masks import Boundaries, block_mask, document_mask, segment_edges
from curriculum.packing.boundaries import RowLayout
from schemas.errors import SchemaError

ROW = 384


@st.composite
def doc_ids(draw: st.DrawFn, row: int = ROW, rows: int = 2) -> torch.Tensor:
    """Rows of documents whose edges like to fall beside multiples of 128."""
    batch = []
    for _ in range(rows):
        near = st.sampled_from([127, 128, 129, 255, 256, 257])
        edges = draw(st.sets(near | st.integers(1, row - 1), max_size=6))
        cuts = [0, *sorted(edges), row]
        lengths = torch.tensor([b - a for a, b in itertools.pairwise(cuts)])
        batch.append(torch.arange(len(lengths)).repeat_interleave(lengths))
    return torch.stack(batch).int()


def layout_of(
    ids: np.ndarray[tuple[int, int], np.dtype[np.int32]],
    valid: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> RowLayout:
    """Rows whose padding, if there is any, counts as a document."""
    begins = np.diff(ids, axis=1, prepend=-1) != 0
    starts = np.nonzero(begins)[1].astype(np.int64)
    return RowLayout.from_starts(starts, begins.sum(axis=1), valid, ids.shape[1])


def test_the_example_of_the_docstring() -> None:
    found = Boundaries.from_doc_ids(torch.tensor([[0, 0, 1, 1, 1]]))
    assert found.position_ids.tolist() == [[0, 1, 0, 1, 2]]
    assert found.starts.tolist() == [[0, 0, 2, 2, 2]]
    assert found.cu_seqlens.tolist() == [0, 2, 5]
    assert found.lengths == (2, 3)


def test_edges_of_rows_laid_end_to_end() -> None:
    assert segment_edges(torch.tensor([[0, 0, 1], [0, 1, 1]])).tolist() == [0, 2, 3, 4, 6]


@given(doc_ids())
def test_the_torch_twin_equals_numpys_boundaries(ids: torch.Tensor) -> None:
    found = Boundaries.from_doc_ids(ids)
    valid = np.full(len(ids), ROW)
    twin = layout_of(ids.numpy(), valid)
    edges = twin.cu_seqlens
    assert np.array_equal(found.cu_seqlens.numpy(), edges)
    assert found.cu_seqlens.dtype == torch.int32
    assert np.array_equal(found.position_ids.numpy().ravel(), twin.position_ids)
    assert np.array_equal(np.array(found.lengths), np.diff(edges))


@given(doc_ids())
def test_a_document_starts_where_its_positions_do(ids: torch.Tensor) -> None:
    found = Boundaries.from_doc_ids(ids)
    assert torch.equal(found.starts, torch.arange(ROW).int() - found.position_ids)
    assert torch.equal(ids.gather(1, found.starts.long()), ids)


@pytest.mark.parametrize("ids", [[[0, 1, 0]], [[2, 1, 1]], [[0, 0, 0], [0, 1, 0]]])
def test_ids_that_recur_or_fall_are_refused(ids: list[list[int]]) -> None:
    with pytest.raises(SchemaError, match=r"doc_ids .* \d .* \d .* token \d"):
        Boundaries.from_doc_ids(torch.tensor(ids))


@pytest.mark.parametrize("ids", [torch.zeros(2, 4), torch.zeros(4).int(), torch.zeros(0, 4).int()])
def test_what_is_no_batch_of_ids_is_refused(ids: torch.Tensor) -> None:
    with pytest.raises(SchemaError, match="integers"):
        Boundaries.from_doc_ids(ids)


def test_the_document_mask_is_causal_within_documents() -> None:
    mask = document_mask(Boundaries.from_doc_ids(torch.tensor([[0, 0, 1]])))
    assert mask.int().tolist() == [[[[1, 0, 0], [1, 1, 0], [0, 0, 1]]]]


@settings(max_examples=40)
@given(doc_ids())
def test_our_block_mask_equals_torchs(ids: torch.Tensor) -> None:
    def same_document(b, h, q, kv):
        return (ids[b, q] == ids[b, kv]) & (q >= kv)

    ours = block_mask(Boundaries.from_doc_ids(ids))
    theirs = create_block_mask(same_document, len(ids), None, ROW, ROW, device="cpu")
    for name in ("kv", "full_kv"):
        count, other = getattr(ours, f"{name}_num_blocks"), getattr(theirs, f"{name}_num_blocks")
        assert torch.equal(count, other)
        listed, others = getattr(ours, f"{name}_indices"), getattr(theirs, f"{name}_indices")
        for at in np.ndindex(*count.shape):
            assert set(listed[at][: count[at]].tolist()) == set(others[at][: count[at]].tolist())
    for name in ("q_num_blocks", "full_q_num_blocks"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))


def test_a_block_mask_refuses_rows_that_blocks_dont_fill() -> None:
    with pytest.raises(SchemaError, match=r"\b128\b"):
        block_mask(Boundaries.from_doc_ids(torch.zeros(1, 100).int()))
