import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.packing.boundaries import RowLayout
from curriculum.packing.packed_rows import RowBatch
from schemas.errors import SchemaError
from schemas.packed_row import RowFormat

BOS, EOS, PAD = 1, 2, 0
INPUT_IDS = [BOS, 7, EOS, BOS, 8, PAD, PAD]
DOC_IDS = [0, 0, 0, 1, 1, 2, 2]
Row = tuple[list[int], int]


def layout_of(*rows: list[int], row_length: int) -> RowLayout:
    """Rows of documents of these lengths."""
    return RowLayout(
        row_length=row_length,
        first_document=np.cumsum([0, *map(len, rows)]),
        lengths=np.array([length for row in rows for length in row]),
    )


def batch(
    columns: dict[str, list[object]],
    *,
    bos_id: int | None = BOS,
    eos_id: int | None = EOS,
    row_length: int = 7,
) -> RowBatch:
    row_format = RowFormat(
        row_length=row_length, vocab_size=16, pad_id=PAD, bos_id=bos_id, eos_id=eos_id
    )
    return RowBatch(row_format=row_format, table=pa.table(columns))


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Lengths of documents, and how much padding follows."""
    return draw(st.lists(st.integers(1, 9), min_size=1, max_size=9)), draw(st.integers(0, 9))


def test_all_views_of_the_contracts_example_agree() -> None:
    layout = layout_of([3, 2], row_length=7)
    assert layout.start.tolist() == [0, 3]
    assert layout.valid.tolist() == [5]
    assert layout.cu_seqlens.tolist() == [0, 3, 5, 7]
    assert layout.doc_ids.tolist() == DOC_IDS
    assert layout.position_ids.tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert layout.fill(np.array([5, 6, 7, 8, 9]), 0).tolist() == [5, 6, 7, 8, 9, 0, 0]
    inferred = batch({"input_ids": [INPUT_IDS]})
    assert inferred.valid_counts().tolist() == [5]
    starts, edges = inferred.doc_starts(np.array([5]))
    assert (starts.tolist(), edges.tolist()) == ([0, 3], [0, 2])
    assert inferred.doc_ids.tolist() == [DOC_IDS]


def test_a_full_row_has_no_padding_segment() -> None:
    layout = layout_of([3, 4], row_length=7)
    assert layout.cu_seqlens.tolist() == [0, 3, 7]
    assert layout.doc_ids.tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_rows_laid_end_to_end_stay_apart_where_their_ids_meet() -> None:
    assert layout_of([2, 1], [3], [1, 2], row_length=3).cu_seqlens.tolist() == [0, 2, 3, 6, 7, 9]


@given(rows())
def test_every_view_returns_to_the_boundaries_it_came_from(row: Row) -> None:
    lengths, padding = row
    valid = np.array([sum(lengths)])
    layout = layout_of(lengths, row_length=int(valid[0]) + padding)
    one_by_one = [*lengths, *([padding] if padding else [])]
    assert layout.cu_seqlens.tolist() == np.cumsum([0, *one_by_one]).tolist()
    assert layout.doc_ids.tolist() == np.repeat(np.arange(len(one_by_one)), one_by_one).tolist()
    expected = [position for length in one_by_one for position in range(length)]
    assert layout.position_ids.tolist() == expected
    of_ids = batch({"doc_ids": [layout.doc_ids.tolist()]}, row_length=layout.row_length)
    for starts in (layout.start, of_ids.doc_starts(valid)[0]):
        again = RowLayout.from_starts(starts, np.array([len(lengths)]), valid, layout.row_length)
        assert again.lengths.tolist() == lengths


@given(st.lists(st.permutations([2, 3, 4]), min_size=1, max_size=4))
def test_a_batch_of_rows_is_its_rows_one_after_another(batch: list[list[int]]) -> None:
    alone = [layout_of(row, row_length=11) for row in batch]
    together = layout_of(*batch, row_length=11)
    assert np.array_equal(together.doc_ids, np.concatenate([each.doc_ids for each in alone]))
    positions = np.concatenate([each.position_ids for each in alone])
    assert np.array_equal(together.position_ids, positions)


@pytest.mark.parametrize("bos_id", [None, PAD])
def test_nothing_is_inferred_without_a_bos_of_its_own(bos_id: int | None) -> None:
    with pytest.raises(SchemaError, match=r"BOS .* PAD"):
        _ = batch({"input_ids": [INPUT_IDS]}, bos_id=bos_id).doc_ids


def test_nothing_is_inferred_from_a_row_that_begins_inside_a_document() -> None:
    with pytest.raises(SchemaError, match="with BOS"):
        _ = batch({"input_ids": [INPUT_IDS, [*INPUT_IDS[1:], PAD]]}).doc_ids


def test_padding_that_equals_eos_has_to_be_stored() -> None:
    with pytest.raises(SchemaError, match="PAD == EOS"):
        _ = batch({"input_ids": [INPUT_IDS]}, eos_id=PAD).doc_ids
    stored = batch({"input_ids": [INPUT_IDS], "valid_token_count": [5]}, eos_id=PAD)
    assert stored.doc_ids.tolist() == [DOC_IDS]
