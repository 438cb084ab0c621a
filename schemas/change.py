"""A change of one file in one commit: what a reader of history hands to the families."""

from dataclasses import dataclass
from typing import Literal

from schemas.corpus import Language


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """One version of a file, decoded: `blob_id` is git's object id of the raw bytes.

    A BOM is dropped and CRLF or lone CR become LF, so byte offsets count in `text` as UTF-8.
    """

    blob_id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Hunk:
    """A run of changed lines; `start` is the index of its first line, counted from 0.

    Where `before_lines` is 0, lines were only added, in front of line `before_start`; likewise after.
    """

    before_start: int
    before_lines: int
    after_start: int
    after_lines: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """One file in one commit: before and after, and what differs.

    `before` is None for a new file, `after` for a deleted one. `old_path` differs from `path` after a
    rename. `kind` is `snapshot` for a file of a plain directory or of a history's boundary, which has
    no before. `lineage` is `repository:path` with the path that the file had first.
    """

    kind: Literal["added", "modified", "renamed", "deleted", "snapshot"]
    repository: str
    licence: str | None
    commit: str
    timestamp: int
    subject: str
    path: str
    old_path: str
    language: Language
    before: Blob | None
    after: Blob | None
    hunks: tuple[Hunk, ...]
    lineage: str
    before_is_new: bool
    """Whether `before` never was an `after` along the lineage among the changes that are read."""
