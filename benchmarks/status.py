"""Time to report which of 1,000 artefacts are stale.

Builds the rows of the demo's diet over many copies of its sample, two commits each, unless they are there;
then holds all of it against diet and corpus: in a process of its own, as a person does, and in a warm one.

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

from curriculum.corpus.load import SAMPLES, sample_names
from curriculum.pipeline.context import Context
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phases

DIET = "templates.demo"
TIMES = 5
SMALL = ["--max-commits", "2", "--versions-per-path", "1"]


def main() -> None:
    """Print a line a question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repositories", type=int, default=70)
    options = parser.parse_args()
    home, corpus = options.folder / "workspace", _corpus(options.folder, options.repositories)
    words = ["build", DIET, "--home", str(home), "--corpus", str(corpus), *SMALL]
    _command(*words, quiet=False)
    order = RunConfig.of(
        specialist=DIET, workspace=home, corpus=str(corpus), max_commits=2, versions_per_path=1
    )
    print(f"{_checked(order):,} artefacts, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    _print_time("build --dry-run, a process of its own", lambda: _command(*words, "--dry-run"))
    _print_time("the same in a warm process", lambda: _checked(order))
    _print_time("status", lambda: _command("status", "--home", str(home)))
    _print_time("--help", lambda: _command("--help"))


def _checked(order: RunConfig) -> int:
    """Number of artefacts that are up to date with diet and corpus; all must be."""
    plan = resolve_plan(order, dry=True)
    build_phases(plan, [each.name for each in plan.phases], Context())
    keys = {step.recipe.key: step.outcome for step in plan.store.steps}
    assert {*keys.values()} == {"there"}, "something is stale"
    return len(keys)


def _corpus(folder: Path, number: int) -> Path:
    """A corpus of so many repositories: copies of the sample's, each by a name of its own."""
    names = sample_names()
    lines = ["name: copies"]
    lines += ["repositories:"]
    for at in range(number):
        bundle = SAMPLES / f"{names[at % len(names)]}.bundle"
        lines += [f"  - {{name: copy{at}, path: {bundle}, licence: Apache-2.0}}"]
    lines += ["files: [cpp, c, cmake, make]", "val_fraction: 0.05"]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "corpus.yaml"
    file.write_text("\n".join(lines) + "\n")
    return file


def _command(*words: str, quiet: bool = True) -> None:
    command = [sys.executable, "-m", "flows.cli", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL if quiet else None)


def _print_time(title: str, ask: Callable[[], object]) -> None:
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


if __name__ == "__main__":
    main()
