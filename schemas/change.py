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
    """One non-blank turn of a conversation, with its text unchanged."""

    role: Role
    text: str
    is_context: bool = False
    """True for an assistant's turn that is read but never a target, for example a wrong answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Alternating turns of user and assistant, ending with the assistant; a system turn may come first."""

    source: str
    """Name of the conversation source in the corpus."""
    pin: str
    """40 hex digits: digest of all files of the source."""
    licence: str | None
    file: str
    """Path relative to the source's folder."""
    line: int
    """1-based line number."""
    start: int
    end: int
    """Byte range of the line in the file, half-open, without its line end."""
    name: str
    """Id given in the line, or else the digest."""
    digest: str
    """40 hex digits: digest of roles, texts and context flags of all turns."""
    turns: tuple[Turn, ...]


def digest_of(turns: tuple[Turn, ...]) -> str:
    """Return 40 hex digits of a hash over roles, texts and context flags of turns."""
    built = hashlib.sha256()
    for turn in turns:
        text = turn.text.encode()
        context = " context" if turn.is_context else ""
        built.update(f"{turn.role}{context} {len(text)}\0".encode() + text)
    return built.hexdigest()[:40]


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """One decoded version of a file; `blob_id` is git's object id of the raw bytes.

    Text in other encodings is converted to Unicode, a BOM is dropped, and CRLF or lone CR become LF. Byte
    offsets count in the UTF-8 encoding of `text`.
    """

    blob_id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Hunk:
    """A run of changed lines; `before_start` and `after_start` are 0-based indices of its first line.

    If `before_lines` is 0, lines were only added, in front of line `before_start`. If `after_lines` is 0,
    lines were only removed.
    """

    before_start: int
    before_lines: int
    after_start: int
    after_lines: int


TREE_WIDE_FILES = 30
"""Minimum number of files in known languages that a tree-wide commit changes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """Change of one file in one commit: both versions and the changed lines.

    `before` is None for a new file, `after` for a deleted one. `old_path` differs from `path` after a
    rename. `kind` is `snapshot` for files of a plain directory and of the first commit of a shallow history;
    a snapshot has no `before`. `lineage` is `repository:path` with the file's first path.
    """

    kind: Literal["added", "modified", "renamed", "deleted", "snapshot"]
    repository: str
    licence: str | None
    """Licence from the corpus file, used for files without a licence of their own."""
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
    """True if no earlier change along the lineage that was read had `before` as its `after`."""
    is_tree_wide: bool = False
    """True if the commit changes at least TREE_WIDE_FILES files in known languages."""
    is_replaced: bool = False
    """True for a deleted file if the commit adds a file with the same stem, in any folder and with any
    suffix."""
    is_edit_only: bool = False
    """True for a change that only edit families read. Without counting tree-wide commits, the change is
    within versions_per_path; with them, it isn't."""
    licence_files: LicenceFiles = field(default=NO_LICENCE_FILES, hash=False)
    """Licence files of the tree after the commit."""
    old_licence_files: LicenceFiles = field(default=NO_LICENCE_FILES, hash=False)
    """Licence files of the tree before the commit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeFile:
    """A file in the tree of a commit."""

    path: str
    language: Language
    blob: Blob
    lineage: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeDelta:
    """Difference from the tree of the previously read commit; the first delta adds all files.

    A path is in `removed` or in `files`, never in both. Both are sorted by path.
    """

    removed: tuple[str, ...]
    files: tuple[TreeFile, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitChange:
    """One commit of a repository: its changes, sorted by path, and its whole tree.

    `tree` has every readable file in a selected language that passes the quality rules, even if the history
    doesn't include its changes.
    """

    repository: str
    licence: str | None
    """Licence from the corpus file, used for files without a licence of their own."""
    commit: str
    timestamp: int
    subject: str
    changes: tuple[FileChange, ...]
    tree: TreeDelta
    licence_files: LicenceFiles = field(default=NO_LICENCE_FILES, hash=False)
    """Licence files of the tree after the commit."""
