"""Check that a worker would build what the coordinator planned."""

from collections.abc import Sequence

from curriculum.store import Recipe
from schemas.errors import WorkerError


def require_same(planned: Sequence[Recipe], own: Sequence[Recipe]) -> None:
    """Raise unless a worker's `own` recipes equal the coordinator's: same revisions, settings and tools.

    Raises:
        WorkerError: naming the differences.
    """
    for ours, theirs in zip(planned, own, strict=True):
        if ours.key != theirs.key:
            raise WorkerError(
                str(theirs.directory),
                _difference(ours, theirs),
                cause="a worker would build something else than the coordinator planned",
                cure="Install the same version of curriculum, git and parsers on all nodes",
            )


def _difference(ours: Recipe, theirs: Recipe) -> str:
    compared = ("revision", "config", "tools", "inputs")
    fields = [name for name in compared if getattr(ours, name) != getattr(theirs, name)]
    here = {name: getattr(ours, name) for name in fields}
    there = {name: getattr(theirs, name) for name in fields}
    return f"{', '.join(fields)} here {here}, there {there}"
