from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curriculum.mixing.diet_files import load_diet
from curriculum.mixing.mix import mix, recipe, report_of, rows_seen_before, rows_taken, seen_until
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_plan import ROW_GROUP
from curriculum.stage_contracts import require_contract
from curriculum.store import Artefact, Store
from schemas.document import SCHEMA_VERSION
from schemas.errors import MixtureError, StoreError
from schemas.mixture import BLOCK_SLOTS, PLAN_SCHEMA, Continued
from tests.curriculum.stages.test_foreign_artefacts import change_table, replace_column
from tests.error_fields import fields

Make = Callable[..., Any]
TwoServings = tuple[ResolvedPhase, list[list[Artefact]]]
DIET = load_diet("templates.demo")


def plan_of(mixture: Artefact) -> pl.DataFrame:
    return pl.read_parquet(mixture.path / "plan.parquet")


@pytest.fixture
def two_servings(serving: Make, phase: Make, make_rows: Make) -> TwoServings:
    """v3 at 512 in two domains and v2 at 1024: slots of 1024 hold two rows or one."""
    rng = np.random.default_rng(0)
    short = {
        "other": rng.integers(300, 513, 60).tolist(),
        "tests": rng.integers(300, 513, 20).tolist(),
    }
    long = {"other": rng.integers(700, 1025, 50).tolist()}
    asked = phase(
        serving(share=0.6, domains=(("*", 1.0), ("tests", 3.0))),
        serving(1, share=0.4, family="v2_simple", row_length=1024),
        tokens=120_000,
        max_repetition=8,
    )
    return asked, [[make_rows(short)], [make_rows(long, name="v2_simple", shards=3)]]


def test_a_plan_keeps_its_schema_and_points_at_its_rows(
    store: Store, two_servings: TwoServings
) -> None:
    phase, rows = two_servings
    mixture = mix(store, DIET, phase, rows, tokens_per_step=4096)
    file = pq.ParquetFile(mixture.path / "plan.parquet")
    assert file.schema_arrow.equals(PLAN_SCHEMA, check_metadata=False)
    assert file.schema_arrow.metadata[b"schema_version"] == SCHEMA_VERSION.encode()
    plan = plan_of(mixture)
    assert plan["position"].to_list() == list(range(plan.height))
    by_key = {artefact.key: artefact for (artefact,) in rows}
    for line in plan.sample(40, seed=1).iter_rows(named=True):
        artefact = by_key[line["rows_key"]]
        shard = pl.read_parquet(artefact.path / f"data/part-{line['shard']:05d}.parquet")
        row = shard.row(line["row"], named=True)
        assert row["pack_id"] == line["pack_id"]
        assert row["valid_token_count"] == line["valid_tokens"]
        assert row["attention_pairs"] == line["attention_pairs"] > line["valid_tokens"]
        stratum = report_of(mixture).strata[line["stratum"]]
        assert (stratum.domain, stratum.serving) == (row["domain"], line["serving"])


@pytest.mark.parametrize(
    ("column", "value"), [("row", -5), ("shard", -1), ("valid_tokens", -1), ("position", 7)]
)
def test_a_plan_that_points_at_no_row_breaks_the_contract(
    store: Store, two_servings: TwoServings, column: str, value: int
) -> None:
    phase, rows = two_servings
    mixture = mix(store, DIET, phase, rows, tokens_per_step=4096)
    require_contract(mixture, {})
    forged = replace_column(column, lambda values: [value, *values[1:]])
    with pytest.raises(ValueError, match=column):
        require_contract(change_table(mixture, "plan", forged), {})


@pytest.mark.parametrize("field", ["tokens_per_step", "slot_length", "rows", "steps"])
def test_a_mixture_whose_counts_are_not_those_of_its_plan_breaks_the_contract(
    store: Store, two_servings: TwoServings, field: str
) -> None:
    phase, rows = two_servings
    mixture = mix(store, DIET, phase, rows, tokens_per_step=4096)
    report = {**mixture.manifest.report, field: 0}
    manifest = mixture.manifest.model_copy(update={"report": report})
    with pytest.raises((ValueError, StoreError)):
        require_contract(replace(mixture, manifest=manifest), {})


def test_a_budget_of_positions_gives_whole_steps_of_it(
    store: Store, two_servings: TwoServings
) -> None:
    phase, rows = two_servings
    of_tokens = report_of(mix(store, DIET, phase, rows, tokens_per_step=4096))
    counted = replace(phase, tokens=61_440, budget_unit="positions")
    report = report_of(mix(store, DIET, counted, rows, tokens_per_step=4096))
    assert report.steps == 15 == 61_440 // 4096
    assert report.slots * report.slot_length == 61_440
    assert report.tokens < 61_440
    assert of_tokens.tokens <= phase.tokens < (of_tokens.steps + 1) * 4096


def test_a_slot_holds_whole_rows_of_one_stratum(store: Store, two_servings: TwoServings) -> None:
    phase, rows = two_servings
    plan = plan_of(mix(store, DIET, phase, rows, tokens_per_step=4096))
    slots = plan.group_by("slot", maintain_order=True).agg(
        pl.col("row_length").sum(), pl.col("stratum").n_unique(), pl.col("rows_key").n_unique()
    )
    assert slots["slot"].to_list() == list(range(slots.height))
    assert set(slots["row_length"]) == {1024}
    assert set(slots["stratum"]) == {1} == set(slots["rows_key"])
    assert set(plan["row_length"]) == {512, 1024}


def sums_of_steps(plan: pl.DataFrame, slots: int) -> list[int]:
    """Valid tokens up to the end of each step of so many slots."""
    steps = plan.group_by(pl.col("slot") // slots).agg(pl.col("valid_tokens").sum()).sort("slot")
    sums: list[int] = steps["valid_tokens"].cum_sum().to_list()
    return sums


def test_the_plan_has_the_rows_of_all_whole_steps_within_the_budget_and_no_others(
    store: Store, two_servings: TwoServings
) -> None:
    phase, rows = two_servings
    mixture = mix(store, DIET, phase, rows, tokens_per_step=4096)
    report, plan = report_of(mixture), plan_of(mixture)
    sums = sums_of_steps(plan, 4)
    assert report.tokens == sums[-1] <= phase.tokens
    assert report.steps == len(sums)
    assert (report.slots, report.rows) == (plan["slot"].n_unique(), plan.height)
    assert report.slots == 4 * report.steps
    assert report.rows == sum(stratum.drawn for stratum in report.strata)
    assert report.tokens == sum(stratum.tokens for stratum in report.strata)
    more = replace(phase, tokens=phase.tokens + 4096)
    longer = plan_of(mix(store, DIET, more, rows, tokens_per_step=4096))
    assert longer.head(plan.height).equals(plan)
    assert sums_of_steps(longer, 4)[report.steps] > phase.tokens


def test_a_budget_that_ends_with_a_step_is_planned_to_its_last_token(
    store: Store, two_servings: TwoServings
) -> None:
    phase, rows = two_servings
    first = report_of(mix(store, DIET, phase, rows, tokens_per_step=4096))
    exact = replace(phase, tokens=first.tokens)
    again = report_of(mix(store, DIET, exact, rows, tokens_per_step=4096))
    assert (again.steps, again.tokens) == (first.steps, first.tokens)


def test_the_next_phase_goes_on_behind_the_last_row_that_is_trained(
    store: Store, two_servings: TwoServings
) -> None:
    """Rows of a step that the budget doesn't reach are no rows that the model has seen."""
    phase, rows = two_servings
    first = mix(store, DIET, phase, rows, tokens_per_step=4096)
    second = mix(
        store, DIET, phase, rows, tokens_per_step=4096, seen=rows_seen_before([(first, None)])
    )
    trained = plan_of(first).group_by("stratum").len().sort("stratum")["len"].to_list()
    assert [stratum.drawn_before for stratum in report_of(second).strata] == trained


def test_realised_shares_are_those_of_the_diet(store: Store, two_servings: TwoServings) -> None:
    phase, rows = two_servings
    report = report_of(mix(store, DIET, phase, rows, tokens_per_step=4096))
    for stratum in report.strata:
        assert stratum.tokens / report.tokens == pytest.approx(stratum.share, abs=0.02)
    assert sum(stratum.share for stratum in report.strata) == pytest.approx(1)
    seen = {stratum.domain: stratum.repetition for stratum in report.strata[:2]}
    assert seen["tests"] / seen["other"] == pytest.approx(3, rel=0.1)


def test_every_row_of_a_stratum_is_seen_before_one_comes_again(
    store: Store, two_servings: TwoServings
) -> None:
    phase, rows = two_servings
    mixture = mix(store, DIET, phase, rows, tokens_per_step=4096)
    plan = plan_of(mixture)
    for stratum in report_of(mixture).strata:
        mine = plan.filter(pl.col("stratum") == stratum.stratum)
        assert mine.height == stratum.drawn > stratum.rows
        assert mine["repetition"].to_list() == [at // stratum.rows for at in range(mine.height)]
        for _, turn in mine.group_by("repetition"):
            assert turn["pack_id"].n_unique() == turn.height
        assert mine.filter(pl.col("repetition") == 0)["pack_id"].n_unique() == stratum.rows


def test_the_same_ingredients_give_the_same_bytes(
    store: Store, two_servings: TwoServings, tmp_path: Path
) -> None:
    phase, rows = two_servings
    mixture = mix(store, DIET, phase, rows, tokens_per_step=4096)
    again = mix(Store(tmp_path / "other"), DIET, phase, rows, tokens_per_step=4096)
    assert mixture.made
    assert again.made
    assert (mixture.key, mixture.content) == (again.key, again.content)
    assert not mix(store, DIET, phase, rows, tokens_per_step=4096).made


def test_a_larger_budget_begins_with_the_same_plan(
    store: Store, two_servings: TwoServings, phase: Make
) -> None:
    asked, rows = two_servings
    less = phase(*asked.servings, tokens=50_000, max_repetition=8)
    short = plan_of(mix(store, DIET, less, rows, tokens_per_step=4096))
    long = plan_of(mix(store, DIET, asked, rows, tokens_per_step=4096))
    assert short.height < long.height
    assert long.head(short.height).equals(short)


def test_another_seed_gives_another_order(store: Store, two_servings: TwoServings) -> None:
    phase, rows = two_servings
    one = plan_of(mix(store, DIET, phase, rows, tokens_per_step=4096))
    reseeded = DIET.model_copy(update={"seed": 18})
    other = plan_of(mix(store, reseeded, phase, rows, tokens_per_step=4096))
    assert one["pack_id"].to_list() != other["pack_id"].to_list()


def test_the_anneal_goes_on_where_the_phase_ended(
    store: Store, two_servings: TwoServings, phase: Make
) -> None:
    asked, rows = two_servings
    short = phase(*asked.servings, tokens=20_000)
    first = mix(store, DIET, short, rows, tokens_per_step=4096)
    tail = phase(*asked.servings, tokens=20_000, name="anneal")
    second = mix(
        store, DIET, tail, rows, tokens_per_step=4096, seen=rows_seen_before([(first, None)])
    )
    for before, after in zip(report_of(first).strata, report_of(second).strata, strict=True):
        assert after.drawn_before == before.drawn
    both = pl.concat([plan_of(first), plan_of(second)])
    long = next(each for each in report_of(first).strata if each.row_length == 1024)
    of_long = both.filter(pl.col("row_length") == 1024).head(long.rows)
    assert of_long["pack_id"].n_unique() == of_long.height


def test_phases_of_other_rows_leave_a_key_alone(
    store: Store, two_servings: TwoServings, make_rows: Make, serving: Make, phase: Make
) -> None:
    asked, rows = two_servings
    others = [[make_rows({"x": [500] * 50}, name="v3_doxygen")]]
    elsewhere = mix(
        store, DIET, phase(serving(), tokens=9000, name="edits"), others, tokens_per_step=4096
    )
    alone = recipe(DIET, asked, rows, tokens_per_step=4096)
    after = recipe(
        DIET, asked, rows, tokens_per_step=4096, seen=rows_seen_before([(elsewhere, None)])
    )
    assert rows_taken(rows_seen_before([(elsewhere, None)]), others) == {
        (others[0][0].key, "x"): report_of(elsewhere).rows
    }
    assert alone.key == after.key


def test_the_key_leaves_out_names_and_reasons(
    store: Store, two_servings: TwoServings, phase: Make
) -> None:
    asked, rows = two_servings
    renamed = phase(
        *asked.servings, tokens=120_000, max_repetition=8, why="x", name="edits", branch="wide"
    )
    one = recipe(DIET, asked, rows, tokens_per_step=4096)
    other = recipe(DIET, renamed, rows, tokens_per_step=4096)
    assert one.key == other.key
    assert other.folder.as_posix() == "mixtures/specialist-templates/branch-wide/phase-edits"
    assert recipe(DIET, asked, rows, tokens_per_step=8192).key != one.key


def test_a_step_must_be_whole_slots_and_within_the_budget(
    store: Store, two_servings: TwoServings, phase: Make
) -> None:
    asked, rows = two_servings
    with pytest.raises(MixtureError, match="slots of 1024"):
        mix(store, DIET, asked, rows, tokens_per_step=1536)
    tiny = phase(*asked.servings, tokens=900)
    with pytest.raises(MixtureError, check=fields(value="900 tokens")):
        mix(store, DIET, tiny, rows, tokens_per_step=4096)
    assert list(store.artefacts("mixtures")) == []


def test_a_renormalised_share_is_recorded(
    store: Store, make_rows: Make, serving: Make, phase: Make
) -> None:
    rows = [[make_rows({"x": [500] * 4})], [make_rows({"x": [500] * 99}, name="v2_simple")]]
    asked = phase(
        serving(share=0.5),
        serving(1, share=0.5, family="v2_simple"),
        tokens=40_000,
        max_repetition=2,
        on_shortage="renormalise",
    )
    report = report_of(mix(store, DIET, asked, rows, tokens_per_step=4096))
    assert [stratum.served for stratum in report.strata] == pytest.approx([0.1, 0.9])
    assert "0.5000 was renormalised to 0.1000" in report.warnings[0]
    assert report.strata[0].tokens / report.tokens == pytest.approx(0.1, abs=0.02)


def test_a_dry_store_only_says_what_it_would_mix(store: Store, two_servings: TwoServings) -> None:
    phase, rows = two_servings
    dry = Store(store.root, dry=True)
    planned = mix(dry, DIET, phase, rows, tokens_per_step=4096)
    assert planned.planned


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(
    fills=st.lists(st.tuples(st.integers(2, 30), st.integers(100, 512)), min_size=1, max_size=4),
    raw=st.lists(st.integers(1, 20), min_size=4, max_size=4),
    seed=st.integers(0, 2**31),
)
def test_full_blocks_of_any_plan_hold_exact_counts(
    store: Store,
    make_rows: Make,
    serving: Make,
    phase: Make,
    fills: list[tuple[int, int]],
    raw: list[int],
    seed: int,
) -> None:
    """Counts by share ÷ mean fill, whatever the fill of the rows is."""
    shares = np.array(raw[: len(fills)]) / sum(raw[: len(fills)])
    rows = [
        [make_rows({"x": [fill] * count}, name=f"f{at}")] for at, (count, fill) in enumerate(fills)
    ]
    servings = [serving(at, share=float(share)) for at, share in enumerate(shares)]
    asked = phase(*servings, tokens=2 * BLOCK_SLOTS * 400, max_repetition=1e6)
    diet = DIET.model_copy(update={"seed": seed})
    plan = plan_of(mix(store, diet, asked, rows, tokens_per_step=512))
    per_token = shares / np.array([fill for _, fill in fills])
    exact = BLOCK_SLOTS * per_token / per_token.sum()
    whole = plan.height // BLOCK_SLOTS
    assert whole >= 1
    for block in range(whole):
        part = plan["stratum"][block * BLOCK_SLOTS : (block + 1) * BLOCK_SLOTS].to_numpy()
        found = np.bincount(part, minlength=len(fills))
        assert (np.abs(found - exact) < 1 + 1e-6).all()


def test_the_plan_is_pinned(store: Store, make_rows: Make, serving: Make, phase: Make) -> None:
    """A change of these lines changes every plan: raise mix.REVISION with it."""
    rows = [[make_rows({"x": [400, 401, 402]})], [make_rows({"y": [900, 901]}, name="v2_simple")]]
    servings = (
        serving(share=0.5),
        serving(1, share=0.5, family="v2_simple", row_length=1024),
    )
    asked = phase(*servings, tokens=6000)
    plan = plan_of(mix(store, DIET, asked, rows, tokens_per_step=1024))
    found = plan.select("slot", "stratum", "row", "repetition", "valid_tokens").rows()
    assert found == GOLDEN


GOLDEN = [
    (0, 1, 0, 0, 901),
    (1, 0, 0, 0, 400),
    (1, 0, 0, 0, 402),
    (2, 0, 1, 0, 401),
    (2, 0, 0, 1, 400),
    (3, 1, 0, 0, 900),
    (4, 1, 0, 1, 901),
    (5, 0, 1, 1, 401),
    (5, 0, 0, 1, 402),
    (6, 0, 0, 2, 400),
    (6, 0, 1, 2, 401),
]


def test_a_plan_of_several_row_groups_is_one_plan(
    store: Store, make_rows: Make, serving: Make, phase: Make
) -> None:
    """Pieces are drawn, counted and written one after another; nobody sees where they meet."""
    rows = [
        [make_rows({"x": list(range(65, 129))})],
        [make_rows({"y": [100] * 30}, name="v2_simple")],
    ]
    servings = (
        serving(share=0.7, row_length=128),
        serving(1, share=0.3, row_length=128, family="v2_simple"),
    )
    asked = phase(*servings, tokens=3_500_000, max_repetition=1e6)
    mixture = mix(store, DIET, asked, rows, tokens_per_step=128 * 1000)
    report, plan = report_of(mixture), plan_of(mixture)
    assert pq.ParquetFile(mixture.path / "plan.parquet").num_row_groups > 1
    assert plan.height == report.slots > ROW_GROUP
    assert plan["slot"].to_list() == plan["position"].to_list() == list(range(plan.height))
    sums = sums_of_steps(plan, 1000)
    assert sums[-1] == report.tokens <= asked.tokens < sums[-1] + sums[0]
    assert report.steps == len(sums)
    of_first = plan.filter(pl.col("stratum") == 0)
    assert of_first["repetition"].to_list() == [at // 64 for at in range(of_first.height)]


def test_what_was_drawn_before_is_in_the_key(store: Store, two_servings: TwoServings) -> None:
    phase, rows = two_servings
    first = mix(store, DIET, phase, rows, tokens_per_step=4096)
    after = recipe(DIET, phase, rows, tokens_per_step=4096, seen=rows_seen_before([(first, None)]))
    assert after.key != first.key


@pytest.fixture
def two_variants(serving: Make, phase: Make, make_rows: Make) -> TwoServings:
    """One serving of two variants, which pack into 5 and 7 rows, beside one of one."""
    variants = [
        make_rows({"x": [500] * 5}, name="variant0"),
        make_rows({"x": [400] * 7}, name="variant1"),
    ]
    asked = phase(
        serving(share=0.5, variants=2),
        serving(1, share=0.5, family="v2_simple"),
        tokens=20_000,
        max_repetition=8,
    )
    return asked, [variants, [make_rows({"x": [450] * 60}, name="v2_simple")]]


def test_a_repetition_reads_the_next_variant(store: Store, two_variants: TwoServings) -> None:
    phase, rows = two_variants
    mixture = mix(store, DIET, phase, rows, tokens_per_step=1024)
    keys = [artefact.key for artefact in rows[0]]
    mine = plan_of(mixture).filter(pl.col("serving") == 0)
    assert mine["stratum"].n_unique() == 1
    assert set(mine["repetition"].to_list()) >= {0, 1, 2, 3}
    for line in mine.iter_rows(named=True):
        assert line["rows_key"] == keys[line["repetition"] % 2]
        assert line["pack_id"].startswith(keys[line["repetition"] % 2][:12])
        assert line["valid_tokens"] == (500, 400)[line["repetition"] % 2]
    passes = mine.group_by("repetition", maintain_order=True).agg(pl.col("pack_id").n_unique())
    assert passes["pack_id"].to_list()[:3] == [5, 7, 5]


def test_one_pass_of_several_variants_is_what_there_is(
    store: Store, two_variants: TwoServings
) -> None:
    phase, rows = two_variants
    report = report_of(mix(store, DIET, phase, rows, tokens_per_step=1024))
    stratum = report.strata[0]
    assert (stratum.rows, stratum.rows_tokens) == (6, (2500 + 2800) // 2)
    assert [each.rows for each in stratum.variants] == [5, 7]
    assert sum(each.drawn for each in stratum.variants) == stratum.drawn
    assert stratum.repetition == pytest.approx(10_000 / 2650, rel=0.1)
    assert stratum.tokens / report.tokens == pytest.approx(0.5, abs=0.03)


def test_a_later_phase_goes_on_in_the_variant_where_the_earlier_one_ended(
    store: Store, two_variants: TwoServings, phase: Make
) -> None:
    asked, rows = two_variants
    short = phase(*asked.servings, tokens=7000, max_repetition=8)
    first = mix(store, DIET, short, rows, tokens_per_step=1024)
    tail = phase(*asked.servings, tokens=7000, max_repetition=8, name="anneal")
    second = mix(
        store, DIET, tail, rows, tokens_per_step=1024, seen=rows_seen_before([(first, None)])
    )
    both = pl.concat([plan_of(first), plan_of(second)]).filter(pl.col("serving") == 0)
    expected = [repetition for repetition in range(9) for _ in range((5, 7)[repetition % 2])]
    assert both["repetition"].to_list() == expected[: both.height]
    assert plan_of(first).filter(pl.col("serving") == 0).height % 12 not in (0, 5)


def test_what_was_seen_at_a_step_stays_seen_in_a_plan_that_goes_on_from_it(
    store: Store, two_servings: TwoServings, serving: Make, phase: Make
) -> None:
    asked, rows = two_servings
    first = mix(store, DIET, asked, rows, tokens_per_step=4096)
    seen, tokens = seen_until(first, slots=10 * 4)
    head = plan_of(first).filter(pl.col("slot") < 40)
    assert tokens == head["valid_tokens"].sum()
    assert sum(each.rows for each in seen) == head.height
    changed = phase(
        serving(share=0.3, domains=asked.servings[0].domains),
        serving(1, share=0.7, family="v2_simple", row_length=1024),
        tokens=asked.tokens,
        max_repetition=8,
    )
    middle = Continued(run="ab" * 32, step=10, tokens=tokens, seen=seen)
    later = mix(store, DIET, changed, rows, tokens_per_step=4096, continued=middle)
    report = report_of(later)
    assert report.budget == asked.tokens - tokens
    assert report.continued == middle
    both = pl.concat([head, plan_of(later)], how="vertical")
    for stratum in report.strata:
        mine = both.filter(pl.col("stratum") == stratum.stratum)
        assert mine["repetition"].to_list() == [at // stratum.rows for at in range(mine.height)]
        for _, turn in mine.group_by("repetition"):
            assert turn["pack_id"].n_unique() == turn.height
    shares = [sum(each.tokens for each in report.strata if each.serving == at) for at in (0, 1)]
    assert shares[1] / report.tokens == pytest.approx(0.7, abs=0.02)


def test_a_plan_that_went_on_tells_later_phases_all_that_was_seen(
    store: Store, two_servings: TwoServings
) -> None:
    phase, rows = two_servings
    first = mix(store, DIET, phase, rows, tokens_per_step=4096)
    seen, tokens = seen_until(first, slots=8)
    middle = Continued(run="ab" * 32, step=2, tokens=tokens, seen=seen)
    later = mix(store, DIET, phase, rows, tokens_per_step=4096, continued=middle)
    drawn = [each for stratum in report_of(later).strata for each in stratum.rows_taken]
    assert rows_seen_before([(first, None), (later, None)]) == (*seen, *drawn)


def test_nothing_is_left_to_mix_where_the_budget_was_seen(
    store: Store, two_servings: TwoServings
) -> None:
    phase, rows = two_servings
    middle = Continued(run="ab" * 32, step=99, tokens=phase.tokens, seen=())
    with pytest.raises(MixtureError, match=r"120,000 at step 99\b"):
        mix(store, DIET, phase, rows, tokens_per_step=4096, continued=middle)


def test_a_branch_finds_the_plan_that_another_made(
    store: Store, two_servings: TwoServings, phase: Make
) -> None:
    asked, rows = two_servings
    made = mix(store, DIET, asked, rows, tokens_per_step=4096)
    wide = phase(*asked.servings, tokens=asked.tokens, max_repetition=8, branch="wide")
    found = mix(store, DIET, wide, rows, tokens_per_step=4096)
    assert (found.path, found.made) == (made.path, False)
    less = phase(*asked.servings, tokens=50_000, max_repetition=8, branch="wide")
    own = mix(store, DIET, less, rows, tokens_per_step=4096)
    assert own.path.relative_to(store.root).parts[2] == "branch-wide"
