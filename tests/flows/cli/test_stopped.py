"""The last line of a command that is stopped: only one that makes something can be continued."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.cli_runner import curriculum

KEPT = "Finished work is kept; run the same command again to continue."


def _stopped(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (("build", "templates.demo"), f"terminated. {KEPT}"),
        (("build", "templates.demo", "--explain"), "terminated."),
        (("query", "SELECT 1"), "terminated."),
    ],
)
def test_a_stopped_command_can_be_continued_only_where_it_makes_something(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], last: str
) -> None:
    monkeypatch.setattr("flows.cli.builds.build", _stopped)
    monkeypatch.setattr("flows.cli.query.query", _stopped)
    done = curriculum(*words)
    assert done.returncode == 143
    assert done.stderr.strip().splitlines()[-1] == last


def _broken(*_: Any, **__: Any) -> None:
    raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_broken_pipe_to_another_process_is_no_silent_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("flows.cli.query.query", _broken)
    done = curriculum("query", "SELECT 1", home=tmp_path)
    assert done.returncode == 1
    assert "RuntimeError: " in done.stderr


def test_a_reader_that_needs_no_more_ends_a_command_in_silence(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    program = [sys.executable, "-m", "flows.cli", "query", "FROM range(100000)", "--format=csv"]
    with subprocess.Popen(
        program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1
