"""Commands that tests call in their own process end and print as those of a shell do."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.flows.cli_runner import PROGRAM, curriculum
from tests.flows.tiny_workspace import TinyWorkspace

NAME = "CURRICULUM_HOME"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("status", 0),
        ("query FROM\tartefacts --format csv", 0),
        ("diff --help", 0),
        ("build templates --token-budget lots", 2),
    ],
)
def test_a_command_ends_and_prints_here_as_in_a_process(
    tmp_path: Path, words: str, code: int
) -> None:
    home = tmp_path / "home"
    TinyWorkspace(home)
    done = subprocess.run(
        [PROGRAM, *words.split(" ")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, NAME: str(home), "NO_COLOR": "1"},
    )
    here = curriculum(*words.split(" "), home=home)
    assert (here.returncode, here.stdout, here.stderr) == (
        done.returncode,
        done.stdout,
        done.stderr,
    )
    assert done.returncode == code
    assert here.stdout or here.stderr


def test_environment_and_folder_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NAME, raising=False)
    before, folder = dict(os.environ), Path.cwd()
    assert curriculum("status", home=tmp_path, cwd=tmp_path).returncode == 0
    assert (dict(os.environ), Path.cwd()) == (before, folder)


def test_an_error_of_ours_is_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("flows.cli.status.status", fail)
    done = curriculum("status", home=tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" in done.stderr
