"""`python -m curriculum.train job.json`: train one job in this process.

Exit codes: 0 the job ended by its budget or its gate; 1 it failed, and the last line says why; 2 the
command is wrong; 75 it was asked to stop (SIGTERM, SIGINT), finished its step and left a checkpoint: the
same command goes on from there.
"""

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Read the command, tie this process to its parent's life, and train."""
    arguments = _arguments()
    if arguments.parent is not None:
        _end_with(arguments.parent)
    asked_to_stop = _listen()
    # Threads that wait by spinning slow all work on shared cores; OpenMP reads this when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # torch takes seconds to import; signals and the parent's death are heeded from the start.
    from curriculum.train.exits import CANCELLED
    from curriculum.train.session import run_job
    from schemas.errors import CurriculumError

    try:
        report = run_job(arguments.job, lambda: bool(asked_to_stop))
    except CurriculumError as failed:
        sys.stdout.flush()
        sys.stderr.write(f"{type(failed).__name__}: {failed}\n")
        return 1
    return CANCELLED if report.stopped == "cancelled" else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m curriculum.train", description=__doc__)
    parser.add_argument("job", type=Path, help="the job.json in a run's directory")
    parser.add_argument(
        "--parent", type=int, help="pid of the process whose end also ends this one"
    )
    return parser.parse_args()


def _end_with(parent: int) -> None:
    """Get SIGTERM when the parent dies; leave at once if it already has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(f"process {parent}, which started this job, is gone")


def _listen() -> list[int]:
    """A list that is empty until SIGTERM or SIGINT comes."""
    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda each, _frame: received.append(each))
    return received


if __name__ == "__main__":
    sys.exit(main())
