"""A workspace as it stands at one moment: its tables, its live data files, and what couldn't be read.

What manifests say is kept as a group of the cache, so that the next snapshot reads only the manifests that
are new or changed; the group's name is the digest of their bytes. Where the workspace can't be written, or
there is none, the tables stay in memory.

A workspace may come from somebody else. Of the paths in its manifests and tables only those are read that
lead, over no symbolic link, to a regular file in it.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from curriculum.catalog.cache import Cache, Identity, LastGroups, digest_of
from curriculum.catalog.parquet_files import fault_of
from curriculum.catalog.tables import (
    TABLES,
    Line,
    Lines,
    closed_gates,
    diets,
    lines_of,
    open_tables,
    written_status,
)
from curriculum.store import published as artefact_at
from curriculum.store import read_mark
from curriculum.store.inside import PlainFolders, require_plain
from curriculum.store.store import WORKSPACE_NAME
from curriculum.store.verify import sha256_of
from schemas.errors import CurriculumError, StoreError
from schemas.manifest import MANIFEST_NAME
from schemas.regular_files import LINK, MOST_BYTES, status
from schemas.stages import DATA_TABLES, data_table_of

_SEEN = "seen"


_FINDING_TYPES: dict[str, pa.DataType] = {
    "file": pa.string(),
    "inode": pa.int64(),
    "changed": pa.int64(),
    "size": pa.int64(),
    "found": pa.string(),
}
_SCHEMA = pa.schema([pa.field(name, kind) for name, kind in _FINDING_TYPES.items()])


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


_STAGE, _KEY = re.compile(r"[a-z]"), re.compile(r"[0-9a-f]{12}")
JOB_NAME = "job.json"
_DEPTH = 16
"""Folders below the workspace; artefacts lie at half of that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestStat:
    """A manifest on disk."""

    path: str
    """Path of its artefact, relative to the workspace."""
    identity: Identity


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkspaceListing:
    """The published artefacts and the open runs of a workspace, in path order."""

    published: tuple[ManifestStat, ...]
    open_runs: tuple[str, ...]
    passed_over: tuple[tuple[str, str], ...]
    """Paths of what isn't walked into, each with the reason."""


def walk(home: Path) -> WorkspaceListing:
    """The artefacts and open runs of a workspace; of one that isn't there, none.

    A folder `label=value` or `<12 hex digits>` is walked into until a manifest stands in it, as the store
    lays them. A symbolic link is walked into nowhere.

    Raises:
        StoreError: where a link lies in the workspace's root or its small folders.
    """
    require_plain(home)
    found = _Walk()
    for stage in found.folders(str(home), ""):
        if _STAGE.match(stage.name):
            found.descend(stage.path, stage.name)
    found.published.sort(key=attrgetter("path"))
    return WorkspaceListing(
        published=tuple(found.published),
        open_runs=tuple(sorted(found.open_runs)),
        passed_over=tuple(sorted(found.passed_over)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Walk:
    published: list[ManifestStat] = field(default_factory=list)
    open_runs: list[str] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)

    def descend(self, folder: str, path: str) -> None:
        for entry in self.folders(folder, f"{path}/"):
            is_key = _KEY.fullmatch(entry.name) is not None
            if not is_key and "=" not in entry.name:
                continue
            below = f"{path}/{entry.name}"
            if below.count("/") > _DEPTH:
                self.passed_over.append((below, "it lies deeper than any artefact"))
                continue
            if is_key or entry.name.startswith("attempt="):
                there = status(f"{entry.path}/{MANIFEST_NAME}")
                if there is not None:
                    self.published.append(ManifestStat(path=below, identity=Identity.of(there)))
                    continue
                if status(f"{entry.path}/{JOB_NAME}") is not None:
                    self.open_runs.append(below)
                    continue
            self.descend(entry.path, below)

    def folders(self, folder: str, path: str) -> list[os.DirEntry[str]]:
        """The folders of a folder; `path` is that of what it holds, relative to the workspace."""
        try:
            with os.scandir(folder) as entries:
                return [entry for entry in entries if self._is_walked(entry, path)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as refused:
            self.passed_over.append((path.rstrip("/") or ".", str(refused.strerror)))
            return []

    def _is_walked(self, entry: os.DirEntry[str], path: str) -> bool:
        if entry.is_symlink():
            self.passed_over.append((_shown(path + entry.name), LINK))
        elif entry.is_dir(follow_symlinks=False):
            if _shown(entry.name) == entry.name:
                return True
            self.passed_over.append((_shown(path + entry.name), "its name isn't UTF-8"))
        return False


def _shown(path: str) -> str:
    """A path with a replacement for bytes that aren't UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


VERSION = 5
"""Version of the kept tables, raised by hand; where their columns change they are made anew anyway."""

_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.int64()
_OWN: dict[str, pa.Schema] = {
    "seen": pa.schema([("path", _TEXT), ("digest", _TEXT)]),
    "live": pa.schema([("path", _TEXT)]),
    "marks": pa.schema([("mark", _TEXT), ("path", _TEXT)]),
    "data": pa.schema(
        [
            *(pa.field(name, _TEXT) for name in ("path", "key", "kind", "file")),
            pa.field("num_bytes", _NUMBER),
        ]
    ),
    "problems": pa.schema([("path", _TEXT), ("problem", _TEXT)]),
}
"""Tables that a snapshot needs beside TABLES: manifests read, those in use, files to read."""
KEPT: dict[str, pa.Schema] = {**TABLES, **_OWN}


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Paths of each table, and the files of each kind of data."""

    home: Path
    digest: str
    kept: Mapping[str, str]
    """Tables that are files, by name: paths relative to the workspace."""
    tables: Mapping[str, pa.Table]
    """Tables in memory."""
    files: Mapping[str, Sequence[str]]
    """Live data files that can be read, relative to the workspace, by the name of their kind."""


def take(home: Path, status: pa.Table | None = None) -> Snapshot:
    """The workspace as it stands now; files that are the ones that were read before aren't opened again.

    A `status` that was computed since replaces the one that is written.
    """
    home = home.absolute()
    found = walk(home)
    marked = _marked(home)
    cache = Cache(home=home)
    seen = FileFindings.of(cache)
    manifests = _manifests(seen, found.published)
    digest = _digest(manifests, marked)
    kept = _Kept(cache=cache, digest=digest)
    if not kept.stands or kept.mended:
        kept.write(_build(cache, manifests, marked, seen.last.snapshot), seen.last.seen)
    sound, faults = _sound(seen, kept.table("live"), kept.table("data"))
    if not kept.tables:
        seen.keep(cache, digest)
    running, written = open_tables(home, found.open_runs), written_status(home)
    passed_over = [*found.passed_over, *running.problems, *written.problems]
    problems = pa.concat_tables([kept.table("problems"), faults, _problems(passed_over)])
    tables = {
        **kept.tables,
        **running.tables,
        **closed_gates(home),
        **diets(home, cache),
        "status": written.table if status is None else status,
        "problems": problems,
    }
    return Snapshot(
        home=home,
        digest=digest,
        kept={name: path for name, path in kept.files.items() if name not in tables},
        tables=tables,
        files=sound,
    )


def _problems(found: Iterable[tuple[str, str]]) -> pa.Table:
    lines = [{"path": path, "problem": problem} for path, problem in found]
    return pa.Table.from_pylist(lines, schema=_OWN["problems"])


@dataclass(kw_only=True, slots=True)
class _Kept:
    """The kept tables of a digest: files where that can be, else in memory."""

    cache: Cache
    digest: str
    tables: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def stands(self) -> bool:
        """True where all tables are there as they were written."""
        return self.cache.stands(self.digest, KEPT)

    @property
    def mended(self) -> bool:
        """Return True if an artefact that couldn't be read now can, though its manifest is as it was."""
        for path in map(str, self.table("problems")["path"].to_pylist()):
            if "problems" not in _read(self.cache.home, path, ""):
                self.cache.forget(self.digest)
                return True
        return False

    @property
    def files(self) -> dict[str, str]:
        if self.tables:
            return {}
        return {name: self.cache.path(self.digest, name) for name in KEPT}

    def table(self, name: str) -> pa.Table:
        if name in self.tables:
            return self.tables[name]
        kept = self.cache.tables(self.digest, {name: KEPT[name]})
        if kept is None:
            raise FileNotFoundError(errno.ENOENT, "removed meanwhile", self.digest)
        return kept[name]

    def write(self, tables: dict[str, pa.Table], seen: str) -> None:
        """Keep the tables, or have them in memory where that can't be."""
        if (self.cache.home / WORKSPACE_NAME).is_file():
            self.cache.open()
            if self.cache.keep(self.digest, tables):
                self.cache.prune({self.digest, seen})
                return
        if not self.stands:
            self.tables = tables


def _marked(home: Path) -> dict[str, list[str]]:
    """The paths that each current/*.txt lists as live."""
    inside = PlainFolders(home)
    files = sorted((home / "current").glob("*.txt"))
    return {
        file.name: read_mark(file) for file in files if _is_plain(inside, f"current/{file.name}")
    }


def _is_plain(inside: PlainFolders, file: str) -> bool:
    try:
        return inside.status(file).st_size <= MOST_BYTES
    except (OSError, StoreError):
        return False


def _manifests(seen: FileFindings, published: Iterable[ManifestStat]) -> dict[str, str]:
    """The digests of the bytes of manifests, by path of the artefact."""
    return {
        each.path: seen.found(f"{each.path}/{MANIFEST_NAME}", each.identity, _sha256) or ""
        for each in published
    }


def _sha256(file: Path) -> str:
    """The digest of a file; empty where it can't be read."""
    try:
        return sha256_of(file)
    except OSError:
        return ""


def _digest(manifests: Mapping[str, str], marked: Mapping[str, list[str]]) -> str:
    hashed = hashlib.sha256(f"{VERSION} {KEPT}\n".encode())
    for path, digest in manifests.items():
        hashed.update(f"{path}\0{digest}\n".encode())
    hashed.update(json.dumps(marked).encode())
    return hashed.hexdigest()[:12]


def _build(
    cache: Cache, manifests: Mapping[str, str], marked: Mapping[str, list[str]], last: str
) -> dict[str, pa.Table]:
    """The tables of these manifests: what the last snapshot has of them, and the rest read now."""
    before = cache.tables(last, KEPT) or {name: each.empty_table() for name, each in KEPT.items()}
    same = _same(before["seen"], manifests)
    known = set(same)
    fresh = _tables(
        [
            (path, _read(cache.home, path, digest))
            for path, digest in manifests.items()
            if path not in known
        ]
    )
    tables = {
        name: pa.concat_tables(
            [
                before[name].filter(pc.is_in(before[name]["path"], pa.array(same, _TEXT))),
                fresh[name],
            ]
        ).sort_by("path")
        for name in KEPT
    }
    live = _live(tables, [path for paths in marked.values() for path in paths])
    tables["marks"] = pa.Table.from_pylist(
        [
            {"mark": name.removesuffix(".txt"), "path": path}
            for name, paths in marked.items()
            for path in paths
        ],
        schema=_OWN["marks"],
    )
    tables["live"] = pa.Table.from_pylist([{"path": path} for path in live], schema=_OWN["live"])
    return tables


def _tables(of_artefacts: Sequence[tuple[str, Lines]]) -> dict[str, pa.Table]:
    """The tables of artefacts' lines; of one whose values don't fit into them, the problem alone."""
    try:
        return _table_of([lines for _, lines in of_artefacts])
    except (ValueError, TypeError, OverflowError):
        return _table_of([_fitting(path, lines) for path, lines in of_artefacts])


def _table_of(lines: Sequence[Lines]) -> dict[str, pa.Table]:
    return {
        name: pa.Table.from_pylist(
            [line for each in lines for line in each.get(name, ())], schema=schema
        )
        for name, schema in KEPT.items()
    }


def _fitting(path: str, lines: Lines) -> Lines:
    try:
        _table_of([lines])
    except (ValueError, TypeError, OverflowError) as refused:
        return {"problems": [{"path": path, "problem": f"a value of its manifest: {refused}"}]}
    return lines


def _same(seen: pa.Table, manifests: Mapping[str, str]) -> list[str]:
    """The paths whose manifests are as they were."""
    known = dict(zip(*(seen[name].to_pylist() for name in ("path", "digest")), strict=True))
    return [path for path, digest in manifests.items() if known.get(path) == digest]


def _read(home: Path, path: str, digest: str) -> Lines:
    """The lines of an artefact, or why something of it can't be read; that is tried again next time."""
    try:
        if (size := PlainFolders(home).status(f"{path}/{MANIFEST_NAME}").st_size) > MOST_BYTES:
            raise OSError(errno.EFBIG, f"a manifest of {size:,} bytes")
        artefact = artefact_at(home / path)
        found = lines_of(artefact, path)
    except (CurriculumError, OSError, ValueError, RecursionError) as refused:
        return {"problems": [{"path": path, "problem": str(refused)}]}
    found["data"] = list(_data(artefact.manifest.stage, found["files"]))
    if "problems" not in found:
        found["seen"] = [{"path": path, "digest": digest}]
    return found


def _data(stage: str, files: Sequence[Line]) -> Iterator[Line]:
    """The files of an artefact that views read."""
    for file in files:
        kind = data_table_of(stage, file["name"])
        if kind is not None:
            told = {name: file[name] for name in ("path", "key", "file", "num_bytes")}
            yield told | {"kind": kind.name}


def _live(tables: Mapping[str, pa.Table], marked: Iterable[str]) -> list[str]:
    """The paths that stand in current/*.txt, and those of their inputs, at any depth; as gc keeps them."""
    listed = tables["artefacts"].select(["path", "key", "content"]).to_pylist()
    alike: dict[str, list[Line]] = {}
    for line in listed:
        alike.setdefault(line["key"], []).append(line)
    inputs: dict[str, list[tuple[str, str]]] = {}
    for line in tables["inputs"].select(["path", "input_key", "input_content"]).to_pylist():
        inputs.setdefault(line["path"], []).append((line["input_key"], line["input_content"]))
    there = {line["path"] for line in listed}
    ends = [path for path in marked if path in there]
    live: set[str] = set()
    while ends:
        path = ends.pop()
        if path in live:
            continue
        live.add(path)
        for key, content in inputs.get(path, ()):
            held = alike.get(key, [])
            ends += [
                each["path"]
                for each in ([each for each in held if each["content"] == content] or held)
            ]
    return sorted(live)


def _sound(
    seen: FileFindings, live: pa.Table, data: pa.Table
) -> tuple[dict[str, list[str]], pa.Table]:
    """The live files by kind, and what is wrong with the others; each is opened once."""
    inside = PlainFolders(seen.home)
    listed = data.filter(pc.is_in(data["path"], live["path"].combine_chunks()))
    files: dict[str, list[str]] = {kind.name: [] for kind in DATA_TABLES}
    faults: list[tuple[str, str]] = []
    columns = (listed[name].to_pylist() for name in ("file", "kind", "num_bytes"))
    for file, kind, num_bytes in zip(*columns, strict=True):
        found = _fault(seen, inside, file, kind, num_bytes)
        if found:
            faults.append((file, found))
        else:
            files[kind].append(file)
    return files, _problems(faults)


def _fault(
    seen: FileFindings, inside: PlainFolders, file: str, kind: str, num_bytes: int
) -> str | None:
    """Return the reason why a file that was published can't be read now."""
    try:
        there = inside.status(file)
    except FileNotFoundError:
        return "it isn't there any more"
    except StoreError as refused:
        return ": ".join(str(each) for each in (refused.value, refused.cause) if each)
    except OSError as refused:
        return refused.strerror
    if there.st_size != num_bytes:
        return f"{there.st_size} bytes where {num_bytes} were published"
    of_kind = next(each for each in DATA_TABLES if each.name == kind)
    return seen.found(file, Identity.of(there), lambda path: fault_of(path, of_kind))
