"""Commands over a corpus that is refused: exit code 2, and a workspace that isn't begun."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app

CORPUS = """\
name: bad
repositories:
  - {name: gone, path: /nonexistent}
"""


@pytest.mark.parametrize(
    "command",
    [
        "build",
        "mix",
        "train",
        "run",
        "supply",
    ],
)
def test_a_refused_corpus_leaves_no_workspace(tmp_path: Path, command: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(CORPUS)
    home = tmp_path / "workspace"
    words = ["supply", str(file)] if command == "supply" else [command, "templates"]
    words += [] if command == "supply" else ["--corpus", str(file)]
    done = CliRunner().invoke(app, [*words, "--home", str(home)])
    assert done.exit_code == 2, done.output
    assert "/nonexistent" in done.output
    assert not home.exists(), sorted(home.rglob("*"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "words",
    [
        ["build", "templates", "--tokenizer", "PIPE"],
        ["build", "templates", "--repo", "PIPE"],
        ["import", "PIPE", "--family", "mine", "--tokenizer", "PIPE"],
        ["run", "templates", "--without-rows", "PIPE"],
        ["supply", "PIPE"],
    ],
)
def test_a_pipe_for_a_file_is_refused_and_not_waited_for(tmp_path: Path, words: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    given = [str(tmp_path / "pipe") if word == "PIPE" else word for word in words]
    done = CliRunner().invoke(app, [*given, "--home", str(tmp_path / "workspace")])
    assert done.exit_code == 2, done.output
