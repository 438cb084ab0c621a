"""Encodings and their structure on the way into rows: written as they come, read by a plan.

A plan needs all lengths before the first row can be filled, and the tokens don't fit into memory. So
they wait in flat files; in memory stay 16 bytes a document.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.boundaries import Int64s, Layout, Values, require_tokens
from curriculum.packing.rows import ArrowArray, lists
from curriculum.tokens import EncodedStructure, Encoding
from schemas.structure import ROW_CHUNK_TYPE, STRUCTURE_EDGE_TYPE, STRUCTURE_TOKENS

FOLDER = "structure"
"""Folder in that of a spool whose documents have structure."""
ID_BYTES = 16
_CODES, _CHUNKS, _EDGES = len(STRUCTURE_TOKENS), 4, 3
_EDGE_COLUMNS = ("call_edges", "type_edges")
Int32s = npt.NDArray[np.int32]


class RaggedWriter:
    """Appends entries; memory doesn't grow with them."""

    def __init__(self, path: Path) -> None:
        self._values: BinaryIO = path.with_suffix(".values").open("wb")
        self._offsets: BinaryIO = path.with_suffix(".offsets").open("wb")
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def append(self, values: Values, counts: Int64s) -> None:
        """Add entries of `counts` items, laid end to end along the first axis of `values`."""
        assert int(counts.sum()) == len(values), "counts and values of one batch belong together"
        np.ascontiguousarray(values).tofile(self._values)
        item_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        ends = self._end + np.cumsum(counts) * item_bytes
        ends.astype(np.int64).tofile(self._offsets)
        self._end += len(values) * item_bytes

    def close(self) -> None:
        """Everything that was added is in the files."""
        self._values.close()
        self._offsets.close()


class VariableLengthColumn:
    """Reads entries by number; the files are mapped, not loaded."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int = 1) -> None:
        self._values = mapped(path.with_suffix(".values"), np.uint8)
        self._offsets = mapped(path.with_suffix(".offsets"), np.int64)
        self._dtype = np.dtype(dtype)
        self._width = width

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def counts(self, entries: Int64s | slice = slice(None)) -> Int64s:
        """Items of the given entries, or of all."""
        item_bytes = self._dtype.itemsize * self._width
        if isinstance(entries, slice):
            return np.diff(self._offsets) // item_bytes
        counts: Int64s = (self._offsets[entries + 1] - self._offsets[entries]) // item_bytes
        return counts

    def take(self, entries: Int64s) -> Values:
        """The items of the given entries end to end, [sum] or [sum, width]: one memcpy an entry.

        Entries [[7 8] [9]], taken in the order 1 0, are [9 7 8].
        """
        # Arrow copies a binary entry as a block, where numpy would index item by item.
        everything = pa.Array.from_buffers(
            pa.large_binary(),
            len(self),
            [None, as_buffer(self._offsets), as_buffer(self._values)],
        )
        data = everything.take(entries).buffers()[2]
        flat = np.frombuffer(memoryview(data) if data else b"", dtype=self._dtype)
        return flat if self._width == 1 else flat.reshape(-1, self._width)


def mapped(path: Path, dtype: npt.DTypeLike) -> Values:
    """A file as an array that the kernel pages in; an empty file, which can't be mapped, is empty."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


def as_buffer(array: Values) -> pa.Buffer:
    """An array's bytes as Arrow sees them, without a copy."""
    return pa.py_buffer(array.data)


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
        flat = layout.fill(np.ascontiguousarray(column), 0)
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


FLUSH_TOKENS = 1 << 20
PIECE_COLUMNS = 5
"""kind, token_start, token_end, byte_start, byte_end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Encodings:
    """A batch of n documents, flat: what `Encoding` holds of one, laid end to end."""

    document_ids: npt.NDArray[np.uint8]
    """[n, 16]: the raw bytes of the 32 hex digits."""
    lengths: Int64s
    """[n], each at least 1."""
    ids: npt.NDArray[np.int32]
    """[sum of lengths]."""
    loss_mask: npt.NDArray[np.uint8]
    """[sum of lengths]; 0 at each document's last token."""
    piece_counts: Int64s
    """[n]."""
    pieces: npt.NDArray[np.int32]
    """[sum of piece_counts, 5]; token offsets count from the document's first token."""
    structures: Structures | None = None
    """Structures, where a spool is of documents with structure."""

    @staticmethod
    def of(encodings: list[Encoding]) -> "Encodings":
        """Single encodings as a batch."""
        raw_ids = bytes.fromhex("".join(encoding.document_id for encoding in encodings))
        structures = [each.structure for each in encodings if each.structure is not None]
        assert len(structures) in (0, len(encodings)), "all have structure, or none"
        return Encodings(
            document_ids=np.frombuffer(raw_ids, dtype=np.uint8).reshape(-1, ID_BYTES),
            lengths=np.array([len(encoding.ids) for encoding in encodings], dtype=np.int64),
            ids=np.concatenate([encoding.ids for encoding in encodings]),
            loss_mask=np.concatenate([encoding.loss_mask for encoding in encodings]),
            piece_counts=np.array([len(encoding.pieces) for encoding in encodings], dtype=np.int64),
            pieces=np.concatenate([encoding.pieces for encoding in encodings]),
            structures=Structures.of(structures) if structures else None,
        )


class Spool:
    """Takes encodings one by one or in batches, into files of a folder that its caller removes."""

    def __init__(self, folder: Path, *, structured: bool = False) -> None:
        self._files = contextlib.ExitStack()
        self._ids = self._variable_length(folder / "ids")
        self._loss_mask = self._variable_length(folder / "loss_mask")
        self._pieces = self._variable_length(folder / "pieces")
        self._document_ids = self._files.enter_context((folder / "document_ids").open("wb"))
        self._scored = self._files.enter_context((folder / "scored").open("wb"))
        self._context_sums = self._files.enter_context((folder / "context_sums").open("wb"))
        self._structures = (
            self._files.enter_context(StructureSpool(folder / FOLDER)) if structured else None
        )
        self._waiting: list[Encoding] = []
        self._waiting_tokens = 0

    def _variable_length(self, path: Path) -> RaggedWriter:
        return self._files.enter_context(contextlib.closing(RaggedWriter(path)))

    def append(self, encoding: Encoding) -> None:
        """Add one document; some 2 µs, and a write every million tokens."""
        self._waiting.append(encoding)
        self._waiting_tokens += len(encoding.ids)
        if self._waiting_tokens >= FLUSH_TOKENS:
            self._flush()

    def extend(self, batch: Encodings) -> None:
        """Add many documents, after all that were added before."""
        self._flush()
        self._write(batch)

    def _flush(self) -> None:
        if self._waiting:
            self._write(Encodings.of(self._waiting))
            self._waiting, self._waiting_tokens = [], 0

    def _write(self, batch: Encodings) -> None:
        if len(batch.lengths) == 0:
            return
        _assert_whole(batch)
        self._ids.append(batch.ids.astype(np.int32, copy=False), batch.lengths)
        self._loss_mask.append(batch.loss_mask.astype(np.uint8, copy=False), batch.lengths)
        self._pieces.append(batch.pieces.astype(np.int32, copy=False), batch.piece_counts)
        np.ascontiguousarray(batch.document_ids).tofile(self._document_ids)
        starts = np.cumsum(batch.lengths) - batch.lengths
        np.add.reduceat(batch.loss_mask, starts, dtype=np.int64).tofile(self._scored)
        context_sums(batch.loss_mask, batch.lengths).tofile(self._context_sums)
        if self._structures is not None:
            assert batch.structures is not None, "a spool of documents with structure"
            self._structures.write(batch.structures, batch.lengths)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._files:
            if error is None:
                self._flush()


def _assert_whole(batch: Encodings) -> None:
    require_tokens(batch.lengths)
    ends = np.cumsum(batch.lengths)
    assert not batch.loss_mask[ends - 1].any(), "a document's last token predicts nothing"
    assert batch.piece_counts.min() > 0, "pieces tile a document"
    last_pieces = batch.pieces[np.cumsum(batch.piece_counts) - 1]
    assert np.array_equal(last_pieces[:, 2], batch.lengths), "pieces tile a document"


def context_sums(loss_mask: npt.NDArray[np.uint8], lengths: Int64s) -> Int64s:
    """[n]: tokens of the document before each target that counts, summed: [1 1 0 1 0] of 3, 2 -> [3 1]."""
    starts = np.cumsum(lengths) - lengths
    before = np.arange(1, len(loss_mask) + 1) - np.repeat(starts, lengths)
    sums: Int64s = np.add.reduceat(before * loss_mask, starts)
    return sums


class SpooledDocuments:
    """Content of a closed spool; documents are numbered as they were added."""

    def __init__(self, folder: Path) -> None:
        self.ids = VariableLengthColumn(folder / "ids", np.int32)
        self.loss_mask = VariableLengthColumn(folder / "loss_mask", np.uint8)
        self.pieces = VariableLengthColumn(folder / "pieces", np.int32, width=PIECE_COLUMNS)
        self.document_ids = mapped(folder / "document_ids", np.uint8).reshape(-1, ID_BYTES)
        self.lengths: Int64s = self.ids.counts()
        self.scored: Int64s = mapped(folder / "scored", np.int64)
        """Tokens that count for the loss, by document."""
        self.context_sums: Int64s = mapped(folder / "context_sums", np.int64)
        """Σ over the counted tokens of a document of the tokens before them, by document."""
        has_structure = (folder / FOLDER).is_dir()
        self.structures = SpooledStructures(folder / FOLDER) if has_structure else None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def tie_ids(self) -> npt.NDArray[np.uint8]:
        """[n, 16]: what `pack.ties` takes: a document with structure packs as its base does."""
        return self.document_ids if self.structures is None else self.structures.base_ids

    def with_targets(self) -> Int64s:
        """The documents worth packing: those with at least one token that counts for the loss."""
        return np.flatnonzero(self.scored)
