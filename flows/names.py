"""What runs are called: which flow, whose, which phase, and what was changed."""

from prefect import runtime

from flows.parameters import BuildChanges, Changes

SWITCHES = {"onwards": "and those after it", "again": "anew"}
"""How a run's name tells a switch of its form."""
LONGEST = 40
"""Characters of a value in a name."""


def run_name() -> str:
    """The name of the flow run that begins, from what its form was filled with.

    run templates.demo syntax, token_budget=10K
    """
    given = runtime.flow_run.parameters
    switches = [words for name, words in SWITCHES.items() if given.get(name)]
    first = " ".join([runtime.flow_run.flow_name, given["specialist"], given["phase"], *switches])
    changes = given["changes"]
    if not isinstance(changes, BuildChanges):
        changes = Changes.model_validate(changes)
    return ", ".join([first, *_changed(changes)])


def _changed(changes: BuildChanges) -> list[str]:
    """What was changed, as the command line would say it."""
    listed = changes.model_dump(exclude_defaults=True)
    return [
        name if value is True else f"{name}={_short(_words(value))}"
        for name, value in listed.items()
    ]


def _words(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
