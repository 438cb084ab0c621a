"""Errors about several sources of a corpus, combined into one error."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from schemas.errors import CorpusError
from schemas.visible import shortened

Pin = TypeVar("Pin")
MAX_PART_CHARACTERS = 1_000
"""Maximum length in characters of one source's error within a combined error."""


def combine_errors(failed: Sequence[CorpusError]) -> CorpusError:
    """Return the error in `failed` if there is only one, else an error that lists all of them."""
    if len(failed) == 1:
        return failed[0]
    listed = (
        f"{error.name}: "
        + "; ".join(
            shortened(part, MAX_PART_CHARACTERS)
            for part in (str(error.value or ""), error.cause)
            if part
        )
        for error in failed
    )
    return CorpusError(
        f"{len(failed)} sources of the corpus",
        cause=". ".join(listed),
        cure=". ".join(dict.fromkeys(error.cure for error in failed)),
    )


def raise_combined(failed: Mapping[int, CorpusError]) -> None:
    """Raise the errors of tasks as one error, in the order of the tasks; do nothing if there is no error."""
    if failed:
        raise combine_errors([failed[number] for number in sorted(failed)])


def check_all(pins: Iterable[Pin], check: Callable[[Pin], object]) -> None:
    """Call `check` for each pin, and raise the errors of all pins together.

    Raises:
        CorpusError: with the errors of all pins that fail their check.
    """
    failed: dict[int, CorpusError] = {}
    for number, pin in enumerate(pins):
        try:
            check(pin)
        except CorpusError as refused:
            failed[number] = refused
    raise_combined(failed)
