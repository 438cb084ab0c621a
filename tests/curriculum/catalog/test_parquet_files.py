"""A Parquet file of some kilobytes that holds gigabytes is refused by its name, in little memory."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.catalog import CatalogError, parquet_files, query
from curriculum.store import Store
from schemas.job import METRICS_SCHEMA
from tests.curriculum.catalog.test_snapshot import _job

MAX_KIB = 900 << 10
"""Of a process that reads, libraries and all; each of the files takes more than that."""
LINES = 64 << 20


def _runs_of_one_value(file: Path) -> None:
    part = pa.table({"step": np.zeros(LINES // 4, np.int64)})
    with pq.ParquetWriter(file, part.schema, compression="zstd") as writer:
        for _ in range(8):
            writer.write_table(part, row_group_size=len(part))


def _packed_pages(file: Path) -> None:
    most = 1 << 30
    table = pa.table({"step": np.zeros(LINES * 2, np.int64)})
    pq.write_table(
        table,
        file,
        compression="zstd",
        use_dictionary=False,
        data_page_size=most,
        write_batch_size=most,
        max_rows_per_page=most,
        row_group_size=len(table),
    )


def _one_long_text(file: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 100_000, pa.int32()), pa.array(["x" * 1_000_000])
    )
    pq.write_table(pa.table({"step": texts}), file, compression="zstd", store_schema=False)


READS = """
import sys
from pathlib import Path
from curriculum.catalog import CatalogError, parquet_files
def most():
    # Not the resource usage, which begins with that of the process before.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
try:
    if sys.argv[1] == "bounded":
        parquet_files.read(Path(sys.argv[2]))
    elif sys.argv[1] == "whole":
        import pyarrow.parquet as pq
        pq.read_table(sys.argv[2])
    else:
        import pyarrow.parquet as pq
        for batch in pq.ParquetFile(sys.argv[2]).iter_batches(1024):
            if most() > int(sys.argv[3]): break
except CatalogError as refused:
    print(refused)
print(most())
"""


def _read(how: str, file: Path) -> tuple[str, int]:
    """What a reader says, and the KiB that it takes at most."""
    done = subprocess.run(
        [sys.executable, "-c", READS, how, str(file), str(MAX_KIB)],
        capture_output=True,
        text=True,
        check=True,
    )
    *said, most = done.stdout.splitlines()
    return "\n".join(said), int(most)


@pytest.mark.parametrize(
    ("bomb", "plainly"),
    [(_runs_of_one_value, "whole"), (_packed_pages, None), (_one_long_text, "in batches")],
)
def test_a_small_file_that_unpacks_to_gigabytes_is_refused(
    tmp_path: Path, bomb: Callable[[Path], None], plainly: str | None
) -> None:
    file = tmp_path / "0000000001.parquet"
    bomb(file)
    assert file.stat().st_size < 1 << 20
    said, most = _read("bounded", file)
    assert str(file) in said
    assert "unpacked" in said
    assert most < MAX_KIB
    if plainly is not None:
        # Reading it in the plain way takes more.
        assert _read(plainly, file)[1] > MAX_KIB


def test_a_file_within_the_limit_comes_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a[b].parquet"
    table = pa.table({"n": [3, 1, None], "t": ["a", "é", None], "l": [[1], [], None]})
    pq.write_table(table, file)
    assert parquet_files.read(file).to_pylist() == table.to_pylist()
    assert parquet_files.read(file, ["t"]).to_pylist() == table.select(["t"]).to_pylist()
    with pytest.raises(CatalogError, match=r"a\[b\]"):
        parquet_files.read(file, most=10)
    (tmp_path / "none.parquet").write_bytes(b"PAR1")
    with pytest.raises(OSError, match="parquet"):
        parquet_files.read(tmp_path / "none.parquet")


def test_metrics_of_an_open_run_that_unpack_to_gigabytes_are_a_problem(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Store(home).open()
    run = home / "runs" / "specialist-s" / "phase-one" / "0123456789ab" / "attempt=1"
    (run / "metrics").mkdir(parents=True)
    (run / "job.json").write_text(_job().model_dump_json())
    honest = pa.Table.from_pylist([dict.fromkeys(METRICS_SCHEMA.names, 1)], schema=METRICS_SCHEMA)
    pq.write_table(honest, run / "metrics" / "0000000001.parquet")
    _runs_of_one_value(run / "metrics" / "0000000002.parquet")
    texts = pa.table({"step": ["no number"]})
    pq.write_table(texts, run / "metrics" / "0000000003.parquet")
    assert query(home, "SELECT count(*) FROM metrics").rows == [(1,)]
    found = query(home, "SELECT path, problem FROM problems ORDER BY path").rows
    (path, problem), (other, _) = found
    assert path.endswith("metrics/0000000002.parquet")
    assert "unpacked" in problem
    assert other.endswith("metrics/0000000003.parquet")
