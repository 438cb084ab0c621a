"""A study: what it may say, the step at which its masks go on, and the words that mark its runs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.diet import Diet
from schemas.study import MaskFrom, Study, study_mark, study_remark
from schemas.text import read_yaml
from tests.schemas.test_diet import diet


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("{document_mask: off}", "study: document_mask off"),
        ('{document_mask: "off"}', "study: document_mask off"),
        ("{document_mask: {on_from: 0.5}}", "study: document_mask on from 0.5"),
        ("{positions: continue}", "study: positions continue"),
        ("{document_mask: on, positions: continue}", "study: positions continue"),
        (
            "{document_mask: off, positions: continue}",
            "study: document_mask off, positions continue",
        ),
        ("{packer: chop}", "study: packer chop"),
        ("{document_mask: off, packer: chop}", "study: document_mask off, packer chop"),
    ],
)
def test_off_and_on_are_words_in_yaml_and_mark_a_run(text: str, mark: str) -> None:
    content = read_yaml(f"study: {text}", file="x.yaml", error=Exception).content  # type: ignore[arg-type]
    assert study_mark(Study.model_validate(content["study"])) == mark
    assert study_mark(None) == ""


@pytest.mark.parametrize(
    "text", [{}, {"document_mask": "on"}, {"positions": "reset"}, {"packer": "best_fit"}]
)
def test_a_study_that_sets_nothing_apart_is_refused(text: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"Set document_mask: off"):
        Study.model_validate(text)


@pytest.mark.parametrize("fraction", [0, 1, -0.5, "half", True])
def test_masks_go_on_at_a_fraction_within_a_phase(fraction: object) -> None:
    with pytest.raises(ValidationError):
        Study.model_validate({"document_mask": {"on_from": fraction}})


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(1, 5000))
def test_masks_go_on_once_at_the_nearest_step(fraction: float, steps: int) -> None:
    study = Study(document_mask=MaskFrom(on_from=fraction))
    masked = [study.is_masked(step, steps) for step in range(steps)]
    assert masked == sorted(masked)
    assert abs(masked.count(False) - fraction * steps) <= 0.5


@given(st.integers(0, 99), st.integers(1, 100))
def test_masks_that_are_off_stay_off_and_positions_leave_them_on(step: int, steps: int) -> None:
    assert not Study(document_mask="off").is_masked(step, steps)
    assert Study(positions="continue").is_masked(step, steps)


def test_a_packer_alone_leaves_training_as_it_is() -> None:
    assert not Study(packer="chop").acts_in_training
    assert Study(packer="chop", positions="continue").acts_in_training
    assert Study(packer="chop", document_mask="off").acts_in_training


def test_a_diet_without_a_study_does_not_mention_one() -> None:
    plain = Diet.model_validate(diet())
    assert "study" not in plain.model_dump()
    marked = Diet.model_validate(diet(study={"document_mask": "off"}))
    assert Diet.model_validate(marked.model_dump()) == marked
    assert Diet.model_validate_json(marked.model_dump_json()) == marked


def test_the_remark_says_what_its_runs_are_not_good_for() -> None:
    said = study_remark(Study(document_mask="off"))
    assert said.startswith("study: document_mask off. ")
    assert "can't be exported" in said
