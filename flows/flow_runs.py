"""Common parts of all flow runs: resolve a plan, run it or only forecast its steps, and write the report."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import get_client

from curriculum.pipeline import forecast, recorded_config
from curriculum.pipeline.checks import require_steps
from curriculum.pipeline.execute import FinishedStep, Perform, Scope, execute
from curriculum.pipeline.explanations import reason_lines
from curriculum.pipeline.plan import RunPlan, looked_at, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status_table import record_status
from curriculum.store import Artefact, Store
from dashboards.report.report_file import rewritten, shows
from flows import artifacts, settings, tasks
from flows.artifacts import Log
from flows.forms import ALL_PHASES, BuildChanges
from flows.settings import trust
from flows.settings.contexts import resources
from schemas.progress import ignore_progress


def named(phase: str) -> str | None:
    """Return the phase that a form names, or None if the form asks for all phases."""
    return None if phase == ALL_PHASES else phase


def start(specialist: str, changes: BuildChanges, scope: Scope) -> RunPlan:
    """Return the plan of this flow run, and tag the flow run with its specialist and phase.

    The first call resolves the values of the form into a plan and records it; a retry uses the recorded plan.
    If another flow run dispatched this one to train, the plan recorded for that flow run is used.

    Raises:
        CurriculumError: if the diet, the phases or the corpus can't provide the request.
    """
    config = _config(specialist, changes)
    parent, store = runtime.flow_run.parent_flow_run_id, Store(config.workspace)
    names = (parent, arm_snapshot(parent, specialist)) if parent else ()
    snapshots = (name for name in names if recorded_config.snapshot_file(store, name).is_file())
    if (snapshot := next(snapshots, None)) is not None:
        plan = recorded_config.read_plan(store, snapshot)
    else:
        plan = recorded_config.first_plan(config, runtime.flow_run.id)
    _tag_plan(plan, scope.phase or ALL_PHASES)
    return plan


def arm_snapshot(flow_run: str, specialist: str) -> str:
    """Return the name under which the flow run of an ablation records the config of one of its arms."""
    return f"{flow_run}-{Path(specialist).stem}"


def _config(specialist: str, changes: BuildChanges) -> RunConfig:
    """Return the config that a form describes; log each workspace file that hides a file of the package."""
    home = settings.home()
    trust.require_trusted(home, specialist)
    config = RunConfig.of(specialist=specialist, workspace=home, **dict(changes))
    for line in trust.shadow_words(config.workspace):
        Log().warning(line)
    return config


def _tag_plan(plan: RunPlan, phase: str) -> None:
    """Tag this flow run with its specialist, branch and phase."""
    branch = {f"branch:{plan.diet.branch}"} if plan.diet.branch else set()
    tag_run({f"specialist:{plan.diet.specialist}", f"phase:{phase}", *branch})


def tag_run(tags: Collection[str]) -> None:
    """Add tags to this flow run; it also keeps the tags of its deployment."""
    with get_client(sync_client=True) as client:
        known = client.read_flow_run(UUID(runtime.flow_run.id)).tags
        client.update_flow_run(UUID(runtime.flow_run.id), tags=[*{*known, *tags}])


def show_forecast(specialist: str, changes: BuildChanges, scope: Scope) -> tuple[()]:
    """Show the steps that a form's request would take, with reasons and estimated time; run none of them.

    Raises:
        CurriculumError: as the run itself would.
    """
    plan, phase = resolve_plan(_config(specialist, changes), dry=True), scope.phase or ALL_PHASES
    _tag_plan(plan, phase)
    with looked_at(plan) as dry:
        asked = replace(scope, gates=False)
        found = forecast.forecast(dry, asked, tasks.flow_context(ignore_progress))
    lines = [*forecast.forecast_lines(found, until=scope.until)]
    words = "; ".join(forecast.forecast_words(found, until=scope.until))
    summary = forecast.forecast_summary(found, until=scope.until)
    described = "; ".join((words, *forecast.notes_words(found)))
    artifacts.show(plan.mark_of("forecast", phase), described, summary)
    reasons = [*reason_lines(plan.store)]
    artifacts.show(plan.mark_of("reasons", phase), "Steps that would run, with reasons", reasons)
    for line in lines:
        Log().info(", ".join(f"{name}: {value}" for name, value in line.items() if value))
    for warning in found.warnings:
        Log().warning(warning)
    Log().info(f"Dry run; nothing was made. {words}")
    if found.refusal is not None:
        raise found.refusal
    return ()


def make(
    specialist: str, changes: BuildChanges, scope: Scope, *, dry_run: bool
) -> tuple[FinishedStep, ...]:
    """Run a form's request and return the events of the trained phases; `dry_run` only shows a forecast."""
    if dry_run:
        return show_forecast(specialist, changes, scope)
    plan, trained = start(specialist, changes, scope), []
    for event, run in carry_out(plan, scope):
        trained.append(event)
        _label_run(plan, run)
        if event.gate and not event.gate.is_open:
            Log().warning(event.gate.why)
    return tuple(trained)


def carry_out(
    plan: RunPlan, scope: Scope, perform: Perform = tasks.perform
) -> Iterator[tuple[FinishedStep, Artefact]]:
    """Run a plan in tasks; yield the event and the run of each trained phase.

    The report is written before a closed gate is yielded, because the flow run may end or be suspended there.
    """
    context = tasks.flow_context(ignore_progress)
    if scope.until != "build":
        require_steps(plan, scope, context)
    for event in execute(plan, perform, scope, context):
        if event.run is not None:
            if not (event.gate and event.gate.is_open and shows(plan, event.run)):
                _link_report(plan)
            yield event, event.run
    _link_report(plan)


def _label_run(plan: RunPlan, run: Artefact) -> None:
    """Store the path of the trained run artefact in this flow run's labels; its parent reads it there."""
    with get_client(sync_client=True) as client:
        path = run.path.relative_to(plan.store.root).as_posix()
        client.update_flow_run_labels(UUID(runtime.flow_run.id), {tasks.RUN: path})


def _link_report(plan: RunPlan) -> None:
    """Update the report and the workspace's status, and link the report on the flow run's page."""
    record_status(plan.store.root, resources(), Log().warning)
    if (file := rewritten(plan, resources(), Log().warning)) is not None:
        address = settings.reports_at(plan.store.root)
        artifacts.link(f"report-{file.stem}", f"Report of {file.stem}", f"{address}/{file.name}")
