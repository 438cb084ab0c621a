"""Seconds of CPU that short commands take, from the shell's prompt to the shell's prompt.

User and system time of the whole process tree, the median of five calls after one that warms what is kept:
compiled modules, files, the catalog's tables. The workspace is one that a demo left, or any other.

    python benchmarks/startup.py workspace
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
"""The seconds that each may take."""


def main() -> None:
    """Print a line a command; end with 1 where one takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path, nargs="?", default=Path("workspace"))
    home = parser.parse_args().workspace.absolute()
    if not (home / "workspace.json").is_file():
        print(f"{home} is no workspace: make demo leaves one")
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians of {TIMES}")
    late = [words for words, most in COMMANDS.items() if _print_time(words, home) > most]
    sys.exit(1 if late else 0)


def _print_time(words: tuple[str, ...], home: Path) -> float:
    """Print and return the seconds that a command takes."""
    _cpu_of(words, home)
    taken = median(_cpu_of(words, home) for _ in range(TIMES))
    print(f"{taken:5.2f} s of {COMMANDS[words]:.1f}  curriculum {' '.join(words)}")
    return taken


def _cpu_of(words: tuple[str, ...], home: Path) -> float:
    """Seconds of a core that a command and its children use."""
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
