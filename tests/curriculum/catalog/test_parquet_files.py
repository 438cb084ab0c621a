"""Metrics of open runs that can't be read are a problem, and the others an answer."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.catalog import query
from curriculum.store import Store
from schemas.job import METRICS_SCHEMA
from tests.curriculum.catalog.test_snapshot import _job


def test_metrics_of_an_open_run_that_cant_be_read_are_a_problem(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Store(home).open()
    run = home / "runs" / "specialist-s" / "phase-one" / "0123456789ab" / "attempt=1"
    (run / "metrics").mkdir(parents=True)
    (run / "job.json").write_text(_job().model_dump_json())
    sound = pa.Table.from_pylist([dict.fromkeys(METRICS_SCHEMA.names, 1)], schema=METRICS_SCHEMA)
    first, second, third = (run / "metrics" / f"000000000{number}.parquet" for number in (1, 2, 3))
    pq.write_table(sound, first)
    pq.write_table(sound, second, write_page_checksum=True)
    content = bytearray(second.read_bytes())
    chunk = pq.read_metadata(second).row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start + chunk.total_compressed_size - 1] ^= 1
    second.write_bytes(content)
    pq.write_table(pa.table({"step": ["no number"]}), third)
    assert query(home, "SELECT count(*) FROM metrics").rows == [(1,)]
    found = query(home, "SELECT path, problem FROM problems ORDER BY path").rows
    assert [Path(path).name for path, _ in found] == [second.name, third.name]
