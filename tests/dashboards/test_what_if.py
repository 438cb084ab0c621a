"""What-if shares: whatever is asked, they are reckoned as the mix itself reckons."""

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
    known = [
        mixture_panels.Supply(
            serving=each.serving.index, domain=each.domain, tokens=each.tokens, share=each.share
        )
        for each in plan
    ]
    limits = mixture_panels.Limits(budget=budget, max_repetition=4.0, renormalises=renormalises)
    found = mixture_panels.outcome(mixture_panels.at_shares(known, dict(enumerate(asked))), limits)

    # A serving that nothing is asked of is one that the diet doesn't have.
    kept = [at for at, each in enumerate(wanted[:many]) if each]
    phase = _phase(
        [asked[at] for at in kept],
        tokens=budget,
        on_shortage="renormalise" if renormalises else "stop",
    )
    try:
        strata = demand(phase, [supplies[at] for at in kept])
    except MixtureError:
        assert found.refusal
        return
    assert not found.refusal
    served = [share for one, share in zip(known, found.shares, strict=True) if one.serving in kept]
    assert sum(served) == pytest.approx(1)
    assert served == pytest.approx([each.served for each in strata], abs=1e-12)


def test_a_refusal_says_what_is_short_and_by_how_much() -> None:
    supplies = [
        mixture_panels.Supply(serving=0, domain="general", tokens=1000, share=0.9),
        mixture_panels.Supply(serving=1, domain="testing", tokens=90_000, share=0.1),
    ]
    limits = mixture_panels.Limits(budget=10_000, max_repetition=4, renormalises=False)
    found = mixture_panels.outcome(supplies, limits)
    assert found.short == (0,)
    assert found.refusal == (
        "Domain general: 9,000 tokens are asked and there are 1,000. Each row would be seen 9.00 times; "
        "max_repetition is 4."
    )


def test_a_refusal_names_every_domain_that_is_short() -> None:
    supplies = [
        mixture_panels.Supply(serving=0, domain="general", tokens=1000, share=0.5),
        mixture_panels.Supply(serving=0, domain="testing", tokens=1100, share=0.5),
    ]
    limits = mixture_panels.Limits(budget=10_000, max_repetition=4, renormalises=False)
    refusal = mixture_panels.outcome(supplies, limits).refusal
    assert refusal.startswith("Domain general: 5,000 tokens are asked and there are 1,000. ")
    assert refusal.endswith("Too few as well: testing.")


def test_nothing_asked_is_said_to_be_nothing() -> None:
    supplies = [mixture_panels.Supply(serving=0, domain="general", tokens=1000, share=0.0)]
    limits = mixture_panels.Limits(budget=10_000, max_repetition=4, renormalises=True)
    assert mixture_panels.outcome(supplies, limits).refusal == "Nothing is asked."
