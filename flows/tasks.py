"""Steps as Prefect tasks: retries, progress and tables on the run's page."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypedDict, TypeVar, cast

from prefect import Task, task
from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal

from curriculum.inspection.build_tables import (
    fullness_lines,
    mixture_lines,
    mixture_words,
    yield_lines,
    yield_words,
)
from curriculum.inspection.losses import Exclusions
from curriculum.inspection.paired import changes_within
from curriculum.inspection.run_tables import figure_lines
from curriculum.inspection.runs import report_of, run_words
from curriculum.pipeline.attempts import newest_checkpoint, open_attempts
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import Step, Verb
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
RUN = "run"
"""Label of a flow run that trained a phase: the path of its run."""


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


@task(task_run_name="{verb} {phase}", **RETRIED)
@ending_plainly
def step_task(verb: Verb, phase: str, step: Step[Any]) -> Any:
    """Carry out a step; its page shows the results. A second try of training resumes from its checkpoint."""
    with _checkpoint_named(step):
        result = step.run(flow_context(ProgressArtifacts()))
    _SHOW[verb](step, result)
    return result


TASKS: Mapping[Verb, "Task[..., Any]"] = {
    verb: step_task.with_options(name=verb) for verb in ("build", "mix", "train")
}


def perform(step: Step[Result], /) -> Result:
    """Carry out a step as a task of this flow run."""
    ended = TASKS[step.verb](step.verb, step.phase, step, return_state=True)
    return result_of(cast("State[Result]", ended))


@contextlib.contextmanager
def _checkpoint_named(step: Step[Any]) -> Iterator[None]:
    """Log the checkpoint that a signal leaves of training, and note it on the signal."""
    try:
        yield
    except TerminationSignal as ended:
        if step.verb == "train":
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


def _show_rows(step: Step[Any], built: Built) -> None:
    """Show how full the rows of a phase are, and which documents were excluded."""
    name = step.plan.mark_of("packing-yield", step.phase)
    words = " ".join((yield_words(built), *fullness_lines(built)))
    artifacts.show(name, words, yield_lines(built))
    name = step.plan.mark_of("excluded-documents", step.phase)
    exclusions = Exclusions.of(built.artefacts())
    artifacts.show(name, exclusions.words, exclusions.lines())


def _show_mixture(step: Step[Any], mixture: Artefact) -> None:
    """Show the shares of a mixture, planned and realised."""
    name = step.plan.mark_of("mixture", step.phase)
    artifacts.show(name, mixture_words(mixture), mixture_lines(mixture))


def show_run(step: Step[Any], run: Artefact) -> None:
    """Show the figures of a run on the page of its flow run."""
    report = report_of(run)
    name = step.plan.mark_of("val-bpb", step.phase)
    changes = changes_within(run.path, report)
    artifacts.show(name, run_words(report), figure_lines(report, changes))


_SHOW: Mapping[Verb, Callable[[Step[Any], Any], None]] = {
    "build": _show_rows,
    "mix": _show_mixture,
    "train": show_run,
}
