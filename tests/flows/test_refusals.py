"""An error of the operating system ends a command with one line that names the cause."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app


@pytest.mark.parametrize(
    ("home", "said"),
    [("file/workspace", "a part of the path is not a folder"), ("x" * 300, "Choose shorter names")],
)
def test_a_workspace_that_cannot_be_made_is_named_with_its_cause(
    tmp_path: Path, home: str, said: str
) -> None:
    (tmp_path / "file").touch()
    done = CliRunner().invoke(app, ["build", "templates.demo", "--home", str(tmp_path / home)])
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert "Free some space" not in done.stderr
