"""A change of one file, and of a repository, in one commit: what readers of history hand to the families."""

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
    """True if `before` never was an `after` along the lineage among the changes that are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeFile:
    """A file as it stands in a commit's tree."""

    path: str
    language: Language
    blob: Blob
    lineage: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeDelta:
    """Difference from the tree of the commit that was read before to this one's; the first adds all.

    A path is in `removed` or in `files`, never in both; both are sorted by path.
    """

    removed: tuple[str, ...]
    files: tuple[TreeFile, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitChange:
    """One commit within its repository: its changes in the order of their paths, and its whole tree.

    `tree` has every file in a wanted language that can be read and that the rules of quality keep, whether
    or not the history has its changes.
    """

    repository: str
    licence: str | None
    commit: str
    timestamp: int
    subject: str
    changes: tuple[FileChange, ...]
    tree: TreeDelta
