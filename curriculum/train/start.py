"""Several ranks of one job on this machine, in the process group of whoever starts them.

torchrun does it too (`torchrun --nproc-per-node 2 -m curriculum.train job.json`), and on several machines.
It starts each rank in a session of its own, where the end of a process group doesn't reach, and returns
1 for whatever exit code of a rank; so it isn't what a run is started by.
"""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from curriculum.train.exits import CANCELLED, FAILED

GRACE_SECONDS = 10.0
"""For the other ranks when one has failed: they may be at the same error, or waiting for it in vain."""
_POLL_SECONDS = 0.05
Rank = subprocess.Popen[bytes]


def start_ranks(
    command: Sequence[str],
    processes: int,
    environment: dict[str, str],
    asked_to_stop: Callable[[], bool],
) -> int:
    """Run `command` once for each rank, with what tells it its place, until all have ended.

    Returns 0 or 75 where all ranks ended so; else 1, and what ended them is the last line written. A
    stop that is asked for is passed on to each rank.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        meet = (Path(folder) / "meet").as_uri()
        places = [
            ["--rank", str(rank), "--of", str(processes), "--meet", meet]
            for rank in range(processes)
        ]
        # What is inherited here is inherited there: the slot is taken as long as a rank lives.
        ranks = [
            subprocess.Popen([*command, *each], env=environment, close_fds=False) for each in places
        ]
        try:
            _until_the_end(ranks, asked_to_stop)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    return _code([rank.returncode for rank in ranks])


def _until_the_end(ranks: Sequence[Rank], asked_to_stop: Callable[[], bool]) -> None:
    """Wait for all, or for a while once one has failed."""
    told, failed_at = False, 0.0
    while None in (codes := [rank.poll() for rank in ranks]):
        if asked_to_stop() and not told:
            told = True
            for rank in ranks:
                rank.send_signal(signal.SIGTERM)
        if not set(codes) <= {None, 0, CANCELLED}:
            failed_at = failed_at or time.monotonic()
            if time.monotonic() - failed_at > GRACE_SECONDS:
                return
        time.sleep(_POLL_SECONDS)


def _code(codes: Sequence[int]) -> int:
    """What a process that trained alone would have returned."""
    if set(codes) <= {0, CANCELLED}:
        return max(codes)
    ended = (f"rank {rank} by {_words(code)}" for rank, code in enumerate(codes))
    sys.stderr.write(f"ranks ended: {', '.join(ended)}\n")
    return FAILED


def _words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
