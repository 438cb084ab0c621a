"""Forecasts of steps and their time, which --dry-run prints."""

from dataclasses import replace

from curriculum.pipeline.execute import Scope, Verb
from curriculum.pipeline.forecast import Forecast, forecast, forecast_lines, forecast_words
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from flows.cli.carried_out import prepared
from flows.cli.console import out, table, warn


def print_forecast(config: RunConfig, scope: Scope) -> None:
    """Print the steps that a command would take, with their tokens and estimated time.

    Raises:
        CurriculumError: for a mistake in the config, as the command itself would.
    """
    with prepared(resolve_plan(config, dry=True)) as (plan, context):
        found = forecast(plan, replace(scope, gates=False), context)
    show_forecast(found, until=scope.until)
    for line in found.warnings:
        warn(line)
    if found.refusal is not None:
        raise found.refusal


def show_forecast(found: Forecast, *, until: Verb) -> None:
    """Print a forecast as a table with one line per phase, then its totals."""
    out.print(table(forecast_lines(found, until=until)))
    for words in forecast_words(found, until=until):
        out.print(words, soft_wrap=True)
