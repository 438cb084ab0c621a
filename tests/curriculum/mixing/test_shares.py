"""Planned against realised: what a diet asks, and what any beginning of its plan holds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_plan import Planner
from curriculum.mixing.row_supply import Supply
from curriculum.mixing.strata import Stratum, demand
from schemas.mixture import BLOCK_SLOTS
from tests.factories import resolved_phase, resolved_serving

Make = Callable[..., Any]
Floats = npt.NDArray[np.float64]
WITHIN = 0.01
SLOT = 1024


def supply(at: int, tokens: dict[str, list[int]]) -> Supply:
    names = sorted(tokens)
    valid = [each for name in names for each in tokens[name]]
    return Supply(
        key=f"{at:064x}",
        domains=tuple(names),
        domain=np.repeat(np.arange(len(names), dtype=np.int16), [len(tokens[n]) for n in names]),
        valid_tokens=np.array(valid, dtype=np.int32),
        attention_pairs=np.zeros(len(valid), dtype=np.int64),
        pack_index=np.arange(len(valid)),
        shard_starts=np.array([0, len(valid)]),
    )


def realised(
    phase: ResolvedPhase, supplies: list[list[Supply]], *, seed: int, blocks: int
) -> tuple[tuple[Stratum, ...], Floats]:
    """The strata, and their tokens up to each slot: [slots, strata]."""
    strata = demand(phase, supplies)
    planner = Planner(strata, supplies, slot_length=SLOT, seed=seed)
    slots = blocks * BLOCK_SLOTS
    tokens = np.zeros((slots, len(strata)))
    for piece in planner.pieces():
        mine = piece.between(0, slots)
        np.add.at(tokens, (mine.slot, mine.stratum), mine.valid_tokens)
        if piece.slot[-1] + 1 >= slots:
            return strata, np.cumsum(tokens, axis=0)
    raise AssertionError


lines = st.lists(
    st.tuples(
        st.sampled_from([128, 256, 512, 1024]),
        st.integers(1, 20),
        st.floats(0.5, 0.95),
        st.integers(1, 3),
        st.floats(0.25, 8.0),
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=40)
@given(lines, st.integers(0, 2**31))
def test_any_prefix_of_a_block_or_more_is_within_one_percent_of_its_tokens(
    lines: list[tuple[int, int, float, int, float]], seed: int
) -> None:
    """Rows of several lengths and fills, domains with factors, variants of other sizes."""
    rng = np.random.default_rng(seed)
    whole = sum(share for _, share, *_ in lines)
    servings = tuple(
        resolved_serving(
            at, share=share / whole, row_length=length, domains=(("*", 1.0), ("a", factor))
        )
        for at, (length, share, _, _, factor) in enumerate(lines)
    )
    supplies = [
        [
            supply(
                10 * at + variant,
                {
                    name: rng.integers(int(length * fill), length + 1, rows).tolist()
                    for name, rows in (("a", rng.integers(20, 60)), ("b", rng.integers(60, 300)))
                },
            )
            for variant in range(variants)
        ]
        for at, (length, _, fill, variants, _) in enumerate(lines)
    ]
    asked = resolved_phase(*servings, tokens=10**6, max_repetition=1e6)
    strata, tokens = realised(asked, supplies, seed=seed, blocks=4)
    shares = np.array([stratum.share for stratum in strata])
    assert len(strata) == 2 * len(lines)
    found = tokens / tokens.sum(axis=1, keepdims=True)
    off = np.abs(found - shares)[BLOCK_SLOTS - 1 :]
    assert off.max() < WITHIN


@settings(max_examples=40)
@given(st.floats(1.5, 8.0), st.integers(0, 2**31))
def test_a_domain_is_seen_as_many_times_as_often_as_its_factor_says(
    factor: float, seed: int
) -> None:
    """Times that a token of it is seen ÷ times that a token of the rest is."""
    rng = np.random.default_rng(seed)
    there = {
        name: rng.integers(300, 513, rows).tolist() for name, rows in (("testing", 60), ("x", 340))
    }
    serving = resolved_serving(
        0, share=0.7, row_length=512, domains=(("*", 1.0), ("testing", factor))
    )
    other = resolved_serving(1, share=0.3, row_length=1024)
    supplies = [[supply(0, there)], [supply(1, {"x": rng.integers(700, 1025, 200).tolist()})]]
    asked = resolved_phase(serving, other, tokens=10**6, max_repetition=1e6)
    strata, tokens = realised(asked, supplies, seed=seed, blocks=16)
    times = {
        stratum.domain: total / stratum.tokens
        for stratum, total in zip(strata, tokens[-1], strict=True)
        if stratum.serving.index == 0
    }
    assert abs(times["testing"] / times["x"] / factor - 1) < WITHIN
