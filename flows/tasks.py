"""Steps as Prefect tasks: retries, progress and tables on the run's page."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypedDict, TypeVar, cast

from prefect import task
from prefect.exceptions import TerminationSignal

from curriculum.inspection.losses import loss_lines, loss_words
from curriculum.inspection.paired import changes_within
from curriculum.inspection.runs import report_of, run_words
from curriculum.inspection.stage_tables import (
    figure_lines,
    fullness_lines,
    mixture_lines,
    mixture_words,
    yield_lines,
    yield_words,
)
from curriculum.pipeline.attempts import newest_checkpoint, open_attempts
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import BuildStep, MixStep, Step, TrainStep
from curriculum.pipeline.plan import RunPlan
from curriculum.stages import Built
from curriculum.store import Artefact
from flows import artifacts
from flows.artifacts import Log, ProgressArtifacts
from flows.final_states import ending_plainly, result_of
from flows.settings.contexts import context_of
from schemas.errors import CurriculumError, JobKilledError
from schemas.progress import ProgressCallback
from schemas.specialist import SpecialistRef

Result = TypeVar("Result")


def is_retryable(task: Any, run: Any, state: Any) -> bool:
    """Return True for a failure that may pass by itself: a killed process does, a user's mistake doesn't."""
    failure = state.result(raise_on_failure=False)
    return isinstance(failure, JobKilledError) or not isinstance(failure, CurriculumError)


class Retried(TypedDict):
    """Arguments of a task's decorator that say when it is tried again."""

    retries: int
    retry_delay_seconds: float
    retry_condition_fn: Callable[[Any, Any, Any], bool]


RETRIED = Retried(retries=2, retry_delay_seconds=10, retry_condition_fn=is_retryable)


def flow_context(watch: ProgressCallback) -> Context:
    """Return the context of steps in a flow run: its log gets the lines of training and the warnings."""
    log = Log()
    return context_of(watch, log=log.info, warn=log.warning)


@task(name="build", task_run_name="build {phase}", **RETRIED)
@ending_plainly
def build_task(phase: str, step: BuildStep) -> Built:
    """Build the rows of a phase; its page shows how full they are and which documents were excluded."""
    built = step.run(flow_context(ProgressArtifacts()))
    name = step.plan.mark_of("packing-yield", phase)
    words = " ".join((yield_words(built), *fullness_lines(built)))
    artifacts.show(name, words, yield_lines(built))
    name = step.plan.mark_of("excluded-documents", phase)
    artifacts.show(name, loss_words(built), loss_lines(built))
    return built


@task(name="mix", task_run_name="mix {phase}", **RETRIED)
@ending_plainly
def mix_task(phase: str, step: MixStep) -> Artefact:
    """Make the mixture of a phase; its page shows the shares, planned and realised."""
    mixture = step.run(flow_context(ProgressArtifacts()))
    name = step.plan.mark_of("mixture", phase)
    artifacts.show(name, mixture_words(mixture), mixture_lines(mixture))
    return mixture


@task(name="train", task_run_name="train {phase}", **RETRIED)
@ending_plainly
def train_task(phase: str, step: TrainStep) -> Artefact:
    """Train a phase; a second try resumes from its last checkpoint."""
    with _checkpoint_named(step):
        run = step.run(flow_context(ProgressArtifacts()))
    show_run(step, run)
    return run


@contextlib.contextmanager
def _checkpoint_named(step: TrainStep) -> Iterator[None]:
    """Log the checkpoint that a signal leaves, and note it on the signal."""
    try:
        yield
    except TerminationSignal as ended:
        words = _saved_words(step.plan, step.phase)
        Log().info(words)
        ended.add_note(words)
        raise


def _saved_words(plan: RunPlan, phase: str) -> str:
    """Name the checkpoint of the run that trains a phase, from which it is resumed."""
    ref = SpecialistRef(plan.diet.specialist, plan.diet.branch)
    attempts = open_attempts(plan.store)
    ours = [attempt for attempt in attempts if (attempt.ref, attempt.job.phase) == (ref, phase)]
    checkpoint = newest_checkpoint(ours[-1].path) if ours else None
    if checkpoint is None:
        return f"{phase} was stopped before its first checkpoint. Retry begins it anew."
    where = checkpoint.relative_to(plan.store.root).as_posix()
    return f"{phase} was stopped. Retry resumes from its checkpoint {where}."


def show_run(step: TrainStep, run: Artefact) -> None:
    """Show the figures of a run on the page of its flow run."""
    report = report_of(run)
    name = step.plan.mark_of("val-bpb", step.phase)
    changes = changes_within(run.path, report)
    artifacts.show(name, run_words(report), figure_lines(report, changes))


def perform(step: Step[Result], /) -> Result:
    """Carry out a step as a task of this flow run."""
    match step:
        case BuildStep():
            return cast("Result", result_of(build_task(step.phase, step, return_state=True)))
        case MixStep():
            return cast("Result", result_of(mix_task(step.phase, step, return_state=True)))
        case TrainStep():
            return cast("Result", result_of(train_task(step.phase, step, return_state=True)))
    raise AssertionError(step)
