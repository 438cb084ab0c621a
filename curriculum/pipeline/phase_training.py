"""The training step of a phase, which also marks the phase's run as current."""

from dataclasses import replace

from curriculum.inspection.runs import run_words
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.model.backend_choice import Capabilities
from curriculum.pipeline import notifications
from curriculum.pipeline.attempts import resumed_step
from curriculum.pipeline.context import Context
from curriculum.pipeline.diet_faults import require_backend
from curriculum.pipeline.phase_job import job_of, machine_of
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.run_config import command
from curriculum.stages import Built
from curriculum.store import Artefact, Recipe
from curriculum.train.launch.launcher import Launch
from schemas.errors import JobError
from schemas.job import Job
from schemas.progress import Progress

UNKNOWN = 0
"""Revision in the recipe of a planned run whose checkpoint or mixture isn't built yet."""


def train_phase(
    plan: RunPlan,
    phase: str,
    built: Built,
    mixture: Artefact,
    context: Context,
    *,
    retrain: bool,
) -> Artefact:
    """Train a phase, starting from the run of the previous phase, and return its finished run.

    Raises:
        JobError: if the previous phase has no run, training failed, or it was stopped.
    """
    resolved = plan.phase(phase)
    previous = None if plan.resume_point_of(resolved) else _previous(plan, resolved)
    if plan.store.dry and (mixture.planned or (previous and previous.planned)):
        return _planned(plan, resolved, _unknown_run(plan, resolved, mixture, previous))
    with notifications.training(plan, phase, context):
        run = _train(plan, resolved, built, mixture, previous, retrain=retrain, context=context)
    plan.keep("runs", resolved, run)
    return run


def _require_trainable(plan: RunPlan, job: Job) -> None:
    """Raise those errors that training processes would raise, before they are started."""
    from curriculum.train.validate import require_shared_rows

    require_shared_rows(job, job.processes)
    has = Capabilities.expected(job.device)
    require_backend(plan.diet, plan.phases, has, context=job.context_parallel)


def _train(
    plan: RunPlan,
    resolved: ResolvedPhase,
    built: Built,
    mixture: Artefact,
    previous: Artefact | None,
    *,
    retrain: bool,
    context: Context,
) -> Artefact:
    from curriculum.train.run import train
    from curriculum.train.run_directory import finished, run_recipe

    resources, store = context.resources, plan.store
    machine = machine_of(plan, resources)
    job = job_of(plan, resolved, built, mixture, previous, machine, gpu_price=resources.gpu_price)
    if store.dry:
        found = None if retrain else finished(store, job)
        if found is None:
            _require_trainable(plan, job)
        return found or _planned(plan, resolved, run_recipe(job))
    launch = Launch(
        slots=resources.slots_of(store.root),
        watch=context.watch,
        tell=context.log,
        stalled=notifications.stalled(plan, resolved.name, context),
        sbatch=resources.sbatch,
        trainer=context.permit(plan),
    )
    begun = resumed_step(store.path_of(run_recipe(job)))
    progress = Progress(
        stage="train", item=resolved.name, done=begun, total=job.steps, unit="steps"
    )
    if retrain or finished(store, job) is None:
        _require_trainable(plan, job)
        context.watch(progress)
    run = train(store, job, again=retrain, launch=launch)
    if run.artefact is None:
        raise JobError(
            f"phase {resolved.name}",
            run.report.stopped,
            cause=run.report.reason,
            cure="Run the same command again to continue from its last checkpoint",
        )
    if run.artefact.made:
        done = run.report.steps
        context.watch(replace(progress, done=done, total=done, note=run_words(run.report)))
    return run.artefact


def _previous(plan: RunPlan, phase: ResolvedPhase) -> Artefact | None:
    """Return the run that a phase starts from; None for the first phase."""
    before = plan.before(phase)
    if not before:
        return None
    run = plan.current("runs", before[-1])
    if run is None:
        raise JobError(
            f"phase {phase.name}",
            cause=f"it starts from phase {before[-1].name}, which has no finished run",
            cure=f"Run it first: {command('run', plan.config, '--phase', before[-1].name)}",
        )
    return run


def _unknown_run(
    plan: RunPlan, phase: ResolvedPhase, mixture: Artefact, previous: Artefact | None
) -> Recipe:
    """Return a placeholder recipe for a dry run whose inputs are not built yet."""
    branch = [("branch", plan.diet.branch)] if plan.diet.branch else []
    inputs = [mixture.as_input("plan"), *([previous.as_input("previous")] if previous else [])]
    return Recipe(
        stage="runs",
        labels=(("specialist", plan.diet.specialist), *branch, ("phase", phase.name)),
        revision=UNKNOWN,
        inputs=tuple(inputs),
    )


def _planned(plan: RunPlan, phase: ResolvedPhase, recipe: Recipe) -> Artefact:
    run = plan.store.produce([recipe], lambda _: None)[0]
    plan.keep("runs", phase, run)
    return run
