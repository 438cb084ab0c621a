"""What of an artefact to show."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """How many rows or documents, or which one of them, and whether whole texts."""

    rows: int = 1
    pack_id: str | None = None
    document: str | None = None
    """The first digits of a document's id."""
    full: bool = False
