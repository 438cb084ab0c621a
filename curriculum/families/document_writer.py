"""Documents on disk as data/part-00000.parquet, data/part-00001.parquet, …, in the order of writing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from schemas.document import (
    CHUNK_TYPE,
    DOCUMENT_SCHEMA,
    EDGE_TYPE,
    LEFT_OUT_TYPE,
    PART_TYPE,
    PROVENANCE_TYPE,
    SPAN_TYPE,
    Chunk,
    Document,
    Edge,
    LeftOut,
    Part,
    Provenance,
    Span,
)
from schemas.errors import SchemaError
from schemas.families import ENRICHED_FAMILY
from schemas.structure import (
    ENRICHED_SCHEMA,
    RUN_COLUMNS,
    STRUCTURE_CHUNK_TYPE,
    STRUCTURE_EDGE_TYPE,
    Structure,
)

ROWS_PER_FILE = 100_000
ROWS_PER_GROUP = 1_000
BYTES_PER_GROUP = 8_000_000
"""Bytes of text per row group; a row group ends at ROWS_PER_GROUP rows or this size, whichever comes first.
"""
Row = TypeVar("Row")
Enriched = tuple[Document, Structure]


class _Folder(Generic[Row]):
    """Writer of rows to the Parquet files of one folder, which have the same schema.

    At most one row group is in memory. Equal rows give equal bytes.
    """

    def __init__(
        self,
        folder: Path,
        as_table: Callable[[Sequence[Row]], pa.Table],
        schema: pa.Schema,
        rows_per_file: int,
    ) -> None:
        assert rows_per_file > 0
        self.count = 0
        self.num_bytes = 0
        """Number of bytes of text of all documents so far."""
        self._as_table = as_table
        self._rows_per_file = rows_per_file
        self._group: list[Row] = []
        self._group_bytes = 0
        self._shards = parquet.ShardWriter(
            folder,
            schema,
            group_rows=ROWS_PER_GROUP,
            use_dictionary=["family", "language", "licence", "lineage"],
            write_statistics=False,
        )

    def _add(self, row: Row, size: int) -> None:
        self._group.append(row)
        self._group_bytes += size
        self.count += 1
        self.num_bytes += size
        is_full = self._group_bytes >= BYTES_PER_GROUP or len(self._group) == ROWS_PER_GROUP
        if is_full or self.count % self._rows_per_file == 0:
            self._flush()

    def close(self) -> None:
        """Write the remaining rows. If there are no rows at all, write one file without rows."""
        if self._group or not self._shards.count:
            self._flush()
        self._shards.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Close the writer; after an error, only finish the open file."""
        if kind is None:
            self.close()
        else:
            self._shards.close()

    def _flush(self) -> None:
        if not self._shards.is_open:
            self._shards.begin()
        self._shards.append(self._as_table(self._group))
        self._group, self._group_bytes = [], 0
        if self.count % self._rows_per_file == 0:
            self._shards.close()


class DocumentWriter(_Folder[Document]):
    """Writer of one artefact's documents.

    At most one row group is in memory. Equal documents give equal bytes.
    """

    def __init__(self, folder: Path, *, rows_per_file: int = ROWS_PER_FILE) -> None:
        """Open an existing folder; the first file is created with the first full row group, or on close."""
        super().__init__(folder, as_table, DOCUMENT_SCHEMA, rows_per_file)

    def append(self, document: Document) -> None:
        """Add a document."""
        self._add(document, _size(document))


class EnrichedWriter(_Folder[Enriched]):
    """Writer of v6_enriched documents, with their structure; works like DocumentWriter."""

    def __init__(self, folder: Path, *, rows_per_file: int = ROWS_PER_FILE) -> None:
        """Open an existing folder; the first file is created with the first full row group, or on close."""
        super().__init__(folder, as_enriched_table, ENRICHED_SCHEMA, rows_per_file)

    def append(self, document: Document, structure: Structure) -> None:
        """Add a document of another family with its structure; it is written as a document of v6_enriched."""
        assert document.family != ENRICHED_FAMILY, document.family
        self._add((document, structure), _size(document))


_NESTED: dict[str, tuple[type, pa.StructType]] = {
    "parts": (Part, PART_TYPE),
    "spans": (Span, SPAN_TYPE),
    "provenance": (Provenance, PROVENANCE_TYPE),
    "chunks": (Chunk, CHUNK_TYPE),
    "edges": (Edge, EDGE_TYPE),
    "left_out": (LeftOut, LEFT_OUT_TYPE),
}
_PLAIN = ("text", "family", "language", "licence", "timestamp", "lineage")


def documents_in(folder: Path) -> Iterator[Document]:
    """Yield the documents of an artefact in order, with one row group in memory at a time.

    Raises:
        SchemaError: if there is no documents file, or if a column has another type or contains nulls.
    """
    for file in _files(folder):
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=[*_PLAIN, *_NESTED])
            _require_types(folder, table)
            for row in table.to_pylist():
                values: dict[str, Any] = {name: row[name] for name in _PLAIN}
                for name, (kind, _) in _NESTED.items():
                    values[name] = tuple(kind(**value) for value in row[name])
                yield Document(**values)


def _require_types(folder: Path, table: pa.Table) -> None:
    wanted = pa.schema([DOCUMENT_SCHEMA.field(name) for name in (*_PLAIN, *_NESTED)])
    try:
        # The cast refuses nulls in non-nullable columns, except for the items of lists.
        table.select(wanted.names).cast(wanted).validate(full=True)
        lists: dict[str, Any] = {name: table[name].combine_chunks() for name in _NESTED}
        nulls = [name for name, column in lists.items() if column.flatten().null_count]
        found = f"a null in {nulls[0]}" if nulls else None
    except (pa.ArrowException, ValueError, KeyError) as wrong:
        found = str(wrong).splitlines()[0][:200]
    if found:
        raise SchemaError(
            str(folder),
            found,
            cause="the columns don't match the document schema",
            cure="Build them again",
        )


def _files(folder: Path) -> Iterator[pq.ParquetFile]:
    paths = parquet.shards_of(folder)
    if not paths:
        raise SchemaError(
            str(folder),
            cause="the folder has no documents",
            cure="Build the documents of this family first",
        )
    for path in paths:
        with parquet.File(path) as file:
            yield file


def as_table(documents: Sequence[Document]) -> pa.Table:
    """Return documents as a table of DOCUMENT_SCHEMA."""
    columns: dict[str, Any] = {
        "document_id": [document.document_id for document in documents],
        "content_id": [document.content_id for document in documents],
        "num_bytes": [_size(document) for document in documents],
        "base_document_id": [None] * len(documents),
    }
    for name, (_, kind) in _NESTED.items():
        columns[name] = _structs([getattr(document, name) for document in documents], kind)
    for name in _PLAIN:
        columns[name] = [getattr(document, name) for document in documents]
    return pa.table({name: columns[name] for name in DOCUMENT_SCHEMA.names}, schema=DOCUMENT_SCHEMA)


def as_enriched_table(rows: Sequence[Enriched]) -> pa.Table:
    """Return documents of another family, with their structure, as a table of ENRICHED_SCHEMA."""
    table = as_table([replace(document, family=ENRICHED_FAMILY) for document, _ in rows])
    found = [structure for _, structure in rows]
    columns: dict[str, Any] = dict(zip(table.column_names, table.columns, strict=True))
    columns["base_document_id"] = [document.document_id for document, _ in rows]
    columns["run_ends"] = _numbers([structure.ends for structure in found], pa.int32())
    for name in RUN_COLUMNS:
        columns[f"run_{name}"] = _numbers(
            [getattr(structure, name) for structure in found], pa.uint8()
        )
    columns["structure_chunks"] = _structs(
        [structure.chunks for structure in found], STRUCTURE_CHUNK_TYPE
    )
    for name in ("call_edges", "type_edges"):
        columns[name] = _structs(
            [getattr(structure, name) for structure in found], STRUCTURE_EDGE_TYPE
        )
    return pa.table({name: columns[name] for name in ENRICHED_SCHEMA.names}, schema=ENRICHED_SCHEMA)


def _size(document: Document) -> int:
    return document.parts[-1].end if document.parts else 0


def _structs(lists: Sequence[Sequence[object]], kind: pa.StructType) -> "pa.Array[Any]":
    """Return a column whose rows are lists of structs; the fields of a struct are attributes of a value."""
    values = list(chain.from_iterable(lists))
    fields = [kind.field(index) for index in range(kind.num_fields)]
    columns = [
        pa.array(map(attrgetter(field.name), values), type=field.type, size=len(values))
        for field in fields
    ]
    return _lists(lists, pa.StructArray.from_arrays(columns, fields=fields))


def _numbers(lists: Sequence[Sequence[int]], kind: pa.DataType) -> "pa.Array[Any]":
    return _lists(lists, pa.array(list(chain.from_iterable(lists)), type=kind))


def _lists(lists: Sequence[Sequence[object]], values: "pa.Array[Any]") -> "pa.Array[Any]":
    offsets = pa.array(accumulate(map(len, lists), initial=0), type=pa.int32())
    return pa.ListArray.from_arrays(
        offsets, values, type=pa.list_(pa.field("item", values.type, nullable=False))
    )
