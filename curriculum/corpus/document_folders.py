"""Folders of documents, each of one family in one repository."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentsOf:
    """The documents of one family in one repository: its artefact's directory."""

    repository: str
    path: Path
