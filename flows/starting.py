"""How every flow begins: the order from a form's fields, the phases to go through, what is tried again."""

import itertools
from collections.abc import Iterator
from typing import Any

from prefect.logging import get_run_logger

from flows import settings, work
from flows.course import Course, Order, course
from flows.parameters import ALL_PHASES, Changes
from schemas.errors import CurriculumError, JobKilledError


def start(specialist: str, changes: Changes) -> Course:
    """The course of what a form asked for, in this machine's workspace.

    Raises:
        CurriculumError: for what the diet, the phases or the corpus can't give.
    """
    return course(Order(specialist=specialist, home=settings.home(), **changes.model_dump()))


def chosen(plan: Course, phase: str, *, onwards: bool = False) -> Iterator[str]:
    """The phases to go through, in order: all, one, or one and those after it.

    What can't be built by this version is skipped, and said so.
    """
    logger = get_run_logger()
    if phase == ALL_PHASES:
        yield from work.chosen(plan, None, logger.warning)
    elif onwards:
        first = plan.phase(phase).name
        all_phases = work.chosen(plan, None, logger.warning)
        yield from itertools.dropwhile(lambda each: each != first, all_phases)
    else:
        yield from work.chosen(plan, phase, logger.warning)


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Whether a failure may pass by itself: a killed process does, a user's mistake doesn't."""
    failure = state.result(raise_on_failure=False)
    return isinstance(failure, JobKilledError) or not isinstance(failure, CurriculumError)
