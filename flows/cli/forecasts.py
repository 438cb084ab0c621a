"""Forecasts of a command: `--dry-run` with its time, and `--explain` with the reasons."""

from curriculum.pipeline.execute import Scope
from curriculum.pipeline.forecast import (
    Forecast,
    Until,
    forecast,
    forecast_lines,
    forecast_words,
)
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from flows.cli.carried_out import carry_out, is_done, prepared, print_counts, print_origin
from flows.cli.console import out, table, warn


def explain_run(config: RunConfig, phase: str | None, *, later_phases: bool) -> None:
    """Print what `run` would make, and why: a phase that is named is trained anew."""
    plan = resolve_plan(config, dry=True)
    scope = Scope(phase=phase, later_phases=later_phases, retrain=True)
    plan, events = carry_out(plan, scope)
    made = [each for event in events for each in event.step_artefacts]
    if not is_done(plan, made):
        print_origin(plan, made)
        print_counts(plan.store, made)


def print_forecast(
    config: RunConfig,
    phase: str | None,
    *,
    until: Until,
    retrain: bool = False,
    later_phases: bool = False,
) -> None:
    """Print what a command would make, on how many tokens and how long: `--dry-run`.

    Raises:
        CurriculumError: for a mistake in the config, as the command itself would.
    """
    plan = resolve_plan(config, dry=True)
    scope = Scope(until=until, phase=phase, later_phases=later_phases, retrain=retrain, gates=False)
    with prepared(plan) as (plan, context):
        found = forecast(plan, scope, context)
    show_forecast(found, until=until)
    for line in found.warnings:
        warn(line)
    if found.refusal is not None:
        raise found.refusal


def show_forecast(found: Forecast, *, until: Until) -> None:
    """Print a forecast: a line a phase, then what they come to."""
    out.print(table(forecast_lines(found, until=until)))
    for words in forecast_words(found, until=until):
        out.print(words, soft_wrap=True)
