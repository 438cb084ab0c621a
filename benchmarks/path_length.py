"""Functions that run between one commit and one optimizer step, by file, and lines of two short paths.

Builds, mixes and trains one phase of one serving from the newest two commits of one repository (both sides
of the split need one), with one worker and the training job in this same process, and counts the distinct
(file, qualified name) of the four packages that are called meanwhile, in all threads, and while modules are
imported. Dunders, lambdas, comprehensions, bodies of classes and modules, and code that libraries generate
(dataclasses, pydantic) aren't counted.

    python benchmarks/path_length.py           the numbers
    python benchmarks/path_length.py --list    each function, too

The first version, at 6b19109: 1314 functions in 203 files.

The two paths are the first row that an open plan gives, and a question to a catalog that was asked before.
Of them the lines of code of each function that is entered are counted, once. Limits: 300 lines and 1,150.

Only `walk`, `short_paths` and `bundle` name what they need of the packages, and JOB the module of the
training job: a later version changes them there.
"""

import argparse
import contextlib
import inspect
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import schemas

PACKAGES = ("schemas", "curriculum", "flows", "dashboards")
JOB = "curriculum.train"
"""The module that a training job runs, as `python -m`."""
PHASE = "syntax"
CORPUS = """
name: small
repositories: [{{name: ringlog, path: {bundle}, licence: Apache-2.0, max_commits: 2}}]
files: [cpp, c, cmake, make]
val_fraction: 0.1
"""
DIET = """
specialist: small
phases_file: phases.demo
corpus: {corpus}
vocab_size: 400
model: tiny
token_budget: 512
tokens_per_step: 512
phases:
  - phase: syntax
    portion: 1
    servings: [{{family: v3_simple, share: 1}}]
    max_repetition: 20
"""


def walk(diet: Path, home: Path) -> int:
    """Build, mix and train the diet's phase; the steps that were done."""
    from curriculum.pipeline import Pipeline
    from curriculum.pipeline.run_config import CorpusConfig

    (run,) = Pipeline(home).train(str(diet), phase=PHASE, corpus=CorpusConfig(workers=1))
    return int(json.loads((run.path / "report.json").read_text())["steps"])


def short_paths(home: Path) -> dict[str, Callable[[], object]]:
    """Reading a training row, and asking a question, in a workspace that has a run."""
    from curriculum.catalog import query
    from curriculum.train.dataloader import PlannedRows
    from curriculum.train.run_directory import read_job

    (job,) = home.glob("runs/**/job.json")
    rows = PlannedRows.from_job(read_job(job), home)
    sql = "SELECT family, count(*) FROM rows GROUP BY family"
    query(home, sql)
    return {"row": lambda: rows[0], "query": lambda: query(home, sql)}


def bundle() -> Path:
    """The repository: a bundle that is shipped."""
    from curriculum.corpus.load import SAMPLES

    return SAMPLES / "ringlog.bundle"


def called(do: Callable[[], object]) -> list[tuple[str, str]]:
    """The functions of the packages that are called meanwhile: (file, qualified name), sorted."""
    return sorted({named for code in entered(do) if (named := _named(code)) is not None})


def lines_of(do: Callable[[], object]) -> int:
    """Lines of code of all that is entered meanwhile in the packages, each counted once."""
    folders = tuple(f"{Path(schemas.__file__).parents[1] / package}/" for package in PACKAGES)
    codes = [code for code in entered(do) if code.co_filename.startswith(folders)]
    return sum(len({line for _, _, line in code.co_lines() if line}) for code in codes)


def entered(do: Callable[[], object]) -> set[CodeType]:
    """Everything that is called meanwhile, in all threads."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return codes


def _named(code: CodeType) -> tuple[str, str] | None:
    if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name.startswith(("<", "__")):
        return None
    root, file = Path(schemas.__file__).parents[1], Path(code.co_filename)
    if not any(file.is_relative_to(root / package) for package in PACKAGES):
        return None
    return file.relative_to(root).as_posix(), code.co_qualname


class _Popen(subprocess.Popen[Any]):
    """A process; but a training job runs in this one as soon as it is started, and has ended then."""

    def __init__(self, command: Any, *given: Any, **named: Any) -> None:
        if JOB not in command:
            super().__init__(command, *given, **named)
            return
        words = list(command[command.index(JOB) + 1 :])
        if "--parent" in words:  # The job would end with that process, and this one is its parent.
            at = words.index("--parent")
            del words[at : at + 2]
        self._child_created = False
        self.pid, self.returncode = os.getpid(), _run(words, named["stdout"].fileno())


def _run(words: Sequence[str], output: int) -> int:
    """Run the job's module with these arguments; its exit code."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    arguments, sys.argv = sys.argv, [JOB, *words]
    try:
        with os.fdopen(os.dup(output), "w") as log, contextlib.redirect_stdout(log):
            runpy.run_module(JOB, run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.argv = arguments
        for number, handler in kept.items():
            signal.signal(number, handler)
    return 0


@contextlib.contextmanager
def jobs_in_this_process() -> Iterator[None]:
    """Run training jobs here instead of in processes of their own; all others start as ever."""
    started = subprocess.Popen
    subprocess.Popen = _Popen  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        subprocess.Popen = started  # type: ignore[misc]


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true")
    listed = parser.parse_args().list
    with tempfile.TemporaryDirectory() as folder, jobs_in_this_process():
        found = measured(Path(folder))
        lines = {name: lines_of(do) for name, do in short_paths(Path(folder) / "home").items()}
    if listed:
        for file, name in found:
            print(f"{file} {name}")
    print(f"{len(found)} functions in {len({file for file, _ in found})} files")
    print(", ".join(f"a {name}: {number:,} lines" for name, number in lines.items()))


def measured(folder: Path) -> list[tuple[str, str]]:
    """The functions on the way, with a corpus, a diet and a workspace in a folder."""
    corpus, diet = folder / "corpus.yaml", folder / "small.yaml"
    corpus.write_text(CORPUS.format(bundle=json.dumps(str(bundle()))))
    diet.write_text(DIET.format(corpus=json.dumps(str(corpus))))
    steps: list[int] = []
    found = called(lambda: steps.append(walk(diet, folder / "home")))
    assert steps == [1], f"{steps} steps"
    return found


if __name__ == "__main__":
    main()
