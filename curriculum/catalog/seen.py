"""Findings of earlier snapshots, so that a file that is the same one needn't be read again.

A file is taken for the same as long as its inode, its size and the system's own time of its last change are:
that time can't be set, and an edit, a copy or a restore gives it a new value. So all of this is a hint of
what needn't be read; what is found rests on the bytes alone.
"""

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.moment import now, seconds_from

FOLDER = "catalog"
_SEEN, _REPLACED = "seen.parquet", "replaced.json"
_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.int64()
_SCHEMA = pa.schema(
    [
        ("file", _TEXT),
        ("inode", _NUMBER),
        ("changed", _NUMBER),
        ("size", _NUMBER),
        ("found", _TEXT),
    ]
)
_LAST = b"snapshot"
"""In the metadata of the file: the snapshot that was made last."""
KEPT_SECONDS = 3600
"""For which a snapshot stays after it was replaced: who opened it has read it by then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The identity of a file, the same at two looks if it didn't change."""

    inode: int
    changed: int
    size: int

    @staticmethod
    def of(there: os.stat_result) -> "Identity":
        """The identity that the system gives."""
        return Identity(inode=there.st_ino, changed=there.st_ctime_ns, size=there.st_size)


@dataclass(kw_only=True, slots=True)
class Seen:
    """Findings in the files of a workspace, by path relative to it."""

    home: Path
    known: dict[str, tuple[Identity, str | None]]
    last: str
    """The snapshot that was made last; empty where none is known."""
    looked: dict[str, tuple[Identity, str | None]] = field(default_factory=dict)
    """The files that were asked for by now."""

    @staticmethod
    def of(home: Path) -> "Seen":
        """Read what earlier snapshots kept; nothing where that can't be read."""
        try:
            table = pq.read_table(home / FOLDER / _SEEN)
            columns = [table[name].to_pylist() for name in _SCHEMA.names]
        except (OSError, KeyError, pa.ArrowException):
            return Seen(home=home, known={}, last="")
        known = {
            file: (Identity(inode=inode, changed=changed, size=size), found)
            for file, inode, changed, size, found in zip(*columns, strict=True)
        }
        last = (table.schema.metadata or {}).get(_LAST, b"").decode()
        return Seen(home=home, known=known, last=last)

    def found(
        self, file: str, identity: Identity, look: Callable[[Path], str | None]
    ) -> str | None:
        """Return what `look` finds in a file, or found when it was the same."""
        there = self.known.get(file)
        if there is None or there[0] != identity:
            there = identity, look(self.home / file)
        self.looked[file] = there
        return there[1]

    def keep(self, snapshot: str) -> None:
        """Write down what was found for this snapshot; nothing where the workspace can't be written."""
        if self.looked == self.known and snapshot == self.last:
            return
        with contextlib.suppress(OSError):
            _replace(
                self.home / FOLDER / _SEEN,
                lambda draft: pq.write_table(self._table(snapshot), draft),
            )

    def _table(self, snapshot: str) -> pa.Table:
        lines = [
            (file, each.inode, each.changed, each.size, found)
            for file, (each, found) in self.looked.items()
        ]
        columns = list(zip(*lines, strict=True)) or [()] * len(_SCHEMA)
        arrays = [
            pa.array(column, each.type) for column, each in zip(columns, _SCHEMA, strict=True)
        ]
        return pa.table(arrays, schema=_SCHEMA.with_metadata({_LAST: snapshot.encode()}))


def prune(folder: Path, *, keep: str) -> None:
    """Remove what another snapshot replaced a while ago, and drafts that nobody finished."""
    file = folder / _REPLACED
    before = _moments(file)
    others = [each for each in folder.iterdir() if each.name not in (keep, _SEEN, _REPLACED)]
    since = {each.name: before.get(each.name, now()) for each in others}
    for other in others:
        if seconds_from(since[other.name]) > KEPT_SECONDS:
            shutil.rmtree(other, ignore_errors=True) if other.is_dir() else other.unlink(
                missing_ok=True
            )
            del since[other.name]
    if since != before:
        with contextlib.suppress(OSError):
            _replace(file, lambda draft: draft.write_text(json.dumps(since)))


def _moments(file: Path) -> dict[str, str]:
    """The moments at which snapshots were first found replaced; nothing where that can't be read."""
    try:
        said = json.loads(file.read_text())
        for moment in said.values():
            seconds_from(moment)
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
    return dict(said)


def _replace(file: Path, write: Callable[[Path], object]) -> None:
    """Let a file change in one rename."""
    with _draft(file) as draft:
        write(draft)
        draft.replace(file)


@contextlib.contextmanager
def _draft(file: Path) -> Iterator[Path]:
    draft = file.with_name(f".{uuid.uuid4().hex}")
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)
