"""A job whose rows are shared by ranks: the losses and figures of one process, the same key, and refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from curriculum.train import job_process
from curriculum.train.distributed import ProcessRank
from curriculum.train.external_command import run_command
from curriculum.train.metrics import read_metrics
from curriculum.train.run import Run, freeze, train
from curriculum.train.run_directory import read_report
from curriculum.train.validate import require_shared_rows
from schemas.errors import JobError
from tests.curriculum.train.test_distributed import HYBRID

SHARED: dict[str, Any] = {"processes": 2, "context_parallel": 2}


def trained(world: Any, **changes: Any) -> Run:
    job = world.job(
        model=HYBRID, steps=4, micro_positions=256, evaluate_every=2, checkpoint_every=2, **changes
    )
    return train(world.store, job)


def require_equal_losses(one: Run, other: Run) -> None:
    """The same up to the rounding of float32, of which AdamW makes much."""
    alone, shared = (read_metrics(each.directory / "metrics") for each in (one, other))
    for name in ("step", "position", "valid_tokens", "scored_tokens", "attention_density"):
        assert alone[name].to_pylist() == shared[name].to_pylist()
    for name in ("loss", "z_loss", "gradient_norm"):
        assert shared[name].to_pylist() == pytest.approx(alone[name].to_pylist(), rel=1e-4)
    assert len(one.report.history) > 0
    for mine, its in zip(one.report.history, other.report.history, strict=True):
        assert mine.val_bpb == pytest.approx(its.val_bpb, rel=1e-4)
        assert mine.scored_bytes == its.scored_bytes
    assert one.report.tokens == other.report.tokens


@pytest.mark.system
def test_two_ranks_that_share_rows_have_the_losses_of_one_process(
    tmp_path: Path,
    make_world: Callable[..., Any],
    in_this_process: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = trained(make_world(tmp_path / "one"))
    monkeypatch.undo()
    two = trained(make_world(tmp_path / "two"), **SHARED)
    require_equal_losses(one, two)


@pytest.mark.slow
def test_two_groups_of_two_ranks_have_the_losses_of_one_process(
    tmp_path: Path,
    make_world: Callable[..., Any],
    in_this_process: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = trained(make_world(tmp_path / "one"))
    monkeypatch.undo()
    four = trained(make_world(tmp_path / "four"), processes=4, context_parallel=2)
    require_equal_losses(one, four)


def test_sharing_is_no_part_of_what_a_run_is(world: Any) -> None:
    assert world.job(**SHARED).run_key == world.job().run_key
    directory = world.open_run(world.job())
    assert freeze(directory, world.job(**SHARED)).context_parallel == 2


@pytest.mark.parametrize(
    ("processes", "sharing", "words"),
    [
        (3, 2, "context_parallel: 2.*number of processes, 3, .*Use --processes 4"),
        (1, 2, "number of processes, 1, .*Use --processes 2"),
        (3, 3, "rows of 128 tokens can't be split into 3 equal parts"),
        (64, 64, "can't be split into 64 equal parts of at least 4 tokens"),
    ],
)
def test_what_does_not_divide_is_refused(
    world: Any, processes: int, sharing: int, words: str
) -> None:
    job = world.job(model=HYBRID, context_parallel=sharing)
    with pytest.raises(JobError, match=f"(?s){words}"):
        require_shared_rows(job, processes)


def test_another_trainer_is_asked_for_no_shared_rows(world: Any) -> None:
    directory = world.open_run(world.job(trainer="trainer {job}", **SHARED))
    words = "context_parallel: 2; the diet names another trainer.*Remove --context-parallel"
    with pytest.raises(JobError, match=words):
        run_command(directory / "job.json", "trainer {job}", lambda: False)
    assert read_report(directory).stopped == "failed"


def test_a_job_of_one_process_that_shares_rows_fails_with_a_report(world: Any) -> None:
    directory = world.open_run(world.job(context_parallel=2))
    with pytest.raises(JobError, match="multiple of context_parallel"):
        job_process.run_job(directory / "job.json", lambda: False, ProcessRank())
    assert '"failed"' in (directory / "report.json").read_text()
