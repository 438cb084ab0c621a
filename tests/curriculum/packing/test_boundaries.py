import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.packing import boundaries
from schemas.errors import SchemaError

BOS, EOS, PAD = 1, 2, 0
INPUT_IDS = np.array([BOS, 7, EOS, BOS, 8, PAD, PAD], dtype=np.int32)
DOC_IDS = [0, 0, 0, 1, 1, 2, 2]
STARTS = np.array([0, 3], dtype=np.int32)
Row = tuple[list[int], int]


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Lengths of documents, and how much padding follows."""
    return draw(st.lists(st.integers(1, 9), min_size=1, max_size=9)), draw(st.integers(0, 9))


def test_all_views_of_the_contracts_example_agree() -> None:
    cu_seqlens = boundaries.cu_seqlens(STARTS, 5, 7)
    assert cu_seqlens.tolist() == [0, 3, 5, 7]
    assert boundaries.doc_ids(STARTS, 5, 7).tolist() == DOC_IDS
    assert boundaries.doc_starts(np.array(DOC_IDS), 2).tolist() == [0, 3]
    assert boundaries.position_ids(cu_seqlens).tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert boundaries.infer_doc_starts(INPUT_IDS, BOS, PAD).tolist() == [0, 3]
    assert boundaries.infer_valid_token_count(INPUT_IDS, EOS, PAD) == 5


def test_a_full_row_has_no_padding_segment() -> None:
    assert boundaries.cu_seqlens(STARTS, 7, 7).tolist() == [0, 3, 7]
    assert boundaries.doc_ids(STARTS, 7, 7).tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_rows_laid_end_to_end_stay_apart_where_their_ids_meet() -> None:
    batch = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 1]])
    assert boundaries.flat_cu_seqlens(batch).tolist() == [0, 2, 3, 6, 7, 9]


@given(rows())
def test_every_view_returns_to_the_boundaries_it_came_from(row: Row) -> None:
    lengths, padding = row
    starts = np.cumsum([0, *lengths[:-1]])
    valid = sum(lengths)
    cu_seqlens = boundaries.cu_seqlens(starts, valid, valid + padding)
    ids = boundaries.doc_ids(starts, valid, valid + padding)
    assert cu_seqlens[-1] == len(ids) == valid + padding
    assert np.array_equal(boundaries.doc_starts(ids, len(lengths)), starts)
    assert np.array_equal(boundaries.flat_cu_seqlens(ids), cu_seqlens)
    one_by_one = [*lengths, *([padding] if padding else [])]
    expected = [position for length in one_by_one for position in range(length)]
    assert boundaries.position_ids(cu_seqlens).tolist() == expected


@given(st.lists(st.permutations([2, 3, 4]), min_size=1, max_size=4))
def test_a_batch_of_rows_is_its_rows_one_after_another(batch: list[list[int]]) -> None:
    views = [boundaries.doc_ids(np.cumsum([0, *row[:-1]]), 9, 9) for row in batch]
    cu_seqlens = boundaries.flat_cu_seqlens(np.stack(views))
    alone = [boundaries.position_ids(boundaries.flat_cu_seqlens(view)) for view in views]
    assert np.array_equal(boundaries.position_ids(cu_seqlens), np.concatenate(alone))


@pytest.mark.parametrize("bos_id", [None, PAD])
def test_nothing_is_inferred_without_a_bos_of_its_own(bos_id: int | None) -> None:
    with pytest.raises(SchemaError, match="BOS that differs from PAD"):
        boundaries.infer_doc_starts(INPUT_IDS, bos_id, PAD)


@pytest.mark.parametrize("input_ids", [INPUT_IDS[1:], INPUT_IDS[:0]])
def test_nothing_is_inferred_from_a_row_that_begins_inside_a_document(
    input_ids: npt.NDArray[np.int32],
) -> None:
    with pytest.raises(SchemaError, match="begin with BOS"):
        boundaries.infer_doc_starts(input_ids, BOS, PAD)


def test_padding_that_equals_eos_has_to_be_stored() -> None:
    with pytest.raises(SchemaError, match="PAD == EOS"):
        boundaries.infer_valid_token_count(INPUT_IDS, PAD, PAD)
