"""Tables that earlier questions kept, in `<workspace>/catalog/`.

    catalog/<12 hex digits>/<table>.parquet     a group of tables, named by what they are made from
    catalog/<12 hex digits>/identities.json     the identity of each of these files
    catalog/last.json                           the groups that were written last
    catalog/replaced.json                       since when the others are replaced

A group is believed as long as its files are the very ones that were written here: their inodes, sizes and
the system's own times of their last change, which can't be set. A copy, an unpacked archive or an edit has
others, and such a group is made anew: what came with a workspace from somebody else is never read. Only the
sender of a whole file system (a disk image, a network mount) can forge one; it can then misstate what the
manifests of that workspace say, which their sender writes as well, and nothing else: no path in a table is
opened before it is known to lie in the workspace.

No link is followed, in reading, writing and removing.

FileFindings says in the same way which other files of a workspace needn't be read again.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
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
_IDENTITIES, _LAST, _REPLACED = "identities.json", "last.json", "replaced.json"
_GROUP, _DRAFT = re.compile(r"[0-9a-f]{12}"), re.compile(r"\.[0-9a-f]{32}")
_MOST_BYTES = 2 << 30
"""The largest kept table that is read."""


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
        """Return True where a group has exactly these tables, as they were written here."""
        try:
            with self._folder(group) as opened:
                kept = KeptIdentities.model_validate_json(
                    regular_files.read(_IDENTITIES, beside=opened)
                ).tables
                found = {
                    name: os.stat(f"{name}.parquet", dir_fd=opened, follow_symlinks=False)
                    for name in names
                }
                return kept == {name: identity_of(each) for name, each in found.items()}
        except (OSError, ValidationError):
            return False

    def tables(self, group: str, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table] | None:
        """Return tables of a group; None unless they are as they were written here, with these columns."""
        tables: dict[str, pa.Table] = {}
        try:
            with self._folder(group) as opened:
                kept = KeptIdentities.model_validate_json(
                    regular_files.read(_IDENTITIES, beside=opened)
                ).tables
                for name, schema in schemas.items():
                    content, found = regular_files.read_with_status(
                        f"{name}.parquet", most=_MOST_BYTES, beside=opened
                    )
                    if kept[name] != identity_of(found):
                        return None
                    tables[name] = parquet.parse_table(content)
                    if not tables[name].schema.equals(schema):
                        return None
        except (OSError, KeyError, ValueError, pa.ArrowException):
            return None
        return tables

    def keep(self, group: str, tables: Mapping[str, pa.Table]) -> bool:
        """Let a group appear in one rename; False where the workspace can't be written."""
        draft = f".{uuid.uuid4().hex}"
        try:
            with self._folder() as folder:
                try:
                    os.mkdir(draft, dir_fd=folder)
                    with self._folder(draft) as opened:
                        _write(tables, opened)
                    if not self.holds(group, tables):
                        _remove(group, folder)
                    os.rename(draft, group, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    # Full; or another process was faster.
                    _remove(draft, folder)
        except OSError:
            return False  # Read-only, somebody else's, or something else in place of the folder.
        return self.holds(group, tables)

    def forget(self, group: str) -> None:
        """Remove a group."""
        with contextlib.suppress(OSError), self._folder() as folder:
            _remove(group, folder)

    def last(self) -> LastGroups:
        """Return the groups that were written last."""
        try:
            with self._folder() as folder:
                last = LastGroups.model_validate_json(regular_files.read(_LAST, beside=folder))
        except (OSError, ValidationError):
            return LastGroups()
        named = [name for name in (last.seen, last.snapshot) if name]
        return last if all(map(_GROUP.fullmatch, named)) else LastGroups()

    def keep_last(self, last: LastGroups) -> None:
        """Write down the groups that were written last, where that can be."""
        with contextlib.suppress(OSError), self._folder() as folder:
            _replace(_LAST, last.model_dump_json(), folder)

    def prune(self, keep: Collection[str]) -> None:
        """Remove groups that were replaced a while ago, and drafts that nobody finished.

        Only folders that have a name of this cache are removed.
        """
        with contextlib.suppress(OSError), self._folder() as folder:
            with os.scandir(folder) as entries:
                ours = [
                    entry.name
                    for entry in entries
                    if (_GROUP.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False))
                    or _DRAFT.fullmatch(entry.name)
                ]
            try:
                before = dict(parse_json(regular_files.read(_REPLACED, beside=folder)))
                age = {name: seconds_from(moment) for name, moment in before.items()}
            except (OSError, ValueError, TypeError):
                before, age = {}, {}  # It isn't there, or damaged: all are replaced from now on.
            since = {name: before.get(name, now()) for name in ours if name not in keep}
            for name in [*since]:
                if age.get(name, 0) > KEPT_SECONDS:
                    _remove(name, folder)
                    del since[name]
            if since != before:
                _replace(_REPLACED, json.dumps(since), folder)

    @contextlib.contextmanager
    def _folder(self, name: str = "") -> Iterator[int]:
        """Open the cache's folder, or one of its groups or drafts, through no link."""
        if name and not (_GROUP.fullmatch(name) or _DRAFT.fullmatch(name)):
            raise FileNotFoundError(name)
        opened = [regular_files.folder(self.home / FOLDER)]
        try:
            if name:
                opened.append(regular_files.folder(name, beside=opened[0]))
            yield opened[-1]
        finally:
            for descriptor in opened:
                os.close(descriptor)


def digest_of(tables: Mapping[str, pa.Table]) -> str:
    """Digest the content of tables: the name of a group that is made from nothing else."""
    hashed = hashlib.sha256()
    for name, table in tables.items():
        hashed.update(f"{name}\0{len(table)}\0".encode())
        for batch in table.to_batches():
            hashed.update(batch.serialize())
    return hashed.hexdigest()[:12]


def _write(tables: Mapping[str, pa.Table], folder: int) -> None:
    """Write tables and their identities into a folder that is open."""
    identities: dict[str, tuple[int, int, int]] = {}
    for name, table in tables.items():
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        regular_files.write_new(f"{name}.parquet", sink.getvalue(), beside=folder)
        found = os.stat(f"{name}.parquet", dir_fd=folder, follow_symlinks=False)
        identities[name] = identity_of(found)
    kept = KeptIdentities(tables=identities)
    regular_files.write_new(_IDENTITIES, kept.model_dump_json().encode(), beside=folder)


def _replace(name: str, text: str, folder: int) -> None:
    """Let a file change in one rename."""
    draft = f".{uuid.uuid4().hex}"
    try:
        regular_files.write_new(draft, text.encode(), beside=folder)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        _remove(draft, folder)
        raise


def _remove(name: str, folder: int) -> None:
    """Remove a group or a draft, as far as that can be; of a link the link itself."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            # It opens each folder below without following a link.
            shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


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
                pa.array(column, each.type)
                for column, each in zip(columns, _SEEN_SCHEMA, strict=True)
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
