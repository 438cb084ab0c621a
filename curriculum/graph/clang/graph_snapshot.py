"""A compiler frontend's facts about a repository at one commit: plain values, and their files.

Reading a snapshot needs no libclang. All paths are relative to the tree's root, with `/`; offsets are bytes
of the files as they stand in the tree, half-open.
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
"""A class is a class, struct or union; an alias is a typedef or a using declaration with `=`."""
Outcome = Literal["indexed", "partial", "failed", "timed out", "crashed"]
"""Outcomes of a unit: partial if it was indexed in spite of errors in it; the last three add nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedFunction:
    """A function's definition, or its first declaration where no unit defines it (`body` is None).

    Several functions share a place where one macro defines them, or one file is read under different
    macros. Functions inside functions, lambdas too, belong to the outermost one.
    """

    path: str
    name: str
    """Without scope and template arguments: `push`, `operator[]`, `operator bool`, `~Stage`."""
    qualified: str
    """`lattice::Matrix::at`; anonymous scopes are left out."""
    kind: FunctionKind
    start: int
    end: int
    """The definition from its first specifier (`template <…>` included) to its last brace."""
    name_start: int
    """The first byte of the unqualified name; where a macro writes it, the macro's."""
    body: Range | None
    """Range from brace to brace, from `try` where that is first; `= default` and `= delete` have none. For a
    function that a macro writes whole, the macro's call."""
    body_digest: str
    """`digest_of` the body; "" where there is none."""
    digest: str
    """`digest_of` the bytes from the name to the end of the body, so that parameters and member initialisers
    count too; "" where there is no body."""
    parameters: tuple[str, ...]
    """Types as the frontend writes them: `const std::vector<int> &`."""
    min_arity: int
    max_arity: int
    """Parameters without and with those that have defaults; -1 where there is no limit."""
    is_template: bool
    """True if it or a class around it has template parameters."""
    is_virtual: bool
    is_partial: bool
    """Every unit that holds it has errors, so that edges may lack."""
    is_macro: bool
    """Its name isn't written at `name_start`: a macro makes it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedClass:
    """The definition of a class, struct, union, enum or alias outside of functions."""

    path: str
    name: str
    qualified: str
    kind: ClassKind
    start: int
    end: int
    name_start: int
    digest: str
    """`digest_of` the bytes from start to end: the bases and all members as they are written."""
    is_template: bool
    is_partial: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedEdge:
    """`source` says something about `target`: both index `Snapshot.nodes`.

    calls       function to function: overload-resolved, operators and written constructors included
    constructs  function to class           inherits  class to class
    overrides   method to method            member    method or class to the class that holds it
    uses        function or class to class
    Each (source, target, kind) stands once, with its strongest label.
    """

    source: int
    target: int
    kind: EdgeKind
    label: EdgeLabel
    candidates: int
    """Among how many targets the frontend leaves the choice: 1 for a certain one."""


class IndexedInclude(NamedTuple):
    """File `source` includes file `target`, both of the tree."""

    source: str
    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphSnapshot:
    """Functions and classes in the order of (path, name_start), edges of (source, target, kind)."""

    functions: tuple[IndexedFunction, ...]
    classes: tuple[IndexedClass, ...]
    edges: tuple[IndexedEdge, ...]
    includes: tuple[IndexedInclude, ...]
    report: IndexReport

    @property
    def nodes(self) -> tuple[IndexedFunction | IndexedClass, ...]:
        """Return the nodes that edges index: the functions, then the classes."""
        return (*self.functions, *self.classes)

    @classmethod
    def open(cls, folder: Path) -> "GraphSnapshot":
        """The snapshot that `write` left in a folder.

        Raises:
            CorpusError: if a file of it is missing or isn't what it should be.
            StoreError: for a report that isn't the published one.
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
                cause=f"it holds no snapshot of a compiler's index: {error}",
                cure="Build it anew",
            ) from error


def digest_of(data: bytes) -> str:
    """32 hex digits of sha256: equal exactly where bytes are."""
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
    """Return a column for each field; names, kinds and labels are texts."""
    return pa.schema(
        [
            pa.field(name, _TYPES.get(hint, pa.string()), nullable=hint == Range | None)
            for name, hint in get_type_hints(kind).items()
        ]
    )


def write(folder: Path, snapshot: GraphSnapshot) -> None:
    """Write a snapshot's four tables and its report into a folder that exists; equal values, equal bytes."""
    functions = [
        {**asdict(function), "body": function.body and function.body._asdict()}
        for function in snapshot.functions
    ]
    _write(folder, "functions", IndexedFunction, functions)
    _write(folder, "classes", IndexedClass, [asdict(each) for each in snapshot.classes])
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
        raise ValueError("its report lacks a field, or has one too many")
    return report
