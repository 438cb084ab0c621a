"""Cached tables of the catalog in `<workspace>/catalog/`.

    catalog/<12 hex digits>/<table>.parquet     a group of tables, named by the digest of its sources
    catalog/<12 hex digits>/identities.json     the identity of each of these files
    catalog/last.json                           the most recently written groups
    catalog/replaced.json                       the time at which each of the other groups was replaced

A cached group is valid while its files have the inodes, sizes and change times that they had when they were
written. After a copy or an edit the group is rebuilt.

FileFindings uses the same rule for other files of a workspace: it doesn't read files that haven't changed.
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
"""Seconds that a replaced group is kept, so that open catalogs can finish reading it."""
MAX_TABLE_BYTES = 1 << 30
"""Maximum size of a cached table, which is read into memory as a whole."""
_IDENTITIES, _LAST, _REPLACED = "identities.json", "last.json", "replaced.json"
_GROUP, _DRAFT = re.compile(r"[0-9a-f]{12}"), re.compile(r"\.[0-9a-f]{32}")


class KeptIdentities(Sealed):
    """identities.json of a group: the identity of each table's file, by table name."""

    tables: dict[str, tuple[int, int, int]]


class LastGroups(Sealed):
    """last.json: names of the most recently written groups. A name is empty if there is no such group."""

    seen: str = ""
    snapshot: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """Cached tables of a workspace."""

    home: Path

    def path(self, group: str, table: str) -> str:
        """Return the path of a table's file, relative to the workspace."""
        return f"{FOLDER}/{group}/{table}.parquet"

    def holds(self, group: str, names: Collection[str]) -> bool:
        """Return True if a group consists of exactly the tables `names` and none of its files has changed."""
        try:
            return self._identities(group) == {
                name: identity_of(self._file(group, name).stat()) for name in names
            }
        except (OSError, ValidationError):
            return False

    def tables(self, group: str, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table] | None:
        """Return the tables of a group, or None if a file has changed or a table has another schema."""
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
        """Write a group by one atomic rename; return False if the workspace can't be written."""
        draft = self._folder / f".{uuid.uuid4().hex}"
        try:
            draft.mkdir()
            _write(tables, draft)
            if not self.holds(group, tables):
                _remove(self._folder / group)
            draft.rename(self._folder / group)
        except OSError:
            _remove(draft)  # The disk is full or read-only, or another process was faster.
        return self.holds(group, tables)

    def forget(self, group: str) -> None:
        """Remove a group."""
        _remove(self._folder / group)

    def last(self) -> LastGroups:
        """Return the names of the most recently written groups."""
        try:
            return LastGroups.model_validate_json(regular_files.read(self._folder / _LAST))
        except (OSError, ValidationError):
            return LastGroups()

    def keep_last(self, last: LastGroups) -> None:
        """Record the most recently written groups; do nothing if the workspace can't be written."""
        with contextlib.suppress(OSError):
            _replace(self._folder / _LAST, last.model_dump_json())

    def prune(self, keep: Collection[str]) -> None:
        """Remove groups that were replaced more than KEPT_SECONDS ago, and abandoned drafts.

        The groups in `keep` and folders with other names are never removed.
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
                before, age = (
                    {},
                    {},
                )  # The file is missing or damaged: count every group as replaced now.
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
        """Return the recorded identities of a group's files."""
        text = regular_files.read(self._folder / group / _IDENTITIES)
        tables = KeptIdentities.model_validate_json(text).tables
        return {name: Identity(*identity) for name, identity in tables.items()}


def digest_of(tables: Mapping[str, pa.Table]) -> str:
    """Return the digest of the content of tables. It names a group of tables that has no other sources."""
    hashed = hashlib.sha256()
    for name, table in tables.items():
        hashed.update(f"{name}\0{len(table)}\0".encode())
        for batch in table.to_batches():
            hashed.update(batch.serialize())
    return hashed.hexdigest()[:12]


def _write(tables: Mapping[str, pa.Table], folder: Path) -> None:
    identities: dict[str, tuple[int, int, int]] = {}
    for name, table in tables.items():
        file = folder / f"{name}.parquet"
        pq.write_table(table, file, compression="zstd")
        identities[name] = identity_of(file.stat())
    (folder / _IDENTITIES).write_text(KeptIdentities(tables=identities).model_dump_json())


def _replace(file: Path, text: str) -> None:
    """Replace a file's text by one atomic rename."""
    draft = file.with_name(f".{uuid.uuid4().hex}")
    draft.write_text(text)
    draft.replace(file)


def _remove(path: Path) -> None:
    """Remove a group or a draft; ignore files that can't be removed."""
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
    """Findings about the files of a workspace, by relative path. A finding is valid until its file changes.

    An edit, a copy or a restore changes the identity of a file. Then the file is read again.
    """

    cache: Cache
    known: dict[str, tuple[Identity, str | None]]
    last: LastGroups
    """The most recently written groups. Their names are empty if none are known."""
    looked: dict[str, tuple[Identity, str | None]] = field(default_factory=dict)
    """Findings about the files that this snapshot has asked for so far."""

    @staticmethod
    def read(cache: Cache) -> "FileFindings":
        """Read the findings of earlier snapshots; return empty findings if they can't be read."""
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
        """Return the result of `look` for a file, or None if the file can't be read.

        The result is cached until the file's identity changes.
        """
        known = self.known.get(file)
        if known is None or known[0] != identity:
            try:
                known = identity, look(self.cache.home / file)
            except OSError:
                known = identity, None
        self.looked[file] = known
        return known[1]

    def find_again(self, file: str, look: Callable[[Path], str | None]) -> str | None:
        """Call `look` again for a file that `find` was called for before, and return the new result."""
        found = look(self.cache.home / file)
        self.looked[file] = self.looked[file][0], found
        return found

    def keep(self, snapshot: str) -> None:
        """Write the findings for the group `snapshot`; do nothing if the workspace can't be written."""
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
