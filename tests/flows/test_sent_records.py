"""Records of a received workspace choose only names in it, never files or code."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from curriculum.mixing.diet_files import PACKAGE, load_diet
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.recorded_config import as_recorded, resolved, write_snapshot
from curriculum.pipeline.run_config import RunConfig, option
from flows.settings import trust
from flows.settings.contexts import trainer_command
from schemas.errors import DietError
from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import TinyWorkspace, job, run

COMMAND = "touch fired {job}"
SHIPPED = PACKAGE / "diets" / "templates.demo.yaml"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("CURRICULUM_TRUST")


def diet(file: Path, specialist: str = "mine") -> Path:
    """A diet whose trainer is a command."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = SHIPPED.read_text().replace("../", f"{SHIPPED.parents[1]}/")
    text = text.replace("specialist: templates", f"specialist: {specialist}")
    file.write_text(f"{text}\ntrainer: {{command: '{COMMAND}'}}\n")
    return file


def received(home: Path, overrides: Mapping[str, str]) -> Path:
    """A workspace with an open run of mine.big, which recorded these overrides; it is trusted."""
    held = TinyWorkspace(home)
    begun = job(held.syntax, home, specialist="mine", branch="big", run_key="0" * 64)
    run(home, begun.model_copy(update={"overrides": dict(overrides)}), [], closed=False)
    trust.trust(home)
    return home


CHOSEN = {
    "diet": "elsewhere/evil.yaml",
    "phases_file": "elsewhere/phases.yaml",
    "corpus": "elsewhere/corpus.yaml",
    "tokenizer": "elsewhere",
    "repositories": "elsewhere",
    "configure": "True",
    "unsandboxed": "True",
    "without_rows": "rows.txt",
}


@pytest.mark.parametrize("field", CHOSEN)
def test_a_record_chooses_no_file_and_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    monkeypatch.chdir(tmp_path)
    diet(tmp_path / "elsewhere" / "evil.yaml")
    (tmp_path / "rows.txt").write_text("alpha\n")
    overrides = {"diet": "templates.demo", "branch": "big", field: CHOSEN[field]}
    home = received(tmp_path / "received", overrides)
    config = RunConfig.of(specialist="mine.big", workspace=home)
    assert CHOSEN[field] in str(as_recorded(config)), "what the command would go by"
    with pytest.raises(DietError) as refused:
        resolved(config, "train")
    said = CHOSEN[field] if field == "diet" else option(field)
    assert refused.value.value == said
    assert f"curriculum train {overrides['diet']} " in f"{refused.value.cure} "
    for verb in ("build", "mix", "train", "run"):
        done = curriculum(verb, "mine.big", "--explain", "--home", str(home))
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_what_a_record_names_counts_once_a_command_line_says_it(tmp_path: Path) -> None:
    evil = diet(tmp_path / "elsewhere" / "evil.yaml")
    overrides = {"diet": str(evil), "branch": "big", "configure": "True"}
    home = received(tmp_path / "received", overrides)
    said = RunConfig.of(specialist=str(evil), workspace=home, configure=True)
    assert resolved(said, "train") == said
    assert trainer_command(resolve_plan(said, dry=True)) == COMMAND


def test_a_record_chooses_names_figures_and_runs_of_its_workspace(tmp_path: Path) -> None:
    overrides = {
        "diet": "templates.demo", "branch": "big", "phases_file": "phases.demo", "seed": "5",
        "tokenizer": "corpus", "token_budget": "40K", "continue": "fmt/syntax", "without_rows": "alpha",
    }  # fmt: skip
    home = received(tmp_path / "received", overrides)
    made = resolved(RunConfig.of(specialist="mine.big", workspace=home), "train")
    assert (made.specialist, made.mix.seed) == ("templates.demo", 5)
    assert (made.resume.continue_run, made.resume.without_rows) == ("fmt/syntax", "alpha")


def test_a_snapshot_chooses_no_diet_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "received"
    TinyWorkspace(home)
    evil = diet(tmp_path / "evil.yaml", "fmt")
    evil.write_text(evil.read_text().replace("branch: demo\n", ""))
    write_snapshot(resolve_plan(RunConfig.of(specialist=str(evil), workspace=home)), "any")
    config = RunConfig.of(specialist="fmt", workspace=home)
    assert as_recorded(config).specialist == str(evil)
    with pytest.raises(DietError, match="evil"):
        resolved(config, "train")


def unserved(home: Path) -> Path:
    file = diet(home / "diets" / "hid.yaml")
    file.write_text(file.read_text().replace("phases_file: phases.demo", "phases_file: nothere"))
    assert "nothere" in file.read_text()
    return file


def beside(home: Path) -> Path:
    return diet(home / "notes" / "evil.yml")


def write_parent_diet(home: Path) -> Path:
    (home / "diets").mkdir()
    (home / "diets" / "child.yaml").write_text("extends: ./evil.txt\nbranch: wide\n")
    return diet(home / "diets" / "evil.txt")


@pytest.mark.parametrize("made", [unserved, beside, write_parent_diet])
def test_trust_prints_the_command_of_whatever_could_become_a_diet(
    tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    home = received(tmp_path / "received", {})
    file = made(home)
    done = curriculum("trust", str(home))
    assert done.returncode == 0, done.stderr
    assert f"{file}  {COMMAND}" in done.stdout
    assert "None of its diets names" not in done.stdout


def test_trust_says_that_the_command_of_a_diet_that_cant_be_read_isnt_known(tmp_path: Path) -> None:
    home = received(tmp_path / "received", {})
    assert "None of its diets names a trainer command" in curriculum("trust", str(home)).stdout
    broken = diet(home / "diets" / "broken.yaml")
    broken.write_text(f"{broken.read_text()}\nseed: [")
    done = curriculum("trust", str(home))
    assert done.returncode == 0, done.stderr
    assert f"{broken}  can't be read" in done.stdout
    assert "None of its diets names" not in done.stdout


@pytest.mark.parametrize(
    "extended", ["{outside}", "../../evil.yaml", "../evil.yaml", "~/evil.yaml"]
)
def test_a_diet_that_extends_a_file_outside_of_the_folder_of_diets_isnt_trusted(
    tmp_path: Path, extended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = received(tmp_path / "received", {})
    assert curriculum("trust", "--forget", str(home)).returncode == 0
    outside = diet(tmp_path / "evil.yaml")
    shutil.copy(outside, home / "evil.yaml")
    child = home / "diets" / "child.yaml"
    child.parent.mkdir()
    child.write_text(f"extends: {extended.format(outside=outside)}\nbranch: wide\n")
    found = load_diet("child", home=home).trainer
    assert found is not None
    assert found.command == COMMAND, "the diet would run it"
    done = curriculum("trust", str(home))
    assert done.returncode == 2
    assert str(child) in done.stderr
    assert not trust.is_trusted(home)
