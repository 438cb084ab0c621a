"""Listing of a workspace: keys, contents, names on disk, verdicts; two listings differ where versions do.

The first line names the commit of the code. The rest is sorted, a fact a line:

    artefact  stage, labels, key, content             check   verdict of `curriculum check`
    column    Parquet column of a kind of file, type  field   dotted path in a kind of JSON or YAML file
    file      name, digests replaced                  live    line of current/*.txt
    macro     SQL macro, parameters, columns          view    SQL view or table, columns
    tensor    name, dtype, shape, digest of a checkpoint

A kind of file is its path with the values of labels replaced. Everything is read from disk; from the packages
comes only the verdict, by the command `curriculum` beside this Python. Nothing is written.

Left out:

- values of fields: timestamps, hosts, process ids, speeds and versions of tools are among them, and what an
  artefact is, its content says;
- numbers in the names of metrics files, which the clock decides;
- words of a tokenizer, entries of the catalog's cache, contents of reports, README.md and catalog.sql, SQL's
  schema `internal`, digests of lists in current/, the insides of clones (git's own files);
- configs/ (what a command line said), and what processes leave for one another: leases/, slots/, prefect/,
  notifications/, .locks/, .drafts/, .trash/;
- with `--without-runs` also what rests on the floating-point sums of a CPU: contents of runs, digests of
  tensors, and keys of runs that continue another run.

Two commits, one virtual environment, the same machine and number of threads:

    git worktree add /tmp/first 6b19109
    PYTHONPATH=/tmp/first curriculum demo --home /tmp/demo-first
    curriculum demo --home /tmp/demo-head
    PYTHONPATH=/tmp/first python benchmarks/identity.py /tmp/demo-first > /tmp/first.txt
    python benchmarks/identity.py /tmp/demo-head > /tmp/head.txt
    diff <(tail -n +2 /tmp/first.txt) <(tail -n +2 /tmp/head.txt)

Runs are bitwise reproducible on one CPU with the same versions of tools, so the two are equal, weights too.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import yaml

PASSED_OVER = frozenset(
    {"configs", "leases", "slots", "prefect", "notifications", ".locks", ".drafts", ".trash"}
)
CLONES = "repositories"
MANIFEST = "manifest.json"
SHALLOW = {"tokenizer.json": 2, "identities.json": 1, "replaced.json": 0}
"""Levels of files whose further names are data: words, paths, digests."""
_DIGEST = re.compile(r"[0-9a-f]{12,}")
_LABEL = re.compile(r"(?<=/)([a-z_]+[-=])[^/]*(?=/)")
_METRICS = re.compile(r"metrics/\d+")
"""Metrics are written every few seconds: the clock decides after which steps."""
_PART = re.compile(r"\d{5,}")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A manifest on disk, by its directory relative to the workspace."""

    path: str
    manifest: dict[str, Any]

    @property
    def stage(self) -> str:
        """The stage that published it."""
        return str(self.manifest["stage"])

    @property
    def continues(self) -> bool:
        """Return True if it is a run that starts from the checkpoint of another one."""
        return any(each["name"] == "previous" for each in self.manifest["inputs"])


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A workspace to describe, with or without what rests on the CPU."""

    root: Path
    without_runs: bool = False

    def lines(self) -> list[str]:
        """Every fact, sorted, without the first line."""
        asked: tuple[Callable[[], Iterator[str]], ...] = (
            self.artefacts, self.names, self.columns, self.fields, self.live, self.sql,
            self.tensors, self.verdicts,
        )  # fmt: skip
        return sorted({line for each in asked for line in each()})

    @cached_property
    def files(self) -> list[str]:
        """Paths of the files, relative to the workspace."""
        found = (each.relative_to(self.root) for each in self.root.rglob("*") if each.is_file())
        return sorted(
            each.as_posix()
            for each in found
            if each.parts[0] not in PASSED_OVER and each.parts[0] != CLONES
        )

    @cached_property
    def published(self) -> list[Published]:
        """Artefacts in path order; checkpoints have manifests of their own, of another form."""
        found = [each for each in self.files if each.endswith(f"/{MANIFEST}")]
        return [
            Published(path=each.removesuffix(f"/{MANIFEST}"), manifest=self._json(each))
            for each in found
            if "/checkpoints/" not in each
        ]

    def artefacts(self) -> Iterator[str]:
        """Stage, labels, key and content."""
        for each in self.published:
            labels = [f"{name}={value}" for name, value in sorted(each.manifest["labels"].items())]
            place = [each.path.rpartition("/")[2]] if each.stage == "runs" else []
            is_run = self.without_runs and each.stage == "runs"
            key = "-" if is_run and each.continues else each.manifest["key"]
            content = "-" if is_run else each.manifest["content"]
            yield " ".join(
                ["artefact", each.stage, *labels, *place, f"key={key}", f"content={content}"]
            )

    def names(self) -> Iterator[str]:
        """Files by their names."""
        for each in self.files:
            yield f"file {_METRICS.sub('metrics/<step>', _DIGEST.sub('<digest>', each))}"
        for clone in (self.root / CLONES).glob("*"):
            yield f"file {CLONES}/{_DIGEST.sub('<digest>', clone.name)}/"

    def columns(self) -> Iterator[str]:
        """Columns of Parquet files."""
        for each in self._with(".parquet"):
            for field in pq.read_schema(self.root / each):
                required = "" if field.nullable else " not null"
                yield f"column {_kind(each)} {field.name}: {field.type}{required}"

    def fields(self) -> Iterator[str]:
        """Fields of JSON and YAML files."""
        for each in self._with(".json", ".yaml"):
            path = self.root / each
            content = (
                yaml.safe_load(path.read_text()) if path.suffix == ".yaml" else self._json(each)
            )
            levels = SHALLOW.get(path.name, 99)
            for found in _dotted(content, levels):
                yield f"field {_kind(each)} {_DIGEST.sub('<digest>', found)}"

    def live(self) -> Iterator[str]:
        """Lines of lists of live artefacts, but for the digest of those lines."""
        for each in self._with(".txt"):
            for line in (self.root / each).read_text().splitlines():
                if not line.startswith("#"):
                    yield f"live {each} {self._masked(line)}"

    def sql(self) -> Iterator[str]:
        """Views, tables and macros of catalog.sql with their columns."""
        if not (self.root / "catalog.sql").is_file():
            return
        connection = duckdb.connect()
        connection.execute(
            f"SET file_search_path = '{str(self.root).replace(chr(39), chr(39) * 2)}'"
        )
        connection.execute((self.root / "catalog.sql").read_text())
        for name, columns in connection.execute(_RELATIONS).fetchall():
            yield f"view {name}({columns})"
        for name, kind, parameters in connection.execute(_MACROS).fetchall():
            said = f"macro {name}({', '.join(parameters)})"
            if kind == "table_macro":
                call = f"{name}({', '.join(['NULL'] * len(parameters))})"
                found = connection.execute(f"DESCRIBE FROM {call}").fetchall()
                said += f" -> ({', '.join(f'{column} {of}' for column, of, *_ in found)})"
            yield said

    def tensors(self) -> Iterator[str]:
        """Tensors of safetensors files; a digest is of dtype, shape and bytes."""
        for each in self._with(".safetensors"):
            with (self.root / each).open("rb") as opened:
                (length,) = struct.unpack("<Q", opened.read(8))
                header = json.loads(opened.read(length))
                data = opened.read()
            for name, tensor in header.items():
                if name == "__metadata__":
                    yield f"tensor {_shown(each)} {name}: {', '.join(sorted(tensor))}"
                    continue
                start, end = tensor["data_offsets"]
                digest = (
                    "" if self.without_runs else f" {hashlib.sha256(data[start:end]).hexdigest()}"
                )
                yield f"tensor {_shown(each)} {name}: {tensor['dtype']} {tensor['shape']}{digest}"

    def verdicts(self) -> Iterator[str]:
        """Output of `curriculum check` for each artefact; after an error it goes on with the next one."""
        left = [each.path for each in self.published]
        while left:
            done = subprocess.run(
                [str(Path(sys.executable).parent / "curriculum"), "check", *left],
                cwd=self.root, capture_output=True, text=True, check=False, env=_wide(),
            )  # fmt: skip
            for line in done.stdout.splitlines():
                yield f"check {self._masked(line)}"
            if done.returncode == 0:
                return
            ended = {line.partition(": ")[0] for line in done.stdout.splitlines() if _ENDS in line}
            failed = next(at for at, path in enumerate(left) if path not in ended)
            yield f"check {self._masked(left[failed])}: {self._masked(done.stderr.strip())}"
            left = left[failed + 1 :]

    def _with(self, *suffixes: str) -> Iterator[str]:
        return (each for each in self.files if each.endswith(suffixes))

    def _json(self, file: str) -> Any:
        return json.loads((self.root / file).read_text())

    def _masked(self, text: str) -> str:
        """Replace the keys of runs that continue one, and the workspace's own path, in a text."""
        text = text.replace(f"{self.root}/", "")
        for each in self.published:
            if self.without_runs and each.stage == "runs" and each.continues:
                text = text.replace(each.manifest["key"][:12], "-")
        return text


_ENDS = "artefacts are what their manifests say"
_RELATIONS = """
    SELECT table_name, string_agg(column_name || ' ' || data_type, ', ' ORDER BY column_index)
    FROM duckdb_columns() WHERE schema_name = 'main' AND NOT internal GROUP BY ALL
"""
_MACROS = """
    SELECT DISTINCT function_name, function_type, parameters FROM duckdb_functions()
    WHERE schema_name = 'main' AND NOT internal AND function_type IN ('macro', 'table_macro')
"""


def _kind(file: str) -> str:
    """The path of a file without what is data in it.

    >>> _kind("documents/family-chat/repository-a/0123456789ab/data/part-00000.parquet")
    'documents/family-*/repository-*/<digest>/data/part-<number>.parquet'
    """
    return _PART.sub("<number>", _LABEL.sub(r"\1*", _DIGEST.sub("<digest>", file)))


def _shown(file: str) -> str:
    return _DIGEST.sub("<digest>", file)


def _dotted(value: object, levels: int, path: str = "") -> Iterator[str]:
    """Paths of all leaves; items of a list share one."""
    if isinstance(value, dict) and value and levels > 0:
        for name, each in value.items():
            yield from _dotted(each, levels - 1, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value and levels > 0:
        for each in value:
            yield from _dotted(each, levels, f"{path}[]")
    else:
        yield path + ("[]" if isinstance(value, list) else "{}" if isinstance(value, dict) else "")


def _wide() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


def commit() -> str:
    """The commit of the code that this Python would run; a folder without git has none."""
    found = importlib.util.find_spec("schemas")
    assert found is not None, "the packages aren't installed, and $PYTHONPATH doesn't name them"
    assert found.origin is not None
    command = ["git", "-C", str(Path(found.origin).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main(given: Sequence[str] | None = None) -> None:
    """Print the commit, then a line a fact."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--without-runs", action="store_true")
    values = parser.parse_args(given)
    workspace = Workspace(root=values.workspace.absolute(), without_runs=values.without_runs)
    print(f"first house: {commit()}")
    for line in workspace.lines():
        print(line)


if __name__ == "__main__":
    main()
