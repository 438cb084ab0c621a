"""Check of the files that another trainer leaves: report, checkpoint, metrics and proofs."""

from pathlib import Path

from pydantic import ValidationError

from curriculum import parquet
from curriculum.train import checkpoint
from curriculum.train.checkpoint_files import damage
from curriculum.train.masking_cost import MIN_RATIO
from curriculum.train.run_directory import CHECKPOINTS, METRICS, REPORT, read_report
from schemas.errors import JobError
from schemas.job import METRICS_SCHEMA, Job, Report

_WRITE = "Write it with curriculum.train.external_trainer"


def require_whole_run(job: Job, workspace: Path, directory: Path) -> Report:
    """Check that all files of a finished run exist and match each other; return the run's report.

    Raises:
        JobError: names the file or field that is missing or wrong.
    """
    file = directory / REPORT
    if not file.is_file():
        raise JobError(
            str(file), cause="the trainer exited with 0, but wrote no report", cure=f"{_WRITE}"
        )
    report = read_report(directory)
    for name in ("specialist", "phase", "attempt"):
        if getattr(report, name) != getattr(job, name):
            raise _wrong(file, name, getattr(report, name), f"the job has {getattr(job, name)}")
    _require_an_end(file, job, report)
    _require_checkpoint(file, report, workspace, directory)
    _require_metrics(directory / METRICS, report)
    _require_proofs(file, job, report)
    return report


def _require_an_end(file: Path, job: Job, report: Report) -> None:
    if report.stopped not in ("gate", "budget"):
        raise _wrong(
            file,
            "stopped",
            report.stopped,
            "a trainer that exits with 0 must stop by gate or budget",
        )
    if report.stopped == "budget" and report.steps != job.steps:
        raise _wrong(file, "steps", report.steps, f"the job has a budget of {job.steps} steps")
    if report.stopped == "gate" and job.advance_when is None:
        raise _wrong(file, "stopped", "gate", "the job has no gate")


def _require_checkpoint(file: Path, report: Report, workspace: Path, directory: Path) -> None:
    path = workspace / report.checkpoint
    if not report.checkpoint or path.parent != directory / CHECKPOINTS or not path.is_dir():
        raise _wrong(
            file,
            "checkpoint",
            report.checkpoint or "empty",
            f"the next phase needs a checkpoint in {directory / CHECKPOINTS}",
        )
    fault = damage(path)
    if fault is not None:
        raise JobError(str(path), fault, cause="the checkpoint is damaged", cure=f"{_WRITE}")
    try:
        step = checkpoint.read_state(path).step
    except (FileNotFoundError, ValidationError):
        raise JobError(
            str(path / "state.json"),
            cause="the checkpoint has no valid state.json",
            cure=f"{_WRITE}",
        ) from None
    if step != report.steps:
        raise _wrong(file, "checkpoint", path.name, f"the report says step {report.steps}")


def _require_metrics(folder: Path, report: Report) -> None:
    parts = sorted(folder.glob("*.parquet"))
    if not parts:
        raise JobError(str(folder), cause="the folder contains no metrics", cure=f"{_WRITE}")
    steps: list[int] = []
    for part in parts:
        there = parquet.read_schema(part)
        for field in METRICS_SCHEMA:
            if field.name not in there.names or there.field(field.name).type != field.type:
                raise JobError(
                    str(part),
                    field.name,
                    cause=f"the column is missing or isn't of type {field.type}",
                    cure=f"{_WRITE}",
                )
        table = parquet.read_table(part, columns=["step"])
        steps += table["step"].to_numpy().tolist()
    if steps != list(range(1, report.steps + 1)):
        raise JobError(
            str(folder),
            f"{len(steps)} step{'' if len(steps) == 1 else 's'}, the last {steps[-1] if steps else 'none'}",
            cause=f"the metrics must have one row for each of the steps 1 to {report.steps}",
            cure=f"{_WRITE}",
        )


def _require_proofs(file: Path, job: Job, report: Report) -> None:
    if "leakcheck" in job.require and report.leakcheck != "passed":
        raise _wrong(
            file,
            "leakcheck",
            report.leakcheck,
            "the diet requires that the trainer's own model passes the leakcheck, see curriculum.leakcheck",
        )
    cost = report.masking_cost
    if "masking_cost" in job.require and (cost is None or cost.ratio < MIN_RATIO):
        raise _wrong(
            file,
            "masking_cost",
            None if cost is None else f"{cost.ratio:.3f}",
            f"the diet requires a measured masking cost of at least {MIN_RATIO}",
        )


def _wrong(file: Path, name: str, value: object, cause: str) -> JobError:
    return JobError(
        f"{file}: {name}",
        value,
        cause=cause,
        cure="Fix the trainer so that it writes correct values",
    )
