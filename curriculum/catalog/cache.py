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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from schemas import regular_files
from schemas.json_text import Sealed, now, parse_json, seconds_from

FOLDER = "catalog"
KEPT_SECONDS = 3600
"""The time that a group stays after it was replaced: who opened it has read it by then."""
_IDENTITIES, _LAST, _REPLACED = "identities.json", "last.json", "replaced.json"
_GROUP, _DRAFT = re.compile(r"[0-9a-f]{12}"), re.compile(r"\.[0-9a-f]{32}")
_MOST_BYTES = 2 << 30
"""The largest kept table that is read."""


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


class KeptIdentities(Sealed):
    """identities.json of a group: inode, time of the last change and size of each file, by its table."""

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

    def stands(self, group: str, names: Collection[str]) -> bool:
        """Return True where a group has exactly these tables, as they were written here."""
        try:
            with self._opened(group) as beside:
                return _identities(beside) == {name: _identity(name, beside) for name in names}
        except (OSError, ValidationError):
            return False

    def tables(self, group: str, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table] | None:
        """Return tables of a group; None unless they are as they were written here, with these columns."""
        try:
            with self._opened(group) as beside:
                kept = _identities(beside)
                return {name: _read(name, beside, kept, schemas[name]) for name in schemas}
        except (OSError, KeyError, ValueError, pa.ArrowException):
            return None

    def keep(self, group: str, tables: Mapping[str, pa.Table]) -> bool:
        """Let a group appear in one rename; False where the workspace can't be written."""
        draft = f".{uuid.uuid4().hex}"
        try:
            with self._folder() as beside:
                try:
                    _write(draft, tables, beside)
                    if not self.stands(group, tables):
                        _remove(group, beside)
                    os.rename(draft, group, src_dir_fd=beside, dst_dir_fd=beside)
                except OSError:
                    # Full; or another process was faster.
                    _remove(draft, beside)
        except OSError:
            return False  # Read-only, somebody else's, or something else in place of the folder.
        return self.stands(group, tables)

    def open(self) -> None:
        """Make the folder where it isn't there and can be."""
        with contextlib.suppress(OSError):
            (self.home / FOLDER).mkdir()

    def forget(self, group: str) -> None:
        """Remove a group."""
        with contextlib.suppress(OSError), self._folder() as beside:
            _remove(group, beside)

    def last(self) -> LastGroups:
        """Return the groups that were written last."""
        try:
            with self._folder() as beside:
                last = LastGroups.model_validate_json(regular_files.read(_LAST, beside=beside))
        except (OSError, ValidationError):
            return LastGroups()
        named = [name for name in (last.seen, last.snapshot) if name]
        return last if all(map(_GROUP.fullmatch, named)) else LastGroups()

    def keep_last(self, last: LastGroups) -> None:
        """Write down the groups that were written last, where that can be."""
        with contextlib.suppress(OSError), self._folder() as beside:
            _replace(_LAST, last.model_dump_json(), beside)

    def prune(self, keep: Collection[str]) -> None:
        """Remove groups that were replaced a while ago, and drafts that nobody finished.

        Only folders that have a name of this cache are removed.
        """
        with contextlib.suppress(OSError), self._folder() as beside:
            before = _moments(beside)
            since = {name: before.get(name, now()) for name in _ours(beside) if name not in keep}
            for name in [*since]:
                if seconds_from(since[name]) > KEPT_SECONDS:
                    _remove(name, beside)
                    del since[name]
            if since != before:
                _replace(_REPLACED, json.dumps(since), beside)

    @contextlib.contextmanager
    def _folder(self) -> Iterator[int]:
        with _closing(regular_files.folder(self.home / FOLDER)) as beside:
            yield beside

    @contextlib.contextmanager
    def _opened(self, group: str) -> Iterator[int]:
        if not _GROUP.fullmatch(group):
            raise FileNotFoundError(group)
        with self._folder() as above, _closing(regular_files.folder(group, beside=above)) as beside:
            yield beside


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def digest_of(tables: Mapping[str, pa.Table]) -> str:
    """Digest the content of tables: the name of a group that is made from nothing else."""
    hashed = hashlib.sha256()
    for name, table in tables.items():
        hashed.update(f"{name}\0{len(table)}\0".encode())
        for batch in table.to_batches():
            hashed.update(batch.serialize())
    return hashed.hexdigest()[:12]


def _identities(beside: int) -> dict[str, Identity]:
    kept = KeptIdentities.model_validate_json(regular_files.read(_IDENTITIES, beside=beside)).tables
    return {
        name: Identity(inode=inode, changed=changed, size=size)
        for name, (inode, changed, size) in kept.items()
    }


def _identity(name: str, beside: int) -> Identity:
    return Identity.of(os.stat(f"{name}.parquet", dir_fd=beside, follow_symlinks=False))


def _read(name: str, beside: int, kept: Mapping[str, Identity], schema: pa.Schema) -> pa.Table:
    """Read a table whose file is the one that was written here."""
    content, there = regular_files.read_with_status(
        f"{name}.parquet", most=_MOST_BYTES, beside=beside
    )
    if kept[name] != Identity.of(there):
        raise ValueError(name)
    table = pq.read_table(pa.BufferReader(content))
    if not table.schema.equals(schema):
        raise ValueError(name)
    return table


def _write(draft: str, tables: Mapping[str, pa.Table], above: int) -> None:
    os.mkdir(draft, dir_fd=above)
    with _closing(regular_files.folder(draft, beside=above)) as beside:
        for name, table in tables.items():
            sink = io.BytesIO()
            pq.write_table(table, sink, compression="zstd")
            regular_files.write_new(f"{name}.parquet", sink.getvalue(), beside=beside)
        of_files = {name: _identity(name, beside) for name in tables}
        kept = KeptIdentities(
            tables={name: (each.inode, each.changed, each.size) for name, each in of_files.items()}
        )
        regular_files.write_new(_IDENTITIES, kept.model_dump_json().encode(), beside=beside)


def _replace(name: str, text: str, beside: int) -> None:
    """Let a file change in one rename."""
    draft = f".{uuid.uuid4().hex}"
    try:
        regular_files.write_new(draft, text.encode(), beside=beside)
        os.rename(draft, name, src_dir_fd=beside, dst_dir_fd=beside)
    except OSError:
        _remove(draft, beside)
        raise


def _ours(beside: int) -> list[str]:
    """The groups and drafts of a folder."""
    with os.scandir(beside) as entries:
        return [
            entry.name
            for entry in entries
            if (_GROUP.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False))
            or _DRAFT.fullmatch(entry.name)
        ]


def _remove(name: str, beside: int) -> None:
    """Remove a group or a draft, as far as that can be; of a link the link itself."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=beside, follow_symlinks=False).st_mode):
            # It opens each folder below without following a link.
            shutil.rmtree(name, ignore_errors=True, dir_fd=beside)
        else:
            os.unlink(name, dir_fd=beside)


def _moments(beside: int) -> dict[str, str]:
    """The moments at which groups were first found replaced; nothing where that can't be read."""
    try:
        said = parse_json(regular_files.read(_REPLACED, beside=beside))
        for moment in said.values():
            seconds_from(moment)
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
    return dict(said)
