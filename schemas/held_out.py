"""Rows that measure, in the order in which they do: held_out.json beside them."""

from schemas.text import Strict

MIN_DOCUMENTS, MIN_LINEAGES = 8, 4
"""Documents and lineages below which val_bpb is too few to tell: one file decides it."""


class HeldOutRow(Strict):
    """A row with its documents and their lineages, in the order of the row."""

    row: int
    """Number over all files of the artefact."""
    domain: str
    documents: tuple[str, ...]
    lineages: tuple[str, ...]


class HeldOutRows(Strict):
    """The rows of each domain that are measured, the first before the others."""

    rows: tuple[HeldOutRow, ...]


def tells(documents: int, lineages: int) -> bool:
    """Return True if val_bpb of so many documents and lineages says something.

    >>> tells(8, 4), tells(300, 3)
    (True, False)
    """
    return documents >= MIN_DOCUMENTS and lineages >= MIN_LINEAGES
