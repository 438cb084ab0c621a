"""Structure columns in rows: they lie where their documents lie, and each planted fault is found."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.packing.read import RowReader, read_rows
from curriculum.packing.row_check import CheckReport, check
from curriculum.packing.rules import Rule
from schemas.packed_row import PACKED_ROW_SCHEMA
from schemas.structure import STRUCTURE_COLUMNS, STRUCTURE_TOKENS

ROW = 128
NAMES = [field.name for field in STRUCTURE_COLUMNS]
Row = dict[str, Any]


@pytest.fixture
def structured(tmp_path: Path, encodings: Any, kit: Any) -> Any:
    items = [kit.enriched(item, number) for number, item in enumerate(encodings)]
    return kit.write(tmp_path / "structured", items)


def rows_in(folder: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(sorted(folder.glob("data/part-*.parquet"))).to_pylist()
    return rows


def documents_in(folder: Path) -> Iterator[tuple[Row, int, int, int]]:
    """row, slot, first token, the one after the last"""
    for row in rows_in(folder):
        ends = [*row["doc_starts"][1:], row["valid_token_count"]]
        for slot, (start, end) in enumerate(zip(row["doc_starts"], ends, strict=True)):
            yield row, slot, start, end


def test_the_written_schema_is_the_flat_one_and_the_structure_columns(structured: Any) -> None:
    schema = pq.read_schema(structured.folder / "data/part-00000.parquet")
    assert schema.names == [*PACKED_ROW_SCHEMA.names, *NAMES]
    assert not any(field.nullable for field in schema)


def test_structure_lies_where_its_document_lies(structured: Any) -> None:
    wanted = {item.document_id: item.structure for item in structured.encodings}
    for row, slot, start, end in documents_in(structured.folder):
        coded = wanted.pop(row["document_ids"][slot])
        for name, column in zip(STRUCTURE_TOKENS, coded.codes.T, strict=True):
            assert row[name][start:end] == column.tolist()
        numbers = [i for i, chunk in enumerate(row["chunk_boundaries"]) if chunk["doc"] == slot]
        assert [
            [chunk["start"] - start, chunk["end"] - start, chunk["kind"], chunk["dep_level"]]
            for chunk in (row["chunk_boundaries"][number] for number in numbers)
        ] == coded.chunks.tolist()
        for name in ("call_edges", "type_edges"):
            assert [
                [numbers.index(edge["source"]), numbers.index(edge["target"]), edge["label"]]
                for edge in row[name]
                if edge["source"] in numbers
            ] == getattr(coded, name).tolist()
    assert wanted == {}


def test_padding_has_no_structure(structured: Any) -> None:
    rows = rows_in(structured.folder)
    assert any(row["valid_token_count"] < ROW for row in rows)
    for row in rows:
        for name in STRUCTURE_TOKENS:
            assert not any(row[name][row["valid_token_count"] :])


def test_rows_are_those_of_the_base_but_for_names(
    tmp_path: Path, encodings: Any, kit: Any, structured: Any
) -> None:
    bases = [item.structure.base_document_id for item in structured.encodings]
    flat = [kit.encoding(len(item.ids), number) for number, item in enumerate(encodings)]
    named = [_named(item, name) for item, name in zip(flat, bases, strict=True)]
    folder = kit.write(tmp_path / "flat", named).folder
    dropped = [name for name in PACKED_ROW_SCHEMA.names if name != "document_ids"]
    for path in sorted(folder.glob("data/part-*.parquet")):
        expected = pq.read_table(path).select(dropped)
        assert (
            pq.read_table(structured.folder / "data" / path.name).select(dropped).equals(expected)
        )


def _named(item: Any, name: str) -> Any:
    fields = {field: getattr(item, field) for field in item.__slots__}
    return type(item)(**{**fields, "document_id": name})


def test_the_same_structure_writes_the_same_bytes(
    tmp_path: Path, structured: Any, kit: Any
) -> None:
    again = kit.write(tmp_path / "again", structured.encodings).folder
    paths = sorted(structured.folder.glob("data/part-*"))
    assert paths
    for path in paths:
        assert path.read_bytes() == (again / "data" / path.name).read_bytes()


def test_readers_project_structure_or_leave_it(structured: Any) -> None:
    files = sorted(structured.folder.glob("data/part-*.parquet"))
    (row,) = RowReader(files, columns=["input_ids", *NAMES]).row(1, 2).table.to_pylist()
    stored = pq.read_table(files[1]).to_pylist()[2]
    assert row == {name: stored[name] for name in ("input_ids", *NAMES)}
    for batch in read_rows(files):
        assert not set(NAMES) & set(batch.table.column_names)


def test_documents_with_and_without_structure_do_not_mix(
    tmp_path: Path, encodings: Any, kit: Any
) -> None:
    mixed = [kit.enriched(encodings[0], 0), encodings[1]]
    with pytest.raises(AssertionError, match="either all encodings have structure or none"):
        kit.spool(tmp_path / "spool", mixed)


def test_sound_structure_keeps_the_contract(structured: Any) -> None:
    report = check(structured.folder)
    assert report.num_faults == 0
    assert report.rows == structured.counts.rows
    assert not [each for each in report.fallbacks if "structure" in each]


def test_structure_is_checked_without_pieces_too(structured: Any) -> None:
    path = structured.folder / "data/part-00000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["pieces"]), path)
    assert check(path).num_faults == 0
    report = mutated(path, put("dep_levels", 2, 64))
    assert [fault.rule for fault in report.faults] == [Rule.STRUCTURE]


@pytest.mark.parametrize("name", NAMES)
def test_structure_columns_are_all_there_or_none(name: str, structured: Any) -> None:
    path = structured.folder / "data/part-00000.parquet"
    pq.write_table(pq.read_table(path).drop_columns([name]), path)
    assert f"column {name};" in str(check(path).faults[0])


def put(column: str, index: int, value: object) -> Callable[[Row], None]:
    def mutate(row: Row) -> None:
        row[column][index] = value

    return mutate


def chunk(index: int, **changes: int) -> Callable[[Row], None]:
    return lambda row: row["chunk_boundaries"][index].update(changes)


def call(index: int, **changes: int) -> Callable[[Row], None]:
    return lambda row: row["call_edges"][index].update(changes)


def twice(row: Row) -> None:
    row["chunk_boundaries"].insert(1, dict(row["chunk_boundaries"][0]))


def without_its_chunk(row: Row) -> None:
    row["chunk_boundaries"].pop()
    row["call_edges"], row["type_edges"] = [], []


def between_documents(row: Row) -> None:
    last = len(row["chunk_boundaries"]) - 1
    row["type_edges"] = [{"source": 0, "target": last, "label": 1}]


def unsorted(row: Row) -> None:
    row["call_edges"] = row["call_edges"][::-1]


def another_level(row: Row) -> None:
    row["dep_levels"][2] = row["dep_levels"][2] % 64 + 1


def shorten(column: str) -> Callable[[Row], None]:
    return lambda row: row[column].pop()


FAULTS: dict[str, tuple[Callable[[Row], None], str]] = {
    "an unknown category": (put("structure_ids", 2, 10), "structure_ids is 10 at token 2"),
    "a depth past the largest": (put("ast_depth", 2, 65), "ast_depth is 65 at token 2"),
    "a sibling past the largest": (put("sibling_index", 2, 65), "sibling_index is 65"),
    "a level past the largest": (put("dep_levels", 2, 65), "dep_levels is 65 at token 2"),
    "a level of another chunk": (another_level, "dep_levels is"),
    "a level outside chunks": (put("dep_levels", 4, 1), "dep_levels is 1 at token 4"),
    "a category in padding": (put("structure_ids", -1, 4), "structure_ids is 4 at token 127"),
    "a node at a BOS": (put("ast_node_type", 0, 9), "ast_node_type is 9 at token 0"),
    "a level in padding": (put("dep_levels", -1, 4), "dep_levels is 4 at token 127"),
    "a chunk past its document": (chunk(0, end=ROW), "chunk_boundaries 0 is"),
    "an empty chunk": (chunk(0, end=1), "chunk_boundaries 0 is"),
    "a chunk twice": (twice, "chunk_boundaries 1 is"),
    "an unknown kind": (chunk(0, kind=77), "chunk_boundaries 0 is"),
    "a chunk of no document": (chunk(0, doc=77), "chunk_boundaries 0 is"),
    "a chunk of the next document": (chunk(0, doc=1), "chunk_boundaries 0 is"),
    "a chunk too deep": (chunk(0, dep_level=65), "chunk_boundaries 0 is"),
    "a chunk without a level": (chunk(0, dep_level=0), "chunk_boundaries 0 is"),
    "a lost chunk": (without_its_chunk, "dep_levels is"),
    "an edge to nowhere": (call(0, target=777), "'source': 0, 'target': 777"),
    "an edge from nowhere": (call(0, source=-1), "call_edges 0 is {'source': -1"),
    "an edge between documents": (between_documents, "type_edges 0 is {'source': 0"),
    "an unknown label": (call(0, label=5), "labels must be 1 to 4"),
    "no label": (call(0, label=0), "'label': 0}; labels must be 1 to 4"),
    "unsorted edges": (unsorted, "edges must be sorted by source and target"),
}


def mutated(path: Path, mutate: Callable[[Row], None], number: int = 1) -> CheckReport:
    table = pq.read_table(path)
    rows = table.to_pylist()
    mutate(rows[number])
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return check(path)


@pytest.mark.parametrize("name", FAULTS)
def test_check_names_the_row_of(name: str, structured: Any) -> None:
    mutate, words = FAULTS[name]
    path = structured.folder / "data/part-00000.parquet"
    row = pq.read_table(path).to_pylist()[1]
    assert row["num_docs"] > 1
    assert row["valid_token_count"] < ROW
    assert len(row["call_edges"]) > 1
    report = mutated(path, mutate)
    assert {(fault.rule, fault.row) for fault in report.faults} == {(Rule.STRUCTURE, 1)}
    assert words in str(report.faults[0])


@pytest.mark.parametrize("name", STRUCTURE_TOKENS)
def test_a_short_column_is_named(name: str, structured: Any) -> None:
    report = mutated(structured.folder / "data/part-00000.parquet", shorten(name))
    assert re.search(rf"{name} .* 127 .* 128\b", str(report.faults[0]))


def test_faults_of_pieces_are_told_once(structured: Any) -> None:
    def gap(row: Row) -> None:
        row["pieces"][1]["token_start"] += 1

    report = mutated(structured.folder / "data/part-00000.parquet", gap)
    assert [fault.rule for fault in report.faults] == [Rule.BOUNDARIES]


@pytest.mark.parametrize(
    ("column", "rule"), [("pieces", Rule.BOUNDARIES), ("chunk_boundaries", Rule.STRUCTURE)]
)
def test_every_row_may_be_broken_at_once(column: str, rule: Rule, structured: Any) -> None:
    path = structured.folder / "data/part-00000.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    for row in rows:
        row[column][0]["doc"] = 77
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    report = check(path)
    assert {fault.rule for fault in report.faults} == {rule}
    assert report.num_faults == len(rows)
