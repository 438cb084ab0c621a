"""A workspace as it stands at one moment: its tables, its live data files, and what couldn't be read.

What manifests say is kept in `<home>/catalog/<digest>/`, a Parquet file a table, so that the next
snapshot reads only the manifests that are new or changed; the digest is that of their bytes. Where the
workspace can't be written, or there is none, the tables stay in memory.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from curriculum.catalog.closed import closed_gates
from curriculum.catalog.data import KINDS, fault_of, kind_of
from curriculum.catalog.diets import diets
from curriculum.catalog.running import open_tables
from curriculum.catalog.seen import FOLDER, Identity, Seen, prune
from curriculum.catalog.tables import TABLES, Line, Lines, lines_of
from curriculum.catalog.walk import Sighting, walk
from curriculum.store import published as artefact_at
from curriculum.store import read_mark
from curriculum.store.store import WORKSPACE_NAME
from curriculum.store.verify import sha256_of
from schemas.errors import CurriculumError
from schemas.json_text import Sealed
from schemas.manifest import MANIFEST_NAME

VERSION = 5
"""Of what the kept tables hold, raised by hand; where their columns change they are made anew anyway."""

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
"""What a snapshot needs beside TABLES: the manifests that were read, those in use, files to read."""
KEPT: dict[str, pa.Schema] = {**TABLES, **_OWN}
DIGESTS = "digests.json"


class KeptDigests(Sealed):
    """digests.json beside the kept tables: the sha256 of each file, by its table's name."""

    tables: dict[str, str]


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
    """The workspace as it stands now; files that are the ones that were read before aren't opened again."""
    home = home.absolute()
    found = walk(home)
    marked = _marked(home)
    seen = Seen.of(home)
    manifests = _manifests(seen, found.published)
    digest = _digest(manifests, marked)
    kept = _Kept(home=home, digest=digest)
    if not kept.stands or kept.mended:
        kept.write(_made(home, manifests, marked, seen.last))
    data = kept.table("data")
    sound, faults = _sound(seen, kept.table("live"), data)
    if not kept.tables:
        seen.keep(digest)
    problems = pa.concat_tables([kept.table("problems"), faults])
    tables = {
        **kept.tables,
        **open_tables(home, found.open_runs),
        **closed_gates(home),
        **diets(home, home / FOLDER),
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
        """True where all tables are there as they were written."""
        return _whole(self.folder)

    @property
    def mended(self) -> bool:
        """Whether an artefact that couldn't be read now can, though its manifest is as it was."""
        for path in map(str, self.table("problems")["path"].to_pylist()):
            lines: Lines = {name: [] for name in KEPT}
            _read(self.home, path, "", lines)
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
            digests = {name: sha256_of(draft / f"{name}.parquet") for name in tables}
            (draft / DIGESTS).write_text(KeptDigests(tables=digests).model_dump_json())
            if not self.stands:
                shutil.rmtree(self.folder, ignore_errors=True)
            draft.rename(self.folder)
        except OSError:
            # Read-only, full, somebody else's, no workspace yet; or another process was faster.
            shutil.rmtree(draft, ignore_errors=True)
            if not self.stands:
                self.tables = tables
        else:
            prune(self.folder.parent, keep=self.digest)


def _whole(folder: Path) -> bool:
    """Return True where all tables of a folder are those that were written; else they are made anew."""
    try:
        digests = KeptDigests.model_validate_json((folder / DIGESTS).read_bytes()).tables
        return digests == {name: sha256_of(folder / f"{name}.parquet") for name in KEPT}
    except (OSError, ValidationError):
        return False


def _marked(home: Path) -> dict[str, list[str]]:
    """The paths that each current/*.txt lists as live."""
    return {file.name: read_mark(file) for file in sorted((home / "current").glob("*.txt"))}


def _manifests(seen: Seen, published: Iterable[Sighting]) -> dict[str, str]:
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


def _made(
    home: Path, manifests: Mapping[str, str], marked: Mapping[str, list[str]], last: str
) -> dict[str, pa.Table]:
    """The tables of these manifests: what the last snapshot has of them, and the rest read now."""
    before = _before(home / FOLDER / last)
    same = _same(before["seen"], manifests)
    known = set(same)
    lines: Lines = {name: [] for name in KEPT}
    for path, digest in manifests.items():
        if path not in known:
            _read(home, path, digest, lines)
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


def _before(folder: Path) -> dict[str, pa.Table]:
    """The tables of an earlier snapshot; empty ones where there are none that can be read."""
    empty = {name: schema.empty_table() for name, schema in KEPT.items()}
    try:
        if not _whole(folder):
            return empty
        tables = {name: pq.read_table(folder / f"{name}.parquet") for name in KEPT}
        if all(tables[name].schema.equals(schema) for name, schema in KEPT.items()):
            return tables
    except (OSError, pa.ArrowException):
        pass  # None yet, or removed, damaged or of another version: all manifests are read.
    return empty


def _same(seen: pa.Table, manifests: Mapping[str, str]) -> list[str]:
    """The paths whose manifests are as they were."""
    known = dict(zip(*(seen[name].to_pylist() for name in ("path", "digest")), strict=True))
    return [path for path, digest in manifests.items() if known.get(path) == digest]


def _read(home: Path, path: str, digest: str, lines: Lines) -> None:
    """Add the lines of an artefact, and why something of it can't be read; that is tried again next time."""
    try:
        artefact = artefact_at(home / path)
    except (CurriculumError, OSError, UnicodeDecodeError) as refused:
        lines["problems"].append({"path": path, "problem": str(refused)})
        return
    found = lines_of(artefact, path)
    found["data"] = list(_data(artefact.manifest.stage, found["files"]))
    if "problems" not in found:
        found["seen"] = [{"path": path, "digest": digest}]
    for name, each in found.items():
        lines[name] += each


def _data(stage: str, files: Sequence[Line]) -> Iterator[Line]:
    """The files of an artefact that views read."""
    for file in files:
        kind = kind_of(stage, file["name"])
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


def _sound(seen: Seen, live: pa.Table, data: pa.Table) -> tuple[dict[str, list[str]], pa.Table]:
    """The live files by kind, and what is wrong with the others; each is opened once."""
    inside = data.filter(pc.is_in(data["path"], live["path"].combine_chunks()))
    files: dict[str, list[str]] = {kind.name: [] for kind in KINDS}
    faults: list[Line] = []
    columns = (inside[name].to_pylist() for name in ("file", "kind", "num_bytes"))
    for file, kind, num_bytes in zip(*columns, strict=True):
        found = _fault(seen, file, kind, num_bytes)
        if found:
            faults.append({"path": file, "problem": found})
        else:
            files[kind].append(file)
    return files, pa.Table.from_pylist(faults, schema=_OWN["problems"])


def _fault(seen: Seen, file: str, kind: str, num_bytes: int) -> str | None:
    """Why a file that was published can't be read now."""
    try:
        there = os.stat(f"{seen.home}/{file}")  # noqa: PTH116 - ten thousand of them: a Path costs more
    except OSError:
        return "it isn't there any more"
    if there.st_size != num_bytes:
        return f"{there.st_size} bytes where {num_bytes} were published"
    of_kind = next(each for each in KINDS if each.name == kind)
    return seen.found(file, Identity.of(there), lambda path: fault_of(path, of_kind))
