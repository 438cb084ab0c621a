"""Processes that meet as ranks over gloo, for tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def results_of_ranks(module: str, ranks: int, folder: Path, *, seconds: int = 300) -> Any:
    """Run `python -m MODULE RANK MEET OUT` once for each rank; return the JSON that rank 0 writes to OUT.

    Every process must end with exit code 0 in time.
    """
    meet, out = (folder / "meet").as_uri(), folder / "out.json"
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(rank), meet, str(out)], env=environment, cwd=ROOT
        )
        for rank in range(ranks)
    ]
    try:
        codes = [process.wait(timeout=seconds) for process in processes]
        assert codes == [0] * ranks
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return json.loads(out.read_text())
