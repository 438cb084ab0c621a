"""`--dry-run`: the forecast of a command as a table."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rich.text import Text

from curriculum.corpus.sources import looked_up
from curriculum.inspection.formats import Line, count
from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.execute import Scope
from curriculum.pipeline.forecast import Forecast, Until, duration, expected, forecast, money
from curriculum.pipeline.plan import resolve_plan
from flows.cli.console import MUTED, out, table, warn
from flows.settings.contexts import context_of


def forecasted(
    config: RunConfig,
    phase: str | None,
    *,
    until: Until,
    anew: str | None = None,
    onwards: bool = False,
) -> None:
    """Print what a command would ask for.

    Raises:
        CurriculumError: for a mistake in the order, as the command itself would.
    """
    plan = resolve_plan(config, dry=True)
    scope = Scope(until=until, phase=phase, onwards=onwards, retrain=anew is not None, gates=False)
    with looked_up(plan.store.root) as sources:
        found = forecast(plan, scope, replace(context_of(warn=warn), sources=sources))
    show(found, until=until)


def show(found: Forecast, *, until: Until) -> None:
    """Print a forecast: a line a phase, then what they come to."""
    out.print(table(_lines(found, until=until)))
    if until != "train":
        out.print(Text("how long building takes isn't measured", MUTED))
        return
    if not found.tokens:
        out.print("Nothing to train: every run is there.")
        return
    out.print(expected(found.tokens, found.model, found.speed), soft_wrap=True)
    if found.price is None:
        out.print(Text("$CURRICULUM_GPU_PRICE, the price of a GPU hour, gives the cost", MUTED))
    elif found.cost is not None:
        out.print(f"{money(found.cost)} at {found.price:g} for a GPU hour")


def _lines(found: Forecast, *, until: Until) -> Iterator[Line]:
    for each in found.phases:
        line = {"phase": each.phase, "to make": _stages(each.to_make)}
        if until == "train":
            seconds = found.speed.seconds(each.tokens) if found.speed and each.tokens else None
            cost = found.speed.cost(each.tokens, found.price) if found.speed else None
            line |= {
                "tokens": count(each.tokens) if each.tokens else "",
                "steps": f"{each.steps:,}" if each.steps else "",
                "time": "" if seconds is None else duration(seconds),
                "cost": money(cost) if each.tokens else "",
                "note": each.note,
            }
        yield line


def _stages(to_make: Mapping[str, int]) -> str:
    """List the artefacts to make of each stage.

    >>> _stages({"rows": 2, "mixtures": 1}), _stages({})
    ('rows 2, mixtures 1', 'nothing')
    """
    return ", ".join(f"{stage} {made}" for stage, made in to_make.items()) or "nothing"
