"""Budgets that a check names, against what a mix does with them: a mix is the judge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from curriculum.mixing.diet_check import DietSupply, PhaseSupply
from curriculum.mixing.diet_files import load_diet
from curriculum.mixing.mix import mix, report_of, rows_seen_before
from curriculum.mixing.resolve import ResolvedPhase, phase_tokens
from curriculum.mixing.row_supply import estimate_supply, read_supply
from curriculum.pipeline.checks import shortages
from curriculum.store import Artefact, Store
from schemas.diet import Diet
from schemas.errors import MixtureError
from schemas.mixture import RowsTaken

Make = Callable[..., Any]
STEP = 1024
LENGTH = 256
FIXTURES = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=6,
    deadline=None,
)
VALID = st.lists(st.integers(1, LENGTH), min_size=10, max_size=40)
DOMAINS = st.dictionaries(st.sampled_from("abc"), VALID, min_size=1)


def diet(portions: Sequence[float]) -> Diet:
    """A diet of so many phases; only its portions and its seed are read."""
    first = load_diet("templates.demo")
    names = ("syntax", "file_graph", "repository_graph")
    phases = [
        first.phases[0].model_copy(update={"phase": name, "portion": portion})
        for name, portion in zip(names, portions, strict=False)
    ]
    return first.model_copy(update={"phases": tuple(phases), "anneal": None})


class Judged:
    """Phases over built rows, checked and mixed."""

    def __init__(
        self, store: Store, listed: Sequence[ResolvedPhase], rows: Sequence[list[list[Artefact]]]
    ) -> None:
        self.store, self.listed, self.rows = store, listed, rows
        self.diet = diet([0.6, 0.4][: len(listed)] if len(listed) > 1 else [1.0])

    def checked(self, budget: int) -> DietSupply:
        tokens = phase_tokens(self.diet, budget)
        return DietSupply(
            listed=tuple(
                PhaseSupply(
                    phase=replace(each, tokens=amount),
                    supplies=[
                        [read_supply(one.shards(), key=one.key) for one in variants]
                        for variants in rows
                    ],
                )
                for each, rows, amount in zip(self.listed, self.rows, tokens, strict=True)
            ),
            tokens_of=lambda at: phase_tokens(self.diet, at),
            budget=budget,
            tokens_per_step=STEP,
            seed=self.diet.seed,
        )

    def mixed(self, budget: int) -> list[tuple[int, int]] | None:
        """Steps and tokens of each phase as they are mixed; None where one is refused."""
        seen, found = list[RowsTaken](), []
        for each, rows, tokens in zip(
            self.listed, self.rows, phase_tokens(self.diet, budget), strict=True
        ):
            asked = replace(each, tokens=tokens)
            try:
                mixture = mix(
                    self.store, self.diet, asked, rows, tokens_per_step=STEP, seen=tuple(seen)
                )
            except MixtureError:
                return None
            seen += rows_seen_before([(mixture, None)])
            report = report_of(mixture)
            found.append((report.steps, report.tokens))
        return found


@pytest.fixture
def judged(store: Store, make_rows: Make, serving: Make, phase: Make) -> Callable[..., Judged]:
    """Two phases that share rows, so that the second goes on where the first ended."""

    def make(
        first: Mapping[str, list[int]], second: Mapping[str, list[int]], share: float, how: str
    ) -> Judged:
        one, other = make_rows(first), make_rows(second, name="v2_simple")
        short = {"row_length": LENGTH, "share": share}
        rest = {"row_length": 2 * LENGTH, "share": 1 - share, "family": "v2_simple"}
        both = (serving(0, **short), serving(1, **rest))
        only = serving(0, row_length=LENGTH)
        kind = {"max_repetition": 3.0, "on_shortage": how}
        listed = [phase(*both, name="syntax", **kind), phase(only, name="file_graph", **kind)]
        return Judged(store, listed, [[[one], [other]], [[one]]])

    return make


TAKES = given(
    first=DOMAINS,
    second=DOMAINS,
    share=st.sampled_from([0.1, 0.5, 0.8]),
    how=st.sampled_from(["stop", "renormalise"]),
    budget=st.integers(1, 60_000),
)


@TAKES
@FIXTURES
def test_a_check_finds_what_a_mix_finds(
    judged: Callable[..., Judged], first: Any, second: Any, share: float, how: str, budget: int
) -> None:
    both = judged(first, second, share, how)
    checks, mixed = both.checked(budget).check(), both.mixed(budget)
    assert (mixed is None) == any(each.fault for each in checks)
    if mixed is not None:
        wholes = [each.whole for each in checks]
        assert [(each.steps, each.tokens) for each in wholes if each] == mixed


@TAKES
@FIXTURES
def test_the_smallest_budget_named_is_mixed_and_one_token_less_is_refused(
    judged: Callable[..., Judged], first: Any, second: Any, share: float, how: str, budget: int
) -> None:
    both = judged(first, second, share, how)
    checks, found = both.checked(budget).check(), both.checked(budget).budgets()
    assume(any(each.fault and each.is_below_a_step for each in checks))
    if found.smallest is not None:
        assert found.smallest > budget
        assert both.mixed(found.smallest) is not None
        assert both.mixed(found.smallest - 1) is None
        assert f"{found.smallest:,}" in str(next(each.fault for each in checks if each.fault))


@TAKES
@FIXTURES
def test_the_largest_budget_named_is_mixed_and_more_is_refused(
    judged: Callable[..., Judged], first: Any, second: Any, share: float, how: str, budget: int
) -> None:
    both = judged(first, second, share, how)
    found = both.checked(budget).budgets()
    if found.largest is None:
        assert both.mixed(budget) is None
    else:
        assert both.mixed(found.largest) is not None
        more = 1 if found.largest % 1000 else 1000
        assert both.mixed(found.largest + more) is None


def test_a_smallest_budget_is_found_for_every_diet_of_rows_that_suffice(
    judged: Callable[..., Judged],
) -> None:
    both = judged({"a": [200] * 12, "b": [50] * 12}, {"a": [250] * 12}, 0.5, "stop")
    (first, second) = both.checked(100).check()
    assert (first.is_below_a_step, second.is_below_a_step) == (True, True)
    smallest = both.checked(100).budgets().smallest
    assert smallest is not None
    assert both.checked(smallest).check()[1].whole is not None
    assert f"one step takes {second.whole.first:,} tokens" in str(second.fault)  # type: ignore[union-attr]


def supposed(phase: ResolvedPhase, amount: float) -> DietSupply:
    """One phase over rows that aren't built."""
    return DietSupply(
        listed=(
            PhaseSupply(
                phase=phase, supplies=[[estimate_supply({"a": amount}, 512)]], is_estimate=True
            ),
        ),
        tokens_of=lambda budget: [budget],
        budget=phase.tokens,
        tokens_per_step=STEP,
        seed=1,
    )


@pytest.mark.parametrize(("tokens", "refused"), [(511, True), (512, False), (1023, False)])
def test_rows_that_arent_built_may_be_half_full(
    serving: Make, phase: Make, tokens: int, refused: bool
) -> None:
    (found,) = supposed(phase(serving(), tokens=tokens), 51_200).check()
    assert (found.fault is not None) == refused
    assert any("one step" in warning for warning in found.warnings) != refused


def test_a_budget_named_for_rows_that_arent_built_fits_however_full_they_will_be(
    serving: Make, phase: Make
) -> None:
    found = supposed(phase(serving(), tokens=100), 51_200).budgets()
    assert found.smallest == STEP


def test_a_plan_too_long_to_be_counted_is_divided_out(
    serving: Make, phase: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = phase(serving(), tokens=100_000, max_repetition=9)
    (counted,) = supposed(asked, 51_200).check()
    monkeypatch.setattr("curriculum.mixing.diet_check.MAX_PLANNED", 10)
    (divided,) = supposed(asked, 51_200).check()
    assert (counted.is_counted, divided.is_counted) == (True, False)
    assert counted.whole is not None
    assert divided.whole is not None
    assert divided.whole.steps == pytest.approx(counted.whole.steps, abs=1)


def test_a_step_that_isnt_whole_slots_is_refused_as_a_mix_does(serving: Make, phase: Make) -> None:
    (found,) = supposed(phase(serving(row_length=2048), tokens=9000), 90_000).check()
    assert "slots of 2048" in str(found.fault)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            "stop",
            "3,000 tokens requested, 300 available, 1,200 at max_repetition 4; the phase will be refused",
        ),
        ("renormalise", "its share of 0.5 becomes 0.2, and the other shares grow"),
    ],
)
def test_a_shortage_says_what_is_needed_what_there_is_and_what_follows(
    serving: Make, phase: Make, how: str, said: str
) -> None:
    servings = [serving(0, share=0.5), serving(1, share=0.5, family="v2_simple")]
    asked = phase(*servings, tokens=6000, on_shortage=how)
    supplies = [[estimate_supply({"a": each}, 512)] for each in (300.0, 9000.0)]
    supply = DietSupply(
        listed=(PhaseSupply(phase=asked, supplies=supplies),),
        tokens_of=lambda budget: [budget],
        budget=6000,
        tokens_per_step=STEP,
        seed=1,
    )
    (line,) = shortages(supply.check()[0])
    assert line.startswith("syntax: v3_simple causal at 512: ")
    assert said in line


def test_a_serving_without_rows_is_short(serving: Make, phase: Make) -> None:
    servings = [serving(0, share=0.5), serving(1, share=0.5, family="v2_simple")]
    asked = phase(*servings, tokens=6000, on_shortage="renormalise")
    supply = DietSupply(
        listed=(
            PhaseSupply(
                phase=asked,
                supplies=[[estimate_supply({}, 512)], [estimate_supply({"a": 9000.0}, 512)]],
            ),
        ),
        tokens_of=lambda budget: [budget],
        budget=6000,
        tokens_per_step=STEP,
        seed=1,
    )
    (line,) = shortages(supply.check()[0])
    assert " 0.5 becomes 0," in line
