"""Commands of the command line for a config, so that they run as they are printed."""

import shlex
from collections.abc import Iterator, Sequence

from curriculum.inspection.runs import report_of
from curriculum.pipeline.config import RunConfig, option
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact

_OF_ONE_MACHINE = {"workers", "processes", "recompute", "log"}
"""Fields that change neither a mixture nor what a run is."""


def command(verb: str, config: RunConfig, *words: str) -> str:
    """Return the command of a config.

    >>> from pathlib import Path
    >>> command("run", RunConfig.of(specialist="templates", workspace=Path(), branch="ux", seed=5))
    'curriculum run templates --branch ux --seed 5'
    """
    return shlex.join(["curriculum", verb, config.specialist, *words, *_options(verb, config)])


def approve_command(plan: RunPlan, phase: str) -> str:
    """Return the command that approves the run of a phase, with the branch in its name: it has no options."""
    own = plan.config.build.branch is not None
    name = f"{plan.diet.specialist}.{plan.diet.branch}" if own else plan.config.specialist
    return shlex.join(["curriculum", "approve", name, phase])


def outcome(plan: RunPlan, phase: str, runs: Sequence[Artefact]) -> str:
    """Sum up the runs of a plan in a line."""
    if not any(run.made for run in runs):
        return "Nothing to do: everything is there."
    names = [each.name for each in plan.phases]
    last = report_of(runs[-1]).phase
    if phase in names and (later := names[names.index(last) + 1 :]):
        return (
            f"{phase} was trained anew. What lies downstream is stale: {', '.join(later)}. "
            f"`{command('run', plan.config)}` goes on from here."
        )
    return f"{len(runs)} phases are done."


def _options(verb: str, config: RunConfig) -> Iterator[str]:
    for field, value in config.changes(verb):
        if field in _OF_ONE_MACHINE:
            continue
        if value is True:
            yield option(field)
        else:
            for each in value if isinstance(value, tuple) else (value,):
                yield from (option(field), str(each))
