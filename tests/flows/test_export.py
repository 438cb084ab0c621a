"""A trained model is handed on from the command line."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from curriculum.pipeline.references import checkpoint_of
from flows.cli import app


def curriculum(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_specialist_is_written_to_a_folder_with_all_that_it_needs(
    demo_home: Path, tmp_path: Path
) -> None:
    to = tmp_path / "model"
    words = ["export", "templates/demo/syntax", "--home", str(demo_home), "--to", str(to)]
    done = curriculum(*words)
    assert done.exit_code == 0, done.output
    names = ["README.md", "config.json", "model.safetensors", "tokenizer.json"]
    assert sorted(each.name for each in to.iterdir()) == names
    assert all(name in done.stdout for name in names)
    config = json.loads((to / "config.json").read_text())
    step = int(checkpoint_of(demo_home, "templates/demo/syntax").name.partition("=")[2])
    assert (config["phase"], config["step"], config["row_length"]) == ("syntax", step, 512)
    card = (to / "README.md").read_text()
    assert f"# templates/demo/syntax, step {step}" in card
    assert "| phase syntax | " in card
    assert "| anchor | " in card
    again = curriculum(*words)
    assert again.exit_code == 2
    assert f"error: --to: {to}" in again.stderr


def test_phases_that_follow_and_are_not_trained_are_named(demo_home: Path, tmp_path: Path) -> None:
    words = ["export", "templates", "--home"]
    whole = curriculum(*words, str(demo_home), "--to", str(tmp_path / "whole"))
    assert (whole.exit_code, "later phases" in whole.stderr) == (0, False)
    home = tmp_path / "workspace"
    ignored = shutil.ignore_patterns("prefect", ".locks")
    shutil.copytree(demo_home, home, ignore=ignored, copy_function=os.link)
    for name in ("structure", "anneal"):
        shutil.rmtree(home / "runs/specialist-templates/branch-demo" / f"phase-{name}")
    done = curriculum(*words, str(home), "--to", str(tmp_path / "part"))
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert re.search(r"later phases .*templates/demo/repository_graph .*: structure, anneal", said)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("hg", "unknown format. Available: curriculum, hf"),
        ("hf", "transformers has no architecture with this part"),
    ],
)
def test_a_format_that_is_not_there_or_cannot_hold_the_model_is_told(
    demo_home: Path, tmp_path: Path, form: str, said: str
) -> None:
    """The demo's model has Mamba-2 and Engram."""
    to = tmp_path / "model"
    words = ["templates/demo/syntax", "--to", str(to), "--format", form, "--home", str(demo_home)]
    done = curriculum("export", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not to.exists()


@pytest.mark.parametrize("form", ["flat", "megatron", "hf", "curriculum"])
def test_only_packed_rows_for_hugging_face_can_be_unpacked(tmp_path: Path, form: str) -> None:
    to = tmp_path / "out"
    words = ["tester/syntax", "--to", str(to), "--format", form, "--unpacked"]
    done = curriculum("export", *words, "--home", str(tmp_path / "home"))
    assert done.exit_code == 2
    assert f"--unpacked: {form};" in " ".join(done.stderr.split())
    assert not to.exists()
