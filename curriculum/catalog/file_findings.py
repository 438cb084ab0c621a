"""Findings of earlier snapshots, so that a file that is the same one needn't be read again.

A file is taken for the same as long as its inode, its size and the system's own time of its last change are:
that time can't be set, and an edit, a copy or a restore gives it a new value. So all of this is a hint of
what needn't be read; what is found rests on the bytes alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from curriculum.catalog.cache import Cache, Identity, LastGroups, digest_of

_SEEN = "seen"
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


@dataclass(kw_only=True, slots=True)
class FileFindings:
    """Findings in the files of a workspace, by path relative to it."""

    home: Path
    known: dict[str, tuple[Identity, str | None]]
    last: LastGroups
    """The paths that were written last; nothing where none is known."""
    looked: dict[str, tuple[Identity, str | None]] = field(default_factory=dict)
    """The files that were asked for by now."""

    @staticmethod
    def of(cache: Cache) -> "FileFindings":
        """Read what earlier snapshots kept; nothing where that can't be read."""
        last = cache.last()
        tables = cache.tables(last.seen, {_SEEN: _SCHEMA})
        if tables is None:
            return FileFindings(home=cache.home, known={}, last=LastGroups(snapshot=last.snapshot))
        columns = [tables[_SEEN][name].to_pylist() for name in _SCHEMA.names]
        known = {
            file: (Identity(inode=inode, changed=changed, size=size), found)
            for file, inode, changed, size, found in zip(*columns, strict=True)
        }
        return FileFindings(home=cache.home, known=known, last=last)

    def found(
        self, file: str, identity: Identity, look: Callable[[Path], str | None]
    ) -> str | None:
        """Return what `look` finds in a file, or found when it was the same."""
        there = self.known.get(file)
        if there is None or there[0] != identity:
            there = identity, look(self.home / file)
        self.looked[file] = there
        return there[1]

    def keep(self, cache: Cache, snapshot: str) -> None:
        """Write down what was found for this snapshot; nothing where the workspace can't be written."""
        group = self.last.seen
        if self.looked != self.known or not group:
            table = self._table()
            group = digest_of({_SEEN: table})
            if not cache.keep(group, {_SEEN: table}):
                return
        last = LastGroups(seen=group, snapshot=snapshot)
        if last != self.last:
            cache.keep_last(last)
            if self.last.seen not in ("", group):
                cache.forget(self.last.seen)

    def _table(self) -> pa.Table:
        lines = [
            (file, each.inode, each.changed, each.size, found)
            for file, (each, found) in self.looked.items()
        ]
        columns = list(zip(*lines, strict=True)) or [()] * len(_SCHEMA)
        arrays = [
            pa.array(column, each.type) for column, each in zip(columns, _SCHEMA, strict=True)
        ]
        return pa.table(arrays, schema=_SCHEMA)
