"""More shards than a process may open, or than fit into memory with all of their footers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

Written = Any
READS = """
import json, os, random, resource, sys
from pathlib import Path
from curriculum.packing.read import RowReader

files, limit = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
reader = RowReader([Path(each) for each in files])
order = [*range(len(files))] * 2
random.Random(3).shuffle(order)
most = 0
for shard in order:
    last = reader.num_rows(shard) - 1
    row = reader.row(shard, last)
    assert int((row.doc_ids[0] >= 0).sum()) > 0
    most = max(most, len(os.listdir("/proc/self/fd")))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"descriptors": most, "kilobytes": peak}))
"""


def linked(written: Written, folder: Path, number: int) -> list[Path]:
    """So many shards, of few contents."""
    contents = sorted(written.folder.glob("data/part-*.parquet"))
    folder.mkdir()
    files = [folder / f"part-{each:05d}.parquet" for each in range(number)]
    for at, file in enumerate(files):
        os.link(contents[at % len(contents)], file)
    return files


def read_at_random(files: list[Path], folder: Path, limit: int) -> dict[str, int]:
    """Return what a new process with `limit` descriptors needs to read a row of each file twice."""
    listed = folder / "files.json"
    listed.write_text(json.dumps([str(file) for file in files]))
    done = subprocess.run(
        [sys.executable, "-c", READS, str(listed), str(limit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_a_reader_opens_fewer_files_than_there_are_shards(written: Written, tmp_path: Path) -> None:
    files = linked(written, tmp_path / "many", 400)
    assert read_at_random(files, tmp_path, 256)["descriptors"] <= 256


@pytest.mark.slow
def test_ten_thousand_shards_take_256_descriptors_and_a_gigabyte_at_most(
    written: Written, tmp_path: Path
) -> None:
    files = linked(written, tmp_path / "many", 10_000)
    found = read_at_random(files, tmp_path, 4096)
    assert found["descriptors"] <= 256
    assert found["kilobytes"] <= 1_000_000
