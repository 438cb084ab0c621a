"""Commands as a person types them: an order in the command line's own words, so that it runs as printed."""

import shlex
from collections.abc import Iterator
from dataclasses import fields

from curriculum.pipeline.config import NAMES
from curriculum.pipeline.plan import Course, Order

_NOT_OPTIONS = {"specialist", "home", "shard"}
_OF_ONE_MACHINE = {"workers", "processes", "recompute", "log"}
"""They change neither a mixture nor what a run is."""


def command(verb: str, order: Order, *words: str) -> str:
    """The command that gives an order again.

    >>> from pathlib import Path
    >>> command("run", Order(specialist="templates", home=Path(), branch="ux", seed=5))
    'curriculum run templates --branch ux --seed 5'
    """
    return shlex.join(["curriculum", verb, order.specialist, *words, *_options(order)])


def approve_command(plan: Course, phase: str) -> str:
    """The command that approves the run of a phase: it takes no options, so a branch is in the name."""
    own = plan.order.branch is not None
    name = f"{plan.diet.specialist}.{plan.diet.branch}" if own else plan.order.specialist
    return shlex.join(["curriculum", "approve", name, phase])


def _options(order: Order) -> Iterator[str]:
    for field in fields(order):
        if field.name in _NOT_OPTIONS | _OF_ONE_MACHINE:
            continue
        (option,) = NAMES.get(field.name, [f"--{field.name.replace('_', '-')}"])
        value = getattr(order, field.name)
        if value is True:
            yield option
        elif isinstance(value, tuple):
            for each in value:
                yield from (option, each)
        elif value not in (None, False):
            yield from (option, str(value))
