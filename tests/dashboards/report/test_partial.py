"""Reports of phases that are there in part: a plan without some of its servings, or without any."""

from dataclasses import replace

import pytest

from dashboards.report.facts import Facts
from dashboards.report.page import page
from tests.flows.html_text import Read


def without(facts: Facts, *servings: int) -> Facts:
    """The facts where the plan of the first phase holds nothing of some servings."""
    first = facts.phases[0]
    assert first.mixture is not None
    strata = tuple(each for each in first.mixture.strata if each.serving not in servings)
    mixed = first.mixture.model_copy(update={"strata": strata})
    return replace(facts, phases=(replace(first, mixture=mixed), *facts.phases[1:]))


@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_a_serving_without_rows_is_shown_with_its_share_and_nothing_realised(
    facts: Facts, gone: tuple[int, ...]
) -> None:
    whole, read = Read(page(facts)), Read(page(without(facts, *gone)))
    labels = [value for name, value in read.attributes if name == "aria-label"]
    for serving in facts.phases[0].phase.servings:
        said = f"planned {serving.share:.1%}, realised 0.0%"
        assert (said in labels) == (serving.index in gone)
    assert read.said.count("v3_doxygen") == whole.said.count("v3_doxygen")


def test_a_plan_of_another_diet_is_shown_by_the_servings_that_there_are(facts: Facts) -> None:
    """A diet that was shortened after it was mixed has fewer servings than its plan."""
    first = facts.phases[0]
    phase = replace(first.phase, servings=first.phase.servings[:1])
    page(replace(facts, phases=(replace(first, phase=phase), *facts.phases[1:])))


def test_a_plan_that_counts_nothing_divides_by_nothing(facts: Facts) -> None:
    first = facts.phases[0]
    assert first.mixture is not None
    nothing = {"tokens": 0, "share": 0.0}
    strata = tuple(each.model_copy(update=nothing) for each in first.mixture.strata)
    mixed = first.mixture.model_copy(update={"strata": strata, "tokens": 0})
    page(replace(facts, phases=(replace(first, mixture=mixed), *facts.phases[1:])))
