"""Description of a workspace as text, to compare the output of two versions of the code with `diff`.

The first line names the commit of the code. The other lines are sorted, and each states one fact:

    artefact  stage, labels, key and content of an artefact
    check     result of `curriculum check` for an artefact
    column    name and type of a Parquet column
    field     path of a field in JSON or YAML files
    file      path of a file
    live      line of current/*.txt
    macro     SQL macro with its parameters and columns
    tensor    name, dtype, shape and digest of a tensor in a checkpoint
    view      SQL view or table with its columns

Digests in paths are replaced. In the paths of columns and fields, values of labels are replaced, too. The
script reads all facts from disk. Only for `check`, it runs the command `curriculum` of this virtual
environment. It writes nothing.

The description doesn't contain:

- values of fields, since they include timestamps, hosts, process ids, speeds and versions of tools; the
  digest of an artefact's content covers its data
- numbers in the names of metrics files, since they depend on the speed of the run
- words of a tokenizer, entries of the catalog's cache, contents of reports, of README.md and of catalog.sql,
  the SQL schema `internal`, digests of lists in current/, and files inside of clones
- configs/, which records command lines, and folders in which processes coordinate: leases/, slots/, prefect/,
  notifications/, .locks/, .drafts/ and .trash/
- with `--without-runs`, everything that depends on floating-point sums of the CPU: contents of runs, digests
  of tensors, and keys of runs that continue another run

To compare two commits, use the same virtual environment, machine and number of threads:

    git worktree add /tmp/before 6b19109
    PYTHONPATH=/tmp/before curriculum demo --home /tmp/demo-before
    curriculum demo --home /tmp/demo-after
    PYTHONPATH=/tmp/before python benchmarks/identity.py /tmp/demo-before > /tmp/before.txt
    python benchmarks/identity.py /tmp/demo-after > /tmp/after.txt
    diff <(tail -n +2 /tmp/before.txt) <(tail -n +2 /tmp/after.txt)

On one CPU and with the same versions of tools, runs are bitwise reproducible. So both descriptions are equal,
including the weights, unless the change affects data.
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

SKIPPED_FOLDERS = frozenset(
    {"configs", "leases", "slots", "prefect", "notifications", ".locks", ".drafts", ".trash"}
)
CLONES = "repositories"
MANIFEST = "manifest.json"
SHALLOW = {"tokenizer.json": 2, "identities.json": 1, "replaced.json": 0}
"""Depth to which the fields of these files are listed; deeper names are data: words, paths, digests."""
_DIGEST = re.compile(r"[0-9a-f]{12,}")
_LABEL = re.compile(r"(?<=/)([a-z_]+[-=])[^/]*(?=/)")
_METRICS = re.compile(r"metrics/\d+")
"""Metrics files are named after a step, and are written every few seconds."""
_PART = re.compile(r"\d{5,}")


@dataclass(frozen=True, kw_only=True)
class Published:
    """Manifest of an artefact, and the artefact's directory relative to the workspace."""

    path: str
    manifest: dict[str, Any]

    @property
    def stage(self) -> str:
        """Stage that published the artefact."""
        return str(self.manifest["stage"])

    @property
    def continues(self) -> bool:
        """True if the artefact is a run that starts from the checkpoint of another run."""
        return any(record["name"] == "previous" for record in self.manifest["inputs"])


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Workspace to describe; `without_runs` skips facts that depend on the CPU."""

    root: Path
    without_runs: bool = False

    def lines(self) -> list[str]:
        """Return all facts, sorted, without the first line."""
        sources: tuple[Callable[[], Iterator[str]], ...] = (
            self.artefacts, self.names, self.columns, self.fields, self.live, self.sql,
            self.tensors, self.verdicts,
        )  # fmt: skip
        return sorted({line for facts_of in sources for line in facts_of()})

    @cached_property
    def files(self) -> list[str]:
        """Paths of the described files, relative to the workspace, sorted."""
        found = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        return sorted(
            path.as_posix()
            for path in found
            if path.parts[0] not in SKIPPED_FOLDERS and path.parts[0] != CLONES
        )

    @cached_property
    def published(self) -> list[Published]:
        """Artefacts, sorted by path. Manifests of checkpoints have another form and are not read."""
        found = [file for file in self.files if file.endswith(f"/{MANIFEST}")]
        return [
            Published(path=file.removesuffix(f"/{MANIFEST}"), manifest=self._json(file))
            for file in found
            if "/checkpoints/" not in file
        ]

    def artefacts(self) -> Iterator[str]:
        """Yield stage, labels, key and content of every artefact."""
        for artefact in self.published:
            labels = [
                f"{name}={value}" for name, value in sorted(artefact.manifest["labels"].items())
            ]
            place = [artefact.path.rpartition("/")[2]] if artefact.stage == "runs" else []
            is_run = self.without_runs and artefact.stage == "runs"
            key = "-" if is_run and artefact.continues else artefact.manifest["key"]
            content = "-" if is_run else artefact.manifest["content"]
            yield " ".join(
                ["artefact", artefact.stage, *labels, *place, f"key={key}", f"content={content}"]
            )

    def names(self) -> Iterator[str]:
        """Yield the paths of all files."""
        for file in self.files:
            yield f"file {_METRICS.sub('metrics/<step>', _DIGEST.sub('<digest>', file))}"
        for clone in (self.root / CLONES).glob("*"):
            yield f"file {CLONES}/{_DIGEST.sub('<digest>', clone.name)}/"

    def columns(self) -> Iterator[str]:
        """Yield the columns of all Parquet files."""
        for file in self._with_suffix(".parquet"):
            for field in pq.read_schema(self.root / file):
                required = "" if field.nullable else " not null"
                yield f"column {_kind(file)} {field.name}: {field.type}{required}"

    def fields(self) -> Iterator[str]:
        """Yield the fields of all JSON and YAML files."""
        for file in self._with_suffix(".json", ".yaml"):
            path = self.root / file
            content = (
                yaml.safe_load(path.read_text()) if path.suffix == ".yaml" else self._json(file)
            )
            levels = SHALLOW.get(path.name, 99)
            for found in _dotted_paths(content, levels):
                yield f"field {_kind(file)} {_DIGEST.sub('<digest>', found)}"

    def live(self) -> Iterator[str]:
        """Yield the lines of the lists of live artefacts, without the digest in their comments."""
        for file in self._with_suffix(".txt"):
            for line in (self.root / file).read_text().splitlines():
                if not line.startswith("#"):
                    yield f"live {file} {self._mask(line)}"

    def sql(self) -> Iterator[str]:
        """Yield the views, tables and macros of catalog.sql with their columns."""
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
            line = f"macro {name}({', '.join(parameters)})"
            if kind == "table_macro":
                call = f"{name}({', '.join(['NULL'] * len(parameters))})"
                found = connection.execute(f"DESCRIBE FROM {call}").fetchall()
                line += f" -> ({', '.join(f'{column} {of}' for column, of, *_ in found)})"
            yield line

    def tensors(self) -> Iterator[str]:
        """Yield the tensors of all safetensors files, with the digest of their bytes."""
        for file in self._with_suffix(".safetensors"):
            with (self.root / file).open("rb") as opened:
                (length,) = struct.unpack("<Q", opened.read(8))
                header = json.loads(opened.read(length))
                data = opened.read()
            for name, tensor in header.items():
                if name == "__metadata__":
                    yield f"tensor {_without_digests(file)} {name}: {', '.join(sorted(tensor))}"
                    continue
                start, end = tensor["data_offsets"]
                digest = (
                    "" if self.without_runs else f" {hashlib.sha256(data[start:end]).hexdigest()}"
                )
                yield f"tensor {_without_digests(file)} {name}: {tensor['dtype']} {tensor['shape']}{digest}"

    def verdicts(self) -> Iterator[str]:
        """Yield the output of `curriculum check` for every artefact.

        The command ends at the first error. So after an error, it is run again for the remaining artefacts.
        """
        left = [artefact.path for artefact in self.published]
        while left:
            done = subprocess.run(
                [str(Path(sys.executable).parent / "curriculum"), "check", *left],
                cwd=self.root, capture_output=True, text=True, check=False, env=_wide_terminal(),
            )  # fmt: skip
            for line in done.stdout.splitlines():
                yield f"check {self._mask(line)}"
            if done.returncode == 0:
                return
            ended = {line.partition(": ")[0] for line in done.stdout.splitlines() if _ENDS in line}
            failed = next(at for at, path in enumerate(left) if path not in ended)
            yield f"check {self._mask(left[failed])}: {self._mask(done.stderr.strip())}"
            left = left[failed + 1 :]

    def _with_suffix(self, *suffixes: str) -> Iterator[str]:
        return (file for file in self.files if file.endswith(suffixes))

    def _json(self, file: str) -> Any:
        return json.loads((self.root / file).read_text())

    def _mask(self, text: str) -> str:
        """Replace the path of the workspace and, without runs, keys of runs that continue another run."""
        text = text.replace(f"{self.root}/", "")
        for artefact in self.published:
            if self.without_runs and artefact.stage == "runs" and artefact.continues:
                text = text.replace(artefact.manifest["key"][:12], "-")
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
    """Replace digests, values of labels and numbers in the path of a file.

    >>> _kind("documents/family-chat/repository-a/0123456789ab/data/part-00000.parquet")
    'documents/family-*/repository-*/<digest>/data/part-<number>.parquet'
    """
    return _PART.sub("<number>", _LABEL.sub(r"\1*", _DIGEST.sub("<digest>", file)))


def _without_digests(file: str) -> str:
    return _DIGEST.sub("<digest>", file)


def _dotted_paths(value: object, levels: int, path: str = "") -> Iterator[str]:
    """Yield the dotted paths of all leaves down to `levels`; all items of a list have the same path."""
    if isinstance(value, dict) and value and levels > 0:
        for name, field in value.items():
            yield from _dotted_paths(field, levels - 1, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value and levels > 0:
        for item in value:
            yield from _dotted_paths(item, levels, f"{path}[]")
    else:
        yield path + ("[]" if isinstance(value, list) else "{}" if isinstance(value, dict) else "")


def _wide_terminal() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


def commit() -> str:
    """Return the commit of the code that this Python imports, or `unknown` without git."""
    found = importlib.util.find_spec("schemas")
    assert found is not None, "package `schemas` not found; install curriculum or set $PYTHONPATH"
    assert found.origin is not None
    command = ["git", "-C", str(Path(found.origin).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main(given: Sequence[str] | None = None) -> None:
    """Print the commit, then one line per fact."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workspace", type=Path, help="workspace to describe")
    parser.add_argument(
        "--without-runs", action="store_true", help="skip facts that depend on the CPU"
    )
    values = parser.parse_args(given)
    workspace = Workspace(root=values.workspace.absolute(), without_runs=values.without_runs)
    print(f"commit: {commit()}")
    for line in workspace.lines():
        print(line)


if __name__ == "__main__":
    main()
