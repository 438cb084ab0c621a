"""Foreign files that are bombs, have false metadata or overflow are refused by name."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.interop import tokens_out
from curriculum.interop.foreign_parquet import parquet_rows
from schemas.errors import SchemaError
from tests.curriculum.interop.in_process import publish
from tests.error_fields import fields

Change = Callable[[dict[str, Any]], None]


def exported(world: Any, tmp_path: Path, form: str = "flat") -> Path:
    folder: Path = world.export(world.flat, tmp_path / "out", form)
    world.take(folder, form)  # as it is, it is taken
    return folder


def refused(world: Any, folder: Path, form: str, facts: Any, row_length: int | None = 128) -> str:
    with pytest.raises(SchemaError) as error:
        world.take(folder, form, facts, row_length)
    return str(error.value)


def bare(folder: Path) -> Path:
    """The same tokens without what was said of them."""
    (folder / "export.json").unlink()
    return folder


def parquet(world: Any, folder: Path, facts: Any) -> Any:
    return publish(world.store, parquet_rows(folder, facts, world.codec), world.tokenizer)


def rows(world: Any) -> pa.Table:
    return pq.read_table(world.flat.shards(), partitioning=None).slice(0, 6)


@pytest.mark.parametrize(
    "metadata", [{b"vocab_size": b"\xff\xfe"}, {b"row_length": b"9" * 5000}, {b"vocab_size": b"\0"}]
)
def test_metadata_that_is_no_text_is_refused(
    world: Any, tmp_path: Path, said: Any, metadata: dict[bytes, bytes]
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    table = rows(world)
    held = {**(table.schema.metadata or {}), **metadata}
    pq.write_table(table.replace_schema_metadata(held), folder / "part-0.parquet")
    with pytest.raises(SchemaError, match=r"part-0\.parquet"):
        parquet(world, folder, said())


def test_token_columns_that_hold_no_lists_are_refused(
    world: Any, tmp_path: Path, said: Any
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    table = rows(world)
    at = table.schema.get_field_index("input_ids")
    dates = pa.array([1] * len(table), pa.date32())
    pq.write_table(table.set_column(at, "input_ids", dates), folder / "part-0.parquet")
    with pytest.raises(SchemaError, match=r"part-0\.parquet"):
        parquet(world, folder, said())


@pytest.mark.parametrize("where", ["name", "value"])
def test_text_that_is_not_utf8_is_refused(
    world: Any, tmp_path: Path, said: Any, where: str
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    table = rows(world).append_column("somewhere", pa.array(["a"] * 6))
    at = table.schema.get_field_index("domain")
    table = table.set_column(at, "domain", pa.array(["somevalue"] * 6))
    file = folder / "part-0.parquet"
    pq.write_table(
        table, file, compression="none", use_dictionary=False, store_schema=False, write_statistics=False
    )  # fmt: skip
    data = file.read_bytes()
    word = b"somewhere" if where == "name" else b"somevalue"
    assert word in data
    file.write_bytes(data.replace(word, word[:-1] + b"\xff"))
    with pytest.raises(SchemaError, match=r"part-0\.parquet"):
        parquet(world, folder, said())


@pytest.mark.parametrize(
    "documents", [[0, 2**62, -(2**63), 40], [0, -(2**63), 2**63 - 1, 40], [0, 41, 40], [-1, 40]]
)
def test_document_indices_whose_differences_overflow_are_refused(
    tmp_path: Path, documents: list[int]
) -> None:
    file = tmp_path / "tokens.idx"
    lengths = np.full(40, 2, dtype="<i4")
    pointers = np.arange(40, dtype="<i8") * 4
    head = tokens_out.HEADER.pack(tokens_out.MAGIC, tokens_out.VERSION, 8, 40, len(documents))
    body = lengths.tobytes() + pointers.tobytes() + np.array(documents, dtype="<i8").tobytes()
    file.write_bytes(head + body)
    with pytest.raises(SchemaError, match="document indices", check=fields(name="tokens.idx")):
        tokens_out.read_index(file)


@pytest.mark.parametrize("sequences", [2**64 - 1, 2**63, 2**62, 10**9])
def test_an_index_of_absurd_counts_is_refused(tmp_path: Path, sequences: int) -> None:
    file = tmp_path / "tokens.idx"
    head = tokens_out.HEADER.pack(tokens_out.MAGIC, tokens_out.VERSION, 8, sequences, 2)
    file.write_bytes(head + b"\0" * 100)
    with pytest.raises(SchemaError, match=r"\d bytes", check=fields(name="tokens.idx")):
        tokens_out.read_index(file)


def test_an_index_of_negative_or_shifted_sequences_is_refused(tmp_path: Path) -> None:
    for lengths, pointers in (
        ([-1, 3], [0, -2]),
        ([2, 2], [0, 2**63 - 1]),
        ([2**31 - 1, 1], [0, 0]),
    ):
        file = tmp_path / "tokens.idx"
        head = tokens_out.HEADER.pack(tokens_out.MAGIC, tokens_out.VERSION, 8, 2, 3)
        body = np.array(lengths, "<i4").tobytes() + np.array(pointers, "<i8").tobytes()
        file.write_bytes(head + body + struct.pack("<3q", 0, 1, 2))
        with pytest.raises(SchemaError, check=fields(name="tokens.idx", value=None)):
            tokens_out.read_index(file)


@pytest.mark.parametrize("values", [[2**62, -(2**63)], [2**63 - 1, -(2**63)], [5, 4], [-1, 2]])
def test_offsets_whose_differences_overflow_are_refused(
    world: Any, tmp_path: Path, said: Any, values: list[int]
) -> None:
    folder = bare(exported(world, tmp_path))
    edges = np.fromfile(folder / "offsets.bin", dtype="<i8")
    edges[1:3] = values
    edges.tofile(folder / "offsets.bin")
    assert "offsets" in refused(world, folder, "flat", said(family="mine"))


@pytest.mark.parametrize("row_length", [None, 0, -128, 127, 1 << 30])
def test_a_row_length_that_rows_cannot_have_is_refused(
    world: Any, tmp_path: Path, said: Any, row_length: int | None
) -> None:
    folder = bare(exported(world, tmp_path))
    assert "--row-length" in refused(world, folder, "flat", said(family="mine"), row_length)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("files", {"../../workspace.json": 3}),
        ("files", {"/etc/passwd": 3}),
        ("files", {"[/]": 3}),
        ("files", {"x" * 300: 3}),
        ("columns", ["../secret"]),
        ("columns", ["/etc/passwd"]),
        ("dtype", "object"),
        ("dtype", "O8"),
        ("dtype", "float64"),
        ("dtype", "x" * 100),
        ("row_lengths", [0]),
        ("row_lengths", [-128]),
        ("row_lengths", [2**62]),
        ("row_lengths", []),
        ("tokens", "9" * 5000),
    ],
)
def test_a_record_that_points_elsewhere_or_says_nonsense_is_refused(
    world: Any, tmp_path: Path, said: Any, field: str, value: Any
) -> None:
    folder = exported(world, tmp_path)
    record = json.loads((folder / "export.json").read_text())
    (folder / "export.json").write_text(json.dumps(record | {field: value}))
    assert refused(world, folder, "flat", said())


def test_rows_that_hold_more_tokens_than_their_length_are_refused(
    world: Any, tmp_path: Path, said: Any
) -> None:
    """Their sums agree with the tokens, and one row would take more than T of them."""
    folder = exported(world, tmp_path)
    beside = pq.read_table(folder / "rows.parquet")
    counts: dict[str, list[Any]] = {
        name: beside[name].to_pylist() for name in ("valid_token_count", "num_docs")
    }
    for name, values in counts.items():
        values[0] += values[1] + values[2]
        counts[name] = [values[0], *values[3:]]
    assert counts["valid_token_count"][0] > 128
    fewer = pa.concat_tables([beside.slice(0, 1), beside.slice(3)])
    for name, values in counts.items():
        at = fewer.schema.get_field_index(name)
        fewer = fewer.set_column(at, fewer.schema.field(at), pa.array(values, pa.int32()))
    pq.write_table(fewer, folder / "rows.parquet")
    record = json.loads((folder / "export.json").read_text())
    record["files"]["rows.parquet"] = (folder / "rows.parquet").stat().st_size
    (folder / "export.json").write_text(json.dumps(record))
    assert "row of 128" in refused(world, folder, "flat", said())


@pytest.mark.timeout(60)
def test_a_pipe_in_place_of_tokens_is_not_waited_for(world: Any, tmp_path: Path, said: Any) -> None:
    folder = bare(exported(world, tmp_path))
    for name in ("tokens.bin", "offsets.bin"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert refused(world, folder, "flat", said(family="mine"))
