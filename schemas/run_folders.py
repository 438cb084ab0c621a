"""Numbered folders of a run, for example attempt=1/checkpoints/step=45 and attempt=1/evaluations/step=45.

Folders with other names, for example attempt=x or step=045, are ignored.
"""

from collections.abc import Iterator
from pathlib import Path

from schemas.whole_numbers import whole_number

ATTEMPT, STEP = "attempt=", "step="
"""Prefixes of the folder names of attempts, and of checkpoints and evaluations."""


def number_of(name: str, prefix: str) -> int | None:
    """Return the number after `prefix` in the name of a folder; None for any other name.

    >>> number_of("attempt=12", ATTEMPT), number_of("attempt=x", ATTEMPT), number_of("step=045", STEP)
    (12, None, None)
    """
    number = whole_number(name.removeprefix(prefix))
    return number if name == f"{prefix}{number}" else None


def numbered(folder: Path, prefix: str) -> Iterator[tuple[int, Path]]:
    """Yield the numbers and paths of the numbered subfolders of a folder, in ascending order."""
    found = ((number_of(path.name, prefix), path) for path in folder.glob(f"{prefix}*"))
    yield from sorted((number, path) for number, path in found if number is not None)
