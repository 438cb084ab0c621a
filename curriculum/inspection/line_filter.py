"""Filters and options of `inspect`."""

from collections.abc import Collection
from dataclasses import dataclass, fields

from schemas.errors import StoreError

FILTERS = {
    "rows": ("family", "domain", "repository", "path", "commit", "licence", "where"),
    "documents": ("family", "domain", "repository", "path", "commit", "licence", "where"),
    "tokens": ("family", "domain", "repository", "path", "commit", "licence"),
    "selections": ("family", "domain", "repository", "path", "where"),
    "mixtures": (
        *("family", "domain", "repository", "path", "commit", "licence", "step", "where"),
    ),
    "runs": ("family", "domain", "step", "where"),
    "checkpoints": ("family", "domain"),
}
"""Filters of the lines of each stage; a run's lines are its figures and its steps."""
OF_DOCUMENTS = ("repository", "path", "commit", "licence")
"""Filters that only documents have: rows are chosen by the documents in them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineFilter:
    """Filter of lines: all given values must match."""

    family: str | None = None
    domain: str | None = None
    repository: str | None = None
    path: str | None = None
    """A file, a folder, or a pattern with * and ?."""
    commit: str | None = None
    """Its first digits."""
    licence: str | None = None
    step: tuple[int, int] | None = None
    """Steps from the first to the last, both among them, counted from 1."""
    where: str | None = None
    """An SQL condition on the columns of the lines."""

    @property
    def given(self) -> tuple[str, ...]:
        """The names of what is asked for."""
        return tuple(each.name for each in fields(self) if getattr(self, each.name) is not None)

    def words(self, name: str) -> str:
        """Return the value of a filter as it was given.

        >>> LineFilter(step=(3, 3)).words("step"), LineFilter(step=(3, 5)).words("step")
        ('3', '3-5')
        """
        value = getattr(self, name)
        return "-".join(dict.fromkeys(map(str, value))) if isinstance(value, tuple) else str(value)

    def refuse(self, stage: str, what: str, *, known: Collection[str] | None = None) -> None:
        """Nothing that is asked for may be passed over.

        Raises:
            StoreError: for what the lines of a stage can't be chosen by.
        """
        can = FILTERS.get(stage, ()) if known is None else known
        for name in self.given:
            if name not in can:
                listed = ", ".join(f"--{each}" for each in can)
                raise StoreError(
                    f"--{name}",
                    self.words(name),
                    cause=f"{what} is of stage {stage}, which knows no {name}",
                    cure=f"Choose by {listed}" if can else "Leave it out",
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectOptions:
    """Number of rows or documents, their filter, and whole texts or excerpts."""

    rows: int = 1
    pack_id: str | None = None
    document: str | None = None
    """The first digits of a document's id."""
    full: bool = False
    only: LineFilter = LineFilter()


def steps(text: str | None) -> tuple[int, int] | None:
    """A step, or a range of them.

    >>> steps("12"), steps("10-20")
    ((12, 12), (10, 20))

    Raises:
        StoreError: for what is neither.
    """
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise StoreError("--step", text, cause="it is no step", cure="Say 12, or 10-20")
    found = int(first), int(last or first)
    if not 1 <= found[0] <= found[1]:
        raise StoreError(
            "--step", text, cause="steps count from 1 upwards", cure="Say 12, or 10-20"
        )
    return found
