"""A Parquet file of some kilobytes that decodes to gigabytes is refused by each reader before it does."""

import json
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

MAX_BYTES = 64 << 20
"""Decoded, in these tests; bombs decode to MAX_ROOM and more."""
MAX_ROOM = 384 << 20
"""Of address space, beside what a process has after its imports."""
LINES = MAX_ROOM // 8

READS = """
import itertools, json, resource, sys
from pathlib import Path
import polars, pyarrow as pa, pyarrow.parquet as pq
from curriculum import frames, parquet
from curriculum.packing.read import Footers
from curriculum.train.metrics import read_metrics
from schemas.errors import CurriculumError
polars.thread_pool_size()
READERS = {
    "table": lambda file: parquet.read_table(file),
    "filtered": lambda file: parquet.read_table(file, ["step"], filters=[("step", "!=", None)]),
    "group": lambda file: parquet.File(file).read_row_group(0),
    "batches": lambda file: list(parquet.File(file).iter_batches(1)),
    "frame": lambda file: frames.read(file),
    "scan": lambda file: frames.scan(file, ["step"]).collect(),
    "stream": lambda file: frames.stream(file, ["step"]).collect(),
    "rows": lambda file: Footers().of(file)[0].read(0, ["step"]),
    "other rows": lambda file: Footers(most=0).of(file)[0].read(0, ["step"]),
    "metrics": lambda file: read_metrics(file.parent),
}
how, most, room, *files = sys.argv[1:]
parquet.MOST_BYTES = int(most)
if how == "plain":
    # One of pyarrow's threads that can't be started, or has no memory left, may never answer.
    READERS = {"plain": lambda file: pq.read_table(file, use_threads=False, pre_buffer=False)}
status = Path("/proc/self/status").read_text().splitlines()
there = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (there + int(room),) * 2)
for file, (name, read) in itertools.product(map(Path, files), READERS.items()):
    try:
        read(file)
        found = "read"
    except CurriculumError as refused:
        found = "refused" if str(file) in str(refused) else str(refused)
    except (MemoryError, OSError) as broken:
        found = "broken"
    print(json.dumps([file.parent.name, name, found]))
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
        pa.array([0] * 50_000, pa.int32()), pa.array(["x" * 10_000])
    )
    pq.write_table(pa.table({"step": texts}), file, compression="zstd", store_schema=False)


def _one_long_text_among_others(file: Path) -> None:
    texts = pa.array([*map(str, range(1_000)), "x" * 10_000])
    chosen = pa.DictionaryArray.from_arrays(
        pa.array([*range(1_001), *[1_000] * 50_000], pa.int32()), texts
    )
    pq.write_table(pa.table({"step": chosen}), file, compression="zstd", store_schema=False)


def _one_long_text_in_one_list(file: Path) -> None:
    texts = pa.array(["x" * 10_000] * 50_000)
    table = pa.table({"step": pa.ListArray.from_arrays(pa.array([0, 50_000], pa.int32()), texts)})
    pq.write_table(table, file, compression="zstd", store_schema=False)


def _repeated_texts(file: Path) -> None:
    table = pa.table({"step": pa.array(["x" * 10_000] * 50_000)})
    pq.write_table(
        table,
        file,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"step": "DELTA_BYTE_ARRAY"},
    )


def _repeated_texts_in_one_list(file: Path) -> None:
    texts = pa.array(["x" * 10_000] * 50_000)
    table = pa.table({"step": pa.ListArray.from_arrays(pa.array([0, 50_000], pa.int32()), texts)})
    pq.write_table(
        table,
        file,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"step.list.element": "DELTA_BYTE_ARRAY"},
    )


def _one_long_list(file: Path) -> None:
    values = pa.array(np.zeros(2 * LINES, np.int32))
    table = pa.table({"step": pa.LargeListArray.from_arrays(pa.array([0, 2 * LINES]), values)})
    pq.write_table(table, file, compression="zstd", store_schema=False)


BOMBS: dict[str, Callable[[Path], None]] = {
    "runs_of_one_value": _runs_of_one_value,
    "packed_page": _packed_page,
    "one_long_text": _one_long_text,
    "one_long_text_among_others": _one_long_text_among_others,
    "one_long_text_in_one_list": _one_long_text_in_one_list,
    "repeated_texts": _repeated_texts,
    "repeated_texts_in_one_list": _repeated_texts_in_one_list,
    "one_long_list": _one_long_list,
}


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("bombs")
    files = [folder / name / "part-00000.parquet" for name in BOMBS]
    for file, write in zip(files, BOMBS.values(), strict=True):
        file.parent.mkdir()
        write(file)
    return files


def _read(how: str, files: list[Path], *, most: int, room: int) -> list[tuple[str, str, str]]:
    """By bomb and reader, how it ended in a process of little memory."""
    done = subprocess.run(
        [sys.executable, "-c", READS, how, str(most), str(room), *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_each_reader_refuses_a_small_file_that_decodes_to_more_than_it_may(
    bombs: list[Path],
) -> None:
    assert max(file.stat().st_size for file in bombs) < 1 << 20
    found = _read("bounded", bombs, most=MAX_BYTES, room=MAX_ROOM)
    assert len(found) == 10 * len(BOMBS)
    assert [each for each in found if each[2] != "refused"] == []


def test_without_a_bound_each_of_those_files_takes_all_memory(bombs: list[Path]) -> None:
    found = _read("plain", bombs, most=MAX_BYTES, room=MAX_ROOM)
    assert found == [(name, "plain", "broken") for name in BOMBS]


@pytest.mark.slow
def test_a_gigabyte_in_some_kilobytes_is_refused_within_half_of_it(tmp_path: Path) -> None:
    file = tmp_path / "one" / "part-00000.parquet"
    file.parent.mkdir()
    zeros = pa.array(np.zeros(1 << 26, np.int64))
    three = pa.StructArray.from_arrays([zeros] * 3, ["a", "b", "c"])
    pq.write_table(pa.table({"step": three}), file, compression="zstd", row_group_size=len(three))
    found = _read("bounded", [file], most=parquet.MOST_BYTES, room=1 << 29)
    assert {how for _, _, how in found} == {"refused"}
    assert _read("plain", [file], most=0, room=1 << 29) == [("one", "plain", "broken")]


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
    length = 12 << 20
    file.write_bytes(b"PAR1" + bytes(length) + length.to_bytes(4, "little") + b"PAR1")
    with pytest.raises(StoreError, match="a footer of 12,582,912 bytes"):
        parquet.read_schema(file)


def _page(*fields: tuple[int, Field], values: int = 1, encoding: int = 0) -> bytes:
    own = _struct([(1, _number(values)), (2, _number(encoding)), (3, _number(3)), (4, _number(3))])
    sizes = [(1, _number(0)), (2, _number(4)), (3, _number(4))]
    return _struct([*sizes, (5, own), *fields])[1] + bytes(4)


def _dictionary(values: int) -> bytes:
    own = _struct([(1, _number(values)), (2, _number(0))])
    return _struct([(1, _number(2)), (2, _number(4)), (3, _number(4)), (7, own)])[1] + bytes(4)


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
        (_page() + _dictionary(1), "behind"),
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


def test_values_that_only_the_header_of_a_dictionary_claims_count(tmp_path: Path) -> None:
    file = tmp_path / "pages"
    file.write_bytes(_dictionary(1 << 30) + _page(encoding=8))
    with file.open("rb") as opened:
        pages = list(page_headers.pages_of(opened.fileno(), 0, file.stat().st_size))
    assert [each.values for each in pages] == [1 << 30, 1]
    assert [each.by_dictionary for each in pages] == [False, True]


def test_files_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / f"part-{number:05d}.parquet" for number in range(4)]
    for file in files:
        pq.write_table(pa.table({"step": np.zeros(1 << 20, np.int64)}), file)
    monkeypatch.setattr(parquet, "MOST_BYTES", 40 << 20)
    assert parquet.read_table(files[:2]).num_rows == 2 << 20
    with pytest.raises(StoreError, match=r"more than 40 MiB"):
        parquet.read_table(files)
    with parquet.File(files[0]) as opened, pytest.raises(NotImplementedError, match="one group"):
        opened.read()


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
                assert 0 < opened.size(exact=True) <= opened.size()
                assert (
                    opened.read_row_group(0, ["t"]).to_pylist() == table.select(["t"]).to_pylist()
                )
    assert parquet.read_table([file, file], ["n"])["n"].to_pylist() == [3, 1, None] * 2


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
