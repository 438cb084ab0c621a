"""Check of the files that another trainer leaves: report, checkpoint, metrics and proofs."""

from pathlib import Path

from pydantic import ValidationError

from curriculum import parquet
from curriculum.train import checkpoint
from curriculum.train.checkpoint_files import damage
from curriculum.train.masking_cost import LEAST
from curriculum.train.run_directory import CHECKPOINTS, METRICS, REPORT, read_report
from schemas.errors import JobError
from schemas.job import METRICS_SCHEMA, Job, Report

_WRITE = "Write it with curriculum.train.external_trainer"


def require_whole_run(job: Job, workspace: Path, directory: Path) -> Report:
    """The report of a run that ended, if all that belongs to it is there.

    Raises:
        JobError: naming the file or field that is missing or wrong.
    """
    file = directory / REPORT
    if not file.is_file():
        raise JobError(
            str(file), cause="the trainer ended well and left no report", cure=f"{_WRITE}"
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
            file, "stopped", report.stopped, "a trainer that exits with 0 ends by gate or budget"
        )
    if report.stopped == "budget" and report.steps != job.steps:
        raise _wrong(file, "steps", report.steps, f"the budget of the job is {job.steps} steps")
    if report.stopped == "gate" and job.advance_when is None:
        raise _wrong(file, "stopped", "gate", "the job has no gate")


def _require_checkpoint(file: Path, report: Report, workspace: Path, directory: Path) -> None:
    path = workspace / report.checkpoint
    if not report.checkpoint or path.parent != directory / CHECKPOINTS or not path.is_dir():
        raise _wrong(
            file,
            "checkpoint",
            report.checkpoint or "empty",
            f"the next phase starts from one in {directory / CHECKPOINTS}",
        )
    fault = damage(path)
    if fault is not None:
        raise JobError(str(path), fault, cause="the checkpoint isn't whole", cure=f"{_WRITE}")
    try:
        step = checkpoint.read_state(path).step
    except (FileNotFoundError, ValidationError):
        raise JobError(
            str(path / "state.json"), cause="the checkpoint's progress is missing", cure=f"{_WRITE}"
        ) from None
    if step != report.steps:
        raise _wrong(file, "checkpoint", path.name, f"the report is of step {report.steps}")


def _require_metrics(folder: Path, report: Report) -> None:
    parts = sorted(folder.glob("*.parquet"))
    if not parts:
        raise JobError(str(folder), cause="there are no metrics", cure=f"{_WRITE}")
    steps: list[int] = []
    for part in parts:
        there = parquet.read_schema(part)
        for field in METRICS_SCHEMA:
            if field.name not in there.names or there.field(field.name).type != field.type:
                raise JobError(
                    str(part),
                    field.name,
                    cause=f"the column is missing, or isn't {field.type}",
                    cure=f"{_WRITE}",
                )
        table = parquet.read_table(part, columns=["step"])
        steps += table["step"].to_numpy().tolist()
    if steps != list(range(1, report.steps + 1)):
        raise JobError(
            str(folder),
            f"{len(steps)} step{'' if len(steps) == 1 else 's'}, the last {steps[-1] if steps else 'none'}",
            cause=f"the report is of steps 1 to {report.steps}, each of which has a row",
            cure=f"{_WRITE}",
        )


def _require_proofs(file: Path, job: Job, report: Report) -> None:
    if "leakcheck" in job.require and report.leakcheck != "passed":
        raise _wrong(
            file,
            "leakcheck",
            report.leakcheck,
            "the diet requires that the trainer's own model passes: see curriculum.leakcheck",
        )
    cost = report.masking_cost
    if "masking_cost" in job.require and (cost is None or cost.ratio < LEAST):
        raise _wrong(
            file,
            "masking_cost",
            None if cost is None else f"{cost.ratio:.3f}",
            f"the diet requires that it is measured, and at least {LEAST}",
        )


def _wrong(file: Path, name: str, value: object, cause: str) -> JobError:
    return JobError(
        f"{file}: {name}", value, cause=cause, cure="Make the trainer write the true values"
    )
