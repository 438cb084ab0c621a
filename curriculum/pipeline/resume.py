"""Going on from the middle of a run with another diet: where from, and what was seen till there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from curriculum.mixing.exclusions import read_left_out
from curriculum.mixing.mix import report_of, seen_until
from curriculum.pipeline.attempts import STEP, Attempt, attempts_in, checkpoints
from curriculum.pipeline.references import run_of
from curriculum.store import Store
from curriculum.train.run_directory import JOB, read_job
from schemas.errors import JobError
from schemas.job import Job
from schemas.mixture import Continued, RowsTaken


@dataclass(frozen=True, kw_only=True, slots=True)
class ResumePoint:
    """A whole checkpoint of a run."""

    checkpoint: Path
    job: Job
    step: int

    @staticmethod
    def at(checkpoint: Path) -> "ResumePoint":
        """The one in a directory runs/…/attempt=1/checkpoints/step=N."""
        job = read_job(checkpoint.parents[1] / JOB)
        return ResumePoint(checkpoint=checkpoint, job=job, step=_number(checkpoint, STEP))


def middle_of(store: Store, run: str, step: int | None) -> ResumePoint:
    """The checkpoint of a run at a step, by default its newest; the run by path, name or key.

    Raises:
        JobError: for a run that isn't there, one of several, a step without a checkpoint, and an anneal,
            whose rate has no meaning without its beginning.
    """
    there = dict(checkpoints(run_of(store, run, name="--continue").path))
    if not there:
        raise JobError(run, cause="it has no checkpoint", cure="Let it go on until it has one")
    if step is not None and step not in there:
        raise JobError(
            f"--at-step of {run}",
            step,
            cause="the run keeps no checkpoint of that step",
            cure=f"It has {', '.join(str(each) for each in sorted(there))}",
        )
    return _not_in_a_decay(ResumePoint.at(there[max(there) if step is None else step]))


def back_to(store: Store, run: Attempt, step: int) -> ResumePoint:
    """The last checkpoint of a run at or before a step, of its newest attempt that has one.

    Raises:
        JobError: where none is left from so early, with those that are; and for an anneal.
    """
    attempts = sorted(run.path.parent.glob("attempt=*"), key=lambda each: _number(each, "attempt="))
    there = {number: path for each in attempts for number, path in checkpoints(each)}
    earlier = [each for each in there if each <= step]
    if not earlier:
        listed = ", ".join(str(each) for each in sorted(there))
        raise JobError(
            "--from-step",
            step,
            cause=f"{run.path.relative_to(store.root)} keeps no checkpoint from so early",
            cure=f"It has {listed}" if there else "It has none; train the phase anew",
        )
    return _not_in_a_decay(ResumePoint.at(there[max(earlier)]))


def last_begun(store: Store, way: tuple[str, str | None], same: Mapping[str, str]) -> Attempt:
    """The run of a specialist and branch that began last.

    Those that this very command began, with overrides `same`, lead to the run that it went back in: the
    command given again continues what it began.

    Raises:
        JobError: where none has begun.
    """
    runs = [each for each in attempts_in(store) if each.way == way]
    if not runs:
        raise JobError(
            "--from-step", cause="no run of this specialist has begun", cure="Leave it out"
        )
    found = max(runs, key=lambda each: (each.job.begun, each.job.attempt))
    while found.job.start_from is not None and same.items() <= found.job.overrides.items():
        before = (store.root / found.job.start_from.path).parents[1]
        store.require_inside(before)
        found = Attempt.at(before)
    return found


def _not_in_a_decay(middle: ResumePoint) -> ResumePoint:
    if middle.job.optimizer.schedule == "decay":
        raise JobError(
            middle.checkpoint.name,
            middle.job.phase,
            cause="a decay can't be changed in its middle",
            cure="Go on from the phase before it",
        )
    return middle


def left_out_before(store: Store, middle: ResumePoint) -> tuple[str, ...]:
    """The pack_ids that the plan of a checkpoint's run left out already."""
    return read_left_out(store.load((store.root / middle.job.plan).parent).path)


def continued(store: Store, middle: ResumePoint) -> Continued:
    """Return the rows and tokens that a model has seen at a checkpoint, in this phase and in those before."""
    seen, tokens = _seen(store, middle)
    return Continued(run=middle.job.run_key, step=middle.step, tokens=tokens, seen=seen)


def _seen(store: Store, middle: ResumePoint) -> tuple[tuple[RowsTaken, ...], int]:
    """The rows of all steps, and the valid tokens of those in the phase of the checkpoint."""
    mixture = store.load((store.root / middle.job.plan).parent)
    report = report_of(mixture)
    store.verify_once([mixture.path])
    slots = middle.step * middle.job.tokens_per_step // report.slot_length
    seen, tokens = seen_until(mixture, slots=slots)
    if report.continued is not None:
        return (*report.continued.seen, *seen), report.continued.tokens + tokens
    start = middle.job.start_from
    before = _seen(store, ResumePoint.at(store.root / start.path))[0] if start is not None else ()
    return (*before, *seen), tokens


def _number(folder: Path, prefix: str) -> int:
    return int(folder.name.removeprefix(prefix))
