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

from curriculum.train.exits import CANCELLED, first_of, words_of
from curriculum.workers.spawn import interrupts_held

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

    Returns 0 or 75 where all ranks ended so; else what the first to fail returned, or that it was killed,
    and what ended each is the last line written. A stop that is asked for is passed on to each rank. They
    start with SIGINT and SIGTERM blocked, and let them through when they listen.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        meet = (Path(folder) / "meet").as_uri()
        places = [
            ["--rank", str(rank), "--of", str(processes), "--meet", meet]
            for rank in range(processes)
        ]
        # A stop reaches who only starts, too: it would end him, and the run as one that was killed.
        with interrupts_held(spawns=False, also={signal.SIGTERM}):
            # What is inherited here is inherited there: the slot is taken as long as a rank lives.
            ranks = [
                subprocess.Popen([*command, *each], env=environment, close_fds=False)
                for each in places
            ]
        try:
            first = _until_the_end(ranks, asked_to_stop)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    codes = [rank.returncode for rank in ranks]
    if not first:
        return max(codes)
    ended = (f"rank {rank} by {words_of(code)}" for rank, code in enumerate(codes))
    sys.stderr.write(f"ranks ended: {', '.join(ended)}\n")
    return first_of(first)


def _until_the_end(ranks: Sequence[Rank], asked_to_stop: Callable[[], bool]) -> list[int]:
    """Wait for all, or for a while once one has failed; returns how the first to fail did."""
    told, failed_at, first = False, 0.0, list[int]()
    while True:
        codes = [rank.poll() for rank in ranks]
        if asked_to_stop() and not told:
            told = True
            for rank in ranks:
                rank.send_signal(signal.SIGTERM)
        if not first:
            first = [code for code in codes if code not in (None, 0, CANCELLED)]
            failed_at = time.monotonic()
        if None not in codes or (first and time.monotonic() - failed_at > GRACE_SECONDS):
            return first
        time.sleep(_POLL_SECONDS)
