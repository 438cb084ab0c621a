import dataclasses
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from curriculum.train.checkpoint import CheckpointState
from curriculum.train.dataloader import Batch, PlannedRows, collate, steps_of
from curriculum.train.document_sums import read
from curriculum.train.evaluation import HeldOut
from curriculum.train.metrics import counts_of, read_metrics
from curriculum.train.optimizer import new_train_state
from curriculum.train.report import TrainingEnd
from curriculum.train.step import gradients
from curriculum.train.trainer import Trainer
from schemas.diet import AdvanceWhen, StopsImproving
from schemas.errors import JobError
from schemas.job import CheckpointRef, Evaluation, Job

CPU = torch.device("cpu")


def train(world: Any, directory: Path, stop: Any = lambda: False, **changes: Any) -> TrainingEnd:
    return Trainer(world.job(**changes), world.store.root, directory, CPU, stop).train()


def step_of(world: Any, job: Any) -> list[Batch]:
    return next(steps_of(job, PlannedRows.from_job(job, world.store.root), first_step=0, workers=0))


def test_a_toy_language_is_learnt(world: Any, tmp_path: Path) -> None:
    outcome = train(world, tmp_path, steps=14, evaluate_every=7)
    bits = [f.val_bpb for f in outcome.state.figures if (f.set, f.family) == ("phase", "*")]
    assert len(bits) == 3
    assert bits[0] == pytest.approx(3, abs=0.2)
    assert bits[-1] < bits[0] - 0.5
    assert outcome.stopped == "budget"
    assert outcome.state.tokens.positions == 14 * 1024
    assert outcome.state.slot == 14 * 4


def test_metrics_have_a_row_a_step(world: Any, tmp_path: Path) -> None:
    outcome = train(world, tmp_path, steps=5)
    table = read_metrics(tmp_path / "metrics").to_pydict()
    assert table["step"] == [1, 2, 3, 4, 5]
    assert table["position"] == [1024 * step for step in range(1, 6)]
    assert sum(table["scored_tokens"]) == outcome.state.tokens.scored
    assert sum(table["valid_tokens"]) == outcome.state.tokens.valid
    assert outcome.state.tokens.bytes < 2 * outcome.state.tokens.scored
    assert all(0 < each < 0.5 for each in table["attention_density"])
    assert all(1 < each < 56 for each in table["mean_context"])
    assert table["masked_mfu"] == [None] * 5
    assert table["loss"][0] == pytest.approx(math.log(64), rel=0.05)


def test_accumulation_gives_the_gradient_of_the_whole_step(world: Any) -> None:
    """Sum over the global batch ÷ its count of scored targets, however it is cut."""
    found = []
    for micro_positions in (256, 1024):
        job = world.job(micro_positions=micro_positions, seed=1)
        train_state = new_train_state(job, CPU)
        batches = step_of(world, job)
        gradient = gradients(train_state, batches, job, step=1)
        weights = [
            weight.grad for weight in train_state.model.parameters() if weight.grad is not None
        ]
        found.append((len(batches), gradient, weights))
    (cuts, one, ones), (fewer, other, others) = found
    assert cuts > fewer
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    assert one.norm == pytest.approx(other.norm, rel=1e-4)
    assert len(ones) == len(list(train_state.model.parameters()))
    for a, b in zip(ones, others, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_shifted_label_costs_what_a_random_one_does(world: Any) -> None:
    """Targets that are the inputs themselves, or two ahead, aren't what the rows' loss is taken on."""
    job = world.job()
    batch = step_of(world, job)[0]
    scored = batch.loss_mask.bool()
    following = torch.cat([batch.input_ids[:, 1:], batch.input_ids[:, :1]], dim=1)
    assert torch.equal(batch.target_ids[scored], following[scored])
    assert not torch.equal(batch.target_ids[scored], batch.input_ids[scored])


def test_the_gate_ends_a_phase_before_its_budget(world: Any, tmp_path: Path) -> None:
    rule = AdvanceWhen(
        min_tokens=3000, val_bpb=StopsImproving(stops_improving_by=9, over_evaluations=1)
    )
    outcome = train(world, tmp_path, advance_when=rule, evaluate_every=2)
    assert outcome.stopped == "gate"
    assert outcome.state.step == 4
    assert "3000 tokens, val_bpb " in outcome.reason
    assert outcome.checkpoint is not None
    assert outcome.checkpoint.name == "step=4"


def test_the_gate_waits_for_the_set_that_it_names(world: Any, tmp_path: Path) -> None:
    wanted = StopsImproving(stops_improving_by=9, over_evaluations=1, set="target")
    evaluations = (*world.job().evaluations, target_set(world))
    outcome = train(
        world,
        tmp_path,
        advance_when=AdvanceWhen(val_bpb=wanted),
        evaluate_every=2,
        evaluations=evaluations,
    )
    assert (outcome.stopped, outcome.state.step) == ("gate", 2)
    means = {(f.set, f.step): f.val_bpb for f in outcome.state.figures if f.family == "*"}
    fell = means["target", 0] - means["target", 2]
    assert fell != means["phase", 0] - means["phase", 2]
    assert f"{fell:.4f}" in outcome.reason
    assert read(tmp_path, 2) is not None


def test_a_stop_ends_the_step_in_a_checkpoint(world: Any, tmp_path: Path) -> None:
    steps: list[int] = []

    def stop() -> bool:
        parts = tmp_path / "metrics"
        steps.append(len(list(parts.glob("*"))))
        return len(steps) > 20

    outcome = train(world, tmp_path, stop, checkpoint_every=100)
    assert outcome.stopped == "cancelled"
    assert 0 < outcome.state.step < 12
    assert outcome.checkpoint is not None
    assert outcome.checkpoint.name == f"step={outcome.state.step}"


def test_a_stop_before_the_first_step_leaves_nothing(world: Any, tmp_path: Path) -> None:
    outcome = train(world, tmp_path, lambda: True)
    assert (outcome.stopped, outcome.checkpoint) == ("cancelled", None)
    assert outcome.state == CheckpointState(device="cpu", backend="documents")


def test_a_loss_that_is_no_number_names_step_and_rows(world: Any) -> None:
    job = world.job()
    train_state = new_train_state(job, CPU)
    batches = step_of(world, job)
    with torch.no_grad():
        train_state.model.head.weight[5] = math.inf
    with pytest.raises(JobError, match=rf"^step 3: .*{batches[0].pack_ids[0]}"):
        gradients(train_state, batches, job, step=3)


def test_a_gradient_that_is_no_number_names_the_step(world: Any) -> None:
    job = world.job()
    train_state = new_train_state(job, CPU)
    weight: Any = train_state.model.embedding.weight
    weight.register_hook(lambda gradient: gradient * math.nan)
    batches = step_of(world, job)
    last = batches[-1].pack_ids[-1]
    with pytest.raises(JobError, match=f"step 8: the gradient .*, {last}; "):
        gradients(train_state, batches, job, step=8)


def test_density_counts_pairs_within_documents(world: Any) -> None:
    rows = PlannedRows.from_job(world.job(), world.store.root)
    batch = collate([rows[0]])
    pairs = sum(size * (size + 1) // 2 for size in batch.boundaries.lengths[:-1])
    counts = counts_of(batch, torch.zeros(64))
    assert (counts.attention_pairs, counts.causal_pairs) == (pairs, 256 * 257 // 2)


@pytest.mark.parametrize(("steps", "evaluated"), [(9, [0, 4, 9]), (10, [0, 4, 8, 10])])
def test_an_evaluation_just_before_the_end_is_left_to_the_end(
    world: Any, tmp_path: Path, steps: int, evaluated: list[int]
) -> None:
    outcome = train(world, tmp_path, steps=steps, evaluate_every=4)
    assert [*dict.fromkeys(f.step for f in outcome.state.figures)] == evaluated


def carrying_on(world: Any, before: Job, checkpoint: Path, **changes: Any) -> Job:
    """The next phase's job: the evaluations of the one before, and its own."""
    start = CheckpointRef(
        run_key=before.run_key,
        run_content="1",
        path=checkpoint.relative_to(world.store.root).as_posix(),
    )
    whole = before.evaluations[0]
    strata = [
        stratum.model_copy(update={"measured": stratum.measured[:4]}) for stratum in whole.strata
    ]
    own = whole.model_copy(update={"phase": "graph", "strata": tuple(strata)})
    evaluations = (*before.evaluations, own)
    job: Job = world.job(phase="graph", start_from=start, evaluations=evaluations, **changes)
    return job


def target_set(world: Any) -> Evaluation:
    """The second stratum of the phase as a set apart."""
    whole: Evaluation = world.job().evaluations[0]
    strata = tuple(each.model_copy(update={"objective": "target"}) for each in whole.strata[1:])
    return whole.model_copy(update={"set": "target", "strata": strata})


EVALUATED = ["phase syntax", "anchor", "target of syntax", "phase graph"]


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({}, ["phase graph"]),
        ({"rope_base": 20_000.0}, EVALUATED),
        ({"micro_positions": 256}, EVALUATED),
    ],
)
def test_figures_of_the_run_before_are_those_of_evaluating_again(
    world: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    again: list[str],
) -> None:
    first = world.job(steps=3, evaluations=(*world.job().evaluations, target_set(world)))
    directory = world.open_run(first)
    outcome = Trainer(first, world.store.root, directory, CPU, lambda: False).train()
    assert outcome.checkpoint is not None
    job = carrying_on(world, first, outcome.checkpoint, **changes)
    evaluated: list[str] = []
    plain = HeldOut._sums

    def noted(self: HeldOut, evaluations: Sequence[Evaluation]) -> Any:
        evaluated.extend(each.name for each in evaluations)
        return plain(self, evaluations)

    monkeypatch.setattr(HeldOut, "_sums", noted)
    second = Trainer(job, world.store.root, tmp_path / "run", CPU, lambda: False)
    carried = second.evaluator.evaluate(0)
    assert evaluated == again
    anew = dataclasses.replace(second.evaluator, before=None).evaluate(0)
    assert evaluated == [*again, *EVALUATED]
    assert carried.figures == anew.figures
    assert carried.documents.equals(anew.documents)
    assert {each.step for each in carried.figures} == {0}


def test_without_the_documents_of_the_run_before_all_is_evaluated_again(
    world: Any, tmp_path: Path
) -> None:
    first = world.job(steps=3)
    directory = world.open_run(first)
    outcome = Trainer(first, world.store.root, directory, CPU, lambda: False).train()
    assert outcome.checkpoint is not None
    shutil.rmtree(directory / "evaluations")
    job = carrying_on(world, first, outcome.checkpoint)
    second = Trainer(job, world.store.root, tmp_path / "run", CPU, lambda: False)
    assert second.evaluator.before is None
