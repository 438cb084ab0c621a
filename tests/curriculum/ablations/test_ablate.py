"""A whole ablation of a few steps: verdicts, what is kept, and what two ablations share."""

from dataclasses import replace
from pathlib import Path

import pytest

from curriculum.ablations.ablate import Outcome, judge
from curriculum.catalog import open_catalog
from curriculum.store import Artefact
from schemas.errors import JobError
from tests.curriculum.ablations.conftest import (
    CONTINUED,
    STEP,
    STEPS,
    UNMASKED,
    run,
    written_ablation,
)

pytestmark = pytest.mark.system


def test_arms_of_unequal_steps_are_refused_with_the_next_budget_that_fits(tmp_path: Path) -> None:
    halves = [
        {"phase": name, "portion": 0.5, "servings": [{"family": family, "share": 1.0}]}
        for name, family in (("syntax", "v2_simple"), ("file_graph", "v4_context_graph"))
    ]
    file = written_ablation(tmp_path, "halves", halves={"phases": halves})
    with pytest.raises(JobError) as refused:
        run(file, tmp_path / "ws")
    assert refused.value.value == "22 steps, but base has 23"
    assert str(24 * STEP) in refused.value.cure


def test_each_arm_is_trained_with_each_seed_and_the_control_is_worse(
    first: tuple[Outcome, Artefact],
) -> None:
    outcome, _ = first
    read = {(each.arm, each.seed): each.positions for each in outcome.arms}
    assert len(read) == 8
    for seed in (1, 2):
        assert read["base", seed] == read["null", seed] == read["unmasked", seed]
        assert read["base", seed] == STEPS * STEP
        assert read["control", seed] * 3 < read["base", seed]
    assert outcome.control.found.mean > 0.1
    equal = outcome.control.equal_tokens
    assert equal is not None
    assert abs(equal.found.mean) < outcome.control.found.mean / 2
    assert {judged.verdict for judged in outcome.claims} == {"none"}
    base, null = (
        next(each for each in outcome.arms if (each.arm, each.seed) == (name, 1))
        for name in ("base", "null")
    )
    assert base.val_bpb("anchor") != null.val_bpb("anchor")
    start = {each.report.before[0].val_bpb for each in (base, null)}
    assert len(start) == 1, "both begin with the same weights"


def test_an_ablation_that_is_run_again_trains_nothing_and_gives_the_same_tables(
    first: tuple[Outcome, Artefact], home: Path
) -> None:
    outcome, made = first
    again, found, _ = run(home / "masks.yaml", home / "ws")
    assert found.key == made.key
    assert not any(run.made for each in again.arms for run in each.runs)
    assert [each.val_bpb("anchor") for each in again.arms] == [
        each.val_bpb("anchor") for each in outcome.arms
    ]


def test_two_ablations_train_the_arms_that_they_share_once(
    first: tuple[Outcome, Artefact], home: Path
) -> None:
    more = written_ablation(home, "positions", continued=CONTINUED, unmasked=UNMASKED)
    outcome, _, _ = run(more, home / "ws")
    trained = {each.arm for each in outcome.arms if any(run.made for run in each.runs)}
    assert trained == {"continued"}


def test_the_views_have_claims_and_arms(first: tuple[Outcome, Artefact], home: Path) -> None:
    outcome, _ = first
    with open_catalog(home / "ws") as catalog:
        claims = catalog.execute(
            "SELECT arm, difference, verdict FROM ablations WHERE ablation = 'masks'"
        ).fetchall()
        arms = catalog.execute(
            "SELECT arm, seed FROM ablation_arms WHERE ablation = 'masks' ORDER BY ALL"
        ).fetchall()
    assert {arm: difference for arm, difference, _ in claims} == {
        judged.claim.arm: judged.found.mean
        for judged in (*outcome.claims, outcome.null, outcome.control)
    }
    assert arms == sorted((each.arm, each.seed) for each in outcome.arms)


def test_verdicts_wait_for_the_ablations_own_controls(first: tuple[Outcome, Artefact]) -> None:
    outcome, _ = first
    arms = [
        replace(each, seed=seed)
        for each in outcome.arms
        for seed in (each.seed, each.seed + 10, each.seed + 20)
    ]
    assert judge(outcome.spec, arms).claims[0].verdict != "none"
    swapped = {"control": "base", "base": "control"}
    failed = [replace(each, arm=swapped.get(each.arm, each.arm)) for each in arms]
    judged = judge(outcome.spec, failed)
    assert not judged.is_sound
    assert judged.claims[0].verdict == "none"
