"""Invalid foreign rows are refused by file and row, without a traceback."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curriculum.interop.foreign_parquet import parquet_rows
from curriculum.store import Artefact
from schemas.errors import SchemaError
from tests.curriculum.interop.in_process import publish

HOSTILE_NAMES = ("../x", "/etc", "", "a/b", "a\nb", "a\0b", "..", "x" * 200, "\u202ename", " ")


def take(world: Any, path: Path, facts: Any) -> Artefact:
    return publish(world.store, parquet_rows(path, facts, world.codec), world.tokenizer)


def stored(world: Any) -> pa.Table:
    return pq.read_table(world.flat.shards()[0], partitioning=None).replace_schema_metadata(None)


def written(folder: Path, *tables: pa.Table) -> Path:
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


def rows_published(world: Any) -> set[str]:
    return {each.key for each in world.store.artefacts("rows")}


def replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, name, values)


def with_null(table: pa.Table, name: str, row: int) -> pa.Table:
    values = table[name].to_pylist()
    values[row % len(values)] = None
    return replaced(table, name, pa.array(values, type=table.schema.field(name).type))


def refused(world: Any, path: Path, facts: Any) -> str:
    """The message of the refusal; nothing is published."""
    before = rows_published(world)
    with pytest.raises(SchemaError) as error:
        take(world, path, facts)
    assert rows_published(world) == before
    return str(error.value)


def test_a_row_whose_pack_id_another_row_has_is_refused_with_both_places(
    world: Any, tmp_path: Path, said: Any
) -> None:
    rows = stored(world)
    message = refused(world, written(tmp_path / "theirs", rows, rows), said())
    first = rows["pack_id"][0].as_py()
    assert "row 0 of part-1.parquet" in message
    assert "row 0 of part-0.parquet" in message
    assert first in message


@pytest.mark.parametrize("column", ["family", "objective", "domain", "split"])
def test_a_stored_label_that_is_no_name_is_refused_with_its_row(
    world: Any, tmp_path: Path, said: Any, column: str
) -> None:
    rows = stored(world)
    for number, name in enumerate(HOSTILE_NAMES):
        labels = rows[column].to_pylist()
        # Rows of one import may be of several domains, and are alike in all other labels.
        row = 1 if column == "domain" else 0
        labels[row:] = [name] * len(labels[row:])
        theirs = written(tmp_path / str(number), replaced(rows, column, pa.array(labels)))
        message = refused(world, theirs, said())
        assert f"row {row} of part-0.parquet" in message, name
        assert column in message


@pytest.mark.parametrize("fact", ["family", "domain", "split", "objective"])
@pytest.mark.parametrize("form", ["parquet", "flat"])
def test_a_given_label_that_is_no_name_is_refused_by_its_option(
    world: Any, tmp_path: Path, said: Any, fact: str, form: str
) -> None:
    facts = said(**{"family": "mine", fact: "../x"})
    if form == "parquet":
        rows = stored(world).select(["input_ids", "loss_mask"])
        theirs = written(tmp_path / "theirs", rows)
    else:
        theirs = world.export(world.flat, tmp_path / "theirs", "flat")
    with pytest.raises(SchemaError, match=f"--{fact}"):
        take(world, theirs, facts) if form == "parquet" else world.take(theirs, form, facts)


@pytest.mark.parametrize("name", ["input_ids", "domain", "loss_mask", "extra"])
def test_a_column_that_stands_twice_is_refused(
    world: Any, tmp_path: Path, said: Any, name: str
) -> None:
    rows = stored(world).append_column("extra", pa.array([0] * len(stored(world))))
    twice = rows.append_column(name, rows[name])
    message = refused(world, written(tmp_path / "theirs", twice), said())
    assert "part-0.parquet" in message
    assert name in message


@pytest.mark.parametrize("name", ["input_ids", "loss_mask", "family", "domain", "split"])
@pytest.mark.parametrize("row", [0, 2])
def test_a_null_is_refused_with_its_row(
    world: Any, tmp_path: Path, said: Any, name: str, row: int
) -> None:
    theirs = written(tmp_path / "theirs", with_null(stored(world), name, row))
    assert f"row {row} of part-0.parquet" in refused(world, theirs, said())


@pytest.mark.parametrize("column", ["num_docs", "valid_token_count", "family", "domain", "pieces"])
@pytest.mark.parametrize("kind", ["null", "twice", "drop", "cast"])
def test_an_export_whose_table_of_rows_is_wrong_is_refused_by_name(
    world: Any, tmp_path: Path, said: Any, column: str, kind: str
) -> None:
    folder = world.export(world.flat, tmp_path / "out", "flat")
    beside = pq.read_table(folder / "rows.parquet")
    at = beside.column_names.index(column)
    pq.write_table(damaged(beside, kind, at, "../x"), folder / "rows.parquet")
    record = json.loads((folder / "export.json").read_text())
    record["files"]["rows.parquet"] = (folder / "rows.parquet").stat().st_size
    (folder / "export.json").write_text(json.dumps(record))
    with pytest.raises(SchemaError, match=r"rows\.parquet|row [0-9]+ of "):
        world.take(folder, "flat", said())


@st.composite
def damages(draw: st.DrawFn) -> Any:
    """A change of a table that a careless or hostile writer might make."""
    kind = draw(st.sampled_from(["null", "label", "twice", "drop", "cast", "repeat"]))
    return kind, draw(st.integers(0, 40)), draw(st.text(max_size=12))


def damaged(table: pa.Table, kind: str, number: int, text: str) -> pa.Table:
    name = table.column_names[number % len(table.column_names)]
    if kind == "null":
        return with_null(table, name, number % len(table))
    if kind == "label":
        labels = ("family", "objective", "domain", "split", "pack_id")
        label = labels[number % len(labels)]
        return replaced(table, label, pa.array([text] * len(table)))
    if kind == "twice":
        return table.append_column(name, table[name])
    if kind == "drop":
        return table.drop_columns([name])
    if kind == "repeat":
        return pa.concat_tables([table, table])
    return replaced(table, name, pa.array([text] * len(table)))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(damages(), min_size=1, max_size=2))
def test_foreign_rows_are_published_whole_or_refused_with_a_message(
    world: Any, tmp_path_factory: pytest.TempPathFactory, said: Any, changes: list[Any]
) -> None:
    table = stored(world).slice(0, 6)
    for change in changes:
        if len(set(table.column_names)) < len(table.column_names):
            break
        table = damaged(table, *change)
    theirs = written(tmp_path_factory.mktemp("theirs") / "rows", table)
    try:
        made = take(world, theirs, said())
    except SchemaError:
        return
    ids = pq.read_table(made.shards(), partitioning=None)["pack_id"].to_pylist()
    assert len(set(ids)) == len(table)
