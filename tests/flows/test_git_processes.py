"""Pins and lists of files are resolved once a command, and a look at what is built asks git nothing."""

import os
import shutil
from pathlib import Path

import pytest

from tests.flows.cli_runner import curriculum

DIET = "templates.demo"
MAX_PROCESSES = 2
"""Processes of git a repository, in a command that makes nothing."""


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    """A copy of the demo's workspace, with three repositories; a build has looked at the copy."""
    copied = Path(shutil.copytree(demo_home, tmp_path / "home"))
    assert curriculum("build", DIET, home=copied).returncode == 0
    return copied


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A file to which the git on $PATH, a wrapper, adds a line a process."""
    program, file = tmp_path / "bin" / "git", tmp_path / "git.log"
    program.parent.mkdir()
    real = shutil.which("git")
    program.write_text(f'#!/bin/sh\necho "$*" >> {file}\nexec {real} "$@"\n')
    program.chmod(0o755)
    return file


def processes(log: Path, home: Path, *words: str) -> list[str]:
    """The gits that a command started."""
    log.write_text("")
    path = f"{log.parent / 'bin'}:{os.environ['PATH']}"
    done = curriculum(*words, home=home, variables={"PATH": path})
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines()


@pytest.mark.parametrize("verb", ["build", "mix", "train", "run"])
def test_a_command_that_makes_nothing_asks_git_twice_a_repository_at_most(
    log: Path, home: Path, verb: str
) -> None:
    repositories = [*(home / "repositories").glob("bundle-*.git")]
    assert len(repositories) == 3
    assert 0 < len(processes(log, home, verb, DIET)) <= MAX_PROCESSES * len(repositories)


@pytest.mark.parametrize(
    "words", [["status"], ["train", DIET, "--dry-run"], ["build", DIET, "--explain"]]
)
def test_a_look_at_what_is_built_asks_git_nothing(log: Path, home: Path, words: list[str]) -> None:
    processes(log, home, "build", DIET)
    assert processes(log, home, *words) == []
