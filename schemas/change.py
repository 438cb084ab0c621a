"""Inputs from which documents are made: changes of files and commits, and conversations."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal, get_args

from schemas.corpus import Language
from schemas.tree_licences import NO_LICENCE_FILES, LicenceFiles

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One turn of a conversation, with its text unchanged. It isn't blank."""

    role: Role
    text: str
    is_context: bool = False
    """True for a turn of the assistant that is read but never a target, for example a wrong answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Alternating turns of user and assistant, with the assistant's turn last.

    A system turn may come first.
    """

    source: str
    """Name of the conversation source in the corpus."""
    pin: str
    """Digest of all files of the source (40 hex digits)."""
    licence: str | None
    file: str
    """Path of the file, relative to the folder of the source."""
    line: int
    """Number of the conversation's line in the file, counted from 1."""
    start: int
    end: int
    """Bytes `[start, end)` of the line in the file, without its line end."""
    name: str
    """Id that the line gives, or else the digest."""
    digest: str
    """Digest of the roles, texts and context flags of all turns (40 hex digits)."""
    turns: tuple[Turn, ...]


def digest_of(turns: tuple[Turn, ...]) -> str:
    """Return a digest of the roles, texts and context flags of turns, as 40 hex digits."""
    built = hashlib.sha256()
    for turn in turns:
        text = turn.text.encode()
        context = " context" if turn.is_context else ""
        built.update(f"{turn.role}{context} {len(text)}\0".encode() + text)
    return built.hexdigest()[:40]


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """One decoded version of a file; `blob_id` is git's object id of the raw bytes.

    Text in other encodings is converted to Unicode. A BOM is dropped, and CRLF and lone CR become LF. Byte
    offsets refer to the UTF-8 encoding of `text`.
    """

    blob_id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Hunk:
    """A run of changed lines. `before_start` and `after_start` are indices of its first line, counted from 0.

    If `before_lines` is 0, lines were only added, in front of line `before_start`. If `after_lines` is 0,
    lines were only removed.
    """

    before_start: int
    before_lines: int
    after_start: int
    after_lines: int


TREE_WIDE_FILES = 30
"""A commit is tree-wide if it changes at least this many files in known languages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """Change of one file in one commit: both versions and the changed lines.

    `before` is None for a new file, `after` for a deleted one. `old_path` differs from `path` after a
    rename. `kind` is `snapshot` for files of a plain directory, and of the first commit in a shallow
    history; a snapshot has no `before`. `lineage` is `repository:path`, where the path is the first path of
    the file.
    """

    kind: Literal["added", "modified", "renamed", "deleted", "snapshot"]
    repository: str
    licence: str | None
    """Licence that the corpus file states. It is used for files that have no licence of their own."""
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
    """True if no change of this lineage that was read earlier had `before` as its `after`."""
    is_tree_wide: bool = False
    """True if the commit changes at least TREE_WIDE_FILES files in known languages."""
    is_replaced: bool = False
    """True for a deleted file if the same commit adds a file with the same stem, in any folder and with any
    suffix.
    """
    is_edit_only: bool = False
    """True for a change that only edit families read. It is within versions_per_path only if tree-wide
    commits aren't counted.
    """
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
    """Difference between the trees of the previously read commit and of the next one.

    The first delta adds all files. A path is either in `removed` or in `files`. Both are sorted by path.
    """

    removed: tuple[str, ...]
    files: tuple[TreeFile, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitChange:
    """One commit of a repository: its changes, sorted by path, and its whole tree.

    `tree` has every readable file in a selected language that passes the quality rules, even if none of the
    changes of the file is read.
    """

    repository: str
    licence: str | None
    """Licence that the corpus file states. It is used for files that have no licence of their own."""
    commit: str
    timestamp: int
    subject: str
    changes: tuple[FileChange, ...]
    tree: TreeDelta
    licence_files: LicenceFiles = field(default=NO_LICENCE_FILES, hash=False)
    """Licence files of the tree after the commit."""
