"""Rows that a plan must not hold: none of them is in it, and the others come as they would have come."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.mixing.diet_files import load_diet
from curriculum.mixing.mix import mix, report_of, seen_until
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.schedule import RowOrder, read_left_out, select_pack_ids
from curriculum.store import Artefact, Store
from schemas.errors import MixtureError
from schemas.mixture import LEFT_OUT_NAME, Continued, RowsTaken
from tests.error_fields import fields

Make = Callable[..., Any]
Asked = tuple[ResolvedPhase, list[list[Artefact]]]
DIET = load_diet("templates.demo")
STEP = 4096


@pytest.fixture
def asked(serving: Make, phase: Make, make_rows: Make) -> Asked:
    """v3 at 512 in two domains and v2 at 1024, each row seen about twice."""
    rng = np.random.default_rng(0)
    short = {name: rng.integers(300, 513, size).tolist() for name, size in (("a", 60), ("b", 20))}
    long = {"a": rng.integers(700, 1025, 50).tolist()}
    options = phase(
        serving(share=0.6),
        serving(1, share=0.4, family="v2_simple", row_length=1024),
        tokens=120_000,
        max_repetition=9,
    )
    return options, [[make_rows(short)], [make_rows(long, name="v2_simple", shards=3)]]


def packs_of(mixture: Artefact) -> pl.DataFrame:
    return pl.read_parquet(mixture.path / "plan.parquet")


def plan(store: Store, asked: Asked, without: list[str], **more: Any) -> Artefact:
    phase, rows = asked
    return mix(
        store, DIET, replace(phase, without=tuple(without)), rows, tokens_per_step=STEP, **more
    )


@pytest.fixture
def excluded_ids(store: Store, asked: Asked) -> list[str]:
    """Nine rows of all strata."""
    whole = packs_of(plan(store, asked, []))
    return whole["pack_id"].unique().sort().gather_every(15).to_list()


def test_no_row_that_is_left_out_is_in_the_plan_and_all_others_are(
    store: Store, asked: Asked, excluded_ids: list[str]
) -> None:
    before, after = plan(store, asked, []), plan(store, asked, excluded_ids)
    assert len(excluded_ids) == 9
    file, whole = after.path / "plan.parquet", before.path / "plan.parquet"
    with duckdb.connect() as sql:
        held = sql.execute(
            f"SELECT count(*) FROM '{file}' WHERE pack_id IN (SELECT unnest(?))", [excluded_ids]
        ).fetchall()
        lost = sql.execute(
            f"SELECT DISTINCT pack_id FROM '{whole}' EXCEPT SELECT DISTINCT pack_id FROM '{file}'"
        ).fetchall()
    assert held == [(0,)]
    assert sorted(name for (name,) in lost) == excluded_ids


def test_the_others_come_in_the_order_in_which_they_would_have_come(
    store: Store, asked: Asked, excluded_ids: list[str]
) -> None:
    before, after = packs_of(plan(store, asked, [])), packs_of(plan(store, asked, excluded_ids))
    for stratum in (0, 1, 2):
        was, now = (
            each.filter(pl.col("stratum") == stratum)["pack_id"].to_list()
            for each in (before, after)
        )
        kept = [each for each in was if each not in excluded_ids]
        shared = min(len(kept), len(now))
        assert shared >= 40
        assert now[:shared] == kept[:shared] != was[:shared]


def test_the_plan_says_what_it_leaves_out_and_where_it_would_have_stood(
    store: Store, asked: Asked, excluded_ids: list[str]
) -> None:
    mixture = plan(store, asked, excluded_ids)
    told, rows = report_of(mixture).left_out, packs_of(plan(store, asked, []))
    assert told
    assert (told.rows, list(told.first)) == (9, excluded_ids)
    valid = (
        rows.unique("pack_id").filter(pl.col("pack_id").is_in(excluded_ids))["valid_tokens"].sum()
    )
    assert told.tokens == valid
    assert list(read_left_out(mixture.path)) == excluded_ids
    listed = pl.read_parquet(mixture.path / LEFT_OUT_NAME)
    came = listed.filter(pl.col("slot").is_not_null())
    passed = sum(each.passed for s in report_of(mixture).strata for each in s.variants)
    assert came.height == passed > 9
    assert came["slot"].max() < report_of(mixture).slots  # type: ignore[operator]


def test_what_is_left_out_is_in_the_key_and_rows_of_others_are_not(
    store: Store, asked: Asked, excluded_ids: list[str]
) -> None:
    plain = plan(store, asked, [])
    assert (
        plan(store, asked, excluded_ids).key
        != plan(store, asked, excluded_ids[1:]).key
        != plain.key
    )
    assert plan(store, asked, ["0" * 12 + "-0000000001"]).key == plain.key
    assert plan(store, asked, excluded_ids[::-1]).key == plan(store, asked, excluded_ids).key
    assert not (plain.path / LEFT_OUT_NAME).exists()


def test_budget_and_shares_are_kept_with_the_rows_that_are_left(
    store: Store, asked: Asked, excluded_ids: list[str]
) -> None:
    before, after = (report_of(plan(store, asked, each)) for each in ([], excluded_ids))
    assert after.budget == before.budget
    assert 0.95 * after.budget < after.tokens <= after.budget
    for was, now in zip(before.strata, after.strata, strict=True):
        assert now.rows < was.rows
        assert now.tokens / after.tokens == pytest.approx(now.share, abs=0.03)


def test_what_was_seen_stays_seen_over_two_changes(
    store: Store, asked: Asked, excluded_ids: list[str]
) -> None:
    """Whole, then from step 6 without some, then from step 4 of that without more: one order."""
    whole = packs_of(plan(store, asked, []))
    phase, rows = asked
    first = plan(store, asked, [])
    before: tuple[RowsTaken, ...] = ()
    parts, tokens, done = [], 0, first
    for step, without in ((6, excluded_ids[:4]), (4, excluded_ids)):
        seen, used = seen_until(done, slots=step * 4)
        parts.append(packs_of(done).filter(pl.col("slot") < step * 4))
        before, tokens = (*before, *seen), tokens + used
        went_on = Continued(run="r" * 64, step=step, tokens=tokens, seen=before)
        done = plan(store, (phase, rows), without, continued=went_on)
    parts.append(packs_of(done))
    assert sum(each.passed for s in report_of(done).strata for each in s.variants) > 0
    for stratum in (0, 1, 2):
        walked = [[*part.filter(pl.col("stratum") == stratum)["pack_id"]] for part in parts]
        line = whole.filter(pl.col("stratum") == stratum)["pack_id"].to_list()
        cut = [len(walked[0]), len(walked[1])]
        rest = [each for each in line[cut[0] :] if each not in excluded_ids[:4]]
        last = [each for each in rest[cut[1] :] if each not in excluded_ids]
        assert walked[0] == line[: cut[0]]
        assert walked[1] == rest[: cut[1]]
        shared = min(len(last), len(walked[2]))
        assert shared > 5
        assert walked[2][:shared] == last[:shared]


def test_a_serving_of_which_nothing_is_left_is_told(store: Store, asked: Asked) -> None:
    every = [
        each
        for each in packs_of(plan(store, asked, []))["pack_id"].unique()
        if each.startswith(asked[1][1][0].key[:12])
    ]
    with pytest.raises(MixtureError, check=fields(value="v2_simple causal at 1024")):
        plan(store, asked, every)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    chosen=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 8))),
    takes=st.lists(st.integers(1, 7), min_size=1, max_size=5),
)
@settings(max_examples=80)
def test_rows_are_passed_over_as_if_one_had_struck_them_from_the_whole_order(
    sizes: list[int], chosen: set[tuple[int, int]], takes: list[int]
) -> None:
    masks = [np.array([(v, at) in chosen for at in range(size)]) for v, size in enumerate(sizes)]
    names = [f"variant {v}" for v in range(len(sizes))]
    if any(mask.all() for mask in masks):
        return
    order = RowOrder(sizes, seed=5, names=names, seen=[0] * len(sizes), left_out=masks)
    oracle = RowOrder(sizes, seed=5, names=names, seen=[0] * len(sizes)).take(500)
    line = [*zip(oracle.variant.tolist(), oracle.index.tolist(), strict=True)]
    drawn = [order.take(each) for each in takes]
    found = [pair for d in drawn for pair in zip(d.variant.tolist(), d.index.tolist(), strict=True)]
    assert found == [pair for pair in line if pair not in chosen][: len(found)]
    assert len(found) == sum(takes)
    for each in drawn:
        struck = zip(each.passed.variant.tolist(), each.passed.index.tolist(), strict=True)
        assert set(struck) <= chosen
        assert (each.passed.before < len(each.index)).all()


def test_pack_ids_are_those_of_the_rows_they_begin_like() -> None:
    keys = ["a" * 64, "b" * 64]
    packs = ["b" * 12 + "-0000000002", "a" * 12 + "-0000000001", "c" * 12 + "-0000000001"]
    assert select_pack_ids([*packs, *packs], keys) == (packs[1], packs[0])
