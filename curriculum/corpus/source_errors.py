"""Errors of several sources of a corpus as one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from schemas.errors import CorpusError
from schemas.visible import shortened

Pin = TypeVar("Pin")
MAX_PART = 1_000
"""Characters of what one source says that stand beside what others say."""


def as_one(failed: Sequence[CorpusError]) -> CorpusError:
    """Return the error of one source of a corpus, or one error that names several."""
    if len(failed) == 1:
        return failed[0]
    listed = (
        f"{error.name}: "
        + "; ".join(
            shortened(part, MAX_PART) for part in (str(error.value or ""), error.cause) if part
        )
        for error in failed
    )
    return CorpusError(
        f"{len(failed)} sources of the corpus",
        cause=". ".join(listed),
        cure=". ".join(dict.fromkeys(error.cure for error in failed)),
    )


def raise_as_one(failed: Mapping[int, CorpusError]) -> None:
    """Raise the errors of tasks as one, in the order of the tasks' numbers, if there are any."""
    if failed:
        raise as_one([failed[number] for number in sorted(failed)])


def require_each(pins: Iterable[Pin], check: Callable[[Pin], object]) -> None:
    """Check each of some pins.

    Raises:
        CorpusError: of all that are refused, as one.
    """
    failed: dict[int, CorpusError] = {}
    for number, pin in enumerate(pins):
        try:
            check(pin)
        except CorpusError as refused:
            failed[number] = refused
    raise_as_one(failed)
