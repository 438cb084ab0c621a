"""Facts that a compiler frontend found about a repository at one commit, and the files that store them.

Reading a snapshot doesn't need libclang. Paths are relative to the tree's root, with `/`. Offsets are
half-open byte ranges of the files in the tree.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from curriculum import parquet
from curriculum.graph.facts import Range
from curriculum.published_files import require_published
from schemas import regular_files
from schemas.document import SCHEMA_VERSION, EdgeKind, EdgeLabel, list_of, required
from schemas.errors import CorpusError
from schemas.json_text import parse_json
from schemas.reports import IndexReport

FunctionKind = Literal["function", "method", "constructor", "destructor", "conversion"]
ClassKind = Literal["class", "enum", "alias"]
"""`class` includes structs and unions; `alias` is a typedef or a using declaration with `=`."""
Outcome = Literal["indexed", "partial", "failed", "timed out", "crashed"]
"""Outcome of a translation unit. A partial unit was indexed despite errors; failed, timed out and crashed
units contribute nothing.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedFunction:
    """Definition of a function, or its first declaration (`body` is None) if no translation unit defines it.

    Several functions have the same place if one macro defines them, or if a file is parsed with different
    macros. Functions inside functions, including lambdas, belong to the outermost function.
    """

    path: str
    name: str
    """Name without scope and template arguments: `push`, `operator[]`, `operator bool`, `~Stage`."""
    qualified: str
    """Qualified name without anonymous scopes: `lattice::Matrix::at`."""
    kind: FunctionKind
    start: int
    end: int
    """End of the definition's last brace; `start` is its first specifier, including `template <…>`."""
    name_start: int
    """Offset of the unqualified name, or of the macro that produces the name."""
    body: Range | None
    """Range of the braces, including `try` if the body begins with it; None for `= default` and `= delete`.

    For a function that a macro writes entirely, it is the range of the macro call.
    """
    body_digest: str
    """Digest of the body (see `digest_of`); "" without a body."""
    digest: str
    """Digest of the bytes from the name to the end of the body, including parameters and member initialisers;
    "" without a body.
    """
    parameters: tuple[str, ...]
    """Types as the frontend spells them: `const std::vector<int> &`."""
    min_arity: int
    max_arity: int
    """Number of parameters without (`min_arity`) and with (`max_arity`) default arguments; `max_arity` is -1
    for no limit.
    """
    is_template: bool
    """True if the function or an enclosing class has template parameters."""
    is_virtual: bool
    is_partial: bool
    """True if every translation unit that contains the function has errors, so that edges may be missing."""
    is_macro: bool
    """True if a macro produces the name, so that it isn't written at `name_start`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedClass:
    """Definition of a class, struct, union, enum or alias outside of functions."""

    path: str
    name: str
    qualified: str
    kind: ClassKind
    start: int
    end: int
    name_start: int
    digest: str
    """Digest of the bytes from start to end, including bases and all members."""
    is_template: bool
    is_partial: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedEdge:
    """Edge from `source` to `target`, which are indices into `GraphSnapshot.nodes`.

    calls       function to function: after overload resolution, with operators and written constructor calls
    constructs  function to class           inherits  class to class
    overrides   method to method            member    method or class to the class that contains it
    uses        function or class to class
    Each (source, target, kind) is listed once, with its strongest label.
    """

    source: int
    target: int
    kind: EdgeKind
    label: EdgeLabel
    candidates: int
    """Number of possible targets between which the frontend can't decide; 1 for a certain target."""


class IndexedInclude(NamedTuple):
    """Edge between files: the file `source` includes the file `target`. Both are in the tree."""

    source: str
    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphSnapshot:
    """Functions, classes and edges of a repository at one commit.

    Functions and classes are sorted by (path, name_start), edges by (source, target, kind).
    """

    functions: tuple[IndexedFunction, ...]
    classes: tuple[IndexedClass, ...]
    edges: tuple[IndexedEdge, ...]
    includes: tuple[IndexedInclude, ...]
    report: IndexReport

    @property
    def nodes(self) -> tuple[IndexedFunction | IndexedClass, ...]:
        """Nodes that edges refer to by index: the functions, then the classes."""
        return (*self.functions, *self.classes)

    @classmethod
    def open(cls, folder: Path) -> "GraphSnapshot":
        """Read a snapshot that `write` wrote into a folder.

        Raises:
            CorpusError: if one of its files is missing or invalid.
            StoreError: if the report isn't the published one.
        """
        require_published(folder / REPORT)
        try:
            return cls(
                functions=tuple(_rows(folder, "functions", IndexedFunction)),
                classes=tuple(_rows(folder, "classes", IndexedClass)),
                edges=tuple(_rows(folder, "edges", IndexedEdge)),
                includes=tuple(_rows(folder, "includes", IndexedInclude)),
                report=_report(regular_files.read(folder / REPORT, follow_links=True)),
            )
        except (OSError, pa.ArrowInvalid, ValueError) as error:
            raise CorpusError(
                str(folder),
                cause=f"the folder has no valid snapshot of a compiler's index: {error}",
                cure="Build the index again",
            ) from error


def digest_of(data: bytes) -> str:
    """Return the first 32 hex digits of the SHA-256 digest of `data`."""
    return hashlib.sha256(data).hexdigest()[:32]


REPORT = "report.json"
Row = TypeVar("Row", IndexedFunction, IndexedClass, IndexedEdge, IndexedInclude)
_TYPES: Mapping[object, pa.DataType] = {
    int: pa.int32(),
    bool: pa.bool_(),
    tuple[str, ...]: list_of(pa.string()),
    Range | None: pa.struct([required("start", pa.int32()), required("end", pa.int32())]),
}


def _schema(kind: type[Row]) -> pa.Schema:
    """Return a schema with a column for each field of `kind`; names, kinds and labels are strings."""
    return pa.schema(
        [
            pa.field(name, _TYPES.get(hint, pa.string()), nullable=hint == Range | None)
            for name, hint in get_type_hints(kind).items()
        ]
    )


def write(folder: Path, snapshot: GraphSnapshot) -> None:
    """Write a snapshot's tables and report into an existing folder; equal values give equal bytes."""
    functions = [
        {**asdict(function), "body": function.body and function.body._asdict()}
        for function in snapshot.functions
    ]
    _write(folder, "functions", IndexedFunction, functions)
    _write(folder, "classes", IndexedClass, [asdict(indexed) for indexed in snapshot.classes])
    _write(folder, "edges", IndexedEdge, [asdict(edge) for edge in snapshot.edges])
    _write(folder, "includes", IndexedInclude, [include._asdict() for include in snapshot.includes])
    text = json.dumps(snapshot.report.model_dump(), indent=1, sort_keys=True, ensure_ascii=False)
    (folder / REPORT).write_text(text + "\n", encoding="utf-8")


def _write(folder: Path, name: str, kind: type[Row], rows: list[dict[str, Any]]) -> None:
    schema = _schema(kind).with_metadata({"schema_version": SCHEMA_VERSION})
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def _rows(folder: Path, name: str, kind: type[Row]) -> Iterator[Row]:
    table = parquet.read_table(folder / f"{name}.parquet", schema=_schema(kind))
    adapter = TypeAdapter(kind)
    for batch in table.to_batches():
        yield from map(adapter.validate_python, batch.to_pylist())


def _report(text: bytes) -> IndexReport:
    row = parse_json(text)
    report = IndexReport.model_validate(row)
    if report.model_dump(mode="json") != row:
        raise ValueError("the report has missing or unknown fields")
    return report
