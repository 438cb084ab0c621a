"""Inputs of the families: changes of files and commits, and conversations."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal, get_args

from schemas.corpus import Language
from schemas.tree_licences import NO_LICENCE_FILES, LicenceFiles

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """Turn of one side, as it was written; not blank."""

    role: Role
    text: str
    is_context: bool = False
    """True for an assistant's turn that is read and never learnt, such as a wrong answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Turns of user and assistant by turns, the assistant's last; a system turn may come before."""

    source: str
    """The name of its source in the corpus."""
    pin: str
    """40 hex digits: the digest of all files of the source."""
    licence: str | None
    file: str
    """Below the source's folder."""
    line: int
    """Line number, from 1."""
    start: int
    end: int
    """The line's bytes in the file, half-open, its end left out."""
    name: str
    """The id that its line gives it, else its digest."""
    digest: str
    """40 hex digits of who says what, and which of it is context."""
    turns: tuple[Turn, ...]


def digest_of(turns: tuple[Turn, ...]) -> str:
    """40 hex digits that equal turns have in common, and no others."""
    built = hashlib.sha256()
    for turn in turns:
        text = turn.text.encode()
        context = " context" if turn.is_context else ""
        built.update(f"{turn.role}{context} {len(text)}\0".encode() + text)
    return built.hexdigest()[:40]


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """One version of a file, decoded: `blob_id` is git's object id of the raw bytes.

    Text in another encoding becomes Unicode, a BOM is dropped, and CRLF or lone CR become LF, so byte offsets
    count in `text` as UTF-8.
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


TREE_WIDE_FILES = 30
"""Files of known languages that a tree-wide commit changes at least."""


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
    """The corpus file's, for files without another."""
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
    is_tree_wide: bool = False
    """True if its commit changes TREE_WIDE_FILES files of known languages or more."""
    is_replaced: bool = False
    """True for a deleted file whose commit adds a file of the same name, whatever its suffix and folder."""
    is_edit_only: bool = False
    """True for a change that only families of edits see: it is within the limit on the versions of its path
    because tree-wide commits don't count for them."""
    licence_files: LicenceFiles = field(default=NO_LICENCE_FILES, hash=False)
    """Those of the tree after the commit."""
    old_licence_files: LicenceFiles = field(default=NO_LICENCE_FILES, hash=False)
    """Those of the tree before the commit."""


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
    """The corpus file's, for files without another."""
    commit: str
    timestamp: int
    subject: str
    changes: tuple[FileChange, ...]
    tree: TreeDelta
    licence_files: LicenceFiles = field(default=NO_LICENCE_FILES, hash=False)
    """Those of the tree after the commit."""
