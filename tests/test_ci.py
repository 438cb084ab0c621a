"""`.ci/run` lets few tests through that fail beside others and pass alone, and names them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CACHE = ".pytest_cache/v/cache"
MAKE = f'test "$1" = test || exit 0\nmkdir -p {CACHE}\ncp failed.json {CACHE}/lastfailed\n'


def run(folder: Path, failed: list[str], *, rerun: int = 0) -> "subprocess.CompletedProcess[str]":
    """Run the script where `make test` fails with these tests and the second run ends with this code."""
    stubs = folder / "stubs"
    for directory in (stubs, folder / ".ci", folder / ".venv/bin"):
        directory.mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    (folder / "failed.json").write_text(json.dumps(dict.fromkeys(failed, True)))
    (folder / ".venv/bin/python").symlink_to(sys.executable)
    bodies = {
        stubs / "make": f"{MAKE}exit {int(bool(failed))}\n",
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
    assert f"passed only alone: {count} (at most 3 may)" in done.stdout
    assert done.stdout.splitlines()[-count:] == names


def test_what_fails_alone_too_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, ["tests/test_a.py::test_0"], rerun=1).returncode == 1


def test_a_run_in_which_nothing_fails_says_nothing_of_it(tmp_path: Path) -> None:
    done = run(tmp_path, [])
    assert (done.returncode, done.stdout) == (0, "")


def test_a_command_of_the_readme_that_fails_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, [], rerun=1).returncode == 1
