"""Settings of the machine that training reads are refused before anything is built."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app


@pytest.mark.parametrize("command", ["train", "run"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("CURRICULUM_SBATCH", "no-script.sh"), ("CURRICULUM_GPU_SLOTS", "few")],
)
def test_a_wrong_setting_of_the_machine_ends_a_command_before_it_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    said = CliRunner().invoke(app, [command, "templates", "--home", str(tmp_path / "workspace")])
    assert said.exit_code == 2
    assert name in said.output
    assert value.split()[-1] in said.output
    assert not (tmp_path / "workspace" / "workspace.json").exists()
