"""Folders of documents, one per family and repository."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentFolder:
    """Artefact folder with the documents of one family in one repository."""

    repository: str
    path: Path
