"""Each rule must be able to fail: corrupt one value of a good file, and the checker names where and why."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.packing.packed_rows import KNOWN
from curriculum.packing.row_check import CheckReport, Violation, check
from curriculum.packing.rules import RULES, Rule
from schemas.errors import SchemaError

Row = dict[str, Any]
Written = Any
BOS, PAD, ROW, VOCABULARY = 1, 0, 128, 512
SHARD, NUMBER = "data/part-00001.parquet", 2


def put(column: str, index: int, value: object) -> Callable[[Row], None]:
    def mutate(row: Row) -> None:
        row[column][index] = value

    return mutate


def assign(column: str, value: object) -> Callable[[Row], None]:
    def mutate(row: Row) -> None:
        row[column] = value

    return mutate


def add(column: str, amount: int) -> Callable[[Row], None]:
    def mutate(row: Row) -> None:
        row[column] += amount

    return mutate


def piece(index: int, field: str, change: int) -> Callable[[Row], None]:
    def mutate(row: Row) -> None:
        row["pieces"][index][field] += change

    return mutate


def lengthen(column: str) -> Callable[[Row], None]:
    return lambda row: row[column].append(0)


def shorten(column: str) -> Callable[[Row], None]:
    return lambda row: row[column].pop()


def at_last_document_token(row: Row) -> int:
    return int(row["doc_starts"][1]) - 1


def leak_between_documents(row: Row) -> None:
    last = at_last_document_token(row)
    row["loss_mask"][last] = 1
    row["target_ids"][last] = row["input_ids"][last + 1]


def leak_into_padding(row: Row) -> None:
    row["loss_mask"][row["valid_token_count"] - 1] = 1


def leak_out_of_the_row(row: Row) -> None:
    row["loss_mask"][-1] = 1


def wrong_target(row: Row) -> None:
    row["target_ids"][3] = row["target_ids"][3] % 500 + 3


def target_where_nothing_counts(row: Row) -> None:
    row["target_ids"][at_last_document_token(row)] = BOS


def no_bos(row: Row) -> None:
    start = row["doc_starts"][1]
    row["input_ids"][start] = 7


def second_bos(row: Row) -> None:
    row["input_ids"][5], row["target_ids"][4] = BOS, BOS


def falling_doc_ids(row: Row) -> None:
    row["doc_ids"][row["doc_starts"][1] + 1] = 0


def doc_ids_that_start_at_one(row: Row) -> None:
    row["doc_ids"] = [number + 1 for number in row["doc_ids"]]


def unnumbered_padding(row: Row) -> None:
    valid = row["valid_token_count"]
    row["doc_ids"][valid:] = [row["num_docs"] - 1] * (ROW - valid)


def moved_start(row: Row) -> None:
    row["doc_starts"][1] += 1


def falling_starts(row: Row) -> None:
    row["doc_starts"] = [0, 0, *row["doc_starts"][2:]]


def start_in_padding(row: Row) -> None:
    row["doc_starts"][-1] = row["valid_token_count"]


def token_in_padding(row: Row) -> None:
    row["input_ids"][-1] = 9


def no_targets(row: Row) -> None:
    row["loss_mask"], row["target_ids"] = [0] * ROW, [PAD] * ROW
    row["loss_token_count"], row["context_histogram"] = 0, [0, 0, 0, 0]


def silent_scored_token(row: Row) -> None:
    row["loss_mask"][3], row["target_ids"][3] = 0, PAD


def shifted_histogram(row: Row) -> None:
    row["context_histogram"][0] -= 1
    row["context_histogram"][1] += 1


def two_documents_for_one(row: Row) -> None:
    row["document_ids"].append("0" * 32)


def planted_copy(row: Row) -> None:
    """16 tokens of the longest document again behind them, under an objective that forbids it."""
    starts = [*row["doc_starts"], row["valid_token_count"]]
    size, start = max((end - start, start) for start, end in pairwise(starts))
    assert size > 33
    row["objective"], ids = "code_to_doc", row["input_ids"]
    ids[start + 17 : start + 33] = ids[start + 1 : start + 17]
    row["target_ids"][start + 16 : start + 32] = ids[start + 17 : start + 33]


def without_bytes(row: Row) -> None:
    row["pieces"][1]["byte_start"] = row["pieces"][1]["byte_end"] = 5


MUTATIONS: dict[str, tuple[Rule, Callable[[Row], None], str]] = {
    "a short row": (
        Rule.SHAPE,
        shorten("input_ids"),
        "input_ids has 127 values; a row must have 128",
    ),
    "a long row": (Rule.SHAPE, lengthen("input_ids"), "input_ids has 129 values"),
    "short targets": (Rule.SHAPE, shorten("target_ids"), "target_ids has 127 values"),
    "a short mask": (Rule.SHAPE, shorten("loss_mask"), "loss_mask has 127 values"),
    "short doc_ids": (Rule.SHAPE, shorten("doc_ids"), "doc_ids has 127 values"),
    "a short histogram": (Rule.SHAPE, shorten("context_histogram"), "context_histogram has 3"),
    "an empty row": (Rule.SHAPE, assign("input_ids", []), "input_ids has 0 values"),
    "an id past the vocabulary": (
        Rule.SHAPE,
        put("input_ids", 4, VOCABULARY),
        "input_ids is 512 at token 4; ids must be at least 0 and less than 512",
    ),
    "a negative id": (Rule.SHAPE, put("input_ids", 4, -1), "input_ids is -1 at token 4"),
    "a weight in the mask": (Rule.SHAPE, put("loss_mask", 4, 2), "loss_mask is 2 at token 4"),
    "falling doc_ids": (Rule.BOUNDARIES, falling_doc_ids, "doc_ids is 0 at token"),
    "doc_ids from one": (Rule.BOUNDARIES, doc_ids_that_start_at_one, "doc_ids is 1 at token 0"),
    "padding in a document": (Rule.BOUNDARIES, unnumbered_padding, "doc_ids is"),
    "a moved start": (Rule.BOUNDARIES, moved_start, "doc_ids is"),
    "falling starts": (Rule.BOUNDARIES, falling_starts, "doc_starts is [0, 0"),
    "no start at 0": (Rule.BOUNDARIES, put("doc_starts", 0, 1), "doc_starts is [1"),
    "no starts": (Rule.BOUNDARIES, assign("doc_starts", []), "doc_starts is []"),
    "a start in padding": (Rule.BOUNDARIES, start_in_padding, "doc_starts is [0"),
    "a document more": (Rule.BOUNDARIES, add("num_docs", 1), "num_docs is"),
    "a name more": (Rule.BOUNDARIES, two_documents_for_one, "document_ids has"),
    "a valid token more": (Rule.BOUNDARIES, add("valid_token_count", 1), "doc_ids is"),
    "a valid token less": (Rule.BOUNDARIES, add("valid_token_count", -1), "input_ids is 2 at"),
    "no valid token": (Rule.BOUNDARIES, assign("valid_token_count", 0), "valid_token_count is 0"),
    "too many valid": (
        Rule.BOUNDARIES,
        assign("valid_token_count", 999),
        "valid_token_count is 999",
    ),
    "a token in padding": (Rule.BOUNDARIES, token_in_padding, "input_ids is 9 at token 127"),
    "a pair more": (Rule.BOUNDARIES, add("attention_pairs", 1), "attention_pairs is"),
    "no pieces": (Rule.BOUNDARIES, assign("pieces", []), "valid_token_count is"),
    "a piece less": (Rule.BOUNDARIES, shorten("pieces"), "valid_token_count is"),
    "a gap in pieces": (Rule.BOUNDARIES, piece(1, "token_start", 1), "'token_start': 2"),
    "a piece of nothing": (Rule.BOUNDARIES, piece(0, "token_end", -1), "pieces 0 is"),
    "a piece of another document": (Rule.BOUNDARIES, piece(1, "doc", 1), "pieces 1 is"),
    "a piece of no document": (Rule.BOUNDARIES, piece(1, "doc", 99), "'doc': 99"),
    "a piece of a negative document": (Rule.BOUNDARIES, piece(1, "doc", -1), "'doc': -1"),
    "an unknown kind": (Rule.BOUNDARIES, piece(1, "kind", 7), "'kind': 7"),
    "a generated piece with bytes": (Rule.BOUNDARIES, piece(0, "byte_end", 4), "'byte_end': 4"),
    "text without bytes": (Rule.BOUNDARIES, without_bytes, "'byte_start': 5, 'byte_end': 5"),
    "no BOS": (Rule.BOS, no_bos, "input_ids is 7 at token"),
    "a BOS inside": (Rule.BOS, second_bos, "input_ids is 1 at token 5"),
    "a wrong target": (Rule.TARGETS, wrong_target, "target_ids is"),
    "a target that doesn't count": (Rule.TARGETS, target_where_nothing_counts, "target_ids is 1"),
    "a leak between documents": (Rule.TARGETS, leak_between_documents, "loss_mask is 1 at token"),
    "a leak into padding": (Rule.TARGETS, leak_into_padding, "loss_mask is 1 at token"),
    "a leak out of the row": (Rule.TARGETS, leak_out_of_the_row, "loss_mask is 1 at token 127"),
    "a planted leak": (
        Rule.REPEATS,
        planted_copy,
        "loss_mask is 1 at token",
    ),
    "no targets": (Rule.LOSS, no_targets, "loss_mask is 0 at token 0"),
    "a token less scored": (Rule.LOSS, silent_scored_token, "loss_token_count is"),
    "a scored token more": (Rule.LOSS, add("loss_token_count", 1), "loss_token_count is"),
    "a shifted histogram": (Rule.LOSS, shifted_histogram, "context_histogram is"),
    "a pack_id from before": (
        Rule.COVERAGE,
        assign("pack_id", "c0ffeec0ffee-0000000001"),
        "pack_id is c0ffeec0ffee-0000000001",
    ),
}


def mutated(folder: Path, mutate: Callable[[Row], None]) -> CheckReport:
    path = folder / SHARD
    table = pq.read_table(path)
    rows = table.to_pylist()
    mutate(rows[NUMBER])
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return check(folder)


def the_first(report: CheckReport, rule: Rule) -> Violation:
    found = [fault for fault in report.faults if fault.rule is rule]
    assert found, f"{rule} isn't among {report.faults}"
    return found[0]


def test_the_file_that_is_mutated_has_no_fault_itself(written: Written) -> None:
    report = check(written.folder)
    assert report.num_faults == 0
    assert report.rows == written.counts.rows > NUMBER + 4
    row = pq.read_table(written.folder / SHARD).to_pylist()[NUMBER]
    assert row["num_docs"] >= 2
    assert row["valid_token_count"] < ROW


@pytest.mark.parametrize("name", MUTATIONS)
def test_check_names_rule_row_and_shard_of(name: str, written: Written) -> None:
    rule, mutate, words = MUTATIONS[name]
    fault = the_first(mutated(written.folder, mutate), rule)
    assert (fault.shard, fault.row) == (SHARD, NUMBER)
    message = str(fault)
    assert words in message
    assert message.startswith(f"row {NUMBER} of {SHARD}: ")
    assert message.endswith(". Rebuild with: curriculum build")


def test_every_rule_about_rows_is_mutated() -> None:
    structure_is_mutated_elsewhere = {Rule.FILE, Rule.STRUCTURE}
    assert {rule for rule, _, _ in MUTATIONS.values()} | structure_is_mutated_elsewhere == set(Rule)


def test_the_table_has_a_rule_for_each_invariant_of_rows_and_shows_columns_of_the_contract() -> (
    None
):
    assert {rule.invariant for rule in RULES} == {*Rule} - {Rule.FILE}
    assert {rule.column for rule in RULES} <= {"", *KNOWN}
    assert {name for rule in RULES for name in rule.needs} <= {*KNOWN}


def test_a_byte_scored_twice_is_found_across_shards(written: Written) -> None:
    first = pq.read_table(written.folder / "data/part-00000.parquet").to_pylist()[1]

    def copy_first(row: Row) -> None:
        kept = row["pack_id"]
        row.update(first, pack_id=kept)

    fault = the_first(mutated(written.folder, copy_first), Rule.COVERAGE)
    assert (fault.shard, fault.row) == (SHARD, NUMBER)
    assert "row 1 of data/part-00000.parquet" in fault.found


def test_a_truncated_file_is_named(written: Written) -> None:
    path = written.folder / SHARD
    path.write_bytes(path.read_bytes()[:-100])
    report = check(written.folder)
    assert [(fault.rule, fault.shard, fault.row) for fault in report.faults] == [
        (Rule.FILE, SHARD, None)
    ]
    assert report.rows > 0, "the other shards are still read"


def test_a_flipped_byte_in_the_page_of_any_column_is_found(written: Written) -> None:
    path = written.folder / SHARD
    good = path.read_bytes()
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    for number in range(metadata.num_columns):
        column = metadata.column(number)
        first = column.dictionary_page_offset or column.data_page_offset
        flipped = bytearray(good)
        flipped[first + column.total_compressed_size - 1] ^= 0x10
        path.write_bytes(flipped)
        assert the_first(check(written.folder), Rule.FILE).shard == SHARD, column.path_in_schema


def test_what_is_not_parquet_is_named(written: Written) -> None:
    (written.folder / SHARD).write_text("not a table")
    assert the_first(check(written.folder), Rule.FILE).shard == SHARD


@pytest.mark.parametrize("column", ["input_ids", "loss_mask"])
def test_a_required_column_that_is_missing_fails(column: str, written: Written) -> None:
    path = written.folder / SHARD
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    assert f"no column {column}" in str(the_first(check(written.folder), Rule.FILE))


def test_a_column_of_another_type_fails(written: Written) -> None:
    path = written.folder / SHARD
    table = pq.read_table(path)
    index = table.schema.get_field_index("input_ids")
    table = table.set_column(index, "input_ids", table["input_ids"].cast(pa.list_(pa.int64())))
    pq.write_table(table, path)
    assert "input_ids is list<" in str(the_first(check(written.folder), Rule.FILE))


def test_a_null_is_found_in_its_row(written: Written) -> None:
    path = written.folder / SHARD
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[NUMBER]["input_ids"][3] = None
    fields = [pa.field("input_ids", pa.list_(pa.int32()))]
    fields += [field for field in table.schema if field.name != "input_ids"]
    nullable = pa.Table.from_pylist(rows, schema=pa.schema(fields))
    pq.write_table(nullable.replace_schema_metadata(table.schema.metadata), path)
    fault = the_first(check(written.folder), Rule.SHAPE)
    assert (fault.shard, fault.row) == (SHARD, NUMBER)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("schema_version", "2.0", "this version reads 1.x"),
        ("row_length", "100", "row_length must be a positive multiple of 128"),
        ("row_length", "256", "other files of the data set have row_length 128"),
        ("row_length", "many", "metadata: invalid literal"),
        ("pad_id", None, "metadata: b'pad_id'"),
    ],
)
def test_metadata_of_another_kind_fails(
    key: str, value: str | None, words: str, written: Written
) -> None:
    shard = "data/part-00000.parquet" if value == "100" else SHARD
    table = pq.read_table(written.folder / shard)
    metadata: dict[bytes, bytes] = dict(table.schema.metadata or {})
    del metadata[key.encode()]
    if value is not None:
        metadata[key.encode()] = value.encode()
    pq.write_table(table.replace_schema_metadata(metadata), written.folder / shard)
    report = check(written.folder)
    assert words in str(the_first(report, Rule.FILE))
    with pytest.raises(SchemaError, match=shard):
        report.raise_first()
