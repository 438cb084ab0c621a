import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import LayerInputs
from curriculum.train import masking_cost as module
from curriculum.train.dataloader import Batch, PlannedRows, collate, steps_of
from curriculum.train.distributed import ProcessRank
from curriculum.train.job_process import run_job
from curriculum.train.masking_cost import Round, compare, loss_of, masking_cost, measure_once
from curriculum.train.optimizer import new_train_state
from curriculum.train.run import freeze
from curriculum.train.run_directory import read_report
from schemas.errors import JobError
from schemas.job import MaskingCost, Report, RowsSource

CPU = torch.device("cpu")


def batch_of(world: Any, rows: int = 2) -> Batch:
    planned = PlannedRows.from_job(world.job(), world.store.root)
    return collate([planned[0]] * rows)


def cost(ratio: float) -> MaskingCost:
    return MaskingCost(
        ratio=ratio,
        row_length=256,
        positions=512,
        micro_batches=1,
        masked_seconds=1.0,
        unmasked_seconds=1.0,
    )


def long_job(world: Any, row_length: int = 16_384, **changes: Any) -> Any:
    """A job that names long rows beside the short ones of its plan."""
    job = world.job(**changes)
    long = RowsSource(key="long", content="", path="rows/long", row_length=row_length)
    return job.model_copy(update={"rows": (*job.rows, long)})


def test_weights_are_the_same_before_and_after_and_gradients_none(world: Any) -> None:
    model = new_train_state(world.job(), CPU).model
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    found = masking_cost(model, [batch_of(world), batch_of(world, rows=1)])
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    assert (found.micro_batches, found.positions, found.row_length) == (2, 3 * 256, 256)
    assert found.ratio > 0
    assert found.masked_seconds > 0 < found.unmasked_seconds


def test_both_sides_read_the_same_tokens_and_score_the_same_targets(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of(world)
    model = new_train_state(world.job(), CPU).model
    runs: list[tuple[torch.Tensor, int, bool]] = []
    scored: list[tuple[torch.Tensor, torch.Tensor]] = []
    hidden = model.hidden

    def watched(ids: Any, boundaries: Any, structure: Any = None, **given: Any) -> torch.Tensor:
        inputs: LayerInputs | None = given.get("inputs")
        seen = boundaries if inputs is None else inputs.boundaries
        runs.append((ids, len(seen.lengths), inputs is not None))
        return hidden(ids, boundaries, structure, **given)

    def loss(model: Decoder, x: torch.Tensor, batch: Batch) -> torch.Tensor:
        scored.append((batch.target_ids, batch.loss_mask))
        return loss_of(model, x, batch)

    monkeypatch.setattr(model, "hidden", watched)
    compare(model, batch, loss)
    documents = len(batch.boundaries.lengths)
    assert documents > 8
    assert [(count, built) for _, count, built in runs] == [
        (documents, False),
        (2, True),
        (documents, False),
    ]
    assert all(torch.equal(ids, batch.input_ids) for ids, _, _ in runs)
    assert all(torch.equal(mask, batch.loss_mask) for _, mask in scored)


def test_what_is_built_beforehand_changes_no_value(world: Any) -> None:
    batch = batch_of(world)
    model = initialise(Decoder(world.job().model, "documents"), 0)
    inputs = model.inputs_of(batch.input_ids, batch.boundaries)
    one = model.hidden(batch.input_ids, batch.boundaries)
    assert torch.equal(one, model.hidden(batch.input_ids, batch.boundaries, inputs=inputs))


def test_a_round_weighs_the_unmasked_pass_against_the_mean_of_the_masked_ones(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([0.0, 9.0, 0.0, 9.0, 0.0, 1.0, 0.0, 3.0, 0.0, 2.0])
    monkeypatch.setattr(module, "now", lambda device: next(ticks))
    model = new_train_state(world.job(), CPU).model
    found = compare(model, batch_of(world), loss_of, warm_up=True)
    assert found == Round(positions=512, masked=1.5, unmasked=3.0)
    assert found.ratio == 2.0


def test_time_that_runs_out_ends_it_after_a_whole_batch(world: Any) -> None:
    model = new_train_state(world.job(), CPU).model
    found = masking_cost(model, [batch_of(world)] * 5, longest_seconds=0.0)
    assert (found.micro_batches, found.positions) == (1, 512)


def test_a_job_measures_the_first_twenty_steps(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEPS", 2)
    job = world.job(require=("masking_cost",), steps=3)
    monkeypatch.setattr(module, "MIN_RATIO", 0.0)
    found = measure_once(job, world.store.root, tmp_path, CPU)
    assert found is not None
    assert found.positions == 2 * job.tokens_per_step
    rows = PlannedRows.from_job(job, world.store.root)
    first = next(steps_of(job, rows, first_step=0, workers=0))
    assert found.micro_batches == 2 * len(first)


def test_short_rows_are_not_measured_unless_the_diet_requires_it(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def of_job(*given: Any) -> MaskingCost:
        asked.append(given)
        return cost(0.96)

    monkeypatch.setattr(module, "_of_job", of_job)
    assert measure_once(world.job(), world.store.root, tmp_path, CPU) is None
    assert not asked
    required = world.job(require=("masking_cost",))
    assert measure_once(required, world.store.root, tmp_path, CPU) == cost(0.96)
    (tmp_path / "long").mkdir()
    for _ in range(2):
        long = measure_once(long_job(world), world.store.root, tmp_path / "long", CPU)
        assert long == cost(0.96)
    assert len(asked) == 2, "a resumed run reads what it measured"


def test_a_damaged_cost_is_deleted_as_its_cure_says_and_measured_again(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_of_job", lambda *_: cost(0.96))
    measure_once(long_job(world), world.store.root, tmp_path, CPU)
    file = tmp_path / "masking_cost.json"
    file.write_text(file.read_text()[:40])
    with pytest.raises(JobError) as refused:
        measure_once(long_job(world), world.store.root, tmp_path, CPU)
    assert refused.value.name == str(file)
    assert "Delete" in refused.value.cure
    file.unlink()
    assert measure_once(long_job(world), world.store.root, tmp_path, CPU) == cost(0.96)
    assert file.is_file()


@pytest.mark.parametrize(("device", "measured"), [("cpu", False), ("cuda", True)])
def test_rows_whose_unmasked_pass_takes_a_cpu_minutes_are_measured_on_gpus_alone(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, measured: bool
) -> None:
    monkeypatch.setattr(module, "_of_job", lambda *given: cost(1.6))
    found = measure_once(long_job(world, 65_536), world.store.root, tmp_path, torch.device(device))
    assert found == (cost(1.6) if measured else None)


def test_masked_rows_that_are_too_slow_end_a_job_that_requires_more(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_of_job", lambda *given: cost(0.9))
    assert measure_once(long_job(world), world.store.root, tmp_path, CPU) == cost(0.9)
    required = world.job(require=("masking_cost",))
    (tmp_path / "required").mkdir()
    with pytest.raises(JobError, match=r"0\.900 .* 0\.95"):
        measure_once(required, world.store.root, tmp_path / "required", CPU)
    assert not (tmp_path / "required" / module.FILE).exists(), "the cost is then measured again"


def test_the_batch_stays_as_it_was(world: Any) -> None:
    batch = batch_of(world)
    before = dataclasses.replace(batch, input_ids=batch.input_ids.clone())
    compare(new_train_state(world.job(), CPU).model, batch, loss_of)
    assert torch.equal(before.input_ids, batch.input_ids)
    assert batch.boundaries is before.boundaries


def trained(world: Any, name: str, **changes: Any) -> tuple[Report, Path]:
    job = world.job(specialist=name, steps=2, evaluations=(), **changes)
    directory = world.store.root / "runs" / name / "attempt=1"
    freeze(directory, job)
    return run_job(directory / "job.json", lambda: False, ProcessRank()), directory


def test_a_measured_run_reports_its_cost_and_learns_what_any_other_does(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_RATIO", 0.0)
    plain, one = trained(world, "plain")
    measured, other = trained(world, "measured", require=("masking_cost",))
    assert plain.masking_cost is None
    assert measured.masking_cost is not None
    assert measured.masking_cost.ratio > 0
    ends = [path / "checkpoints" / "step=2" / "model.safetensors" for path in (one, other)]
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_a_run_that_masking_slows_too_much_takes_no_step(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_RATIO", 1e9)
    with pytest.raises(JobError, match="masking_cost: "):
        trained(world, "slow", require=("masking_cost",))
    directory = world.store.root / "runs" / "slow" / "attempt=1"
    report = read_report(directory)
    assert (report.stopped, report.steps) == ("failed", 0)
    assert not (directory / "checkpoints").exists()
