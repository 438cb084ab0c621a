"""Time to find out which of 1,000 artefacts are outdated.

    python benchmarks/status.py /tmp/status-benchmark

The script builds the rows of the demo's diet for many copies of the sample repositories, unless the folder
already contains them. Then it measures how long the comparison of all artefacts with diet and corpus takes,
as a command in a new process and as a call in a warm process, and the time of two other commands.
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
    """Build the workspace and print a line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the workspace; it is kept and reused")
    parser.add_argument("--repositories", type=int, default=70, help="copies of the samples")
    options = parser.parse_args()
    home, corpus = options.folder / "workspace", _corpus(options.folder, options.repositories)
    words = ["build", DIET, "--home", str(home), "--corpus", str(corpus), *SMALL]
    _command(*words, quiet=False)
    config = RunConfig.of(
        specialist=DIET, workspace=home, corpus=str(corpus), max_commits=2, versions_per_path=1
    )
    print(
        f"{_count_artefacts(config):,} artefacts, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    _print_time("build --dry-run in a new process", lambda: _command(*words, "--dry-run"))
    _print_time("the same in a warm process", lambda: _count_artefacts(config))
    _print_time("status", lambda: _command("status", "--home", str(home)))
    _print_time("--help", lambda: _command("--help"))


def _count_artefacts(config: RunConfig) -> int:
    """Return the number of artefacts of diet and corpus; all of them must be up to date."""
    plan = resolve_plan(config, dry=True)
    build_phases(plan, [phase.name for phase in plan.phases], Context())
    keys = {step.recipe.key: step.outcome for step in plan.store.steps}
    assert {*keys.values()} == {"there"}, "some artefacts are outdated"
    return len(keys)


def _corpus(folder: Path, number: int) -> Path:
    """Write a corpus of `number` repositories, which are renamed copies of the samples; return its file."""
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
        f"{title}: {min(walls):.2f} s, median of {TIMES} {median(walls):.2f} s; "
        f"{min(busy):.2f} CPU s"
    )


def _cpu() -> float:
    """Return the CPU seconds of this process and of its ended child processes."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
