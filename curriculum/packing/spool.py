"""Temporary storage of encodings and their structure between encoding and packing.

A plan needs the lengths of all documents before the first row can be filled, and the tokens don't fit into
memory. The tokens therefore wait in flat files; 16 bytes per document stay in memory.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.boundaries import Int64s, Values, require_tokens
from curriculum.tokens.encoding import EncodedStructure, Encoding
from schemas.structure import STRUCTURE_TOKENS

ID_BYTES = 16
FLUSH_TOKENS = 1 << 19
"""Tokens buffered in memory; the training and validation sides are spooled at the same time."""
Int32s = npt.NDArray[np.int32]
_LISTS: Mapping[str, tuple[npt.DTypeLike, int]] = {
    "ids": (np.int32, 1),
    "loss_mask": (np.uint8, 1),
    "pieces": (np.int32, 5),
}
"""Type and values per item of the columns with several items per document."""
_STRUCTURE: Mapping[str, tuple[npt.DTypeLike, int]] = {
    "codes": (np.uint8, len(STRUCTURE_TOKENS)),
    "chunks": (np.int32, 4),
    "call_edges": (np.int32, 3),
    "type_edges": (np.int32, 3),
}
_VALUES = ("document_ids", "scored", "context_sums", "domain")
_BASE_IDS = "base_ids"
_DOMAINS = "domains.json"


class RaggedWriter:
    """Writer of entries of variable length; memory doesn't grow with their number."""

    def __init__(self, path: Path) -> None:
        self._values: BinaryIO = path.with_suffix(".values").open("wb")
        self._offsets: BinaryIO = path.with_suffix(".offsets").open("wb")
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def append(self, values: Values, counts: Int64s) -> None:
        """Append entries of `counts` items, laid end to end along the first axis of `values`."""
        assert int(counts.sum()) == len(values), "counts and values of one batch belong together"
        np.ascontiguousarray(values).tofile(self._values)
        item_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        ends = self._end + np.cumsum(counts) * item_bytes
        ends.astype(np.int64).tofile(self._offsets)
        self._end += len(values) * item_bytes

    def close(self) -> None:
        """Flush and close the files."""
        self._values.close()
        self._offsets.close()


class VariableLengthColumn:
    """Reader of entries by number; the files are memory-mapped."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int = 1) -> None:
        self._values = mapped(path.with_suffix(".values"), np.uint8)
        self._offsets = mapped(path.with_suffix(".offsets"), np.int64)
        self._dtype = np.dtype(dtype)
        self._width = width

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def counts(self, entries: Int64s | slice = slice(None)) -> Int64s:
        """Return the number of items of the given entries, or of all entries."""
        item_bytes = self._dtype.itemsize * self._width
        if isinstance(entries, slice):
            return np.diff(self._offsets) // item_bytes
        counts: Int64s = (self._offsets[entries + 1] - self._offsets[entries]) // item_bytes
        return counts

    def take(self, entries: Int64s) -> Values:
        """Return the items of the given entries end to end, [sum] or [sum, width]; one memcpy per entry.

        Entries [[7 8] [9]] taken in the order 1, 0 give [9 7 8].
        """
        # Arrow copies an entry as one block; numpy would index item by item.
        everything = pa.Array.from_buffers(
            pa.large_binary(),
            len(self),
            [None, as_buffer(self._offsets), as_buffer(self._values)],
        )
        data = everything.take(entries).buffers()[2]
        flat = np.frombuffer(memoryview(data) if data else b"", dtype=self._dtype)
        return flat if self._width == 1 else flat.reshape(-1, self._width)


def mapped(path: Path, dtype: npt.DTypeLike) -> Values:
    """Map a file as an array; return an empty array for an empty file, which can't be mapped."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


def as_buffer(array: Values) -> pa.Buffer:
    """Return an array's bytes as an Arrow buffer, without a copy."""
    return pa.py_buffer(array.data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Structures:
    """Structure of a batch of n documents: the fields of `EncodedStructure`, concatenated."""

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
    def from_structures(structures: list[EncodedStructure]) -> "Structures":
        """Concatenate the structures of single documents."""
        raw_ids = bytes.fromhex("".join(structure.base_document_id for structure in structures))
        return Structures(
            base_ids=np.frombuffer(raw_ids, dtype=np.uint8).reshape(-1, ID_BYTES),
            codes=np.concatenate([structure.codes for structure in structures]),
            chunk_counts=_counts([structure.chunks for structure in structures]),
            chunks=np.concatenate([structure.chunks for structure in structures]),
            call_counts=_counts([structure.call_edges for structure in structures]),
            call_edges=np.concatenate([structure.call_edges for structure in structures]),
            type_counts=_counts([structure.type_edges for structure in structures]),
            type_edges=np.concatenate([structure.type_edges for structure in structures]),
        )


def _counts(arrays: list[Int32s]) -> Int64s:
    return np.array([len(array) for array in arrays], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Encodings:
    """Batch of n documents: the fields of `Encoding`, concatenated."""

    document_ids: npt.NDArray[np.uint8]
    """[n, 16]: the raw bytes of the 32 hex digits."""
    lengths: Int64s
    """[n], each at least 1."""
    ids: npt.NDArray[np.int32]
    """[sum of lengths]."""
    loss_mask: npt.NDArray[np.uint8]
    """[sum of lengths]; 0 at the last token of each document."""
    piece_counts: Int64s
    """[n]."""
    pieces: npt.NDArray[np.int32]
    """[sum of piece_counts, 5]; token offsets count from the document's first token."""
    structures: Structures | None = None
    """Structure of the documents; None if the spool has no structure."""

    @staticmethod
    def from_encodings(encodings: list[Encoding]) -> "Encodings":
        """Concatenate the encodings of single documents."""
        raw_ids = bytes.fromhex("".join(encoding.document_id for encoding in encodings))
        structures = [
            encoding.structure for encoding in encodings if encoding.structure is not None
        ]
        assert len(structures) in (0, len(encodings)), "either all encodings have structure or none"
        return Encodings(
            document_ids=np.frombuffer(raw_ids, dtype=np.uint8).reshape(-1, ID_BYTES),
            lengths=np.array([len(encoding.ids) for encoding in encodings], dtype=np.int64),
            ids=np.concatenate([encoding.ids for encoding in encodings]),
            loss_mask=np.concatenate([encoding.loss_mask for encoding in encodings]),
            piece_counts=np.array([len(encoding.pieces) for encoding in encodings], dtype=np.int64),
            pieces=np.concatenate([encoding.pieces for encoding in encodings]),
            structures=Structures.from_structures(structures) if structures else None,
        )


class Spool:
    """Writer of encodings, one by one or in batches, to files in a folder that the caller removes."""

    def __init__(self, folder: Path, *, structured: bool = False) -> None:
        self._folder = folder
        self._files = contextlib.ExitStack()
        self._lists = {
            name: self._files.enter_context(contextlib.closing(RaggedWriter(folder / name)))
            for name in (*_LISTS, *(_STRUCTURE if structured else ()))
        }
        self._values = {
            name: self._files.enter_context((folder / name).open("wb"))
            for name in (*_VALUES, *((_BASE_IDS,) if structured else ()))
        }
        self._structured = structured
        self._domains: dict[str, int] = {}
        self._waiting: list[Encoding] = []
        self._waiting_tokens = 0

    def append(self, encoding: Encoding, *, domain: str = "") -> None:
        """Add one document; takes about 2 µs, and a write to disk every FLUSH_TOKENS tokens."""
        self._add_domain(domain, 1)
        self._waiting.append(encoding)
        self._waiting_tokens += len(encoding.ids)
        if self._waiting_tokens >= FLUSH_TOKENS:
            self._flush()

    def extend(self, batch: Encodings, *, domain: str = "") -> None:
        """Add many documents, after all documents added before."""
        self._add_domain(domain, len(batch.lengths))
        self._flush()
        self._write(batch)

    def _add_domain(self, domain: str, documents: int) -> None:
        code = self._domains.setdefault(domain, len(self._domains))
        self._values["domain"].write(code.to_bytes(4, "little") * documents)

    def _flush(self) -> None:
        if self._waiting:
            self._write(Encodings.from_encodings(self._waiting))
            self._waiting, self._waiting_tokens = [], 0

    def _write(self, batch: Encodings) -> None:
        if len(batch.lengths) == 0:
            return
        _assert_whole(batch)
        self._append("ids", batch.ids, batch.lengths)
        self._append("loss_mask", batch.loss_mask, batch.lengths)
        self._append("pieces", batch.pieces, batch.piece_counts)
        np.ascontiguousarray(batch.document_ids).tofile(self._values["document_ids"])
        starts = np.cumsum(batch.lengths) - batch.lengths
        scored = np.add.reduceat(batch.loss_mask, starts, dtype=np.int64)
        scored.tofile(self._values["scored"])
        context_sums(batch.loss_mask, batch.lengths).tofile(self._values["context_sums"])
        if self._structured:
            assert batch.structures is not None, "a spool of documents with structure"
            self._write_structures(batch.structures, batch.lengths)

    def _write_structures(self, batch: Structures, lengths: Int64s) -> None:
        np.ascontiguousarray(batch.base_ids).tofile(self._values[_BASE_IDS])
        self._append("codes", batch.codes, lengths)
        self._append("chunks", batch.chunks, batch.chunk_counts)
        self._append("call_edges", batch.call_edges, batch.call_counts)
        self._append("type_edges", batch.type_edges, batch.type_counts)

    def _append(self, name: str, values: Values, counts: Int64s) -> None:
        dtype, _ = _LISTS.get(name) or _STRUCTURE[name]
        self._lists[name].append(values.astype(dtype, copy=False), counts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._files:
            if kind is None:
                self._flush()
                (self._folder / _DOMAINS).write_text(json.dumps([*self._domains]))


def _assert_whole(batch: Encodings) -> None:
    require_tokens(batch.lengths)
    ends = np.cumsum(batch.lengths)
    assert not batch.loss_mask[ends - 1].any(), "a document's last token predicts nothing"
    assert batch.piece_counts.min() > 0, "pieces cover a document"
    last_pieces = batch.pieces[np.cumsum(batch.piece_counts) - 1]
    assert np.array_equal(last_pieces[:, 2], batch.lengths), "pieces cover a document"


def context_sums(loss_mask: npt.NDArray[np.uint8], lengths: Int64s) -> Int64s:
    """Sum the preceding tokens of each document's targets, [n]: mask [1 1 0 1 0], lengths 3, 2 -> [3 1]."""
    starts = np.cumsum(lengths) - lengths
    before = np.arange(1, len(loss_mask) + 1) - np.repeat(starts, lengths)
    sums: Int64s = np.add.reduceat(before * loss_mask, starts)
    return sums


class SpooledDocuments:
    """Content of a closed spool; documents are numbered in the order in which they were added."""

    def __init__(self, folder: Path) -> None:
        self.ids, self.loss_mask, self.pieces = _columns(folder, _LISTS).values()
        self.document_ids = mapped(folder / "document_ids", np.uint8).reshape(-1, ID_BYTES)
        self.lengths: Int64s = self.ids.counts()
        self.scored: Int64s = mapped(folder / "scored", np.int64)
        """Scored tokens, i.e. tokens that count for the loss, by document."""
        self.context_sums: Int64s = mapped(folder / "context_sums", np.int64)
        """Sum over a document's scored tokens of the tokens before them, by document."""
        self.structured = (folder / _BASE_IDS).exists()
        self.structure = _columns(folder, _STRUCTURE) if self.structured else {}
        """Codes, chunks and edges by name; empty without structure."""
        self.tie_ids = self.document_ids
        """[n, 16]: ids for `best_fit.tie_breakers`; documents with structure use their base document's id."""
        if self.structured:
            self.tie_ids = mapped(folder / _BASE_IDS, np.uint8).reshape(-1, ID_BYTES)
        self._domain: Int32s = mapped(folder / "domain", np.dtype("<i4"))
        self._domains: list[str] = json.loads((folder / _DOMAINS).read_text())

    def __len__(self) -> int:
        return len(self.lengths)

    def with_targets(self) -> Int64s:
        """Return the documents that have at least one target, i.e. a token that counts for the loss."""
        return np.flatnonzero(self.scored)

    def by_domain(self) -> Iterator[tuple[str, Int64s]]:
        """Yield each domain and its documents with targets, sorted by name; skip domains without any."""
        kept = self.with_targets()
        codes = self._domain[kept]
        for domain in sorted(self._domains):
            documents = kept[codes == self._domains.index(domain)]
            if len(documents):
                yield domain, documents


def _columns(
    folder: Path, columns: Mapping[str, tuple[npt.DTypeLike, int]]
) -> dict[str, VariableLengthColumn]:
    return {
        name: VariableLengthColumn(folder / name, dtype, width=width)
        for name, (dtype, width) in columns.items()
    }
