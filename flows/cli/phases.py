"""`curriculum mix`, `train` and `run`: run a plan, then print tables of its results."""

from collections.abc import Sequence
from dataclasses import replace

from curriculum.inspection.build_tables import branch_lines
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.tree import explain_diet, explain_plan
from curriculum.pipeline.checks import require_steps
from curriculum.pipeline.context import ignore
from curriculum.pipeline.execute import (
    NOTHING_TO_DO,
    FinishedStep,
    Scope,
    execute,
    run_in_process,
    runs_of,
    selected,
)
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.recorded_config import write_command_snapshot
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Artefact
from flows.cli.carried_out import (
    carry_out,
    is_done,
    is_open,
    prepared,
    print_counts,
    print_origin,
    require_machine,
    require_readable,
    update_report,
    warn_of_folders,
    warn_unmeasured,
)
from flows.cli.console import out, table, warn
from flows.cli.forecasts import print_forecast
from flows.cli.progress_bars import watching
from flows.cli.run_summary import print_runs, print_summary
from flows.server.supervisor import api_for
from flows.settings import prefect_variables
from flows.settings.contexts import context_of


def make(config: RunConfig, scope: Scope, *, dry: bool) -> bool:
    """Mix or train without Prefect; return True if all gates are open.

    With `dry`, nothing is made and the steps are explained instead.
    """
    if scope.until == "train":
        require_machine()
    plan = resolve_plan(config, dry=dry)
    phases = selected(plan, scope)
    if not dry:
        require_readable(plan)
        write_command_snapshot(plan)
    plan, events = carry_out(plan, scope)
    gate = events[-1].gate
    made = [step_artefact for event in events for step_artefact in event.step_artefacts]
    runs = [run for run in runs_of(events) if not run.planned]
    if scope.until == "mix" and (dry or any(artefact.made for artefact in made)):
        _print_mixtures(plan, made)
    if not is_done(plan, made):
        warn_unmeasured(plan, phases)
        print_origin(plan, made)
        print_counts(plan.store, made)
        if runs:
            print_runs(plan, runs)
        if not dry:
            update_report(plan)
        if runs and not dry:
            print_summary(plan, scope, runs, gate)
    return is_open(gate)


def make_or_preview(config: RunConfig, scope: Scope, *, dry_run: bool, explain: bool) -> bool:
    """Mix or train, or only print a forecast or an explanation; return True if all gates are open."""
    if dry_run:
        print_forecast(config, scope)
    if explain:
        make(config, scope, dry=True)
    return dry_run or explain or make(config, scope, dry=False)


def _print_mixtures(plan: RunPlan, made: Sequence[Artefact]) -> None:
    """Print the mixtures that are not only planned; for a dry plan, print the shares of its diet first."""
    if plan.store.dry:
        out.print(table(branch_lines(explain_diet(plan.diet, plan.phases))))
    for mixture in made:
        if mixture.manifest.stage == "mixtures" and not mixture.planned:
            title = mixture.manifest.labels["phase"]
            report = mixture_report_of(mixture)
            out.print(table(branch_lines(explain_plan(report, title=title, key=mixture.key))))
            for line in report.warnings:
                warn(f"{title}: {line}")


def run(config: RunConfig, scope: Scope) -> bool:
    """Run the `run` flow in this process, print its training runs, and return True if all gates are open."""
    plan, trained = resolve_plan(config, dry=True), flow(config, scope)
    gate, runs = trained[-1].gate, runs_of(trained)
    if any(run.made for run in runs):
        print_runs(plan, runs)
        warn_unmeasured(plan, selected(plan, scope))
        print_summary(plan, scope, runs, gate)
    return is_open(gate)


def flow(config: RunConfig, scope: Scope) -> Sequence[FinishedStep]:
    """Run the Prefect flow in this process, with progress in the terminal, and return its trained phases.

    If all runs are finished already, Prefect isn't started, because that takes long.

    Raises:
        CurriculumError: for a mistake in the config, before anything is written.
    """
    require_machine()
    plan = resolve_plan(config, dry=True)
    require_readable(plan)
    if _is_all_there(plan, scope):
        out.print(NOTHING_TO_DO)
        trained = _reused(plan, scope)
        # The dry plan has read the manifests already, so its report is written faster.
        update_report(plan)
        return trained
    warn_of_folders(plan)
    require_steps(plan, scope, context_of(warn=warn))
    with api_for(config.workspace, warn):
        # Prefect reads its settings when it is imported.
        with prefect_variables.without_settings_files(config.workspace):
            from flows.run import run_in_process

        with watching() as watch:
            return run_in_process(config, scope, watch)


def _is_all_there(plan: RunPlan, scope: Scope) -> bool:
    """Return True if every artefact that a plan needs up to its first closed gate is built already."""
    context = context_of(warn=ignore)
    events = execute(plan, run_in_process(context), scope, context)
    return not any(
        step_artefact.planned for event in events for step_artefact in event.step_artefacts
    )


def _reused(looked: RunPlan, scope: Scope) -> list[FinishedStep]:
    """Run a plan whose artefacts are all built, to mark them as current; return its trained phases."""
    plan = replace(resolve_plan(looked.config), sources=looked.sources)
    write_command_snapshot(plan)
    with prepared(plan) as (plan, context):
        events = execute(plan, run_in_process(context), scope, context)
        return [event for event in events if event.run is not None]
