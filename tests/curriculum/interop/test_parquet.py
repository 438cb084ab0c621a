"""Packed rows of others: what may be filled in is, and named; what is wrong is refused by file and row."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.interop.foreign_parquet import parquet_rows
from curriculum.interop.publish import FILLS, Completion
from curriculum.mixing.row_supply import read_supply
from curriculum.packing.packed_rows import KNOWN, RowBatch
from curriculum.packing.row_check import check
from curriculum.packing.rules import CheckedRows
from curriculum.store import Artefact
from curriculum.train.evaluation_sets import order_of
from schemas.errors import SchemaError
from schemas.packed_row import RowFormat
from tests.curriculum.interop.in_process import publish

REQUIRED = ("input_ids", "loss_mask")


def table(artefact: Artefact) -> pa.Table:
    return pq.read_table(artefact.shards(), partitioning=None)


def take(world: Any, path: Path, facts: Any) -> Artefact:
    return publish(world.store, parquet_rows(path, facts, world.codec), world.tokenizer)


def written(world: Any, folder: Path, *, only: tuple[str, ...] = (), kind: str = "flat") -> Path:
    """Write the world's rows as a foreign tool would: without metadata, with some of the columns."""
    folder.mkdir()
    for file in getattr(world, kind).shards():
        rows = pq.read_table(file, partitioning=None).replace_schema_metadata(None)
        pq.write_table(rows.select(list(only) or rows.column_names), folder / file.name)
    return folder


@pytest.mark.parametrize("kind", ["flat", "structured"])
def test_rows_that_store_everything_come_back_as_they_are(
    world: Any, tmp_path: Path, said: Any, kind: str
) -> None:
    back = take(world, written(world, tmp_path / "theirs", kind=kind), said())
    before, after = table(getattr(world, kind)), table(back)
    assert before.column_names == after.column_names
    assert [each for each in before.column_names if before[each] != after[each]] == ["pack_id"]
    assert back.manifest.report["fallbacks"] == []
    assert [file.name for file in back.shards()] == [
        file.name for file in getattr(world, kind).shards()
    ]


def test_what_is_not_stored_is_derived_and_every_fallback_is_named(
    world: Any, tmp_path: Path, said: Any
) -> None:
    theirs = written(world, tmp_path / "theirs", only=REQUIRED)
    back = take(world, theirs, said(family="mine", split="val"))
    before, after = table(world.flat), table(back)
    for name in (
        *("input_ids", "loss_mask", "doc_ids", "doc_starts", "valid_token_count", "num_docs"),
        *("loss_token_count", "attention_pairs", "context_histogram"),
    ):
        assert before[name] == after[name], name
    assert {*after["family"].to_pylist()} == {"mine"}
    fallbacks: Any = back.manifest.report["fallbacks"]
    told = {line.partition(" ")[0] for line in fallbacks}
    assert told == {*before.column_names} - {"pack_id", *REQUIRED}
    assert dict(back.manifest.labels)["split"] == "val"
    assert {row.row for row in order_of(back).rows} == set(range(len(after)))
    assert check(back.path).faults == []


def test_equal_documents_have_equal_ids_where_none_are_stored(
    world: Any, tmp_path: Path, said: Any
) -> None:
    bos, eos, pad = world.codec.bos_id, world.codec.eos_id, world.codec.pad_id
    ids = [bos, 20, 21, eos, bos, 20, 21, eos, bos, 22, 21, eos] + [pad] * 116
    mask = [1, 1, 1, 0] * 3 + [0] * 116
    pq.write_table(pa.table({"input_ids": [ids], "loss_mask": [mask]}), tmp_path / "x.parquet")
    (row,) = table(take(world, tmp_path / "x.parquet", said(family="mine"))).to_pylist()
    first, second, third = row["document_ids"]
    assert first == second != third
    assert [each["token_end"] for each in row["pieces"]] == [4, 8, 12]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (pa.large_list(pa.int64()), "large_list<int64>"),
        (pa.list_(pa.uint16()), "list<uint16>"),
        (pa.list_(pa.int32(), 128), "fixed_size_list<int32>"),
    ],
)
def test_whole_numbers_of_another_width_are_read_where_none_changes(
    world: Any, tmp_path: Path, said: Any, kind: pa.DataType, shown: str
) -> None:
    rows = table(world.flat).select(REQUIRED)
    ids = pa.array(rows["input_ids"].to_pylist(), type=kind)
    listed: list[Any] = rows["loss_mask"].to_pylist()
    masks = [[value == 1 for value in mask] for mask in listed]
    pq.write_table(pa.table({"input_ids": ids, "loss_mask": masks}), tmp_path / "x.parquet")
    back = take(world, tmp_path / "x.parquet", said(family="mine"))
    assert table(back)["input_ids"] == table(world.flat)["input_ids"]
    assert table(back)["loss_mask"] == table(world.flat)["loss_mask"]
    assert f"input_ids: {shown} " in str(back.manifest.report["read_as"])


def test_unknown_columns_stay_behind_and_are_named(world: Any, tmp_path: Path, said: Any) -> None:
    rows = table(world.flat).append_column("note", pa.array(["x"] * len(table(world.flat))))
    pq.write_table(rows, tmp_path / "x.parquet")
    back = take(world, tmp_path / "x.parquet", said())
    assert back.manifest.report["columns_left_behind"] == ["note"]
    assert "note" not in table(back).column_names


def test_imported_rows_serve_a_mixture(world: Any, tmp_path: Path, said: Any) -> None:
    back = take(world, written(world, tmp_path / "theirs", only=REQUIRED), said(family="mine"))
    supply = read_supply(back.shards(), key=back.key)
    before = read_supply(world.flat.shards(), key=world.flat.key)
    assert supply.valid_tokens.tolist() == before.valid_tokens.tolist()
    assert supply.shard_starts.tolist() == before.shard_starts.tolist()


def test_the_same_bytes_are_imported_once_and_other_facts_make_another(
    world: Any, tmp_path: Path, said: Any
) -> None:
    theirs = written(world, tmp_path / "theirs", only=REQUIRED)
    first = take(world, theirs, said(family="mine"))
    moved = theirs.rename(tmp_path / "moved")
    again = take(world, moved, said(family="mine"))
    assert (again.key, again.made) == (first.key, False)
    assert take(world, moved, said(family="other")).key != first.key


def _change(name: str, row: int, values: Callable[[Any], Any]) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        listed: list[Any] = rows[name].to_pylist()
        listed[row] = values(listed[row])
        at = rows.schema.get_field_index(name)
        return rows.set_column(at, name, pa.array(listed, type=rows.schema.field(at).type))

    return change


def _drop(*names: str) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.drop_columns([*names])


def _retype(name: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(name)
        return rows.set_column(at, name, pa.array(rows[name].to_pylist(), type=kind))

    return change


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_drop("loss_mask"), "no column loss_mask; nothing says which tokens are scored"),
        (_drop("input_ids"), "no column input_ids"),
        (_retype("input_ids", pa.list_(pa.float32())), "input_ids is list<"),
        (_retype("family", pa.list_(pa.string())), "family is list<"),
        (_change("input_ids", 3, lambda ids: [70_000, *ids[1:]]), "row 3 of x.parquet: input_ids is 70000"),
        (_change("input_ids", 3, lambda ids: ids[:-1]), "row 3 of x.parquet: input_ids has 127 values"),
        (_change("loss_mask", 2, lambda mask: [0] * 128), "row 2 of x.parquet"),
        (_change("loss_mask", 2, lambda mask: [*mask[:-1], 1]), "row 2 of x.parquet: loss_mask is 1 at"),
        (_change("doc_ids", 4, lambda ids: [1, *ids[1:]]), "row 4 of x.parquet: doc_ids"),
        (_change("doc_starts", 4, lambda starts: [5, *starts]), "row 4 of x.parquet: doc_starts is"),
        (_change("valid_token_count", 1, lambda count: 500), "row 1 of x.parquet: valid_token_count is 500"),
        (_change("target_ids", 1, lambda ids: [299, *ids[1:]]), "row 1 of x.parquet: target_ids is 299"),
        (_change("loss_token_count", 1, lambda count: count + 1), "row 1 of x.parquet: loss_token_count"),
        (_change("attention_pairs", 1, lambda count: 3), "row 1 of x.parquet: attention_pairs is 3"),
        (_change("context_histogram", 1, lambda counts: [0] * 4), "row 1 of x.parquet: context_histogram"),
        (_change("num_docs", 1, lambda count: 77), "row 1 of x.parquet: num_docs is 77"),
        (_change("family", 9, lambda name: "v2_simple"), "family is 'v2_simple'"),
        (_change("split", 9, lambda name: "val"), "split is 'val'"),
    ],
)  # fmt: skip
def test_a_stored_column_that_is_wrong_is_an_error_never_a_fallback(
    world: Any, tmp_path: Path, said: Any, spoil: Callable[[pa.Table], pa.Table], told: str
) -> None:
    rows = pq.read_table(world.flat.shards(), partitioning=None).replace_schema_metadata(None)
    pq.write_table(spoil(rows), tmp_path / "x.parquet")
    with pytest.raises(SchemaError, match=re.escape(told)):
        take(world, tmp_path / "x.parquet", said())
    assert len(list(world.store.artefacts("rows"))) == 2


def test_structure_is_stored_whole_or_not_at_all(world: Any, tmp_path: Path, said: Any) -> None:
    rows = table(world.structured)
    pq.write_table(rows.drop_columns(["dep_levels"]), tmp_path / "x.parquet")
    with pytest.raises(SchemaError, match="dep_levels"):
        take(world, tmp_path / "x.parquet", said())


def test_structure_without_pieces_is_kept_and_no_piece_made_up(
    world: Any, tmp_path: Path, said: Any
) -> None:
    rows = table(world.structured)
    pq.write_table(rows.drop_columns(["pieces"]), tmp_path / "x.parquet")
    back = take(world, tmp_path / "x.parquet", said())
    assert table(back)["structure_ids"] == rows["structure_ids"]
    report: Any = back.manifest.report
    (line,) = report["fallbacks"]
    assert line.startswith("pieces ")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda file: file.write_bytes(b"PAR1 no"), "the file is damaged, or is not Parquet at all"),
        (lambda file: pq.write_table(pa.table({"x": [1]}), file), "no column input_ids"),
        (
            lambda file: pq.write_table(pa.table({"input_ids": [[1, 2]], "loss_mask": [[1, 0]]}), file),
            "rows are packed: a multiple of 128 tokens",
        ),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_rows_is_told_from_one_that_does(
    world: Any, tmp_path: Path, said: Any, make: Callable[[Path], object], told: str
) -> None:
    make(tmp_path / "x.parquet")
    with pytest.raises(SchemaError, match=re.escape(told)):
        take(world, tmp_path / "x.parquet", said(family="mine"))


def test_rows_of_another_tokenizer_are_refused(world: Any, tmp_path: Path, said: Any) -> None:
    rows = table(world.flat)
    metadata = {**(rows.schema.metadata or {}), b"vocab_size": b"32000"}
    pq.write_table(rows.replace_schema_metadata(metadata), tmp_path / "x.parquet")
    with pytest.raises(SchemaError, match="vocab_size 32000;"):
        take(world, tmp_path / "x.parquet", said())


@given(st.data())
def test_any_packing_comes_back_from_required_columns_alone(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever the documents: boundaries and masks of rows that store ids, masks and starts only."""
    row_format = RowFormat(row_length=128, vocab_size=300, pad_id=0, bos_id=None, eos_id=None)
    rows = data.draw(
        st.lists(st.lists(st.integers(2, 40), min_size=1, max_size=3), min_size=1, max_size=4)
    )
    ids: list[list[int]] = []
    mask: list[list[int]] = []
    starts: list[list[int]] = []
    valid: list[int] = []
    for lengths in rows:
        size = sum(lengths)
        row = data.draw(st.lists(st.integers(0, 299), min_size=size, max_size=size))
        ends = np.cumsum(lengths)
        counts = [0 if at + 1 in ends else 1 for at in range(size)]
        ids.append([*row, *[0] * (128 - size)])
        mask.append([*counts, *[0] * (128 - size)])
        starts.append((ends - lengths).tolist())
        valid.append(size)
    columns: dict[str, Any] = {
        "input_ids": ids,
        "loss_mask": mask,
        "doc_starts": starts,
        "valid_token_count": valid,
    }
    stored = pa.table({name: pa.array(each).cast(KNOWN[name]) for name, each in columns.items()})
    facts = replace(FILLS, family="mine")
    completion = Completion(row_format=row_format, facts=facts, stored=tuple(columns))
    batch = RowBatch(row_format=row_format, table=stored)
    found = CheckedRows(batch=batch, numbers=np.arange(len(ids)))
    done = completion.complete(found, shard="x", key="ab" * 32, first_row=0)
    for name, values in columns.items():
        assert done[name].to_pylist() == values
    for at, lengths in enumerate(rows):
        segments = np.repeat(np.arange(len(lengths) + 1), [*lengths, 128 - sum(lengths)])
        assert done["doc_ids"][at].as_py() == segments.tolist()
        assert done["attention_pairs"][at].as_py() == sum(n * (n + 1) // 2 for n in lengths)
        assert sum(done["context_histogram"][at].as_py()) == sum(mask[at])
    folder = tmp_path_factory.mktemp("any")
    pq.write_table(done, folder / "part-00000.parquet")
    assert check(folder).faults == []
