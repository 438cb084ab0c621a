"""`python -m curriculum.leakcheck JOB --report FILE`: prove the steps of a job, as its gate does.

Exit codes: 0 nothing was seen, 1 a leak was seen, 2 the job can't be proven, and the last line says why.
"""

import argparse
import signal
import sys
from pathlib import Path

LEAKS, WRONG = 1, 2


def main() -> int:
    """Prove the job of a file, and write the report."""
    # An interrupt reaches the whole group; the process that started this one handles it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parser = argparse.ArgumentParser(prog="python -m curriculum.leakcheck", description=__doc__)
    parser.add_argument("job", type=Path, help="the job.json in a run's directory")
    parser.add_argument("--report", type=Path, required=True, help="file for the report, as JSON")
    arguments = parser.parse_args()
    from curriculum.leakcheck.proof import prove_file
    from schemas.errors import CurriculumError

    try:
        passed = prove_file(arguments.job, arguments.report)
    except CurriculumError as failed:
        sys.stdout.flush()
        sys.stderr.write(f"{type(failed).__name__}: {failed}\n")
        return WRONG
    return 0 if passed else LEAKS


if __name__ == "__main__":
    sys.exit(main())
