"""`.ci/run` tolerates a few tests that fail in parallel and pass when run alone, and lists them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CACHE = ".pytest_cache/v/cache"
SUITES = ("test", "test-system")


def run(
    folder: Path, failed: list[str], *, suites: tuple[str, ...] = SUITES[:1], rerun: int = 0
) -> "subprocess.CompletedProcess[str]":
    """Run the script where `make` of some suites fails with these tests; the rerun ends with a code."""
    stubs = folder / "stubs"
    for directory in (stubs, folder / ".ci", folder / ".venv/bin"):
        directory.mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    (folder / "failed.json").write_text(json.dumps(dict.fromkeys(failed, True)))
    (folder / ".venv/bin/python").symlink_to(sys.executable)
    make = (
        f"case $1 in {'|'.join(suites)}) ;; *) exit 0;; esac\n"
        f"mkdir -p {CACHE}\ncp failed.json {CACHE}/lastfailed\nexit {int(bool(failed))}\n"
    )
    bodies = {
        stubs / "make": make,
        stubs / "apt-get": "exit 0\n",
        folder / ".venv/bin/pytest": f"exit {rerun}\n",
    }
    for file, body in bodies.items():
        file.write_text(f"#!/bin/sh\n{body}")
        file.chmod(0o755)
    return subprocess.run(
        ["bash", str(folder / ".ci/run")],
        env={**os.environ, "PATH": f"{stubs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("count", "code"), [(1, 0), (3, 0), (4, 1)])
def test_more_than_three_that_pass_only_alone_fail_the_run(
    tmp_path: Path, count: int, code: int
) -> None:
    names = [f"tests/test_a.py::test_{number}" for number in range(count)]
    done = run(tmp_path, names)
    assert done.returncode == code, done.stderr
    assert f"passed only when run alone: {count} (limit 3)" in done.stdout
    assert done.stdout.splitlines()[-count:] == names


def test_those_of_both_suites_count_together(tmp_path: Path) -> None:
    names = ["tests/test_a.py::test_0", "tests/test_a.py::test_1"]
    done = run(tmp_path, names, suites=SUITES)
    assert done.returncode == 1
    assert "passed only when run alone: 4 (limit 3)" in done.stdout


@pytest.mark.parametrize("suite", SUITES)
def test_what_fails_alone_too_fails_the_run(tmp_path: Path, suite: str) -> None:
    done = run(tmp_path, ["tests/test_a.py::test_0"], suites=(suite,), rerun=1)
    assert done.returncode == 1


def test_a_demo_that_fails_beside_the_tests_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, ["tests/test_a.py::test_0"], suites=("demo",))
    assert done.returncode == 1


def test_a_run_in_which_nothing_fails_says_nothing_of_it(tmp_path: Path) -> None:
    done = run(tmp_path, [])
    assert (done.returncode, done.stdout) == (0, "")
