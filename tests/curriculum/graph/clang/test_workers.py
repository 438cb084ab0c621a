"""A unit that hangs or kills its worker costs itself alone, and no interrupt leaves a process behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from curriculum.graph.clang import GraphSnapshot, index_tree
from curriculum.workers import pool as workers_module
from schemas.progress import Progress, ProgressCallback, ignore_progress
from schemas.reports import IndexReport
from tests.curriculum.graph.clang.conftest import write_tree

pytestmark = [pytest.mark.system, pytest.mark.clang]
PATIENCE_S = 120.0
"""Less than what a unit may take: who waits for the unit that hangs is late."""

SOUND = {
    "include/a.h": "inline int one() { return 1; }\n",
    "a.cpp": '#include "a.h"\nint two() { return one(); }\n',
    "b.cpp": '#include "a.h"\nint three() { return one(); }\n',
    "c.cpp": '#include "a.h"\nint four() { return one(); }\n',
}
HUNG = {**SOUND, "b2.cpp": '#include "pipe.h"\nint never() { return 1; }\n'}
"""Whoever opens a pipe that nobody writes to waits: a unit that hangs, without a trick in the code."""


def index(
    folder: Path,
    files: dict[str, str],
    *,
    workers: int = 2,
    limit: float = 300.0,
    watch: ProgressCallback = ignore_progress,
    pipe: bool = True,
) -> tuple[IndexReport, dict[str, bytes]]:
    """The report of an index, and its tables as bytes."""
    root, out = folder / "tree", folder / "index"
    database = write_tree(root, files)
    if "b2.cpp" in files and pipe:
        os.mkfifo(root / "include" / "pipe.h")
    out.mkdir()
    report = index_tree(
        root, database, out, original=None, workers=workers, limit_seconds=limit, watch=watch
    )
    return report, {file.name: file.read_bytes() for file in out.glob("*.parquet")}


def test_a_unit_that_hangs_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sound", "hung"):
        (tmp_path / name).mkdir()
    sound, tables = index(tmp_path / "sound", SOUND)
    ahead = [0.0]

    def let_time_pass(progress: Progress) -> None:
        """An hour, when all but one unit are done: however slow the machine is, no other is late."""
        ahead[0] = 3600.0 * (progress.done == len(HUNG) - 2)

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0], sleep=time.sleep)
    monkeypatch.setattr(workers_module, "time", clock)
    hung, others = index(tmp_path / "hung", HUNG, limit=1200.0, watch=let_time_pass)
    assert others == tables
    (problem,) = hung.problems
    assert (problem.path, problem.outcome) == ("b2.cpp", "timed out")
    assert "1200 s" in problem.reason
    assert (hung.indexed, hung.timed_out) == (3, 1)
    lost = {"database": hung.database, "timed_out": 1, "problems": hung.problems}
    assert hung == sound.model_copy(update=lost)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_tree_whose_units_are_over_their_time_too_often_is_given_up_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """The same bytes, whichever units were done by then."""
    monkeypatch.setattr(workers_module, "_START_SECONDS", 5)
    names = [f"{name}.cpp" for name in "abcde"]
    sound = {"include/a.h": "", **dict.fromkeys(names, "int one() { return 1; }\n")}
    hung = dict.fromkeys(("b2.cpp", "c2.cpp", "d2.cpp"), HUNG["b2.cpp"])
    report, tables = index(tmp_path, {**sound, **hung}, workers=workers, limit=1.0)
    assert (report.indexed, report.timed_out) == (0, 8)
    assert {problem.path for problem in report.problems} == {*names, *hung}
    assert len({problem.reason for problem in report.problems}) == 1
    found = GraphSnapshot.open(tmp_path / "index")
    assert (found.functions, found.includes) == ((), ())
    assert len(tables) == 4


def test_a_worker_that_is_killed_costs_its_unit_alone(tmp_path: Path) -> None:
    for name in ("sound", "killed"):
        (tmp_path / name).mkdir()
    _, tables = index(tmp_path / "sound", SOUND)
    before = set(workers_of(os.getpid()))

    def kill_the_last(progress: Progress) -> None:
        """Kill who is still at work when all but one unit are done."""
        if progress.done == len(HUNG) - 2:
            (last,) = set(workers_of(os.getpid())) - before
            last.kill()

    killed, others = index(tmp_path / "killed", HUNG, watch=kill_the_last)
    assert others == tables
    (problem,) = killed.problems
    assert (problem.path, problem.outcome) == ("b2.cpp", "crashed")
    assert "SIGKILL" in problem.reason


def workers_of(parent: int) -> Iterator[psutil.Process]:
    for child in psutil.Process(parent).children(recursive=True):
        try:
            if "sandboxed_worker" in " ".join(child.cmdline()):
                yield child
        except psutil.Error:
            continue


@pytest.mark.parametrize("way", ["crash", "llvm_fatal_error"])
def test_a_crash_of_the_frontend_costs_its_unit_alone(tmp_path: Path, way: str) -> None:
    for name in ("sound", "crashed"):
        (tmp_path / name).mkdir()
    _, tables = index(tmp_path / "sound", SOUND)
    crash = {**SOUND, "b2.cpp": f"int lost();\n#pragma clang __debug {way}\n"}
    crashed, others = index(tmp_path / "crashed", crash, pipe=False)
    assert others == tables
    (problem,) = crashed.problems
    assert (problem.path, problem.outcome) == ("b2.cpp", "crashed")
    assert "worker" in problem.reason


@pytest.mark.parametrize("order", ["first", "last", "all"])
def test_an_entry_that_crashes_leaves_the_other_entries_of_its_file(
    tmp_path: Path, order: str
) -> None:
    """The file has three entries: one with -DCRASH, and one with an undeclared name."""
    text = "#ifdef CRASH\n#pragma clang __debug crash\n#endif\nint lost() { return LIMIT; }\n"
    root, out = tmp_path / "tree", tmp_path / "index"
    database = write_tree(root, {**SOUND, "b2.cpp": text})
    (entry,) = (entry for entry in json.loads(database.read_text()) if entry["file"] == "b2.cpp")
    flags = {"first": ("-DCRASH", "", "-DLIMIT=3"), "last": ("", "-DLIMIT=3", "-DCRASH")}
    several = [
        {**entry, "command": f"c++ -Iinclude {flag} -c b2.cpp"}
        for flag in flags.get(order, ("-DCRASH", "-DCRASH=2", "-DCRASH=3"))
    ]
    others = [entry for entry in json.loads(database.read_text()) if entry["file"] != "b2.cpp"]
    database.write_text(json.dumps([*others, *several]))
    out.mkdir()
    report = index_tree(root, database, out, original=None, workers=2)
    names = {function.name for function in GraphSnapshot.open(out).functions}
    assert report.database.duplicates == 2
    if order == "all":
        assert [problem.outcome for problem in report.problems] == ["crashed"]
        assert "lost" not in names
    else:
        assert (report.indexed, report.crashed, report.replaced) == (4, 0, ("b2.cpp",))
        assert "lost" in names


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, workers: int) -> None:
    for name in ("one", "several"):
        (tmp_path / name).mkdir()
    _, expected = index(tmp_path / "one", SOUND, workers=1)
    _, found = index(tmp_path / "several", SOUND, workers=workers)
    assert len(expected) == 4
    assert found == expected


def test_progress_counts_every_unit_and_names_what_was_lost(tmp_path: Path) -> None:
    told: list[Progress] = []
    root, out = tmp_path / "tree", tmp_path / "index"
    database = write_tree(root, {**SOUND, "bad.cpp": "int f() { return absent; }\n"})
    out.mkdir()
    index_tree(root, database, out, original=None, workers=2, watch=told.append)
    assert [progress.done for progress in told] == [1, 2, 3, 4]
    assert {progress.total for progress in told} == {4}
    assert {progress.item for progress in told} == {"a.cpp", "b.cpp", "bad.cpp", "c.cpp"}
    assert told[-1].note == "1 partial"


def test_an_interrupt_ends_all_workers_at_once(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    database = write_tree(root, HUNG)
    os.mkfifo(root / "include" / "pipe.h")
    script = tmp_path / "index.py"
    script.write_text(
        "import signal, sys\nfrom pathlib import Path\nfrom curriculum.graph.clang import index_tree\n"
        "if __name__ == '__main__':\n"
        # Who runs in the background of a script is born deaf to interrupts.
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    print('ready', flush=True)\n"
        f"    index_tree(Path({str(root)!r}), Path({str(database)!r}), Path({str(tmp_path)!r}),\n"
        "        original=None, workers=2, watch=lambda each: print(each.done, flush=True))\n"
    )
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=Path(__file__).parents[4],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert "3" in (line.strip() for line in process.stdout)
            workers = list(workers_of(process.pid))
            assert workers
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) != 0
        finally:
            process.kill()
    assert (tmp_path / "errors").read_text().count("Traceback") <= 1
    assert psutil.wait_procs(workers, timeout=PATIENCE_S)[1] == []


def test_reading_needs_nothing_that_making_needs(tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    index(tmp_path / "sound", SOUND)
    code = (
        "import sys\nsys.modules['clang'] = None\n"
        "from pathlib import Path\nfrom curriculum.graph.clang import GraphSnapshot, missing\n"
        f"snapshot = GraphSnapshot.open(Path({str(tmp_path / 'sound' / 'index')!r}))\n"
        "print(len(snapshot.functions), missing())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[4],
    )
    assert done.stdout.split(maxsplit=1)[0] == "4"
    assert "isn't installed" in done.stdout
    assert len(GraphSnapshot.open(tmp_path / "sound" / "index").functions) == 4
