"""Hooks of all flow runs: they choose the run's name, and send notifications of failures and crashes."""

import functools
from typing import Any, cast

from prefect import runtime
from prefect.client.schemas.objects import FlowRun, State

from curriculum.pipeline import notifications
from flows import settings
from flows.forms import BuildChanges, Changes
from flows.settings.contexts import context_of
from flows.settings.form_subjects import form_subject
from schemas.errors import JobError

SWITCHES = {"later_phases": "and later phases", "again": "anew", "dry_run": "(dry run)"}
"""Words in a run's name for the switches of its form."""
LONGEST = 40
"""Maximum characters of a value in a name."""
_FORM_ADJECTIVES = frozenset(
    (
        "Awesome", "Ergonomic", "Fantastic", "Generic", "Gorgeous", "Handcrafted", "Handmade", "Incredible",
        "Intelligent", "Licensed", "Practical", "Refined", "Rustic", "Sleek", "Small", "Tasty", "Unbranded",
    )
)  # fmt: skip
"""First words of the random names that Prefect's form proposes."""


def notify_of_failure(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Send a notification that a flow run of a deployment failed or crashed.

    There is none for a failed training, which has sent its own. A run in a terminal prints its error instead.
    Flow runs whose process was killed are found by server/crash_detection.py.
    """
    if flow_run.deployment_id is None:
        return
    if state.is_failed() and isinstance(state.result(raise_on_failure=False), JobError):
        return
    whose = notifications.whose(settings.home(), form_subject(flow_run.parameters))
    words = state.message or state.name or "no reason given"
    notifications.broken_down(
        whose, flow_run.name, words, mark=f"{flow_run.id}-{state.id}", context=context_of()
    )


def is_made_up(name: str) -> bool:
    """Return True if Prefect made up the name: its server (`amber-goat`) or its form (`Rustic-Akita`).

    >>> is_made_up("amber-goat"), is_made_up("Rustic-Akita"), is_made_up("second-try")
    (True, True, False)
    """
    first, _, second = name.partition("-")
    if first in _FORM_ADJECTIVES:
        return second[:1].isupper()
    return {first, second} <= _server_words()


@functools.cache
def _server_words() -> frozenset[str]:
    """Return the words that Prefect's server combines to random names."""
    from coolname.data import config

    vocabulary = cast("dict[str, dict[str, Any]]", config).values()
    return frozenset(word for part in vocabulary for word in part.get("words", ()))


def run_name() -> str:
    """Return the name of the flow run that starts: the user's name, or else one made from the form's values.

    Example of a name made from a form: run templates.demo syntax, token_budget=10K
    """
    typed, made = str(runtime.flow_run.name or ""), _name_of_form()
    return made if not typed or is_made_up(typed) or made.startswith(typed) else typed


def _name_of_form() -> str:
    given = runtime.flow_run.parameters
    if "file" in given:
        return " ".join([runtime.flow_run.flow_name, form_subject(given)])
    switches = [words for name, words in SWITCHES.items() if given.get(name)]
    parts = [" ".join([runtime.flow_run.flow_name, given["specialist"], given["phase"], *switches])]
    changes = given["changes"]
    if not isinstance(changes, BuildChanges):
        changes = Changes.model_validate(changes)
    for name, value in changes:
        if value == type(changes).model_fields[name].default:
            continue
        text = " ".join(value) if isinstance(value, tuple) else str(value)
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        parts.append(name if value is True else f"{name}={short}")
    return ", ".join(parts)


HOOKS: dict[str, Any] = {
    "flow_run_name": run_name,
    "on_crashed": [notify_of_failure],
    "on_failure": [notify_of_failure],
}
"""Arguments of the flow decorator of every flow."""
