"""Snapshot of a workspace: its tables, its data files in use, and problems with unreadable files.

The contents of manifests are cached as a group of tables, which is named by the digest of the manifests. The
next snapshot reads only new and changed manifests. If there is no workspace, or if it can't be written, the
tables stay in memory.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from pathlib import Path

import pyarrow as pa

from curriculum.catalog.cache import FOLDER, Cache, FileFindings
from curriculum.catalog.parquet_files import damage_of, fault_of
from curriculum.catalog.tables import (
    JOB_NAME,
    REPORT_NAME,
    TABLES,
    Line,
    Lines,
    closed_gates,
    lines_of,
    open_tables,
    table_of,
    written_status,
)
from curriculum.published_files import Identity, identity_of, sha256_of
from curriculum.store import published as artefact_at
from curriculum.store import read_mark
from curriculum.store.store import WORKSPACE_NAME
from schemas.cures import is_lost
from schemas.errors import CurriculumError
from schemas.manifest import MANIFEST_NAME
from schemas.run_folders import ATTEMPT, number_of
from schemas.stages import DATA_TABLES, STAGES, data_table_of

VERSION = 8
"""Version of the cached tables. Increase it to have them rebuilt; changed columns also cause a rebuild."""

_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.int64()
_OWN: dict[str, pa.Schema] = {
    "seen": pa.schema([("path", _TEXT), ("digest", _TEXT)]),
    "live": pa.schema([("path", _TEXT)]),
    "marks": pa.schema([("mark", _TEXT), ("path", _TEXT)]),
    "data": pa.schema(
        [
            *(
                pa.field(name, _TEXT)
                for name in ("path", "key", "kind", "file", "sha256", "footer")
            ),
            pa.field("num_bytes", _NUMBER),
        ]
    ),
    "problems": pa.schema([("path", _TEXT), ("problem", _TEXT)]),
    "lost_inputs": pa.schema([("path", _TEXT), ("problem", _TEXT)]),
}
"""Tables that a snapshot needs in addition to TABLES: read manifests, artefacts in use, files to read."""
KEPT: dict[str, pa.Schema] = {**TABLES, **_OWN}

_BELOW_A_STAGE = re.compile(r"[0-9a-f]{12}|.*[-=].*", re.DOTALL)
"""Name of an artefact's folder or of a folder on the way to it: <12 hex digits>, label-value or attempt=1."""
_KEY = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Tables of a workspace at one point in time, and its data files by kind."""

    home: Path
    digest: str
    kept: Mapping[str, str]
    """Paths of cached tables by table name, relative to the workspace."""
    tables: Mapping[str, pa.Table]
    """In-memory tables by name."""
    files: Mapping[str, Sequence[str]]
    """Readable data files in use by kind of data, relative to the workspace."""
    paths: Sequence[str]
    """Paths of published artefacts and open runs, readable or not."""
    marks: Collection[str]
    """Paths of artefacts that the lists in current/ name, even if the artefact is lost."""
    unused: Mapping[str, int]
    """Number of artefacts by kind of data, only for kinds of which no artefact is in use."""


def take(home: Path, status: pa.Table | None = None, *, verified: bool = True) -> Snapshot:
    """Take a snapshot of the current workspace. Files that haven't changed aren't opened again.

    The table `status` replaces the stored one, if it is given. With `verified`, every data file is compared
    with its published version. The result is cached until the file's inode, size or change time differs.
    """
    home = home.absolute()
    listing = walk(home)
    cache = Cache(home=home)
    findings = FileFindings.read(cache)
    marked = _marked(home)
    manifests = {
        artefact.path: findings.find(
            f"{artefact.path}/{MANIFEST_NAME}", artefact.identity, sha256_of
        )
        or ""
        for artefact in listing.published
    }
    digest = _digest(manifests, marked)
    is_kept = cache.holds(digest, KEPT)
    own = cache.tables(digest, _OWN) if is_kept else None
    if own is not None and _is_repaired(home, own["problems"]):
        cache.forget(digest)
        own = None
    if own is None:
        own = _build(cache, manifests, marked, findings.last.snapshot)
        if (home / WORKSPACE_NAME).is_file():
            with contextlib.suppress(OSError):
                (home / FOLDER).mkdir()
            if cache.keep(digest, own):
                cache.prune({digest, findings.last.seen})
        is_kept = cache.holds(digest, KEPT)
    files, faults = _readable(findings, own["live"], own["data"], verified=verified)
    if is_kept:
        findings.keep(digest)
    fresh = (open_tables(home, listing.open_runs), written_status(home), closed_gates(home))
    new_problems = [
        {"path": path, "problem": problem}
        for path, problem in (
            *_dangling(marked, manifests),
            *faults,
            *listing.passed_over,
            *itertools.chain(*(tables.problems for tables in fresh)),
        )
    ]
    problems = table_of(new_problems, _OWN["problems"])
    tables = {
        **({} if is_kept else own),
        **{name: table for tables in fresh for name, table in tables.tables.items()},
        **({} if status is None else {"status": status}),
        "problems": pa.concat_tables([own["problems"], own["lost_inputs"], problems]),
    }
    kept = [name for name in KEPT if name not in tables] if is_kept else []
    return Snapshot(
        home=home,
        digest=digest,
        kept={name: cache.path(digest, name) for name in kept},
        tables=tables,
        files=files,
        paths=(*manifests, *listing.open_runs),
        marks=[path for paths in marked.values() for path in paths],
        unused=_unused(own["live"], own["data"]),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestStat:
    """Manifest on disk: the path of its artefact, and the identity of the file."""

    path: str
    """Path of the manifest's artefact, relative to the workspace."""
    identity: Identity


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkspaceListing:
    """Published artefacts and open runs of a workspace, sorted by path."""

    published: tuple[ManifestStat, ...]
    open_runs: tuple[str, ...]
    passed_over: tuple[tuple[str, str], ...]
    """Pairs of a folder that couldn't be listed, and the reason."""


def walk(home: Path) -> WorkspaceListing:
    """List the artefacts and open runs of a workspace. The list is empty if there is no workspace.

    Only folders of stages are searched. Below them, only folders named `label-value`, `<12 hex digits>` or
    `attempt=1` are searched, until a manifest is found.
    """
    published: list[ManifestStat] = []
    open_runs: list[str] = []
    passed_over: list[tuple[str, str]] = []
    pending = [(str(home), "")]
    while pending:
        folder, above = pending.pop()
        for entry in _folders(folder, above, passed_over):
            path = above + entry.name
            if not (_BELOW_A_STAGE.fullmatch(entry.name) if above else entry.name in STAGES):
                continue
            is_attempt = number_of(entry.name, ATTEMPT) is not None
            if above and (is_attempt or _KEY.fullmatch(entry.name)):
                manifest = _status(f"{entry.path}/{MANIFEST_NAME}")
                if manifest is not None:
                    published.append(ManifestStat(path=path, identity=identity_of(manifest)))
                    continue
                if _status(f"{entry.path}/{JOB_NAME}") is not None:
                    open_runs.append(path)
                    continue
            pending.append((entry.path, f"{path}/"))
    return WorkspaceListing(
        published=tuple(sorted(published, key=attrgetter("path"))),
        open_runs=tuple(sorted(open_runs)),
        passed_over=tuple(sorted(passed_over)),
    )


def _folders(folder: str, above: str, passed_over: list[tuple[str, str]]) -> list[os.DirEntry[str]]:
    """Return the subfolders of a folder.

    If it can't be listed, append it to `passed_over` with the reason.
    """
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as refused:
        passed_over.append((above.rstrip("/") or ".", str(refused.strerror)))
        return []


def _status(file: str) -> os.stat_result | None:
    try:
        return os.stat(file)  # noqa: PTH116 - a Path takes longer than the call
    except OSError:
        return None


def _marked(home: Path) -> dict[str, list[str]]:
    """Return the paths in each list current/*.txt, by file name."""
    return {file.name: read_mark(file) for file in sorted((home / "current").glob("*.txt"))}


def _dangling(
    marked: Mapping[str, list[str]], manifests: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the paths that are in use but have no manifest, each with the reason."""
    for name, paths in marked.items():
        for path in paths:
            if path not in manifests:
                yield path, f"current/{name} lists it, and it has no manifest"


def _digest(manifests: Mapping[str, str], marked: Mapping[str, list[str]]) -> str:
    """Return the digest of everything that the cached tables depend on. It is the name of their group."""
    hashed = hashlib.sha256(f"{VERSION} {KEPT}\n".encode())
    for path, digest in manifests.items():
        hashed.update(f"{path}\0{digest}\n".encode())
    hashed.update(json.dumps(marked).encode())
    return hashed.hexdigest()[:12]


def _is_repaired(home: Path, problems: pa.Table) -> bool:
    """Return True if an artefact that was unreadable is readable now, with the same manifest."""
    paths = map(str, problems["path"].to_pylist())
    return any("problems" not in _read(home, path, "") for path in paths)


def _build(
    cache: Cache, manifests: Mapping[str, str], marked: Mapping[str, list[str]], last: str
) -> dict[str, pa.Table]:
    """Build the tables of all manifests.

    Reuse the rows of the last snapshot, and read only the other manifests.
    """
    # Importing pyarrow.compute is slow and isn't needed while the cache is up to date.
    import pyarrow.compute as pc

    before = cache.tables(last, KEPT) or {
        name: schema.empty_table() for name, schema in KEPT.items()
    }
    columns = (before["seen"][name].to_pylist() for name in ("path", "digest"))
    known = dict(zip(*columns, strict=True))
    same = [path for path, digest in manifests.items() if known.get(path) == digest]
    new = manifests.keys() - set(same)
    lines = {
        path: _read(cache.home, path, digest) for path, digest in manifests.items() if path in new
    }
    try:
        fresh = _tables(lines.values())
    except (ValueError, TypeError, OverflowError):
        fresh = _tables([_checked_lines(path, rows) for path, rows in lines.items()])
    tables = {
        name: pa.concat_tables(
            [
                before[name].filter(pc.is_in(before[name]["path"], pa.array(same, _TEXT))),
                fresh[name],
            ]
        ).sort_by("path")
        for name in KEPT
    }
    marks = [
        {"mark": name.removesuffix(".txt"), "path": path}
        for name, paths in marked.items()
        for path in paths
    ]
    live, lost = _live(tables, [mark["path"] for mark in marks])
    tables["lost_inputs"] = pa.Table.from_pylist(lost, schema=_OWN["lost_inputs"])
    tables["marks"] = pa.Table.from_pylist(marks, schema=_OWN["marks"])
    tables["live"] = pa.Table.from_pylist([{"path": path} for path in live], schema=_OWN["live"])
    return tables


def _tables(lines: Iterable[Lines]) -> dict[str, pa.Table]:
    """Join the rows of several artefacts to tables.

    Raises:
        ValueError, TypeError, OverflowError: if a value doesn't fit into its column.
    """
    listed = list(lines)
    return {
        name: pa.Table.from_pylist(
            [line for rows in listed for line in rows.get(name, ())], schema=schema
        )
        for name, schema in KEPT.items()
    }


def _checked_lines(path: str, lines: Lines) -> Lines:
    """Return the rows of an artefact. If a value doesn't fit into its column, return only a problem."""
    try:
        _tables([lines])
    except (ValueError, TypeError, OverflowError) as refused:
        return {"problems": [{"path": path, "problem": f"a value of its manifest: {refused}"}]}
    return lines


def _read(home: Path, path: str, digest: str) -> Lines:
    """Return the rows of an artefact.

    An unreadable part becomes a problem, so that the next snapshot retries.
    """
    try:
        artefact = artefact_at(home / path)
        lines = lines_of(artefact, path)
    except (CurriculumError, OSError, ValueError, RecursionError) as refused:
        return {"problems": [{"path": path, "problem": str(refused)}]}
    is_whole = "problems" not in lines
    lines["data"] = [
        {**{name: file[name] for name in _OWN["data"].names if name in file}, "kind": kind}
        for file in lines["files"]
        if (kind := _kind_of(artefact.manifest.stage, file["name"])) in _TABLES
        or (kind == _FACTS and is_whole)
    ]
    if is_whole:
        lines["seen"] = [{"path": path, "digest": digest}]
    return lines


_FACTS = "facts"
"""Kind of the files job.json and report.json of a finished run. The run's rows are read from them."""


def _kind_of(stage: str, name: str) -> str | None:
    """Return the kind of a file that the catalog reads, or None for a file that it doesn't read."""
    if stage == "runs" and name in (JOB_NAME, REPORT_NAME):
        return _FACTS
    table = data_table_of(stage, name)
    return table.name if table is not None else None


def _live(tables: Mapping[str, pa.Table], marked: Iterable[str]) -> tuple[list[str], list[Line]]:
    """Return the artefacts in use: those that current/*.txt list, and all of their inputs at any depth.

    Garbage collection keeps the same artefacts. The second result has a row for each missing input.
    """
    artefacts = tables["artefacts"].select(["path", "key", "content"]).to_pylist()
    by_key: dict[str, list[Line]] = {}
    for artefact in artefacts:
        by_key.setdefault(artefact["key"], []).append(artefact)
    inputs: dict[str, list[Line]] = {}
    for line in tables["inputs"].to_pylist():
        inputs.setdefault(line["path"], []).append(line)
    known = {artefact["path"] for artefact in artefacts}
    pending = [path for path in marked if path in known]
    live: set[str] = set()
    lost: list[Line] = []
    while pending:
        path = pending.pop()
        if path in live:
            continue
        live.add(path)
        for line in inputs.get(path, ()):
            made = by_key.get(line["input_key"], [])
            same = [artefact for artefact in made if artefact["content"] == line["input_content"]]
            pending += [artefact["path"] for artefact in same or made]
            if not made:
                words = f"its input {line['name']} ({line['input_key'][:12]})"
                lost.append({"path": path, "problem": f"{words} isn't in the workspace any more"})
    return sorted(live), sorted(lost, key=itemgetter("path", "problem"))


def _unused(live: pa.Table, data: pa.Table) -> dict[str, int]:
    """Return the number of artefacts by kind of data, only for kinds of which no artefact is in use."""
    in_use = {*live["path"].to_pylist()}
    paths: dict[str, set[str]] = {kind: set() for kind in _TABLES}
    for kind, path in zip(data["kind"].to_pylist(), data["path"].to_pylist(), strict=True):
        if kind in paths:
            paths[str(kind)].add(str(path))
    return {kind: len(some) for kind, some in paths.items() if some and some.isdisjoint(in_use)}


_UNVERIFIED = "unverified"
"""Finding about a readable file that hasn't been compared with its published version yet."""


def _readable(
    findings: FileFindings, live: pa.Table, data: pa.Table, *, verified: bool
) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Return the readable files in use by kind, and the faults of the unreadable ones.

    Each file is opened once.
    """
    in_use = {*live["path"].to_pylist()}
    files: dict[str, list[str]] = {kind.name: [] for kind in DATA_TABLES}
    faults: list[tuple[str, str]] = []
    columns = (data[name].to_pylist() for name in ("path", "file", "kind", "num_bytes"))
    for at, (path, file, kind, num_bytes) in enumerate(zip(*columns, strict=True)):
        if is_lost(findings.cache.home / file) if kind == _FACTS else path not in in_use:
            continue
        fault = _fault(findings, file, kind, num_bytes)
        if fault == _UNVERIFIED:
            fault = _damage(findings, file, kind, data.slice(at, 1)) if verified else None
        if fault:
            faults.append((file, fault))
        elif kind in files:
            files[kind].append(file)
    return files, faults


def _fault(findings: FileFindings, file: str, kind: str, num_bytes: int) -> str | None:
    """Return the reason why a published file can't be read now, or None if it can."""
    try:
        found = (findings.cache.home / file).stat()
    except FileNotFoundError:
        return "it isn't there any more"
    except OSError as refused:
        return refused.strerror
    if found.st_size != num_bytes:
        return f"{found.st_size} bytes where {num_bytes} were published"
    table = _TABLES.get(kind)
    return findings.find(
        file,
        identity_of(found),
        lambda path: (fault_of(path, table) if table else None) or _UNVERIFIED,
    )


def _damage(findings: FileFindings, file: str, kind: str, line: pa.Table) -> str | None:
    """Return how a file differs from its published version, which `line` describes, or None if it doesn't."""
    sha256, footer = line["sha256"][0].as_py(), line["footer"][0].as_py()
    return findings.find_again(
        file, lambda path: damage_of(path, _TABLES.get(kind), sha256=sha256, footer=footer)
    )


_TABLES = {table.name: table for table in DATA_TABLES}
