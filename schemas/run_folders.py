"""Numbered folders of a run: attempt=1, and in it checkpoints/step=45 and evaluations/step=45.

A folder with another name is none of them, such as attempt=x or step=045.
"""

from collections.abc import Iterator
from pathlib import Path

from schemas.whole_numbers import whole_number

ATTEMPT, STEP = "attempt=", "step="
"""First characters of the names of attempts, and of checkpoints and evaluations."""


def number_of(name: str, prefix: str) -> int | None:
    """Return the number in the name of a folder; None for a name that isn't the prefix and a number.

    >>> number_of("attempt=12", ATTEMPT), number_of("attempt=x", ATTEMPT), number_of("step=045", STEP)
    (12, None, None)
    """
    number = whole_number(name.removeprefix(prefix))
    return number if name == f"{prefix}{number}" else None


def numbered(folder: Path, prefix: str) -> Iterator[tuple[int, Path]]:
    """Yield the numbers and paths of the numbered folders in a folder, in the order of their numbers."""
    found = ((number_of(path.name, prefix), path) for path in folder.glob(f"{prefix}*"))
    yield from sorted((number, path) for number, path in found if number is not None)
