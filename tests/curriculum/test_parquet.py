"""Parquet files are read whole, filtered or by group; damage is named with its file."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum import frames, parquet
from curriculum.page_checksums import pages_fault
from schemas.document import SELECTION_SCHEMA
from schemas.errors import StoreError
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import PACKED_ROW_SCHEMA
from schemas.structure import ENRICHED_SCHEMA, STRUCTURE_COLUMNS
from tests.bounded import exit_apart

ROWS_SCHEMA = pa.schema([*PACKED_ROW_SCHEMA, *STRUCTURE_COLUMNS])


THREADS = """
import io, psutil, pyarrow as pa, pyarrow.parquet as pq
from curriculum import parquet
sink = io.BytesIO()
pq.write_table(pa.table({name: list(range(100)) for name in "abcde"}), sink)
process, counts = psutil.Process(), []
read = {"ours": parquet.parse_table, "plain": lambda it: pq.ParquetFile(pa.BufferReader(it)).read()}
for name in ("ours", "plain"):
    before = process.num_threads()
    assert read[name](sink.getvalue()).num_rows == 100
    counts.append(process.num_threads() - before)
print(*counts)
"""


def test_reading_from_memory_starts_no_thread_that_outlives_the_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    ours, plain = map(int, done.stdout.split())
    assert ours == 0 < plain


def test_a_file_comes_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    table = pa.table(
        {
            "n": [3, 1, None],
            "t": ["a", "é", None],
            "l": [[1], [], None],
            "s": [{"a": [{"b": "x" * 5_000}]}, None, {"a": []}],
        }
    )
    for compression in ("zstd", "snappy", "none", "gzip"):
        for version in ("1.0", "2.0"):
            pq.write_table(table, file, compression=compression, data_page_version=version)
            assert parquet.read_table(file).to_pylist() == table.to_pylist()
            with parquet.File(file) as opened:
                assert (
                    opened.read_row_group(0, ["t"]).to_pylist() == table.select(["t"]).to_pylist()
                )
    assert parquet.read_table([file, file], ["n"])["n"].to_pylist() == [3, 1, None] * 2


@pytest.mark.parametrize("group_rows", [1, 3, 100])
def test_filters_choose_rows_of_each_group(tmp_path: Path, group_rows: int) -> None:
    file = tmp_path / "a.parquet"
    table = pa.table(
        {"n": [*range(10)], "t": [f"text {n}" for n in range(10)], "f": ["a", "b"] * 5}
    )
    pq.write_table(table, file, row_group_size=group_rows)
    filters = [("n", ">", 3), ("f", "=", "b")]
    wanted = [{"t": f"text {n}", "n": n} for n in (5, 7, 9)]
    assert parquet.read_table(file, ["t", "n"], filters=filters).to_pylist() == wanted
    found = parquet.read_table(file, ["t"], filters=[("n", "in", [2, 30])])
    assert found.to_pylist() == [{"t": "text 2"}]
    none = parquet.read_table(file, ["t", "n"], filters=[("n", ">", 30)])
    assert (len(none), none.schema) == (
        0,
        pa.schema([table.schema.field("t"), table.schema.field("n")]),
    )


@pytest.mark.parametrize("schema", [PLAN_SCHEMA, SELECTION_SCHEMA, ENRICHED_SCHEMA, ROWS_SCHEMA])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_file_without_rows_is_read(
    tmp_path: Path, schema: pa.Schema, use_dictionary: bool
) -> None:
    """Arrow writes a row group of dictionaries without values."""
    file = tmp_path / "empty.parquet"
    pq.write_table(schema.empty_table(), file, use_dictionary=use_dictionary)
    with parquet.File(file) as opened:
        assert opened.num_row_groups == 1
        assert opened.read_row_group(0).num_rows == 0
    assert parquet.read_table(file).num_rows == 0
    assert frames.read(file).is_empty()


@pytest.mark.parametrize("has_checksums", [True, False])
@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_checksums_of_pages_are_seen(
    tmp_path: Path, has_checksums: bool, use_dictionary: bool, compression: Any
) -> None:
    file = tmp_path / "a.parquet"
    for rows in (1, 100_000):
        table = pa.table({"n": [*range(rows)]})
        pq.write_table(
            table, file, write_page_checksum=has_checksums, use_dictionary=use_dictionary,
            compression=compression,
        )  # fmt: skip
        assert parquet.has_checksums(file, pq.read_metadata(file)) == has_checksums


READERS: dict[str, Callable[[Path], object]] = {
    "read_table": parquet.read_table,
    "read_table with filters": lambda file: parquet.read_table(file, filters=[("step", "=", 3)]),
    "read_row_group": lambda file: parquet.File(file).read_row_group(0),
    "iter_batches": lambda file: list(parquet.File(file).iter_batches()),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damaged", ["footer", "page"])
def test_a_footer_or_page_that_cant_be_decoded_is_named_with_its_file(
    tmp_path: Path, damaged: str, reader: str
) -> None:
    pq.write_table(pa.table({"step": [*range(1000)]}), file := tmp_path / "plan.parquet")
    content = bytearray(file.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    begin = footer if damaged == "footer" else 4 + (footer - 4) // 2
    for at in range(begin, begin + 20):
        content[at] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(StoreError) as raised:
        READERS[reader](file)
    assert raised.value.name == str(file)
    assert str(file) not in str(raised.value.value)
    assert str(tmp_path) in raised.value.cure


@pytest.mark.parametrize("reader", ["read_table", "read_row_group", "iter_batches"])
def test_a_page_that_its_changed_header_hides_is_missed(tmp_path: Path, reader: str) -> None:
    """No checksum covers a header, and Arrow skips pages of types that it doesn't know."""
    file = tmp_path / "plan.parquet"
    pq.write_table(
        pa.table({"step": [*range(1000)]}), file, use_dictionary=False, write_page_checksum=True
    )
    content = bytearray(file.read_bytes())
    content[pq.read_metadata(file).row_group(0).column(0).data_page_offset + 1] ^= 1 << 3
    file.write_bytes(content)
    without = pq.ParquetFile(file, page_checksum_verification=True).read_row_group(0)
    assert len(without) < 1000
    with pytest.raises(StoreError) as raised:
        READERS[reader](file)
    assert raised.value.name == str(file)


def _batches(file: Path, columns: list[str]) -> object:
    return [*parquet.File(file).iter_batches(columns=columns)]


def _groups(file: Path, columns: list[str]) -> object:
    return parquet.File(file).read_row_group(0, columns=columns)


@pytest.mark.parametrize("read", [parquet.read_table, _batches, _groups])
def test_a_column_that_a_file_lacks_is_named_with_the_file(
    tmp_path: Path, read: Callable[[Path, list[str]], object]
) -> None:
    file = tmp_path / "1.parquet"
    pq.write_table(pa.table({"step": [1], "of": [{"x": 1}]}), file)
    read(file, ["step", "of.x"])
    with pytest.raises(StoreError) as refused:
        read(file, ["step", "loss"])
    assert refused.value.name == str(file)
    assert "loss" in refused.value.cause


def test_texts_that_a_dictionary_repeats_are_compared_within_memory(tmp_path: Path) -> None:
    file, rows = tmp_path / "bomb.parquet", 1_000
    texts = pa.DictionaryArray.from_arrays(
        np.zeros(rows, dtype=np.int32), pa.array(["a" * (2 << 20)])
    )
    pq.write_table(
        pa.table({"text": texts.cast(pa.large_string())}), file, write_page_checksum=True
    )
    assert file.stat().st_size < 8 << 20

    def plainly() -> None:
        for _ in parquet.File(file).iter_batches():
            pass

    assert exit_apart(lambda: pages_fault(file, ()), mebibytes=1_000) == 0
    assert exit_apart(plainly, mebibytes=1_000) != 0
