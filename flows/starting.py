"""How every flow begins: the order from a form's fields, the phases to go through, what is tried again."""

from collections.abc import Iterator
from typing import Any

from prefect.logging import get_run_logger

from flows import settings, work
from flows.course import Course, Order, course
from flows.parameters import ALL_PHASES, Changes
from schemas.errors import CurriculumError


def start(specialist: str, changes: Changes) -> Course:
    """The course of what a form asked for, in this machine's workspace.

    Raises:
        CurriculumError: for what the diet, the phases or the corpus can't give.
    """
    return course(Order(specialist=specialist, home=settings.home(), **changes.model_dump()))


def chosen(plan: Course, phase: str) -> Iterator[str]:
    """The phases to go through, in order; what can't be built by this version is skipped, and said so."""
    logger = get_run_logger()
    yield from work.chosen(plan, None if phase == ALL_PHASES else phase, logger.warning)


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Whether a failure may pass by itself: a user's mistake doesn't."""
    failure = state.result(raise_on_failure=False)
    return not isinstance(failure, CurriculumError)
