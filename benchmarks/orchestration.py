"""Overhead of the Prefect flow, compared with direct calls of the same functions.

    python benchmarks/orchestration.py /tmp/orchestration-benchmark

The script creates a small workspace unless the folder already contains one, starts a server, and runs the
flow once to warm it up. Then it measures direct calls and the flow alternately: first with everything up to
date, then with the last phase trained again.
"""

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from curriculum.pipeline.execute import Scope, execute, run_in_process
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from flows.server.supervisor import api_for
from flows.settings.contexts import context_of
from schemas.progress import ignore_progress

DIET, LAST = "templates.demo", "anneal"
TIMES = 3
MAX_SECONDS, MAX_SHARE = 3.0, 0.03
SMALL: dict[str, int | str] = {"max_commits": 6, "versions_per_path": 1, "token_budget": "60K"}


def main() -> None:
    """Create the workspace and print a line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the workspace; it is kept and reused")
    home = parser.parse_args().folder.absolute() / "workspace"
    config = RunConfig.of(
        specialist=DIET, workspace=home, max_commits=6, versions_per_path=1, token_budget="60K"
    )
    os.environ["CURRICULUM_HOME"] = str(home)
    _create_workspace(home)
    with api_for(home, print):
        # Prefect reads its settings when it is imported.
        from flows.run import run_in_process

        run_in_process(config, Scope(), ignore_progress)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        for title, phase in (("everything up to date", None), (f"{LAST} trained again", LAST)):
            _compare(
                title,
                _call_directly(config, phase),
                partial(run_in_process, config, Scope(phase=phase), ignore_progress),
            )


def _create_workspace(home: Path) -> None:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    command = [sys.executable, "-m", "flows.cli", "train", DIET, "--home", str(home), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _call_directly(config: RunConfig, phase: str | None) -> Callable[[], object]:
    def walk() -> None:
        plan = resolve_plan(config)
        scope, context = Scope(phase=phase, retrain=True), context_of()
        deque(execute(plan, run_in_process(context), scope, context), maxlen=0)

    return walk


def _compare(title: str, directly: Callable[[], object], flow: Callable[[], object]) -> None:
    pairs = [(_spent(directly), _spent(flow)) for _ in range(TIMES)]
    for unit, at in (("s", 0), ("CPU s including the server", 1)):
        alone, through = (median(spent[at] for spent in side) for side in zip(*pairs, strict=True))
        allowed = max(MAX_SECONDS, MAX_SHARE * alone)
        print(
            f"{title}: direct calls {alone:.2f}, flow {through:.2f}, overhead {through - alone:.2f} "
            f"{unit} (limit {allowed:.1f}), medians of {TIMES}",
            flush=True,
        )


def _spent(do: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of `do`, including child processes and the server."""
    began, used = time.perf_counter(), _cpu()
    do()
    return time.perf_counter() - began, _cpu() - used


def _cpu() -> float:
    """Return the CPU seconds of this process and of its ended and running children."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() + ended.ru_utime + ended.ru_stime
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


if __name__ == "__main__":
    main()
