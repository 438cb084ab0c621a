"""CPU seconds of short commands, including the start of Python.

    python benchmarks/startup.py workspace

The script measures user and system time of a command and its child processes: the median of five calls, after
one call that fills caches. The workspace can be that of the demo or any other. The script exits with 1 if a
command exceeds its limit.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

TIMES = 5
COMMANDS: dict[tuple[str, ...], float] = {
    ("--help",): 0.4,
    ("--version",): 0.4,
    ("query", "SELECT 1"): 0.5,
    ("query", "SELECT family, count(*) FROM rows GROUP BY family"): 0.7,
    ("ls",): 1.0,
    ("status",): 1.5,
}
"""Commands and their limits in CPU seconds."""


def main() -> None:
    """Print a line per command; exit with 1 if a command exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "workspace",
        type=Path,
        nargs="?",
        default=Path("workspace"),
        help="workspace in which the commands run",
    )
    home = parser.parse_args().workspace.absolute()
    if not (home / "workspace.json").is_file():
        print(f"{home} is not a workspace; run `make demo` to create one")
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians of {TIMES}")
    slow = [words for words, limit in COMMANDS.items() if _print_time(words, home) > limit]
    sys.exit(1 if slow else 0)


def _print_time(words: tuple[str, ...], home: Path) -> float:
    """Print and return the median CPU seconds of a command."""
    _cpu_of(words, home)
    taken = median(_cpu_of(words, home) for _ in range(TIMES))
    print(f"{taken:5.2f} s of {COMMANDS[words]:.1f}  curriculum {' '.join(words)}")
    return taken


def _cpu_of(words: tuple[str, ...], home: Path) -> float:
    """Run a command; return the CPU seconds that it and its child processes use."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "flows.cli", *words],
        env={**os.environ, "CURRICULUM_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
