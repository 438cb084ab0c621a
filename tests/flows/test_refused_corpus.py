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


@pytest.mark.parametrize("command", ["supply", "diet check", "build", "mix", "train", "run"])
def test_a_folder_without_anything_to_read_is_said_to_be_no_git_repository(
    tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "notrepo"
    folder.mkdir()
    (folder / "a.cpp").write_text("int main;\n")
    options = [] if command == "supply" else ["templates", "--repo"]
    words = [*command.split(), *options, str(folder), "--home", str(tmp_path / "workspace")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    output = " ".join(done.output.split())
    assert f"{folder}; " in output
    assert "too small 1. " in output
    # `supply` keeps what it counted there.
    assert command == "supply" or not (tmp_path / "workspace").exists()


def test_a_folder_of_a_clone_is_said_to_be_read_without_its_history(tmp_path: Path) -> None:
    (tmp_path / "clone/.git").mkdir(parents=True)
    folder = tmp_path / "clone/include"
    folder.mkdir()
    (folder / "a.hpp").write_text("int answer();\n" * 20)
    words = ["build", "templates", "--repo", str(folder), "--dry-run"]
    done = CliRunner().invoke(app, [*words, "--home", str(tmp_path / "workspace")])
    said = f"{folder} is not a git repository, so it is read as a plain folder"
    assert said in done.stderr, done.output
    assert f"clone {folder.parent}" in done.stderr
