"""A reader of Parquet without a door, in a process of little memory: bombs break it."""

import os
import subprocess
import sys
from pathlib import Path

_READ = """
import resource, sys
from pathlib import Path
import pyarrow.parquet as pq
status = Path("/proc/self/status").read_text().splitlines()
there = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (there + int(sys.argv[1]),) * 2)
try:
    # One of pyarrow's threads that can't be started, or has no memory left, may never answer.
    table = pq.read_table(sys.argv[2], use_threads=False, pre_buffer=False)
    for column in table.columns:
        column.chunk(0).dictionary_decode() if "dictionary" in str(column.type) else None
    print("read")
except (MemoryError, OSError):
    print("broken")
"""


def breaks_a_plain_reader(file: Path, *, room: int) -> bool:
    """Return True where a file takes more than `room` bytes of address space as it is read whole."""
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(room), str(file)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return {"broken\n": True, "read\n": False}[done.stdout]
