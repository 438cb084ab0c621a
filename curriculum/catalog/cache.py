"""Tables that earlier questions kept, in `<workspace>/catalog/`.

    catalog/<12 hex digits>/<table>.parquet     a group of tables, named by what they are made from
    catalog/<12 hex digits>/identities.json     the identity of each of these files
    catalog/last.json                           the groups that were written last
    catalog/replaced.json                       since when the others are replaced

A group is read as long as its files are the very ones that were written: their inodes, sizes and the
system's own times of their last change. After a copy or an edit it is made anew.

FileFindings says in the same way which other files of a workspace needn't be read again.
"""

import contextlib
import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from curriculum import parquet
from curriculum.published_files import Identity, identity_of
from schemas import regular_files
from schemas.json_text import Sealed, now, parse_json, seconds_from

FOLDER = "catalog"
KEPT_SECONDS = 3600
"""The time that a group stays after it was replaced: who opened it has read it by then."""
MAX_TABLE_BYTES = 1 << 30
"""Bytes of a kept table, of which all are read."""
_IDENTITIES, _LAST, _REPLACED = "identities.json", "last.json", "replaced.json"
_GROUP, _DRAFT = re.compile(r"[0-9a-f]{12}"), re.compile(r"\.[0-9a-f]{32}")


class KeptIdentities(Sealed):
    """identities.json of a group: the Identity of each file, by its table."""

    tables: dict[str, tuple[int, int, int]]


class LastGroups(Sealed):
    """last.json: the groups that were written last, empty where there is none."""

    seen: str = ""
    snapshot: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """The kept tables of a workspace."""

    home: Path

    def path(self, group: str, table: str) -> str:
        """Return the path of a table, relative to the workspace."""
        return f"{FOLDER}/{group}/{table}.parquet"

    def holds(self, group: str, names: Collection[str]) -> bool:
        """Return True where a group has exactly these tables, as they were written."""
        try:
            return self._identities(group) == {
                name: identity_of(self._file(group, name).stat()) for name in names
            }
        except (OSError, ValidationError):
            return False

    def tables(self, group: str, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table] | None:
        """Return tables of a group; None unless they are as they were written, with these columns."""
        try:
            kept = self._identities(group)
            for name in schemas:
                if kept[name] != identity_of(self._file(group, name).stat()):
                    return None
            tables = {
                name: parquet.parse_table(
                    regular_files.read(self._file(group, name), most=MAX_TABLE_BYTES)
                )
                for name in schemas
            }
        except (OSError, KeyError, ValueError, pa.ArrowException):
            return None
        is_known = all(tables[name].schema.equals(schema) for name, schema in schemas.items())
        return tables if is_known else None

    def keep(self, group: str, tables: Mapping[str, pa.Table]) -> bool:
        """Let a group appear in one rename; False where the workspace can't be written."""
        draft = self._folder / f".{uuid.uuid4().hex}"
        try:
            draft.mkdir()
            _write(tables, draft)
            if not self.holds(group, tables):
                _remove(self._folder / group)
            draft.rename(self._folder / group)
        except OSError:
            _remove(draft)  # Full or read-only; or another process was faster.
        return self.holds(group, tables)

    def forget(self, group: str) -> None:
        """Remove a group."""
        _remove(self._folder / group)

    def last(self) -> LastGroups:
        """Return the groups that were written last."""
        try:
            return LastGroups.model_validate_json(regular_files.read(self._folder / _LAST))
        except (OSError, ValidationError):
            return LastGroups()

    def keep_last(self, last: LastGroups) -> None:
        """Write down the groups that were written last, where that can be."""
        with contextlib.suppress(OSError):
            _replace(self._folder / _LAST, last.model_dump_json())

    def prune(self, keep: Collection[str]) -> None:
        """Remove groups that were replaced a while ago, and drafts that nobody finished.

        Only folders that have a name of this cache are removed.
        """
        with contextlib.suppress(OSError):
            ours = [
                path.name
                for path in self._folder.iterdir()
                if _GROUP.fullmatch(path.name) or _DRAFT.fullmatch(path.name)
            ]
            try:
                before = dict(parse_json(regular_files.read(self._folder / _REPLACED)))
                age = {name: seconds_from(moment) for name, moment in before.items()}
            except (OSError, ValueError, TypeError):
                before, age = {}, {}  # It isn't there, or damaged: all are replaced from now on.
            since = {name: before.get(name, now()) for name in ours if name not in keep}
            for name in [*since]:
                if age.get(name, 0) > KEPT_SECONDS:
                    _remove(self._folder / name)
                    del since[name]
            if since != before:
                _replace(self._folder / _REPLACED, json.dumps(since))

    @property
    def _folder(self) -> Path:
        return self.home / FOLDER

    def _file(self, group: str, table: str) -> Path:
        return self.home / self.path(group, table)

    def _identities(self, group: str) -> dict[str, Identity]:
        """Return the identities of a group's files, as they were written."""
        text = regular_files.read(self._folder / group / _IDENTITIES)
        tables = KeptIdentities.model_validate_json(text).tables
        return {name: Identity(*identity) for name, identity in tables.items()}


def digest_of(tables: Mapping[str, pa.Table]) -> str:
    """Digest the content of tables: the name of a group that is made from nothing else."""
    hashed = hashlib.sha256()
    for name, table in tables.items():
        hashed.update(f"{name}\0{len(table)}\0".encode())
        for batch in table.to_batches():
            hashed.update(batch.serialize())
    return hashed.hexdigest()[:12]


def _write(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write tables and their identities into a folder."""
    identities: dict[str, tuple[int, int, int]] = {}
    for name, table in tables.items():
        file = folder / f"{name}.parquet"
        pq.write_table(table, file, compression="zstd")
        identities[name] = identity_of(file.stat())
    (folder / _IDENTITIES).write_text(KeptIdentities(tables=identities).model_dump_json())


def _replace(file: Path, text: str) -> None:
    """Let a file change in one rename."""
    draft = file.with_name(f".{uuid.uuid4().hex}")
    draft.write_text(text)
    draft.replace(file)


def _remove(path: Path) -> None:
    """Remove a group or a draft, as far as that can be."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


_SEEN = "seen"
_FINDING_TYPES: dict[str, pa.DataType] = {
    "file": pa.string(),
    "inode": pa.int64(),
    "changed": pa.int64(),
    "size": pa.int64(),
    "found": pa.string(),
}
_SEEN_SCHEMA = pa.schema([pa.field(name, kind) for name, kind in _FINDING_TYPES.items()])


@dataclass(kw_only=True, slots=True)
class FileFindings:
    """Findings in the files of a workspace, by path relative to it, valid while the file is the same.

    A hint of what needn't be read again: an edit, a copy or a restore gives a file another identity.
    """

    cache: Cache
    known: dict[str, tuple[Identity, str | None]]
    last: LastGroups
    """The groups that were written last, empty where none is known."""
    looked: dict[str, tuple[Identity, str | None]] = field(default_factory=dict)
    """The files that were asked for by now."""

    @staticmethod
    def read(cache: Cache) -> "FileFindings":
        """Read what earlier snapshots kept; nothing where that can't be read."""
        last = cache.last()
        tables = cache.tables(last.seen, {_SEEN: _SEEN_SCHEMA})
        if tables is None:
            return FileFindings(cache=cache, known={}, last=LastGroups(snapshot=last.snapshot))
        columns = [tables[_SEEN][name].to_pylist() for name in _SEEN_SCHEMA.names]
        known = {
            file: (Identity(inode, changed, size), found)
            for file, inode, changed, size, found in zip(*columns, strict=True)
        }
        return FileFindings(cache=cache, known=known, last=last)

    def find(self, file: str, identity: Identity, look: Callable[[Path], str | None]) -> str | None:
        """Return what `look` finds in a file, or found when it was the same; None for a refusal to read."""
        known = self.known.get(file)
        if known is None or known[0] != identity:
            try:
                known = identity, look(self.cache.home / file)
            except OSError:
                known = identity, None
        self.looked[file] = known
        return known[1]

    def find_again(self, file: str, look: Callable[[Path], str | None]) -> str | None:
        """Look anew into a file that was asked for, and return what `look` finds in it."""
        found = look(self.cache.home / file)
        self.looked[file] = self.looked[file][0], found
        return found

    def keep(self, snapshot: str) -> None:
        """Write down what was found for this snapshot; nothing where the workspace can't be written."""
        group = self.last.seen
        if self.looked != self.known or not group:
            lines = [(file, *identity, found) for file, (identity, found) in self.looked.items()]
            columns = list(zip(*lines, strict=True)) or [()] * len(_SEEN_SCHEMA)
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(columns, _SEEN_SCHEMA, strict=True)
            ]
            seen = {_SEEN: pa.table(arrays, schema=_SEEN_SCHEMA)}
            group = digest_of(seen)
            if not self.cache.keep(group, seen):
                return
        last = LastGroups(seen=group, snapshot=snapshot)
        if last != self.last:
            self.cache.keep_last(last)
            if self.last.seen not in ("", group):
                self.cache.forget(self.last.seen)
