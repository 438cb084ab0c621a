"""How long does it take to say of 1,000 artefacts what is stale?

Builds, mixes and trains the demo's diet over many copies of its sample, two commits each, unless the
folder holds that already; then asks for the status as a person does, and in a process that is warm.

    python benchmarks/status.py /tmp/status-benchmark
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from curriculum.corpus.sample import SAMPLES, sample_names
from curriculum.store import Store
from flows.status import Status, look

DIET = "templates.demo"
TIMES = 5
SMALL = ["--max-commits", "2", "--versions-per-path", "1", "--token-budget", "60K"]


def main() -> None:
    """Print a line a question."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--repositories", type=int, default=70)
    given = asked.parse_args()
    home = given.folder / "workspace"
    if not home.is_dir():
        _make(home, _corpus(given.folder, given.repositories))
    found = look(Store(home, dry=True))
    artefacts = sum(int(stage["artefacts"]) for stage in found.stages if stage["stage"] != "unused")
    print(f"{artefacts:,} artefacts, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    _tell(
        "curriculum status, a process of its own", lambda: _command("status", "--home", str(home))
    )
    _tell("the same in a warm process", lambda: look(Store(home, dry=True)))
    _tell("curriculum --help", lambda: _command("--help"))
    print(f"phases: {_states(found)}")


def _corpus(folder: Path, number: int) -> Path:
    """A corpus of so many repositories: copies of the sample's, each by a name of its own."""
    names = sample_names()
    lines = ["name: copies"]
    lines += ["repositories:"]
    for at in range(number):
        bundle = SAMPLES / f"{names[at % len(names)]}.bundle"
        lines += [f"  - {{name: copy{at}, path: {bundle}, licence: Apache-2.0}}"]
    lines += ["files: [cpp, c, cmake, make]", "val_fraction: 0.3"]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "corpus.yaml"
    file.write_text("\n".join(lines) + "\n")
    return file


def _make(home: Path, corpus: Path) -> None:
    _command("train", DIET, "--home", str(home), "--corpus", str(corpus), *SMALL, quiet=False)


def _command(*words: str, quiet: bool = True) -> None:
    command = [sys.executable, "-m", "flows.cli", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL if quiet else None)


def _tell(title: str, ask: Callable[[], object]) -> None:
    walls, busy = [], []
    for _ in range(TIMES):
        began, used = time.perf_counter(), _cpu()
        ask()
        walls.append(time.perf_counter() - began)
        busy.append(_cpu() - used)
    print(
        f"{title}: {min(walls):.2f} s, median {median(walls):.2f} s of {TIMES}; "
        f"{min(busy):.2f} s of one core"
    )


def _cpu() -> float:
    """Seconds of a core that this process and those it waited for used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _states(found: Status) -> str:
    return ", ".join(f"{each.phase} {each.state}" for each in found.phases)


if __name__ == "__main__":
    main()
