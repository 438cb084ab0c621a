import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from curriculum.store import Artefact, Recipe, StagingDirectory
from curriculum.train.evaluation_sets import (
    HeldOutSet,
    Validation,
    evaluation,
    evaluations_apart,
    fixed_evaluation,
    limit_positions,
)
from curriculum.train.job import JobInputs, make_job
from curriculum.train.launch.gpu_slots import Machine
from curriculum.train.run_directory import run_recipe
from schemas.diet import Diet, PhaseSpec
from schemas.errors import JobError
from schemas.job import ANNEAL, Evaluation, Job, TokenCounts
from schemas.mixture import MixtureReport
from tests import factories
from tests.error_fields import fields

CPU = Machine(device="cpu", threads=1)
PHASE = PhaseSpec(row_length=256, rope_base=1234.0, families=("v2_simple",))


def diet(**changes: Any) -> Diet:
    values: dict[str, Any] = {
        "specialist": "tester",
        "corpus": "sample",
        "model": "tiny",
        "token_budget": "1M",
        "phases": [
            {
                "phase": name,
                "portion": 0.45,
                "servings": [{"family": "v2_simple", "share": 1}],
                "advance_when": {"min_tokens": 5},
                "require": ["leakcheck"],
            }
            for name in ("syntax", "graph")
        ],
        "anneal": {"portion": 0.1},
    }
    return Diet.model_validate(values | changes)


def mixture(world: Any, **changes: int) -> Artefact:
    """A mixture artefact that says of itself what a real one does."""
    values: dict[str, Any] = {
        "slot_length": 256,
        "slots": 800,
        "rows": 800,
        "tokens": 200_000,
        "budget": 190_000,
        "tokens_per_step": 4096,
        "steps": 46,
        "strata": (),
        "repetition": factories.READ_ONCE,
    }
    report = MixtureReport(**(values | changes))

    def make(drafts: Sequence[StagingDirectory]) -> None:
        for draft in drafts:
            (draft.path / "plan.parquet").write_bytes(b"")
            draft.report.update(report.model_dump(mode="json"))

    recipe = Recipe(stage="mixtures", labels=(("phase", "x"),), revision=1, config=dict(changes))
    (made,) = world.store.produce([recipe], make)
    artefact: Artefact = made
    return artefact


def ingredients(world: Any, previous: Artefact | None = None, **changes: int) -> JobInputs:
    return JobInputs(
        workspace=world.store.root,
        plan=mixture(world, **changes),
        rows=world.rows,
        tokenizer=world.tokenizer,
        previous=previous,
    )


def held_out(world: Any, name: str = "syntax") -> HeldOutSet:
    if name == "anchor":
        found = fixed_evaluation("anchor", world.val, workspace=world.store.root)
        assert found is not None
        return found
    rows = [Validation(family="v2_simple", share=1.0, rows=world.val)]
    return evaluation(name, rows, workspace=world.store.root)


def validation(world: Any, name: str = "syntax") -> Evaluation:
    return whole(held_out(world, name))


def whole(held: HeldOutSet) -> Evaluation:
    (found,) = limit_positions([held], math.inf)
    return found


def job_of(
    world: Any, phase: str = "syntax", previous: Artefact | None = None, **given: Any
) -> Job:
    names = [phase] if phase != ANNEAL else []
    usual = [validation(world, name) for name in (*names, "anchor")]
    return make_job(
        given.get("diet", diet()),
        phase,
        PHASE,
        ingredients(world, previous),
        evaluations=given.get("evaluations", usual),
        machine=CPU,
    )


def finished(world: Any, job: Job, directory: Path) -> Artefact:
    """A run that left its job and a report."""
    directory.mkdir(parents=True)
    (directory / "job.json").write_text(job.model_dump_json())
    report = factories.run_report(
        specialist="tester",
        phase=job.phase,
        reason="",
        steps=1,
        tokens=TokenCounts(positions=1, valid=1, scored=1, bytes=1),
        seconds=1.0,
        checkpoint="runs/x/checkpoints/step=1",
    )
    (directory / "report.json").write_text(report.model_dump_json())
    kept = report.model_dump(mode="json")
    artefact: Artefact = world.store.publish_run(directory, run_recipe(job), kept)
    return artefact


def test_a_job_says_all_that_the_diet_and_the_mixture_say(world: Any) -> None:
    job = job_of(world)
    assert (job.steps, job.tokens_per_step, job.micro_positions) == (46, 4096, 4096)
    assert job.rope_base == 1234.0
    assert job.model.vocab_size == 64
    assert job.plan.startswith("mixtures/phase-x/")
    assert [each.row_length for each in job.rows] == [256, 128]
    assert not any(Path(each.path).is_absolute() for each in job.rows)
    assert job.advance_when is not None
    assert job.require == ("leakcheck",)
    assert job.optimizer.warmup_steps == 4
    assert job.run_key == run_recipe(job).key
    assert job == Job.model_validate_json(job.model_dump_json())


def test_a_diets_trainer_is_the_jobs(world: Any) -> None:
    command = "torchrun --nproc-per-node 2 my_train.py {job}"
    made = [
        make_job(
            diet(trainer=trainer),
            "syntax",
            PHASE,
            ingredients(world),
            evaluations=[],
            machine=dataclasses.replace(CPU, workers=3),
        )
        for trainer in (None, {"command": command})
    ]
    assert [job.trainer for job in made] == [None, command]
    assert made[0].run_key != made[1].run_key
    assert made[0].workers == 3


def test_the_next_job_carries_on_and_keeps_all_evaluations(world: Any, tmp_path: Path) -> None:
    first = job_of(world)
    second = job_of(world, "graph", finished(world, first, world.store.root / "runs" / "attempt=1"))
    assert second.start_from is not None
    assert second.start_from.path == "runs/x/checkpoints/step=1"
    assert [each.phase for each in second.evaluations] == ["syntax", "graph", "anchor"]
    assert second.optimizer.warmup_steps == 0
    assert second.run_key != first.run_key


def test_an_evaluation_reads_a_tenth_of_what_is_trained_on_unless_a_gate_waits_for_it(
    world: Any,
) -> None:
    evaluations = [validation(world, name) for name in ("syntax", "anchor")]
    strata = [stratum for each in evaluations for stratum in each.strata]
    assert [stratum.positions for stratum in strata] == [1024, 1024] * 2
    gate = {"val_bpb": {"stops_improving_by": 0.1, "over_evaluations": 3}}
    for rule, tokens_per_step, expected in (
        (None, 4096, 20),
        (None, 256, 2 * 1024 * 10 // 256),
        (gate, 256, 20),
        ({"min_tokens": 5}, 256, 80),
    ):
        changed = diet()
        phases = [each.model_dump() | {"advance_when": rule} for each in changed.phases]
        job = make_job(
            diet(phases=phases), "syntax", PHASE,
            ingredients(world, steps=200, tokens_per_step=tokens_per_step),
            evaluations=evaluations, machine=CPU,
        )  # fmt: skip
        assert job.evaluate_every == expected


def test_the_anneal_decays_without_a_gate(world: Any) -> None:
    first = job_of(world)
    last = job_of(world, ANNEAL, finished(world, first, world.store.root / "runs" / "attempt=1"))
    assert last.optimizer.schedule == "decay"
    assert last.optimizer.warmup_steps == 0
    assert last.advance_when is None
    assert [each.phase for each in last.evaluations] == ["syntax", "anchor"]


def test_another_row_length_is_warmed_up_to(world: Any) -> None:
    first = job_of(world)
    previous = finished(world, first, world.store.root / "runs" / "attempt=1")
    longer = make_job(
        diet(),
        "graph",
        PHASE,
        ingredients(world, previous, slot_length=512),
        evaluations=[validation(world, "graph")],
        machine=CPU,
    )
    assert longer.optimizer.warmup_steps == 4


def test_domains_weigh_what_there_is_of_them_times_their_factor(world: Any) -> None:
    rows = [Validation(family="v2_simple", share=1.0, rows=world.val, factors={"one": 3.0})]
    skewed = whole(evaluation("syntax", rows, workspace=world.store.root))
    plain = {each.domain: each.weight for each in validation(world).strata}
    assert sum(plain.values()) == pytest.approx(1)
    weights = {each.domain: each.weight for each in skewed.strata}
    assert weights["one"] / weights["two"] == pytest.approx(3 * plain["one"] / plain["two"])
    without = [
        Validation(family="v2_simple", share=1.0, rows=world.val, factors={"one": 0, "*": 1})
    ]
    left = whole(evaluation("syntax", without, workspace=world.store.root))
    assert (left.set, [each.domain for each in left.strata]) == ("phase", ["two"])


def test_servings_that_share_rows_are_one_stratum_and_one_source(world: Any) -> None:
    halves = [Validation(family="v2_simple", share=0.5, rows=world.val) for _ in range(2)]
    twice = whole(evaluation("syntax", halves, workspace=world.store.root))
    assert twice.strata == validation(world).strata
    served = dataclasses.replace(ingredients(world), rows=world.rows * 2)
    job = make_job(diet(), "syntax", PHASE, served, evaluations=[twice], machine=CPU)
    assert [each.row_length for each in job.rows] == [256, 128]


def apart(world: Any, **sets: float) -> list[Evaluation]:
    """The phase's evaluation, and sets by objective that take domain one times a factor."""
    own = held_out(world)
    some = {
        name: [Validation(family="v2_simple", share=0.5, rows=world.val, factors={"one": factor})]
        for name, factor in sets.items()
    }
    return [
        whole(held_out)
        for held_out in (own, *evaluations_apart(own, some, workspace=world.store.root))
    ]


def test_a_set_of_an_objective_is_apart_where_it_is_not_all_of_the_phase(world: Any) -> None:
    own, fim = apart(world, causal=1.0, fim=3.0)
    assert (own.set, fim.set, fim.phase) == ("phase", "fim", "syntax")
    assert math.fsum(each.weight for each in fim.strata) == pytest.approx(1.0)
    assert fim.strata[0].weight > own.strata[0].weight
    gone = {"fim": [Validation(family="v2_simple", share=1.0, rows=world.val, factors={"*": 0.0})]}
    assert evaluations_apart(held_out(world), gone, workspace=world.store.root) == []
    first = job_of(world, evaluations=[*apart(world, fim=3.0), validation(world, "anchor")])
    second = job_of(world, "graph", finished(world, first, world.store.root / "runs" / "attempt=1"))
    names = [each.name for each in second.evaluations]
    assert names == ["phase syntax", "fim of syntax", "phase graph", "anchor"]
    assert first.run_key != job_of(world).run_key, "what is evaluated enters the key"


def test_a_gate_waits_for_a_set_that_is_measured(world: Any) -> None:
    evaluations = [*apart(world, fim=3.0), validation(world, "anchor")]
    for name in ("phase", "fim", "anchor", "causal"):
        gate = {"val_bpb": {"stops_improving_by": 0.1, "set": name}}
        job = job_of(world, evaluations=evaluations, diet=gated(gate))
        assert job.advance_when is not None
        assert job.advance_when.val_bpb is not None
        assert job.advance_when.val_bpb.set == name
    gate = {"val_bpb": {"stops_improving_by": 0.1, "set": "doc_to_code"}}
    with pytest.raises(JobError, match=r"val_bpb\.set = doc_to_code; .*phase, fim, anchor"):
        job_of(world, evaluations=evaluations, diet=gated(gate))


def gated(rule: dict[str, Any]) -> Diet:
    phases = [each.model_dump() | {"advance_when": rule} for each in diet().phases]
    return diet(phases=phases)


def test_a_phase_without_validation_rows_is_refused(world: Any) -> None:
    with pytest.raises(JobError, match="validation"):
        evaluation("syntax", [], workspace=world.store.root)


def test_a_phase_too_small_for_a_step_is_refused(world: Any) -> None:
    with pytest.raises(JobError, match="4096 positions"):
        make_job(diet(), "syntax", PHASE, ingredients(world, steps=0), evaluations=[], machine=CPU)


def test_a_phase_that_the_diet_does_not_list_is_refused(world: Any) -> None:
    with pytest.raises(JobError, match="syntax, graph", check=fields(value="syntaxx")):
        make_job(diet(), "syntaxx", PHASE, ingredients(world), evaluations=[], machine=CPU)


def test_a_model_that_is_not_there_is_refused(world: Any) -> None:
    with pytest.raises(JobError, check=fields(name="model", value="huge")):
        make_job(
            diet(model="huge"), "syntax", PHASE, ingredients(world), evaluations=[], machine=CPU
        )


def test_backend_and_softcap_of_a_diet_reach_its_job(world: Any) -> None:
    asked = diet(backend="flex", softcap=50)
    job = make_job(asked, "syntax", PHASE, ingredients(world), evaluations=[], machine=CPU)
    assert (job.backend, job.model.softcap) == ("flex", 50.0)
    plain = make_job(diet(), "syntax", PHASE, ingredients(world), evaluations=[], machine=CPU)
    assert (plain.backend, plain.model.softcap) == ("auto", None)


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert (Machine.local().processes, Machine.local().threads) == (1, 8)
    three = Machine.local(3, recompute=True)
    assert (three.processes, three.threads, three.recompute) == (3, 2, True)
    assert Machine.local(16).threads == 1
    assert (Machine.local().workers, Machine.local(loader_workers=3).workers) == (0, 3)


def test_each_gpu_has_a_process_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert (Machine.local().processes, Machine.local().device) == (4, "cuda")
    assert Machine.local(2).processes == 2
    assert (Machine.local().workers, Machine.local(loader_workers=0).workers) == (2, 0)
