"""The last line of a command that is stopped: only one that makes something can be continued."""

import os
import signal
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
    monkeypatch.setattr("flows.cli.phases.build", _stopped)
    monkeypatch.setattr("flows.cli.query.query", _stopped)
    done = curriculum(*words)
    assert done.returncode == 143
    assert done.stderr.strip().splitlines()[-1] == last
