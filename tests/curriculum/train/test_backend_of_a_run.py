"""The backend of a run: asked for or chosen when training starts, recorded, changed by a resume."""

import json
from pathlib import Path
from typing import Any

import pytest

from curriculum.model import backend_choice
from curriculum.train import checkpoint, job_process, restore, trainer
from curriculum.train.distributed import ProcessRank
from curriculum.train.job_process import run_job
from curriculum.train.run import freeze, train
from curriculum.train.run_directory import LOG, run_recipe
from schemas.errors import JobError
from schemas.job import Job, Report

TRAINS = "trains"
GPU_ONLY = r"varlen on cpu; the kernel runs only on GPUs"
NO_SOFTCAP = "the kernel doesn't support softcap"


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("asked", "softcap", "structure", "outcome"),
    [
        ("auto", None, False, TRAINS),
        ("documents", None, False, TRAINS),
        ("sdpa", None, False, TRAINS),
        ("flex", None, False, TRAINS),
        ("varlen", None, False, GPU_ONLY),
        ("auto", 30.0, False, TRAINS),
        ("documents", 30.0, False, TRAINS),
        (
            "sdpa",
            30.0,
            False,
            f"sdpa with softcap 30; {NO_SOFTCAP}. Choose math, documents or flex",
        ),
        ("flex", 30.0, False, TRAINS),
        ("varlen", 30.0, False, f"varlen with softcap 30; {NO_SOFTCAP}"),
        ("auto", 30.0, True, TRAINS),
        ("sdpa", None, True, TRAINS),
        ("flex", 30.0, True, TRAINS),
        ("varlen", None, True, "varlen with structure; the kernel doesn't support structure"),
    ],
)
def test_each_backend_trains_on_a_cpu_or_is_refused_with_its_reason(
    make_world: Any,
    tmp_path: Path,
    asked: str,
    softcap: float | None,
    structure: bool,
    outcome: str,
) -> None:
    world = make_world(tmp_path / "w", enriched=(128,) if structure else ())
    model = world.job().model.model_copy(update={"softcap": softcap, "structure": structure})
    job = world.job(backend=asked, model=model, steps=2, evaluations=())
    if outcome != TRAINS:
        with pytest.raises(JobError, match=outcome):
            train(world.store, job)
        return
    run = train(world.store, job)
    backend = "documents" if asked == "auto" else asked
    assert (run.report.stopped, run.report.backend, run.report.device) == ("budget", backend, "cpu")
    assert run.report.switched == ()
    assert f"attention  {backend} on cpu: " in (run.directory / LOG).read_text()
    last = world.store.root / run.report.checkpoint
    assert checkpoint.read_state(last).backend == backend


def test_the_key_holds_what_was_asked_for_and_nothing_of_a_choice(world: Any) -> None:
    auto = world.job(backend="auto")
    assert not {"backend", "device"} & run_recipe(auto).config.keys()
    keys = {run_recipe(world.job(backend=each)).key for each in ("auto", "flex", "documents")}
    assert len(keys) == 3
    assert run_recipe(world.job(backend="flex")).config["backend"] == "flex"
    assert run_recipe(auto.model_copy(update={"device": "cuda"})).key == run_recipe(auto).key


def test_a_frozen_job_moves_to_the_device_that_launches_it(world: Any) -> None:
    job = world.job(backend="auto")
    directory = world.open_run(job)
    assert freeze(directory, job.model_copy(update={"device": "cuda"})).device == "cuda"


def _until(world: Any, job: Job, step: int | None) -> tuple[Report, Path]:
    """Train in this process up to a step, or to the end."""
    directory = world.open_run(job)
    there: list[int] = []

    def stop() -> bool:
        there.append(len(there))
        return step is not None and len(there) > step

    return run_job(directory / "job.json", stop, ProcessRank()), directory


def test_a_resume_by_another_backend_says_so_in_one_line_and_in_the_report(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = world.job(backend="auto", steps=6, evaluations=(), checkpoint_every=2)
    stopped, directory = _until(world, job, 3)
    assert (stopped.stopped, stopped.backend) == ("cancelled", "documents")
    capsys.readouterr()
    monkeypatch.setitem(backend_choice.PREFERRED, "cpu", ("sdpa",))
    report, again = _until(world, job, None)
    assert again == directory
    (notice,) = [line for line in capsys.readouterr().out.splitlines() if "bits" in line]
    change = f"sdpa on cpu from step {stopped.steps} on, documents on cpu before"
    assert (
        notice
        == f"attention  {change}; results may differ in the last bits from an uninterrupted run"
    )
    assert (report.backend, report.switched, report.steps) == ("sdpa", (change,), 6)
    weights = restore.read_weights(world.store.root / report.checkpoint)
    monkeypatch.undo()
    whole = world.job(backend="documents", steps=6, evaluations=(), checkpoint_every=2)
    straight, _ = _until(world, whole, None)
    others = restore.read_weights(world.store.root / straight.checkpoint)
    assert all((weights[name] - others[name]).abs().max() < 1e-3 for name in weights)


def test_the_state_of_an_open_run_says_what_computes_it(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []

    class Looking(trainer.Trainer):
        def train(self) -> Any:
            seen.append(json.loads((directory / "state.json").read_text()))
            return super().train()

    job = world.job(backend="auto", steps=1, evaluations=())
    directory = world.open_run(job)
    monkeypatch.setattr(job_process, "Trainer", Looking)
    run_job(directory / "job.json", lambda: False, ProcessRank())
    assert [(each["device"], each["backend"]) for each in seen] == [("cpu", "documents")]
