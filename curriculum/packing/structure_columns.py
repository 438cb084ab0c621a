"""Structure columns on their way into rows: spooled beside the tokens, laid out as the rows are."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.layout import (
    ArrowArray,
    Int64s,
    Layout,
    RaggedWriter,
    VariableLengthColumn,
    lists,
    mapped,
    padded,
)
from curriculum.tokens import EncodedStructure
from schemas.structure import ROW_CHUNK_TYPE, STRUCTURE_EDGE_TYPE, STRUCTURE_TOKENS

FOLDER = "structure"
"""Folder in that of a spool whose documents have structure."""
ID_BYTES = 16
_CODES, _CHUNKS, _EDGES = len(STRUCTURE_TOKENS), 4, 3
_EDGE_COLUMNS = ("call_edges", "type_edges")
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Structures:
    """The structure of a batch of n documents, laid end to end as `EncodedStructure` has it of one."""

    base_ids: npt.NDArray[np.uint8]
    """[n, 16]"""
    codes: npt.NDArray[np.uint8]
    """[sum of lengths, 5]"""
    chunk_counts: Int64s
    chunks: Int32s
    """[sum of chunk_counts, 4]"""
    call_counts: Int64s
    call_edges: Int32s
    """[sum of call_counts, 3]"""
    type_counts: Int64s
    type_edges: Int32s

    @staticmethod
    def of(structures: list[EncodedStructure]) -> "Structures":
        """Single structures as a batch."""
        raw_ids = bytes.fromhex("".join(each.base_document_id for each in structures))
        return Structures(
            base_ids=np.frombuffer(raw_ids, dtype=np.uint8).reshape(-1, ID_BYTES),
            codes=np.concatenate([each.codes for each in structures]),
            chunk_counts=_counts([each.chunks for each in structures]),
            chunks=np.concatenate([each.chunks for each in structures]),
            call_counts=_counts([each.call_edges for each in structures]),
            call_edges=np.concatenate([each.call_edges for each in structures]),
            type_counts=_counts([each.type_edges for each in structures]),
            type_edges=np.concatenate([each.type_edges for each in structures]),
        )


class StructureSpool:
    """Takes structures in batches, in the order of their documents."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._files = contextlib.ExitStack()
        self._base_ids = self._files.enter_context((folder / "base_ids").open("wb"))
        self._codes, self._chunks, self._calls, self._types = (
            self._files.enter_context(contextlib.closing(RaggedWriter(folder / name)))
            for name in ("codes", "chunks", *_EDGE_COLUMNS)
        )

    def write(self, batch: Structures, lengths: Int64s) -> None:
        """Add the structures of documents of these lengths."""
        np.ascontiguousarray(batch.base_ids).tofile(self._base_ids)
        self._codes.append(batch.codes.astype(np.uint8, copy=False), lengths)
        self._chunks.append(batch.chunks.astype(np.int32, copy=False), batch.chunk_counts)
        self._calls.append(batch.call_edges.astype(np.int32, copy=False), batch.call_counts)
        self._types.append(batch.type_edges.astype(np.int32, copy=False), batch.type_counts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()


class SpooledStructures:
    """The structures of a closed spool."""

    def __init__(self, folder: Path) -> None:
        self.base_ids = mapped(folder / "base_ids", np.uint8).reshape(-1, ID_BYTES)
        self.codes = VariableLengthColumn(folder / "codes", np.uint8, width=_CODES)
        self.chunks = VariableLengthColumn(folder / "chunks", np.int32, width=_CHUNKS)
        self.edges = {
            name: VariableLengthColumn(folder / name, np.int32, width=_EDGES)
            for name in _EDGE_COLUMNS
        }


def structure_columns(
    layout: Layout, documents: Int64s, spooled: SpooledStructures
) -> dict[str, ArrowArray]:
    """STRUCTURE_COLUMNS of the rows that hold `documents` as the layout says."""
    return {
        **dict(_code_columns(layout, documents, spooled)),
        "chunk_boundaries": _chunk_boundaries(layout, documents, spooled),
        **{name: _edges(layout, documents, spooled, name) for name in _EDGE_COLUMNS},
    }


def _code_columns(
    layout: Layout, documents: Int64s, spooled: SpooledStructures
) -> Iterator[tuple[str, ArrowArray]]:
    codes = spooled.codes.take(documents)
    rows_of_tokens = np.full(len(layout.num_docs), layout.row_length)
    for name, column in zip(STRUCTURE_TOKENS, codes.T, strict=True):
        flat = padded(np.ascontiguousarray(column), layout, 0)
        yield name, lists(pa.array(flat), rows_of_tokens, pa.uint8())


def _chunk_boundaries(layout: Layout, documents: Int64s, spooled: SpooledStructures) -> ArrowArray:
    """Lists of chunks, one a row; token offsets count from the row's first token."""
    counts = spooled.chunks.counts(documents)
    start, end, kind, level = spooled.chunks.take(documents).T
    slot, shift = (
        np.repeat(values.astype(np.int32), counts) for values in (layout.slot, layout.start)
    )
    columns = (start + shift, end + shift, kind, level, slot)
    return _structs(columns, layout.per_row(counts), ROW_CHUNK_TYPE)


def _edges(layout: Layout, documents: Int64s, spooled: SpooledStructures, name: str) -> ArrowArray:
    """Lists of edges, one a row, that count the row's chunks."""
    edges = spooled.edges[name]
    counts = edges.counts(documents)
    source, target, label = edges.take(documents).T
    shift = np.repeat(_chunks_before(layout, spooled.chunks.counts(documents)), counts)
    columns = (source + shift, target + shift, label)
    return _structs(columns, layout.per_row(counts), STRUCTURE_EDGE_TYPE)


def _chunks_before(layout: Layout, counts: Int64s) -> Int32s:
    """[d]: chunks of the row before each document: counts [2 3 1] in rows of 2 and 1 -> [0 2 0]."""
    before = np.cumsum(counts) - counts
    return (before - before[layout.first_document[:-1]][layout.row]).astype(np.int32)


def _structs(columns: tuple[Int32s, ...], counts: Int64s, kind: pa.StructType) -> ArrowArray:
    items = pa.StructArray.from_arrays(
        [pa.array(np.ascontiguousarray(column)) for column in columns], fields=list(kind)
    )
    return lists(items, counts, kind)


def _counts(arrays: list[Int32s]) -> Int64s:
    return np.array([len(array) for array in arrays], dtype=np.int64)
