"""A Parquet file of some kilobytes that decodes to gigabytes is refused by each reader before it does."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum import page_headers, parquet
from schemas.errors import StoreError

LINES = 80 << 20
MOST_BYTES = 640 << 20
"""Of address space, beside what a process has after its imports."""

READS = """
import resource, sys
from pathlib import Path
import polars, pyarrow as pa, pyarrow.parquet as pq
from curriculum import frames, parquet
from curriculum.families.write import read_documents
from curriculum.rows import footers
from curriculum.store.verify import check_pages, read_pages
from curriculum.train.metrics import read_metrics
from schemas.errors import CurriculumError
file = Path(sys.argv[2])
polars.thread_pool_size()
READERS = {
    "table": lambda: parquet.read_table(file),
    "filtered": lambda: parquet.read_table(file, ["step"], filters=[("step", "!=", None)]),
    "group": lambda: parquet.File(file).read_row_group(0),
    "batches": lambda: list(parquet.File(file).iter_batches(1)),
    "pages": lambda: read_pages(file, ["step"]),
    "check": lambda: check_pages([file], ["step"]),
    "frame": lambda: frames.read(file),
    "scan": lambda: frames.scan(file, ["step"]).collect(),
    "stream": lambda: frames.stream(file, ["step"]).collect(),
    "documents": lambda: list(read_documents(file.parent)),
    "rows": lambda: footers.Footers().of(file)[0].read(0, ["step"]),
    "other rows": lambda: footers.Footers(most=0).of(file)[0].read(0, ["step"]),
    "metrics": lambda: read_metrics(file.parent),
}
if sys.argv[1] == "plain":
    READERS = {"plain": lambda: pq.read_table(file)}
status = Path("/proc/self/status").read_text().splitlines()
there = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (there + int(sys.argv[3]),) * 2)
for name, read in READERS.items():
    try:
        read()
        print(name, "READ")
    except CurriculumError as refused:
        print(name, "refused" if str(file) in str(refused) else refused)
    except (MemoryError, OSError) as broken:
        print(name, "broken", type(broken).__name__)
"""


def _runs_of_one_value(file: Path) -> None:
    table = pa.table({"step": np.zeros(LINES, np.int64)})
    pq.write_table(table, file, compression="zstd", row_group_size=LINES)


def _packed_page(file: Path) -> None:
    most = 1 << 30
    pq.write_table(
        pa.table({"step": np.zeros(LINES, np.int64)}),
        file,
        compression="zstd",
        use_dictionary=False,
        data_page_size=most,
        write_batch_size=most,
        max_rows_per_page=most,
        row_group_size=LINES,
    )


def _one_long_text(file: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 100_000, pa.int32()), pa.array(["x" * 10_000])
    )
    pq.write_table(pa.table({"step": texts}), file, compression="zstd", store_schema=False)


def _one_long_text_among_others(file: Path) -> None:
    texts = pa.array([*map(str, range(1_000)), "x" * 10_000])
    chosen = pa.DictionaryArray.from_arrays(
        pa.array([*range(1_001), *[1_000] * 100_000], pa.int32()), texts
    )
    pq.write_table(pa.table({"step": chosen}), file, compression="zstd", store_schema=False)


def _repeated_texts(file: Path) -> None:
    table = pa.table({"step": pa.array(["x" * 10_000] * 100_000)})
    pq.write_table(
        table,
        file,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"step": "DELTA_BYTE_ARRAY"},
    )


def _one_long_list(file: Path) -> None:
    values = pa.array(np.zeros(LINES, np.int32))
    table = pa.table({"step": pa.LargeListArray.from_arrays(pa.array([0, LINES]), values)})
    pq.write_table(table, file, compression="zstd", store_schema=False)


BOMBS = (
    _runs_of_one_value,
    _packed_page,
    _one_long_text,
    _one_long_text_among_others,
    _repeated_texts,
    _one_long_list,
)


def _read(how: str, file: Path) -> dict[str, str]:
    """By reader, how it ended in a process of little memory."""
    done = subprocess.run(
        [sys.executable, "-c", READS, how, str(file), str(MOST_BYTES)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("bomb", BOMBS)
def test_each_reader_refuses_a_small_file_that_decodes_to_gigabytes(
    tmp_path: Path, bomb: Callable[[Path], None]
) -> None:
    file = tmp_path / "part-00000.parquet"
    bomb(file)
    assert file.stat().st_size < 1 << 20
    found = _read("bounded", file)
    assert len(found) == 13
    assert set(found.values()) == {"refused"}, found
    # Without a bound the same process runs out of memory.
    assert "broken" in str(_read("plain", file)), "the file is no bomb"


Field = tuple[int, bytes]


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _number(value: int, kind: int = 5) -> Field:
    return kind, _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _text(value: bytes) -> Field:
    return 8, _varint(len(value)) + value


def _struct(fields: list[tuple[int, Field]]) -> Field:
    raw = b"".join(bytes([kind]) + _varint(name << 1) + content for name, (kind, content) in fields)
    return 12, raw + b"\0"


def _list(items: list[Field]) -> Field:
    return 9, bytes([len(items) << 4 | items[0][0]]) + b"".join(content for _, content in items)


def _claiming(rows: int, all_rows: int) -> bytes:
    """A file whose footer claims so many rows, and that has no page."""
    root = _struct([(4, _text(b"schema")), (5, _number(1))])
    leaf = _struct([(1, _number(2)), (3, _number(0)), (4, _text(b"step"))])
    column = [(1, _number(2)), (2, _list([_number(0)])), (3, _list([_text(b"step")]))]
    column += [(4, _number(0)), (5, _number(rows, 6)), (6, _number(0, 6)), (7, _number(0, 6))]
    chunk = _struct([(2, _number(4, 6)), (3, _struct([*column, (9, _number(4, 6))]))])
    group = _struct([(1, _list([chunk])), (2, _number(0, 6)), (3, _number(rows, 6))])
    whole = [(1, _number(1)), (2, _list([root, leaf])), (3, _number(all_rows, 6))]
    footer = _struct([*whole, (4, _list([group]))])[1]
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_rows_that_only_a_footer_claims_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "part-00000.parquet"
    file.write_bytes(_claiming(1 << 40, 1 << 40))
    assert pq.read_metadata(file).num_rows == 1 << 40
    for read in (parquet.read_metadata, parquet.read_schema, parquet.read_table, parquet.File):
        with pytest.raises(StoreError, match=r"part-00000.*1,099,511,627,776 rows"):
            read(file)
    file.write_bytes(_claiming(5, 7))
    with pytest.raises(StoreError, match="7 rows; its row groups have 5"):
        parquet.read_metadata(file)
    file.write_bytes(_claiming(5, 5))
    assert parquet.read_metadata(file).num_rows == 5


def test_a_footer_that_is_most_of_its_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    file = tmp_path / "part-00000.parquet"
    length = 8 << 20
    file.write_bytes(b"PAR1" + bytes(length) + length.to_bytes(4, "little") + b"PAR1")
    with pytest.raises(StoreError, match="a footer of 8,388,608 bytes"):
        parquet.read_schema(file)


def _page(*fields: tuple[int, Field], values: int = 1, encoding: int = 0) -> bytes:
    own = _struct([(1, _number(values)), (2, _number(encoding)), (3, _number(3)), (4, _number(3))])
    sizes = [(1, _number(0)), (2, _number(4)), (3, _number(4))]
    return _struct([*sizes, (5, own), *fields])[1] + bytes(4)


@pytest.mark.parametrize(
    ("raw", "cause"),
    [
        (_page((2, _number(4))), "stands twice"),
        (_page(values=-1), "field 1 of a header is -1"),
        (_page(values=1 << 32), "field 1 of a header is 4294967296"),
        (_page(encoding=4), "encoding 4"),
        (_page((9, _list([_number(1)]))), "9 is no field type"),
        (_page()[:-1], "don't end where"),
        (_page()[:6], "doesn't end"),
        (b"\x15" + b"\xff" * 20, "too long"),
        (_page() + _struct([(1, _number(2)), (2, _number(0)), (3, _number(0))])[1], "behind"),
    ],
)
def test_a_header_that_readers_could_take_in_two_ways_is_refused(
    tmp_path: Path, raw: bytes, cause: str
) -> None:
    def pages(content: bytes) -> list[page_headers.Page]:
        file = tmp_path / "pages"
        file.write_bytes(content)
        with file.open("rb") as opened:
            return list(page_headers.pages_of(opened.fileno(), 0, len(content)))

    assert [each.values for each in pages(_page())] == [1]
    with pytest.raises(ValueError, match=cause):
        pages(raw)


def test_a_file_within_its_bound_comes_as_it_is(tmp_path: Path) -> None:
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
                opened.require()
                assert (
                    opened.read_row_group(0, ["t"]).to_pylist() == table.select(["t"]).to_pylist()
                )
    assert parquet.read_table([file, file], ["n"])["n"].to_pylist() == [3, 1, None] * 2
