"""TokenBudgets of a diet at several token budgets, against what its plans report."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from curriculum.mixing.diet_check import DietSupply, PhaseSupply
from curriculum.mixing.diet_files import load_diet
from curriculum.mixing.mix import mix, report_of
from curriculum.mixing.repetition import ReadTokens
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_supply import read_supply
from curriculum.mixing.token_budgets import POINTS, count_budgets
from curriculum.store import Artefact, Store

Make = Callable[..., Any]
STEP, BUDGET = 1024, 60_000


def supply_of(phase: ResolvedPhase, variants: list[Artefact], budget: int) -> DietSupply:
    supplies = [[read_supply(each.shards(), key=each.key) for each in variants]]
    return DietSupply(
        listed=(PhaseSupply(phase=replace(phase, tokens=budget), supplies=supplies),),
        tokens_of=lambda budget: [budget],
        budget=budget,
        tokens_per_step=STEP,
        seed=load_diet("templates.demo").seed,
    )


@pytest.mark.parametrize("several", [False, True])
def test_ten_budgets_read_what_plans_of_these_budgets_report(
    store: Store, make_rows: Make, serving: Make, phase: Make, several: bool
) -> None:
    """With variants, too, of which passes read one after the other."""
    diet = load_diet("templates.demo")
    variants = [make_rows({"x": [400, 500] * 20, "y": [500, 300] * 20})]
    if several:
        variants.append(make_rows({"x": [300, 480] * 25}, name="v2_simple"))
    asked = phase(serving(), max_repetition=9.0)
    supply = supply_of(asked, variants, BUDGET)
    read = ReadTokens(variants, seed=diet.seed)
    found = count_budgets(supply, read, 1e9)
    assert [each.token_budget for each in found.points] == [
        BUDGET * at // POINTS for at in range(1, POINTS + 1)
    ]
    for each in found.points:
        plan = replace(asked, tokens=each.token_budget)
        planned = report_of(mix(store, diet, plan, [variants], tokens_per_step=STEP)).repetition
        assert each.scored_tokens == pytest.approx(planned.scored, abs=2 * STEP)
        assert each.distinct_tokens == pytest.approx(planned.distinct, abs=2 * STEP)


def test_the_largest_budget_is_the_last_within_the_limit(
    make_rows: Make, serving: Make, phase: Make
) -> None:
    rows = make_rows({"x": [400, 500] * 40})
    read = ReadTokens([rows], seed=load_diet("templates.demo").seed)
    asked = phase(serving(), max_repetition=9.0)
    found = count_budgets(supply_of(asked, [rows], BUDGET), read, 2.5)
    assert found.largest is not None
    assert not found.is_often
    for budget, is_often in ((found.largest, False), (round(found.largest * 1.03), True)):
        assert count_budgets(supply_of(asked, [rows], budget), read, 2.5).is_often == is_often


def test_no_budget_keeps_to_a_limit_below_the_repetition_of_the_first_step(
    make_rows: Make, serving: Make, phase: Make
) -> None:
    rows = make_rows({"x": [400] * 40})
    read = ReadTokens([rows], seed=17)
    assert count_budgets(supply_of(phase(serving()), [rows], BUDGET), read, 0.5).largest is None


def test_budgets_that_can_not_be_served_have_no_count(
    make_rows: Make, serving: Make, phase: Make
) -> None:
    rows = make_rows({"x": [400] * 40})
    read = ReadTokens([rows], seed=17)
    asked = phase(serving(), max_repetition=1.0)
    found = count_budgets(supply_of(asked, [rows], 2 * 16_000), read, 4.0)
    assert [each.token_budget for each in found.points] == [3_200, 6_400, 9_600, 12_800, 16_000]
    assert found.largest == 16_000


def test_a_diet_that_may_repeat_rows_without_end_is_counted_at_once(
    make_rows: Make, serving: Make, phase: Make
) -> None:
    rows = make_rows({"x": [400] * 40})
    asked = phase(serving(), max_repetition=1e9)
    found = count_budgets(supply_of(asked, [rows], 10**12), ReadTokens([rows], seed=17), 1e12)
    assert [each.scored_tokens for each in found.points] == [each * 10**11 for each in range(1, 11)]
