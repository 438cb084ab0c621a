"""A workspace as it stands at one moment: its tables, its live data files, and what couldn't be read.

What manifests say is kept in `<home>/catalog/<digest>/`, a Parquet file a table, so that the next
snapshot reads only the manifests that are new or changed. Where the workspace can't be written, or
there is none, the tables stay in memory.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.catalog.closed import closed_gates
from curriculum.catalog.data import KINDS, fault_of, kind_of
from curriculum.catalog.running import open_tables
from curriculum.catalog.tables import TABLES, Line, Lines, lines_of
from curriculum.catalog.walk import Sighting, walk
from curriculum.store import published as artefact_at
from curriculum.store.store import WORKSPACE_NAME
from schemas.errors import CurriculumError

FOLDER = "catalog"
VERSION = 4
"""Of what the kept tables hold, raised by hand; where their columns change they are made anew anyway."""
KEPT_SECONDS = 3600
"""For which a snapshot stays after it was replaced: who opened it has read it by then."""

_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.int64()
_OWN: dict[str, pa.Schema] = {
    "seen": pa.schema([("path", _TEXT), ("mtime", _NUMBER), ("size", _NUMBER)]),
    "live": pa.schema([("path", _TEXT)]),
    "marks": pa.schema([("mark", _TEXT), ("path", _TEXT)]),
    "data": pa.schema(
        [
            *(pa.field(name, _TEXT) for name in ("path", "key", "kind", "file", "fault")),
            *(pa.field(name, _NUMBER) for name in ("num_bytes", "mtime")),
        ]
    ),
    "problems": pa.schema([("path", _TEXT), ("problem", _TEXT)]),
}
"""What a snapshot needs beside TABLES: the manifests that were read, those in use, files to read."""
KEPT: dict[str, pa.Schema] = {**TABLES, **_OWN}


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Where each table is, and the files of each kind of data."""

    home: Path
    digest: str
    kept: Mapping[str, str]
    """Tables that are files, by name: paths relative to the workspace."""
    tables: Mapping[str, pa.Table]
    """Those in memory."""
    files: Mapping[str, Sequence[str]]
    """By the name of their kind: the live data files that can be read, relative to the workspace."""


def take(home: Path) -> Snapshot:
    """The workspace as it stands now; manifests that were read before aren't opened again."""
    home = home.absolute()
    found = walk(home)
    marked = _marked(home)
    digest = _digest(found.published, marked)
    kept = _Kept(home=home, digest=digest)
    if not kept.stands or kept.mended:
        kept.write(_made(home, found.published, marked))
    data = kept.table("data")
    sound, faults = _sound(home, kept.table("live"), data)
    problems = pa.concat_tables([kept.table("problems"), faults])
    tables = {
        **kept.tables,
        **open_tables(home, found.open_runs),
        **closed_gates(home),
        "problems": problems,
    }
    return Snapshot(
        home=home,
        digest=digest,
        kept={name: path for name, path in kept.files.items() if name not in tables},
        tables=tables,
        files=sound,
    )


@dataclass(kw_only=True, slots=True)
class _Kept:
    """The kept tables of a digest: files where that can be, else in memory."""

    home: Path
    digest: str
    tables: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.home / FOLDER / self.digest

    @property
    def stands(self) -> bool:
        """Whether all tables are there; a loss of power may have left empty ones."""
        files = [self.folder / f"{name}.parquet" for name in KEPT]
        return all(file.is_file() and file.stat().st_size for file in files)

    @property
    def mended(self) -> bool:
        """Whether an artefact that couldn't be read now can, though its manifest is as it was."""
        for path in map(str, self.table("problems")["path"].to_pylist()):
            lines: Lines = {name: [] for name in KEPT}
            _read(self.home, Sighting(path=path, mtime=0, size=0), lines)
            if not lines["problems"]:
                shutil.rmtree(self.folder, ignore_errors=True)
                return True
        return False

    @property
    def files(self) -> dict[str, str]:
        if self.tables:
            return {}
        return {name: f"{FOLDER}/{self.digest}/{name}.parquet" for name in KEPT}

    def table(self, name: str) -> pa.Table:
        if name in self.tables:
            return self.tables[name]
        return pq.read_table(self.folder / f"{name}.parquet")

    def write(self, tables: dict[str, pa.Table]) -> None:
        """Let the folder appear in one rename; keep the tables in memory where that can't be."""
        draft = self.folder.with_name(f".{uuid.uuid4().hex}")
        try:
            if not (self.home / WORKSPACE_NAME).is_file():
                raise FileNotFoundError(WORKSPACE_NAME)
            draft.mkdir(parents=True)
            for name, table in tables.items():
                pq.write_table(table, draft / f"{name}.parquet", compression="zstd")
            if not self.stands:
                shutil.rmtree(self.folder, ignore_errors=True)
            draft.rename(self.folder)
        except OSError:
            # Read-only, full, somebody else's, no workspace yet; or another process was faster.
            shutil.rmtree(draft, ignore_errors=True)
            if not self.stands:
                self.tables = tables
        else:
            _prune(self.folder)


def _prune(folder: Path) -> None:
    """Remove the snapshots that this one replaced a while ago, and drafts that nobody finished."""
    for other in folder.parent.iterdir():
        if other != folder and abs(time.time() - other.stat().st_mtime) > KEPT_SECONDS:
            if other.is_dir():
                shutil.rmtree(other, ignore_errors=True)
            else:
                other.unlink(missing_ok=True)


def _marked(home: Path) -> dict[str, list[str]]:
    """The paths that each current/*.txt lists as live."""
    return {
        file.name: file.read_text().splitlines()
        for file in sorted((home / "current").glob("*.txt"))
    }


def _digest(published: Iterable[Sighting], marked: Mapping[str, list[str]]) -> str:
    hashed = hashlib.sha256(f"{VERSION} {KEPT}\n".encode())
    for each in published:
        hashed.update(f"{each.path}\0{each.mtime}\0{each.size}\n".encode())
    hashed.update(json.dumps(marked).encode())
    return hashed.hexdigest()[:12]


def _made(
    home: Path, published: Sequence[Sighting], marked: Mapping[str, list[str]]
) -> dict[str, pa.Table]:
    """The tables of these manifests: what the newest snapshot has of them, and the rest read now."""
    before = _before(home)
    same = _same(before["seen"], published)
    known = set(same)
    fresh = [each for each in published if each.path not in known]
    lines: Lines = {name: [] for name in KEPT}
    for each in fresh:
        _read(home, each, lines)
    tables = {
        name: pa.concat_tables(
            [
                before[name].filter(pc.is_in(before[name]["path"], pa.array(same, _TEXT))),
                pa.Table.from_pylist(lines[name], schema=schema),
            ]
        ).sort_by("path")
        for name, schema in KEPT.items()
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


def _before(home: Path) -> dict[str, pa.Table]:
    """The newest kept tables; empty ones where there are none that can be read."""
    folders = [each for each in (home / FOLDER).glob("[0-9a-f]*") if each.is_dir()]
    try:
        newest = max(folders, key=lambda each: each.stat().st_mtime)
        tables = {name: pq.read_table(newest / f"{name}.parquet") for name in KEPT}
        if all(tables[name].schema.equals(schema) for name, schema in KEPT.items()):
            return tables
    except (ValueError, OSError, pa.ArrowException):
        pass  # None yet, or removed, damaged or of another version: all manifests are read.
    return {name: schema.empty_table() for name, schema in KEPT.items()}


def _same(seen: pa.Table, published: Iterable[Sighting]) -> list[str]:
    """The paths whose manifests are as they were."""
    columns = (seen[name].to_pylist() for name in ("path", "mtime", "size"))
    known = set(zip(*columns, strict=True))
    return [each.path for each in published if (each.path, each.mtime, each.size) in known]


def _read(home: Path, sighting: Sighting, lines: Lines) -> None:
    """Add the lines of an artefact, and why something of it can't be read; that is tried again next time."""
    try:
        artefact = artefact_at(home / sighting.path)
    except (CurriculumError, OSError, UnicodeDecodeError) as refused:
        lines["problems"].append({"path": sighting.path, "problem": str(refused)})
        return
    found = lines_of(artefact, sighting.path)
    found["data"] = list(_data(home, artefact.manifest.stage, found["files"]))
    if "problems" not in found:
        found["seen"] = [dataclasses.asdict(sighting)]
    for name, each in found.items():
        lines[name] += each


def _data(home: Path, stage: str, files: Sequence[Line]) -> Iterator[Line]:
    """The files of an artefact that views read, each opened once."""
    for file in files:
        kind = kind_of(stage, file["name"])
        if kind is not None:
            there = home / file["file"]
            yield {
                "path": file["path"],
                "key": file["key"],
                "kind": kind.name,
                "file": file["file"],
                "num_bytes": file["num_bytes"],
                "mtime": there.stat().st_mtime_ns if there.is_file() else 0,
                "fault": fault_of(there, kind),
            }


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


def _sound(home: Path, live: pa.Table, data: pa.Table) -> tuple[dict[str, list[str]], pa.Table]:
    """The live files by kind, and what is wrong with the others."""
    inside = data.filter(pc.is_in(data["path"], live["path"].combine_chunks()))
    files: dict[str, list[str]] = {kind.name: [] for kind in KINDS}
    faults: list[Line] = []
    columns = (inside[name].to_pylist() for name in ("file", "kind", "num_bytes", "mtime", "fault"))
    for file, kind, num_bytes, mtime, fault in zip(*columns, strict=True):
        found = _changed(f"{home}/{file}", kind, num_bytes, mtime, fault)
        if found:
            faults.append({"path": file, "problem": found})
        else:
            files[kind].append(file)
    return files, pa.Table.from_pylist(faults, schema=_OWN["problems"])


def _changed(file: str, kind: str, num_bytes: int, mtime: int, fault: str | None) -> str | None:
    """Why a file that was published can't be read now."""
    try:
        there = os.stat(file)  # noqa: PTH116 - ten thousand of them: a Path costs more than the call
    except OSError:
        return "it isn't there any more"
    if there.st_size != num_bytes:
        return f"{there.st_size} bytes where {num_bytes} were published"
    if there.st_mtime_ns != mtime:
        return fault_of(Path(file), next(each for each in KINDS if each.name == kind))
    return fault
