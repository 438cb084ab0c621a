"""Documents on disk: part-00000.parquet, part-00001.parquet, … in the order in which they came."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.document import (
    CHUNK_TYPE,
    DOCUMENT_SCHEMA,
    EDGE_TYPE,
    PART_TYPE,
    PROVENANCE_TYPE,
    SPAN_TYPE,
    Document,
)
from schemas.errors import SchemaError

ROWS_PER_FILE = 100_000
ROWS_PER_GROUP = 1_000
BYTES_PER_GROUP = 8_000_000
"""Of text; a row group ends at so many rows or bytes, whichever is first."""


class DocumentWriter:
    """Writes the documents of one artefact; holds one row group, and equal documents give equal bytes."""

    def __init__(self, folder: Path, *, rows_per_file: int = ROWS_PER_FILE) -> None:
        """`folder` exists; the first file is there once the first row group is full, or at close."""
        assert rows_per_file > 0
        self.count = 0
        self.num_bytes = 0
        """Of text, of all documents so far."""
        self._folder = folder
        self._rows_per_file = rows_per_file
        self._group: list[Document] = []
        self._group_bytes = 0
        self._files = 0
        self._room = 0
        self._file: pq.ParquetWriter | None = None

    def append(self, document: Document) -> None:
        """Add a document."""
        size = document.parts[-1].end if document.parts else 0
        self._group.append(document)
        self._group_bytes += size
        self.count += 1
        self.num_bytes += size
        is_full = self._group_bytes >= BYTES_PER_GROUP or len(self._group) == ROWS_PER_GROUP
        if is_full or self.count % self._rows_per_file == 0:
            self._flush()

    def close(self) -> None:
        """Write what is left; an artefact without documents has one file without rows."""
        if self._group or not self._files:
            self._flush()
        self._end_file()

    def __enter__(self) -> "DocumentWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Close; after an error, only let go of the file."""
        if kind is None:
            self.close()
        else:
            self._end_file()

    def _flush(self) -> None:
        if self._file is None:
            path = self._folder / f"part-{self._files:05}.parquet"
            self._file = pq.ParquetWriter(path, DOCUMENT_SCHEMA, compression="zstd", **_OPTIONS)
            self._files += 1
        table = as_table(self._group)
        self._file.write_table(table, row_group_size=max(1, table.num_rows))
        self._group, self._group_bytes = [], 0
        if self.count % self._rows_per_file == 0:
            self._end_file()

    def _end_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


_OPTIONS: dict[str, Any] = {
    "compression_level": 1,
    "use_dictionary": ["family", "language", "licence", "lineage"],
    "write_statistics": False,
}


def write_documents(
    documents: Iterable[Document], folder: Path, rows_per_file: int = ROWS_PER_FILE
) -> int:
    """Write documents to a folder that exists, one row group in memory at a time; their number."""
    with DocumentWriter(folder, rows_per_file=rows_per_file) as writer:
        for document in documents:
            writer.append(document)
    return writer.count


def read_documents(
    folder: Path, columns: Sequence[str] | None = None, *, rows: int = 1_000
) -> Iterator[pa.RecordBatch]:
    """The documents of an artefact in order, at most `rows` a batch; all columns, or these.

    Raises:
        SchemaError: if there is no documents file.
    """
    paths = sorted(folder.glob("part-*.parquet"))
    if not paths:
        raise SchemaError(
            str(folder),
            cause="there are no documents here",
            cure="Build the documents of this family first",
        )
    for path in paths:
        with pq.ParquetFile(path) as file:
            wanted = None if columns is None else list(columns)
            yield from file.iter_batches(batch_size=rows, columns=wanted)


def as_table(documents: Sequence[Document]) -> pa.Table:
    """Documents as a table of DOCUMENT_SCHEMA."""
    parts = [part for document in documents for part in document.parts]
    spans = [span for document in documents for span in document.spans]
    sources = [source for document in documents for source in document.provenance]
    chunks = [chunk for document in documents for chunk in document.chunks]
    edges = [edge for document in documents for edge in document.edges]
    columns = {
        "document_id": [document.document_id for document in documents],
        "num_bytes": [document.parts[-1].end if document.parts else 0 for document in documents],
        "parts": _lists(documents, lambda each: len(each.parts), _structs(parts, PART_TYPE)),
        "spans": _lists(documents, lambda each: len(each.spans), _structs(spans, SPAN_TYPE)),
        "provenance": _lists(
            documents, lambda each: len(each.provenance), _structs(sources, PROVENANCE_TYPE)
        ),
        "chunks": _lists(documents, lambda each: len(each.chunks), _structs(chunks, CHUNK_TYPE)),
        "edges": _lists(documents, lambda each: len(each.edges), _structs(edges, EDGE_TYPE)),
        "base_document_id": [None] * len(documents),
    }
    for name in ("text", "family", "language", "licence", "timestamp", "lineage"):
        columns[name] = [getattr(document, name) for document in documents]
    return pa.table({name: columns[name] for name in DOCUMENT_SCHEMA.names}, schema=DOCUMENT_SCHEMA)


def _structs(values: Sequence[object], kind: pa.StructType) -> pa.StructArray:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    columns = [
        pa.array([getattr(value, field.name) for value in values], type=field.type)
        for field in fields
    ]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _lists(
    documents: Sequence[Document], length: Callable[[Document], int], values: pa.StructArray
) -> "pa.Array[Any]":
    offsets = pa.array(accumulate(map(length, documents), initial=0), type=pa.int32())
    return pa.ListArray.from_arrays(
        offsets, values, type=pa.list_(pa.field("item", values.type, nullable=False))
    )
