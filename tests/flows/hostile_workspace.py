"""A workspace that somebody else sent, and a place outside of it that no command may read or change.

What is planted here does harm by itself; test_planted_workspace.py shows that beside what refuses it.
"""

import hashlib
import pickle
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.catalog import open_catalog
from curriculum.catalog.cache import FOLDER, KeptIdentities
from schemas.manifest import MANIFEST_NAME
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

FILES = ("README.md", "catalog.sql", "workspace.json")
LINKABLE = (
    *FILES,
    *(
        ".drafts",
        ".locks",
        ".trash",
        "approvals",
        "catalog",
        "corpora",
        "current",
        "diets",
        "documents",
    ),
    *(
        "gates",
        "leases",
        "mixtures",
        "configs",
        "phases",
        "repositories",
        "reports",
        "rows",
        "runs",
        "slots",
    ),
)
"""Entries of a workspace's root."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentinel:
    """A tree outside the workspace with every kind of workspace file."""

    folder: Path

    @staticmethod
    def beside(folder: Path, home: Path) -> "Sentinel":
        """A copy of a workspace is what a command would find the most to do in."""
        shutil.copytree(home, folder, symlinks=True)
        for name in LINKABLE:
            there = folder / name
            if not there.exists():
                _fill(there)
        return Sentinel(folder=folder)

    def fingerprint(self) -> str:
        """A digest of the names, contents, modes, times of change and numbers of links of all below it."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            there = path.lstat()
            said = (path.relative_to(self.folder), there.st_mode, there.st_mtime_ns, there.st_nlink)
            digest.update(repr(said).encode())
            if stat.S_ISREG(there.st_mode):
                digest.update(path.read_bytes())
        return digest.hexdigest()


def _fill(there: Path) -> None:
    if there.name in FILES:
        there.write_text("theirs\n")
        return
    there.mkdir()
    (there / "theirs.txt").write_text("theirs\n")
    (there / "theirs.json").write_text("{}\n")
    (there / ("0" * 64)).mkdir()
    (there / ("0" * 64) / "theirs.parquet").write_text("theirs\n")


def tiny_workspace(home: Path) -> TinyWorkspace:
    """A workspace with documents, rows, mixtures, a finished run, and rows that nothing refers to."""
    held = TinyWorkspace(home)
    begun = job(held.syntax, home, run_key="0" * 64)
    run(home, begun, [figure(2.0, 0.1)])
    return held


def link(home: Path, name: str, target: Path) -> Path:
    """Let a path of a workspace be a link to one outside; what was there is gone."""
    place = home / name
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    return place


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """A file that exists once something that was planted was executed."""

    file: Path

    @property
    def sings(self) -> bool:
        """True once something was executed."""
        return self.file.exists()

    def __reduce__(self) -> tuple[Any, ...]:
        """Loaded from a pickle, it makes its file."""
        return Path.touch, (self.file,)


def plant(home: Path, canary: Canary) -> None:
    """Put beside what is published what would be executed, by who reads it without need."""
    pickled = pickle.dumps(canary)
    prefect = home / "prefect"
    prefect.mkdir(exist_ok=True)
    (prefect / "logging.yml").write_text(logging_yml(canary))
    (prefect / "profiles.toml").write_text(
        'active = "ephemeral"\n[profiles.ephemeral]\n'
        f'PREFECT_LOGGING_SETTINGS_PATH = "{prefect}/logging.yml"\n'
    )
    with sqlite3.connect(prefect / "prefect.db") as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
    database.close()
    for folder in (home / "current", home / "leases", home / "slots"):
        folder.mkdir(exist_ok=True)
        (folder / "state.pkl").write_bytes(pickled)


def logging_yml(canary: Canary) -> str:
    """A configuration of Python's logging that opens a file as it is applied."""
    return (
        "version: 1\ndisable_existing_loggers: false\nhandlers:\n  planted:\n"
        f"    class: logging.FileHandler\n    filename: {canary.file}\n"
    )


def published(home: Path) -> Iterator[Path]:
    """The manifests of a workspace, without those of checkpoints."""
    for file in sorted(home.rglob(MANIFEST_NAME)):
        if "checkpoints" not in file.parts:
            yield file


def forge_catalog(home: Path, secret: Path) -> None:
    """Let the catalog's kept tables name a file outside, as if they had been written here so."""
    open_catalog(home).close()
    (kept,) = {file.parent for file in (home / FOLDER).glob("*/data.parquet")}
    file = kept / "data.parquet"
    table = pq.read_table(file)
    up = "../" * (len(home.absolute().parts) - 1)
    outside = f"{up}{secret.absolute().as_posix()[1:]}"
    named = pa.array([outside] * len(table), pa.string())
    table = table.set_column(table.schema.get_field_index("file"), "file", named)
    pq.write_table(table, file)
    identities = kept / "identities.json"
    tables = dict(KeptIdentities.model_validate_json(identities.read_bytes()).tables)
    there = file.stat()
    tables["data"] = (there.st_ino, there.st_ctime_ns, there.st_size)
    identities.write_text(KeptIdentities(tables=tables).model_dump_json())
