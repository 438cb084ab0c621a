"""`curriculum mix`, `train` and `run`: a plan carried out, and the tables at the end."""

from dataclasses import replace

from curriculum.inspection.runs import report_of
from curriculum.inspection.stage_tables import (
    branch_lines,
)
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.tree import explain_diet, explain_plan
from curriculum.pipeline.checks import require_steps
from curriculum.pipeline.context import ignore
from curriculum.pipeline.execute import (
    NOTHING_TO_DO,
    Scope,
    execute,
    here,
    selected,
)
from curriculum.pipeline.gates import Verdict, verdict
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.recorded_config import write_command_snapshot
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Artefact
from flows.cli.carried_out import (
    is_done,
    is_open,
    prepared,
    print_counts,
    print_origin,
    report_trained,
    require_machine,
    require_readable,
    update_report,
    warn_of_folders,
    warn_unmeasured,
)
from flows.cli.console import out, table, warn, watching
from flows.cli.run_summary import print_runs, print_summary
from flows.server.supervisor import api_for
from flows.settings import prefect_variables
from flows.settings.contexts import context_of


def mix(config: RunConfig, phase: str | None, *, dry: bool) -> None:
    """Build, then lay down which rows are trained on, in which order."""
    plan = resolve_plan(config, dry=dry)
    scope = Scope(until="mix", phase=phase)
    phases = selected(plan, scope)
    if not dry:
        require_readable(plan)
        write_command_snapshot(plan)
    with prepared(plan) as (plan, context):
        if not dry:
            require_steps(plan, scope, context)
        made = [
            each
            for event in execute(plan, here(context), scope, context)
            for each in event.step_artefacts
        ]
    if not dry and is_done(plan, made):
        return
    if dry:
        out.print(table(branch_lines(explain_diet(plan.diet, plan.phases))))
    for mixture in made:
        if mixture.manifest.stage == "mixtures" and not mixture.planned:
            title = mixture.manifest.labels["phase"]
            report = mixture_report_of(mixture)
            shown = explain_plan(report, title=title, key=mixture.key)
            out.print(table(branch_lines(shown)))
            for line in report.warnings:
                warn(f"{title}: {line}")
    if not dry:
        update_report(plan)
    warn_unmeasured(plan, phases)
    print_origin(plan, made)
    if not (dry and is_done(plan, made)):
        print_counts(plan.store, made)


def train(config: RunConfig, phase: str | None, *, dry: bool) -> bool:
    """Build, mix and train what isn't trained yet, without Prefect; return whether all gates are open."""
    require_machine()
    plan = resolve_plan(config, dry=dry)
    scope = Scope(phase=phase)
    phases = selected(plan, scope)
    if not dry:
        require_readable(plan)
        write_command_snapshot(plan)
    made: list[Artefact] = []
    gate: Verdict | None = None
    with prepared(plan) as (plan, context):
        if not dry:
            require_steps(plan, scope, context)
        for event in execute(plan, here(context), scope, context):
            made += event.step_artefacts
            if event.run is not None and event.gate is not None:
                gate = event.gate
                report_trained(plan, event.run)
    if is_done(plan, made):
        return is_open(gate)
    warn_unmeasured(plan, phases)
    print_origin(plan, made)
    print_counts(plan.store, made)
    runs = [each for each in made if each.manifest.stage == "runs" and not each.planned]
    print_runs(plan, runs)
    if not dry:
        update_report(plan)
        print_summary(plan, scope, runs, gate)
    return is_open(gate)


def run(config: RunConfig, phase: str | None, *, later_phases: bool = False) -> bool:
    """Run the flow in this process, print its runs, and return whether all gates are open."""
    plan, scope = resolve_plan(config, dry=True), Scope(phase=phase, later_phases=later_phases)
    runs = flow(config, phase, later_phases=later_phases)
    gate = verdict(plan, report_of(runs[-1]).phase, runs[-1]) if runs else None
    if any(each.made for each in runs):
        print_runs(plan, runs)
        warn_unmeasured(plan, selected(plan, scope))
        print_summary(plan, scope, runs, gate)
    return is_open(gate)


def flow(
    config: RunConfig, phase: str | None, *, later_phases: bool = False
) -> tuple[Artefact, ...]:
    """Run the Prefect flow in this process with its progress in the terminal, and return its runs.

    Prefect, which takes longer to start than all else, is left out where every run is there already.

    Raises:
        CurriculumError: for a mistake in the config, before anything is written.
    """
    require_machine()
    plan = resolve_plan(config, dry=True)
    require_readable(plan)
    scope = Scope(phase=phase, later_phases=later_phases, retrain=True)
    if _is_all_there(plan, scope):
        out.print(NOTHING_TO_DO)
        runs = _reused(plan, scope)
        # A dry plan reads each manifest once.
        update_report(plan)
        return runs
    warn_of_folders(plan)
    require_steps(plan, Scope(phase=phase, later_phases=later_phases), context_of(warn=warn))
    with api_for(config.workspace, warn):
        # Prefect reads its settings when it is imported.
        with prefect_variables.unset(config.workspace):
            from flows.run import run_in_process

        with watching() as watch:
            return run_in_process(config, phase, watch, later_phases=later_phases)


def _is_all_there(plan: RunPlan, scope: Scope) -> bool:
    """Return True where a dry plan would make nothing, up to its first closed gate."""
    context = context_of(warn=ignore)
    events = execute(plan, here(context), scope, context)
    return not any(each.planned for event in events for each in event.step_artefacts)


def _reused(looked: RunPlan, scope: Scope) -> tuple[Artefact, ...]:
    """Make the artefacts of a dry plan, which are all there, the current ones, and return its runs."""
    plan = replace(resolve_plan(looked.config), sources=looked.sources)
    write_command_snapshot(plan)
    with prepared(plan) as (plan, context):
        events = [*execute(plan, here(context), scope, context)]
    return tuple(event.run for event in events if event.run is not None)
