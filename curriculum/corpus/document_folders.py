"""Folders of documents, one per family and repository."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentFolder:
    """Folder of an artefact that contains the documents of one family in one repository."""

    repository: str
    path: Path
