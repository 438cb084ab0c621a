"""Steps of a plan as Prefect tasks, with retries, progress, and tables on the run's page."""

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
from flows.final_states import as_prefect_state, result_of
from flows.settings.contexts import context_of
from schemas.errors import CurriculumError, JobKilledError
from schemas.progress import ProgressCallback
from schemas.specialist import SpecialistRef

Result = TypeVar("Result")
RUN = "run"
"""Name of the label in which a training flow run stores the path of its run artefact."""


def is_retryable(task: Any, run: Any, state: Any) -> bool:
    """Return True for a failure that a retry may fix, such as a killed process, not for a user's mistake."""
    failure = state.result(raise_on_failure=False)
    return isinstance(failure, JobKilledError) or not isinstance(failure, CurriculumError)


class Retried(TypedDict):
    """Arguments about retries that a task decorator takes."""

    retries: int
    retry_delay_seconds: float
    retry_condition_fn: Callable[[Any, Any, Any], bool]


RETRIED = Retried(retries=2, retry_delay_seconds=10, retry_condition_fn=is_retryable)


def flow_context(watch: ProgressCallback) -> Context:
    """Return the context of steps in a flow run; warnings and training output go to the flow run's log."""
    log = Log()
    return context_of(watch, log=log.info, warn=log.warning)


@task(task_run_name="{verb} {phase}", **RETRIED)
@as_prefect_state
def step_task(verb: Verb, phase: str, step: Step[Any]) -> Any:
    """Run a step and show its results on its page.

    Prefect retries the task after some failures; a retried training resumes from its last checkpoint.
    """
    with _checkpoint_named(step):
        result = step.run(flow_context(ProgressArtifacts()))
    _SHOW[verb](step, result)
    return result


TASKS: Mapping[Verb, "Task[..., Any]"] = {
    verb: step_task.with_options(name=verb) for verb in ("build", "mix", "train")
}


def perform(step: Step[Result], /) -> Result:
    """Run a step as a task of this flow run."""
    ended = TASKS[step.verb](step.verb, step.phase, step, return_state=True)
    return result_of(cast("State[Result]", ended))


@contextlib.contextmanager
def _checkpoint_named(step: Step[Any]) -> Iterator[None]:
    """Name the saved checkpoint, in the log and in a note on the exception, if a signal stops training."""
    try:
        yield
    except TerminationSignal as ended:
        if step.verb == "train":
            words = _saved_words(step.plan, step.phase)
            Log().info(words)
            ended.add_note(words)
        raise


def _saved_words(plan: RunPlan, phase: str) -> str:
    """Describe the latest checkpoint of the run that trains a phase."""
    ref = SpecialistRef(plan.diet.specialist, plan.diet.branch)
    attempts = open_attempts(plan.store)
    ours = [attempt for attempt in attempts if (attempt.ref, attempt.job.phase) == (ref, phase)]
    checkpoint = newest_checkpoint(ours[-1].path) if ours else None
    if checkpoint is None:
        return f"{phase} was stopped before its first checkpoint. Retry starts the phase again."
    where = checkpoint.relative_to(plan.store.root).as_posix()
    return f"{phase} was stopped. Retry resumes from checkpoint {where}."


def _show_rows(step: Step[Any], built: Built) -> None:
    """Show on the run's page how full a phase's rows are, and which documents were excluded."""
    name = step.plan.mark_of("packing-yield", step.phase)
    words = " ".join((yield_words(built), *fullness_lines(built)))
    artifacts.show(name, words, yield_lines(built))
    name = step.plan.mark_of("excluded-documents", step.phase)
    exclusions = Exclusions.of(built.artefacts())
    artifacts.show(name, exclusions.words, exclusions.lines())


def _show_mixture(step: Step[Any], mixture: Artefact) -> None:
    """Show the planned and actual shares of a mixture."""
    name = step.plan.mark_of("mixture", step.phase)
    artifacts.show(name, mixture_words(mixture), mixture_lines(mixture))


def show_run(step: Step[Any], run: Artefact) -> None:
    """Show the metrics of a run on the page of its flow run."""
    report = report_of(run)
    name = step.plan.mark_of("val-bpb", step.phase)
    changes = changes_within(run.path, report)
    artifacts.show(name, run_words(report), figure_lines(report, changes))


_SHOW: Mapping[Verb, Callable[[Step[Any], Any], None]] = {
    "build": _show_rows,
    "mix": _show_mixture,
    "train": show_run,
}
