"""Scored and distinct tokens of what plans draw."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from curriculum.mixing import repetition
from curriculum.mixing.diet_files import load_diet
from curriculum.mixing.mix import PLAN_NAME, mix, report_of, rows_seen_before, turns
from curriculum.mixing.repetition import ReadTokens, repetition_warning
from curriculum.store import Artefact, Store
from schemas.mixture import RowsTaken, TokenRepetition
from tests.curriculum.mixing.conftest import windows_of

Make = Callable[..., Any]
VALID = [400, 300, 200, 500, 120, 80, 360, 240, 40, 512]


def read_by_hand(
    mixtures: Sequence[Artefact], sizes: Mapping[str, Sequence[int]]
) -> tuple[int, set[int]]:
    """Scored tokens and different windows of the rows that some plans list."""
    scored, shown = 0, set[int]()
    for mixture in mixtures:
        plan = pl.read_parquet(mixture.path / PLAN_NAME)
        for key, pack in plan.select("rows_key", "pack_id").iter_rows():
            number = int(pack[-10:])
            scored += sizes[key][number]
            shown |= {*windows_of(number, sizes[key][number]).tolist()}
    return scored, shown


@pytest.mark.parametrize("tokens", [2_000, 5_000, 11_000])
def test_the_count_equals_the_windows_of_the_rows_that_the_plans_list(
    store: Store, make_rows: Make, serving: Make, phase: Make, tokens: int
) -> None:
    """Two phases over three artefacts, one of them read by both, in two domains, and in two variants."""
    diet = load_diet("templates.demo")
    first = make_rows({"x": VALID, "y": VALID[::-1]})
    second = make_rows({"x": VALID[::-1]}, name="v2_simple")
    third = make_rows({"x": VALID}, name="v3_doxygen")
    sizes = {first.key: [*VALID, *VALID[::-1]], second.key: VALID[::-1], third.key: VALID}
    one = mix(store, diet, phase(serving(), tokens=tokens), [[first]], tokens_per_step=1024)
    later = phase(
        serving(share=0.5),
        serving(index=1, family="v2_simple", share=0.5),
        tokens=tokens,
        name="edits",
        max_repetition=40,
    )
    two = mix(
        store,
        diet,
        later,
        [[first], [second, third]],
        tokens_per_step=1024,
        seen=rows_seen_before([(one, None)]),
    )
    scored_first, shown_first = read_by_hand([one], sizes)
    scored, shown = read_by_hand([one, two], sizes)
    assert 0 < len(shown_first) < len(shown)
    alone, both = report_of(one).repetition, report_of(two).repetition
    assert (alone.scored, alone.distinct, alone.new) == (scored_first, *[len(shown_first)] * 2)
    assert (both.scored, both.distinct) == (scored, len(shown))
    assert both.new == len(shown) - len(shown_first)
    assert both.repetition == scored / len(shown)


def test_rows_that_are_left_out_are_not_counted(
    store: Store, make_rows: Make, serving: Make, phase: Make
) -> None:
    diet, rows = load_diet("templates.demo"), make_rows({"x": VALID})
    without = (f"{rows.key[:12]}-0000000003",)
    asked = phase(serving(), tokens=4_000, without=without)
    made = mix(store, diet, asked, [[rows]], tokens_per_step=1024)
    scored, shown = read_by_hand([made], {rows.key: VALID})
    found = report_of(made).repetition
    assert (found.scored, found.distinct) == (scored, len(shown))
    assert not {*windows_of(3, VALID[3])[:100].tolist()} & shown, "its own document"


def test_a_sample_of_windows_estimates_what_all_would_count(
    make_rows: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows({"x": VALID * 20})
    taken = {(rows.key, "x"): 150}
    exact = ReadTokens([rows], seed=17).count(taken)
    monkeypatch.setattr(repetition, "MAX_COUNTED", 5_000)
    sampled = ReadTokens([rows], seed=17).count(taken)
    assert sampled.scored == exact.scored
    assert sampled.distinct != exact.distinct, "a sample, not all"
    error = (exact.distinct * 15) ** 0.5
    assert abs(sampled.distinct - exact.distinct) < 3 * error


def test_whole_passes_add_scored_tokens_alone(make_rows: Make) -> None:
    rows = make_rows({"x": VALID})
    read = ReadTokens([rows], seed=17)
    once, thrice = (read.count({(rows.key, "x"): len(VALID) * passes}) for passes in (1, 3))
    assert (thrice.scored, thrice.distinct) == (3 * once.scored, once.distinct)
    assert thrice.repetition == pytest.approx(3 * once.repetition)
    assert read.count({}) == repetition.TokenCount(scored=0, distinct=0)


def test_turns_add_up_over_phases() -> None:
    taken = [
        RowsTaken(rows_key="a", domain="x", rows=2, of=9, passed=1),
        RowsTaken(rows_key="a", domain="x", rows=4, of=9),
        RowsTaken(rows_key="a", domain="y", rows=1, of=9),
    ]
    assert turns(taken) == {("a", "x"): 7, ("a", "y"): 1}


def test_a_mixture_warns_beyond_the_limit_of_its_phase_alone(
    store: Store, make_rows: Make, serving: Make, phase: Make
) -> None:
    diet, rows = load_diet("templates.demo"), make_rows({"x": VALID})
    asked = phase(serving(), tokens=8_000, max_token_repetition=2.0)
    found = report_of(mix(store, diet, asked, [[rows]], tokens_per_step=1024))
    assert found.repetition.limit == 2.0
    assert found.repetition.repetition > 2
    assert repetition_warning(found.repetition) in found.warnings
    allowed = found.repetition.model_copy(update={"limit": found.repetition.repetition})
    assert repetition_warning(allowed) is None


def test_repetition_is_scored_tokens_for_each_distinct_one() -> None:
    assert TokenRepetition(scored=12, distinct=4, new=1, limit=4).repetition == 3
    assert TokenRepetition(scored=0, distinct=0, new=0, limit=4).repetition == 0
    assert np.isclose(repetition.TokenCount(scored=7, distinct=2).repetition, 3.5)
