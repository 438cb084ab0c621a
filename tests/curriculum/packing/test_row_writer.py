from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curriculum.packing import row_writer
from curriculum.packing.boundaries import RowLayout
from curriculum.packing.row_check import check
from curriculum.packing.row_writer import RowLabels, RowWriter
from curriculum.packing.spool import SpooledDocuments
from schemas.packed_row import HISTOGRAM_EDGES, PACKED_ROW_SCHEMA, RowFormat

BOS, EOS, PAD, ROW = 1, 2, 0, 128
ROW_FORMAT = RowFormat(row_length=ROW, vocab_size=512, pad_id=PAD, bos_id=BOS, eos_id=EOS)
LABELS = RowLabels(
    rows_key="c0ffee" * 10, family="v2_simple", objective="causal", variant=0, split="train"
)
Row = dict[str, Any]


def rows_in(folder: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(sorted(folder.glob("data/part-*.parquet"))).to_pylist()
    return rows


def documents_of(row: Row) -> list[slice]:
    ends = [*row["doc_starts"][1:], row["valid_token_count"]]
    return [slice(start, end) for start, end in zip(row["doc_starts"], ends, strict=True)]


def test_the_written_schema_is_the_contract(written: Any) -> None:
    schema = pq.read_schema(written.folder / "data/part-00000.parquet")
    assert schema.names == PACKED_ROW_SCHEMA.names
    assert not any(field.nullable for field in schema)
    assert RowFormat.from_metadata(schema.metadata or {}) == ROW_FORMAT


def test_every_document_stands_whole_in_one_row(written: Any) -> None:
    wanted = {item.document_id: item for item in written.encodings}
    for row in rows_in(written.folder):
        for name, place in zip(row["document_ids"], documents_of(row), strict=True):
            document = wanted.pop(name)
            assert row["input_ids"][place] == document.ids.tolist()
            assert row["loss_mask"][place] == document.loss_mask.tolist()
    assert wanted == {}


def test_pieces_keep_their_bytes_and_move_with_their_document(written: Any) -> None:
    documents = {item.document_id: item.pieces for item in written.encodings}
    for row in rows_in(written.folder):
        for number, start in enumerate(row["doc_starts"]):
            found = [
                (kind, begin - start, end - start, *in_bytes)
                for doc, kind, begin, end, *in_bytes in (piece.values() for piece in row["pieces"])
                if doc == number
            ]
            assert np.array_equal(found, documents[row["document_ids"][number]])


def test_last_token_of_a_document_never_predicts_the_next(written: Any) -> None:
    borders = 0
    for row in rows_in(written.folder):
        for place in documents_of(row):
            assert row["loss_mask"][place.stop - 1] == 0
            assert row["target_ids"][place.stop - 1] == PAD
            borders += 1
    assert borders == len(written.encodings)


def test_row_with_a_single_document_leaks_no_target_into_the_next_row(
    tmp_path: Path, kit: Any
) -> None:
    folder = kit.write(tmp_path / "rows", [kit.encoding(ROW, number) for number in range(6)]).folder
    rows = rows_in(folder)
    assert [row["num_docs"] for row in rows] == [1] * 6
    for row in rows:
        assert row["valid_token_count"] == ROW
        assert row["loss_mask"] == [1] * (ROW - 1) + [0]
        assert row["target_ids"] == [*row["input_ids"][1:], PAD]


def test_targets_are_the_next_tokens_where_they_count(tmp_path: Path, kit: Any) -> None:
    masked = [kit.encoding(60, number, masked=number) for number in range(9)]
    scored = 0
    for row in rows_in(kit.write(tmp_path / "rows", masked).folder):
        for t in range(ROW):
            expected = row["input_ids"][t + 1] if row["loss_mask"][t] else PAD
            assert row["target_ids"][t] == expected
            scored += row["loss_mask"][t]
        assert row["loss_token_count"] == sum(row["loss_mask"])
    assert scored == sum(59 - number for number in range(9))


def test_documents_without_targets_are_left_out_and_can_be_counted(
    tmp_path: Path, kit: Any
) -> None:
    encodings = [kit.encoding(40, number, masked=40 * (number % 2)) for number in range(10)]
    spooled = kit.spool(tmp_path / "spool", encodings)
    assert spooled.with_targets().tolist() == [0, 2, 4, 6, 8]
    report = check(kit.write(tmp_path / "rows", encodings).folder)
    assert report.num_faults == 0
    assert report.valid_tokens == 5 * 40


def test_a_row_without_targets_is_a_mistake_of_the_caller(tmp_path: Path, kit: Any) -> None:
    spooled = kit.spool(tmp_path / "spool", [kit.encoding(40, 1, masked=40)])
    with (
        RowWriter(tmp_path, row_format=ROW_FORMAT, labels=LABELS) as writer,
        pytest.raises(AssertionError, match="a row has a target"),
    ):
        writer.write(spooled, np.array([0]), np.array([0, 1]), domain="all")


def test_domains_follow_one_another_with_rising_pack_ids(
    tmp_path: Path, encodings: Any, kit: Any
) -> None:
    spooled = kit.spool(tmp_path / "spool", encodings)
    with RowWriter(tmp_path, row_format=ROW_FORMAT, labels=LABELS, shard_tokens=ROW * 7) as writer:
        for domain, first in (("templates", 0), ("testing", 20)):
            order, starts = np.arange(first, first + 20), np.arange(21)
            writer.write(spooled, order, starts, domain=domain)
    rows = rows_in(tmp_path)
    assert [row["pack_id"] for row in rows] == [f"c0ffeec0ffee-{i:010d}" for i in range(40)]
    assert [row["domain"] for row in rows] == ["templates"] * 20 + ["testing"] * 20
    sizes = [pq.read_metadata(path).num_rows for path in sorted(tmp_path.glob("data/part-*"))]
    assert sizes == [7, 7, 7, 7, 7, 5]
    assert check(tmp_path).num_faults == 0


def test_no_documents_make_no_files(tmp_path: Path, kit: Any) -> None:
    written = kit.write(tmp_path / "rows", [kit.encoding(9, 1, masked=9)])
    assert written.counts.rows == 0
    assert list(written.folder.glob("data/part-*")) == []


def test_context_sums_are_what_counting_gives(tmp_path: Path, kit: Any) -> None:
    items = [kit.encoding(40, number, masked=number) for number in range(10)]
    spooled = kit.spool(tmp_path / "spool", items)
    expected = [sum(t + 1 for t in np.flatnonzero(item.loss_mask)) for item in items]
    assert spooled.context_sums.tolist() == expected


def test_counts_say_how_much_context_stands_before_scored_tokens(
    tmp_path: Path, encodings: Any, kit: Any
) -> None:
    written = kit.write(tmp_path / "rows", encodings)
    listed = [row["context_histogram"] for row in rows_in(written.folder)]
    assert written.counts.context_histogram == tuple(np.sum(listed, axis=0).tolist())
    assert sum(written.counts.context_histogram) == written.counts.scored_tokens
    sums = [(np.flatnonzero(item.loss_mask) + 1).sum() for item in encodings]
    assert written.counts.context_sum == sum(sums)


def test_the_same_spool_and_plan_write_the_same_bytes(
    tmp_path: Path, encodings: Any, kit: Any
) -> None:
    first, second = (kit.write(tmp_path / name, encodings).folder for name in "ab")
    for path in sorted(first.glob("data/part-*")):
        assert path.read_bytes() == (second / "data" / path.name).read_bytes()


def test_a_spool_reads_back_in_any_order_what_was_appended_or_extended(
    tmp_path: Path, encodings: Any, kit: Any
) -> None:
    spooled = kit.spool(tmp_path / "spool", encodings)
    order = np.random.default_rng(4).permutation(len(encodings))
    picked = [encodings[number] for number in order]
    for column, name in ((spooled.ids, "ids"), (spooled.loss_mask, "loss_mask")):
        expected = np.concatenate([getattr(item, name) for item in picked])
        assert np.array_equal(column.take(order), expected)
    assert np.array_equal(spooled.pieces.take(order), np.concatenate([e.pieces for e in picked]))
    assert [bytes(raw).hex() for raw in spooled.document_ids[order]] == [
        item.document_id for item in picked
    ]
    assert spooled.scored.tolist() == [int(item.loss_mask.sum()) for item in encodings]


def test_an_empty_spool_holds_no_documents(tmp_path: Path, kit: Any) -> None:
    assert len(kit.spool(tmp_path / "spool", [])) == 0


def test_a_document_that_predicts_past_its_end_is_a_mistake_of_the_caller(
    tmp_path: Path, kit: Any
) -> None:
    leaking = kit.encoding(9, 1)
    leaking.loss_mask[-1] = 1
    with pytest.raises(AssertionError, match="last token predicts nothing"):
        kit.spool(tmp_path / "spool", [leaking])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 6000), min_size=1, max_size=4), min_size=1, max_size=3),
    st.data(),
)
def test_derived_columns_are_what_counting_token_by_token_gives(
    rows: list[list[int]], data: st.DataObject
) -> None:
    row_length = max(map(sum, rows)) + data.draw(st.integers(0, 3))
    counts = [len(row) for row in rows]
    layout = RowLayout(
        row_length=row_length,
        first_document=np.cumsum([0, *counts]),
        lengths=np.array([length for row in rows for length in row]),
    )
    seed = data.draw(st.integers(0, 99))
    mask = np.random.default_rng(seed).integers(0, 2, (len(rows), row_length), dtype=np.uint8)
    mask *= np.arange(row_length) < np.array([[sum(row)] for row in rows])
    histogram = layout.context_histogram(mask.reshape(-1))
    ids = layout.doc_ids.reshape(mask.shape)
    for number, row in enumerate(rows):
        positions = np.concatenate([np.arange(length) for length in row])
        before = positions[mask[number, : len(positions)] == 1] + 1
        buckets = np.searchsorted(HISTOGRAM_EDGES, before, side="right")
        assert histogram[number].tolist() == np.bincount(buckets, minlength=4).tolist()
        expected = [slot for slot, length in enumerate(row) for _ in range(length)]
        padding = [len(row)] * (row_length - len(expected))
        assert ids[number].tolist() == expected + padding
        assert layout.attention_pairs[number] == sum(n * (n + 1) // 2 for n in row)


def test_spooled_documents_can_be_opened_again(tmp_path: Path, encodings: Any, kit: Any) -> None:
    kit.spool(tmp_path / "spool", encodings)
    assert len(SpooledDocuments(tmp_path / "spool")) == len(encodings)


@pytest.mark.parametrize(
    ("lengths", "far"),
    [((131_072,), 131_071 - 65_535), ((65_536, 65_536), 0), ((65_537, 65_535), 1)],
)
def test_long_rows_count_scored_tokens_past_64k_of_their_own_document(
    lengths: tuple[int, ...], far: int
) -> None:
    doc_ids = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    scored = np.ones(131_072, np.uint8)
    scored[np.cumsum(lengths) - 1] = 0
    table = pa.table({"doc_ids": [doc_ids], "loss_mask": [scored]})
    assert row_writer._far(table, 131_072) == far
    assert row_writer._far(table, 65_536) == 0
