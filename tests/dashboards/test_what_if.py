"""What-if shares: whatever is asked, they are reckoned as the mix itself reckons."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_supply import Supply
from curriculum.mixing.strata import demand
from dashboards import mixture_panels
from schemas.errors import MixtureError
from tests.factories import resolved_phase, resolved_serving

DOMAINS = ("general", "templates", "testing")
tokens = st.lists(st.integers(1, 50_000), min_size=3, max_size=3)
shares = st.lists(st.integers(0, 100), min_size=2, max_size=3)


def _supply(number: int, there: list[int]) -> Supply:
    return Supply(
        key=f"rows{number}",
        domains=DOMAINS,
        domain=np.arange(3, dtype=np.int16),
        valid_tokens=np.array(there, dtype=np.int32),
        attention_pairs=np.zeros(3, dtype=np.int64),
        pack_index=np.arange(3),
        shard_starts=np.array([0, 3]),
    )


def _stratum(
    serving: int, domain: str, tokens: int, share: float, **changes: Any
) -> mixture_panels.StratumLine:
    """A line of the catalog; of what there is, its tokens alone matter."""
    line = mixture_panels.StratumLine(
        serving=serving, family="v2_simple", objective="causal",
        row_length=512, domain=domain, share=share, planned=share, realised=None,
        rows=1, rows_tokens=tokens, drawn_before=0, repetition=0.0, budget=10_000,
        max_repetition=4.0, on_shortage="stop",
    )  # fmt: skip
    return replace(line, **changes)


def _what_if(
    strata: Sequence[mixture_panels.StratumLine], asked: Sequence[float], budget: int
) -> mixture_panels.WhatIf:
    grouped = itertools.groupby(strata, key=lambda stratum: stratum.serving)
    servings = [mixture_panels.ServingTotals(strata=[*own]) for _, own in grouped]
    return mixture_panels.what_if_of(servings, asked, budget)


def _phase(asked: list[float], **changes: Any) -> ResolvedPhase:
    domains = (("templates", 3.0), ("*", 1.0))
    servings = (
        resolved_serving(at, share=share, domains=domains) for at, share in enumerate(asked)
    )
    return resolved_phase(*servings, **changes)


@given(
    shares,
    shares,
    st.lists(tokens, min_size=3, max_size=3),
    st.integers(1_000, 400_000),
    st.booleans(),
)
def test_other_shares_are_served_or_refused_as_the_mix_would(
    planned: list[int],
    wanted: list[int],
    there: list[list[int]],
    budget: int,
    renormalises: bool,
) -> None:
    many = min(len(planned), len(wanted))
    assume(all(planned[:many]))
    assume(sum(wanted[:many]) > 0)
    asked = [each / sum(wanted[:many]) for each in wanted[:many]]
    supplies = [[_supply(at, there[at])] for at in range(many)]
    # What a plan of the diet's shares, made without limits, says that there is.
    plan = demand(
        _phase([each / sum(planned[:many]) for each in planned[:many]], tokens=1), supplies
    )
    on_shortage: Any = "renormalise" if renormalises else "stop"
    known = [
        _stratum(each.serving.index, each.domain, each.tokens, each.share, on_shortage=on_shortage)
        for each in plan
    ]
    found = _what_if(known, asked, budget)

    # A serving that nothing is asked of is one that the diet doesn't have.
    kept = [at for at, each in enumerate(wanted[:many]) if each]
    phase = _phase(
        [asked[at] for at in kept],
        tokens=budget,
        on_shortage=on_shortage,
    )
    try:
        strata = demand(phase, [supplies[at] for at in kept])
    except MixtureError:
        assert found.refusal
        return
    assert not found.refusal
    served = [
        share for one, share in zip(known, found.served.shares, strict=True) if one.serving in kept
    ]
    assert sum(served) == pytest.approx(1)
    assert served == pytest.approx([each.served for each in strata], abs=1e-12)


def test_a_refusal_says_what_is_short_and_by_how_much() -> None:
    strata = [_stratum(0, "general", 1000, 0.9), _stratum(1, "testing", 90_000, 0.1)]
    found = _what_if(strata, [0.9, 0.1], 10_000)
    assert found.served.short == (0,)
    assert found.refusal == (
        "Domain general has 1,000 tokens, but 9,000 are requested. Each row would be repeated 9.00 times; "
        "max_repetition is 4."
    )


def test_a_refusal_names_every_domain_that_is_short() -> None:
    strata = [_stratum(0, "general", 1000, 0.5), _stratum(0, "testing", 1100, 0.5)]
    refusal = _what_if(strata, [1.0], 10_000).refusal
    assert refusal.startswith("Domain general has 1,000 tokens, but 5,000 are requested. ")
    assert refusal.endswith("Also too small: testing.")


def test_nothing_asked_is_said_to_be_nothing() -> None:
    strata = [_stratum(0, "general", 1000, 1.0, on_shortage="renormalise")]
    assert _what_if(strata, [0.0], 10_000).refusal == "All requested shares are 0."


def test_domains_of_a_serving_keep_their_proportion_at_another_share() -> None:
    strata = [
        _stratum(0, "general", 10_000, 0.1),
        _stratum(0, "testing", 10_000, 0.3),
        _stratum(1, "general", 10_000, 0.6),
    ]
    found = _what_if(strata, [0.8, 0.2], 10_000)
    assert found.served.shares == pytest.approx([0.2, 0.6, 0.2])
