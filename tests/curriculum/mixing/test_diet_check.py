from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.mixing.diet_check import (
    Budgets,
    DietSupply,
    PhaseCheck,
    PhaseSupply,
)
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_supply import Supply, estimate_supply

Make = Callable[..., Any]
STEP = 512


def rows(amounts: Mapping[str, float]) -> list[Supply]:
    return [estimate_supply(amounts, 512)]


def supply_of(
    phase: ResolvedPhase,
    supplies: Sequence[Sequence[Supply]],
    *,
    portion: float = 1.0,
    step: int = STEP,
) -> DietSupply:
    """The supply of a diet with one phase that is checked."""
    return DietSupply(
        listed=(PhaseSupply(phase=phase, supplies=supplies),),
        tokens_of=lambda budget: [int(budget * portion)],
        budget=int(phase.tokens / portion),
        tokens_per_step=step,
        seed=17,
    )


def checked_phase(phase: ResolvedPhase, supplies: Sequence[Sequence[Supply]]) -> PhaseCheck:
    (found,) = supply_of(phase, supplies).check()
    return found


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e7)), st.sampled_from([128, 4096]))
def test_supposed_rows_have_the_tokens_that_were_estimated(
    amounts: dict[str, float], row_length: int
) -> None:
    found = estimate_supply(amounts, row_length)
    assert found.domains == tuple(sorted(name for name in amounts if round(amounts[name])))
    assert {name: found.tokens_of(name) for name in found.domains} == {
        name: round(amounts[name]) for name in found.domains
    }
    if found.rows:
        assert found.valid_tokens.max() <= row_length
        assert found.valid_tokens.min() > 0


def test_what_can_be_served_is_listed_with_its_repetition(serving: Make, phase: Make) -> None:
    resolved = phase(serving(share=1.0), tokens=1000)
    found = checked_phase(resolved, [rows({"a": 300, "b": 200})])
    assert found.fault is None
    listed = [(each.stratum.domain, each.asked, each.available) for each in found.held]
    assert listed == [("a", 600, 300), ("b", 400, 200)]
    assert {each.repetition for each in found.held} == {2.0}


def test_every_shortage_is_marked_and_one_cure_is_named(serving: Make, phase: Make) -> None:
    servings = [
        serving(0, share=0.5),
        serving(1, share=0.3, family="v2_simple"),
        serving(2, share=0.2, family="v2_doxygen"),
    ]
    resolved = phase(*servings, tokens=10_000)
    supplies = [rows({"a": 100}), rows({"a": 200}), rows({"a": 9_000})]
    found = checked_phase(resolved, supplies)
    assert [each.is_short for each in found.held] == [True, True, False]
    assert found.fault is not None
    assert "raise max_repetition" in str(found.fault)


def test_a_phase_that_renormalises_can_be_served_with_less(serving: Make, phase: Make) -> None:
    servings = [serving(0, share=0.5), serving(1, share=0.5, family="v2_simple")]
    resolved = phase(*servings, tokens=10_000, on_shortage="renormalise")
    found = checked_phase(resolved, [rows({"a": 100}), rows({"a": 9_000})])
    assert found.fault is None
    assert [each.is_short for each in found.held] == [True, False]


@pytest.mark.parametrize("handling", ["stop", "renormalise"])
def test_a_phase_without_any_row_is_at_fault(serving: Make, phase: Make, handling: str) -> None:
    resolved = phase(serving(), tokens=1000, on_shortage=handling)
    found = checked_phase(resolved, [rows({})])
    assert found.held == ()
    assert found.fault is not None
    assert found.fault.value == "v3_simple causal at 512"


@pytest.mark.parametrize("handling", ["stop", "renormalise"])
@pytest.mark.parametrize("amounts", [(200, 300, 400), (999, 77_001, 512), (40_000, 3_000, 100_000)])
@pytest.mark.parametrize(("share", "limit"), [(0.1, 4.0), (0.5, 1.3), (0.83, 7.0)])
def test_the_largest_budget_fits_and_one_above_it_does_not(
    serving: Make,
    phase: Make,
    handling: str,
    amounts: tuple[int, int, int],
    share: float,
    limit: float,
) -> None:
    first, second, third = amounts
    servings = [serving(0, share=share), serving(1, share=1 - share, family="v2_simple")]
    supplies = [rows({"a": first, "b": second}), rows({"a": third})]

    def checked(budget: int) -> PhaseCheck:
        resolved = phase(
            *servings, tokens=budget // 2, portion=0.5, max_repetition=limit, on_shortage=handling
        )
        return checked_phase(resolved, supplies)

    resolved = phase(*servings, max_repetition=limit, on_shortage=handling)
    fitting = supply_of(resolved, supplies, portion=0.5).budgets().largest
    assert fitting is not None
    assert checked(fitting).fault is None
    assert checked(fitting + 1002).fault is not None


def test_no_budget_fits_a_phase_without_the_rows_of_a_serving(serving: Make, phase: Make) -> None:
    servings = [serving(0, share=0.5), serving(1, share=0.5, family="v2_simple")]
    supply = supply_of(phase(*servings, tokens=1000), [rows({"a": 100}), rows({})])
    assert supply.budgets() == Budgets(smallest=None, largest=None)


def test_no_budget_fits_rows_of_less_than_a_step(serving: Make, phase: Make) -> None:
    supply = supply_of(phase(serving(), tokens=9000), [rows({"a": 90})], step=4096)
    assert supply.budgets() == Budgets(smallest=None, largest=None)
