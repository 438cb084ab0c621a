import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from curriculum.mixing.diet_files import load_diet, merge_diets
from schemas.errors import DietError
from schemas.json_schema import FOLDER

PARENT = """\
specialist: templates
why: the parent
corpus: ./code.yaml
model: tiny
token_budget: 10M
seed: 3
phases:
  - phase: syntax
    portion: 0.6
    servings:
      - {family: v3_simple, share: 1.0}
  - phase: file_graph
    portion: 0.4
    servings:
      - {family: v4_context_graph, share: 1.0}
"""
CHILD = """\
extends: ./parent.yaml
branch: wide
phases:
  - {phase: syntax}
  - phase: file_graph
    servings:
      - {family: v4_context_graph, share: 0.5}
      - {family: v3_simple, share: 0.5}
"""


@pytest.fixture
def child(tmp_path: Path) -> Path:
    (tmp_path / "parent.yaml").write_text(PARENT)
    file = tmp_path / "child.yaml"
    file.write_text(CHILD)
    return file


def refused(child: Path, text: str) -> str:
    child.write_text(text)
    with pytest.raises(DietError) as caught:
        load_diet(str(child))
    return str(caught.value)


def test_what_a_child_says_takes_the_place_of_what_its_parent_says() -> None:
    phases = [{"phase": "a", "portion": 0.5}, {"phase": "b", "portion": 0.5, "why": "b"}]
    child = {"seed": 4, "phases": [{"phase": "b", "portion": 1.0}]}
    assert merge_diets(child, {"seed": 3, "model": "tiny", "phases": phases}) == {
        "seed": 4,
        "model": "tiny",
        "phases": [{"phase": "b", "portion": 1.0, "why": "b"}],
    }


def test_a_child_lists_its_phases_and_takes_from_its_parent_what_they_leave_out(
    child: Path,
) -> None:
    parent, diet = load_diet(str(child.parent / "parent.yaml")), load_diet(str(child))
    assert (diet.specialist, diet.branch, diet.seed) == ("templates", "wide", 3)
    assert diet.phases[0] == parent.phases[0]
    assert diet.phases[1].portion == 0.4
    assert [each.family for each in diet.phases[1].servings] == ["v4_context_graph", "v3_simple"]
    assert len(parent.phases[1].servings) == 1


def test_a_phase_that_a_child_does_not_list_is_dropped(child: Path) -> None:
    child.write_text(
        "extends: ./parent.yaml\nbranch: b\nphases: [{phase: file_graph, portion: 1.0}]"
    )
    assert [phase.phase for phase in load_diet(str(child)).phases] == ["file_graph"]
    child.write_text("extends: ./parent.yaml\nbranch: b\nmodel: attention-60m")
    assert [phase.phase for phase in load_diet(str(child)).phases] == ["syntax", "file_graph"]


def test_paths_of_each_are_relative_to_its_own_file(child: Path) -> None:
    below = child.parent / "below"
    below.mkdir()
    moved = below / "child.yaml"
    moved.write_text(CHILD.replace("./parent", "../parent") + "tokenizer: ./mine.json\n")
    diet = load_diet(str(moved))
    assert Path(diet.corpus).resolve() == (child.parent / "code.yaml").resolve()
    assert diet.tokenizer == str(below / "mine.json")


def test_a_fault_of_a_child_has_the_line_in_the_child(child: Path) -> None:
    said = refused(
        child, CHILD.replace("share: 0.5}\n      - {family: v3", "share: 0.4}\n      - {family: v3")
    )
    assert "child.yaml:7: share on lines 7, 8;" in said
    assert "file_graph sum to 0.9" in said
    said = refused(child, CHILD.replace("{phase: syntax}", "{phase: syntax, portion: 0.1}"))
    assert "sum to 0.5" in said
    assert "child.yaml:4: phases.0.phase = 'synatx'" in refused(
        child,
        CHILD.replace(
            "{phase: syntax}",
            "{phase: synatx, portion: 0.6, servings: [{family: v3_simple, share: 1}]}",
        ),
    )


def test_a_phase_that_the_parent_has_not_must_be_whole(child: Path) -> None:
    said = refused(child, CHILD.replace("{phase: syntax}", "{phase: structure, portion: 0.6}"))
    assert "child.yaml:4: phases.0.servings is missing" in said


@pytest.mark.parametrize("loop", ["parent.yaml", "child.yaml"])
def test_one_level_is_all_there_is_and_so_no_cycle_can_be(child: Path, loop: str) -> None:
    (child.parent / "parent.yaml").write_text("extends: templates\nbranch: mine\n")
    said = refused(child, CHILD.replace("parent.yaml", loop))
    assert f"child.yaml:1: extends = './{loop}'" in said
    assert "one level" in said


def test_a_child_must_be_told_from_its_parent(child: Path) -> None:
    said = refused(child, CHILD.replace("branch: wide", "why: no branch"))
    assert "same name, templates" in said
    assert "branch: wide" in said
    child.write_text(CHILD.replace("branch: wide", "specialist: other"))
    assert load_diet(str(child)).specialist == "other"


def test_a_parent_that_is_not_there_is_told_by_its_likely_name(child: Path) -> None:
    assert "Did you mean 'templates" in refused(child, CHILD.replace("./parent.yaml", "templtes"))
    assert "no such file" in refused(child, CHILD.replace("./parent", "./x"))
    assert "extends = 3" in refused(child, CHILD.replace("./parent.yaml", "3"))


def test_an_editor_asks_for_what_is_required_only_of_a_diet_that_extends_none() -> None:
    schema = json.loads((FOLDER / "diet.schema.json").read_text())
    check = jsonschema.Draft202012Validator(schema)
    assert check.is_valid(yaml.safe_load(CHILD))
    assert check.is_valid(yaml.safe_load(PARENT))
    assert not check.is_valid(yaml.safe_load(CHILD.replace("extends", "why")))
    assert not check.is_valid(yaml.safe_load(PARENT.replace("portion: 0.6", "why: none")))
