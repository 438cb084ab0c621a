"""Temporary storage of encodings and their structure between encoding and packing.

A plan needs the lengths of all documents before the first row can be filled, and the tokens don't fit into
memory. The tokens are therefore kept in flat files; only 16 bytes per document stay in memory.
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
"""Number of tokens that are buffered in memory. The training and the validation documents are spooled at the
same time.
"""
Int32s = npt.NDArray[np.int32]
_LISTS: Mapping[str, tuple[npt.DTypeLike, int]] = {
    "ids": (np.int32, 1),
    "loss_mask": (np.uint8, 1),
    "pieces": (np.int32, 5),
}
"""Columns with several items per document: the type of a value, and the number of values per item."""
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
    """Writer of entries of variable length. Its memory doesn't grow with the number of entries."""

    def __init__(self, path: Path) -> None:
        self._values: BinaryIO = path.with_suffix(".values").open("wb")
        self._offsets: BinaryIO = path.with_suffix(".offsets").open("wb")
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def append(self, values: Values, counts: Int64s) -> None:
        """Append entries, whose items are joined along the first axis of `values`.

        `counts` is the number of items of each entry.
        """
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
    """Reader of the entries that a RaggedWriter wrote, by number; the files are memory-mapped."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int = 1) -> None:
        self._values = mapped(path.with_suffix(".values"), np.uint8)
        self._offsets = mapped(path.with_suffix(".offsets"), np.int64)
        self._dtype = np.dtype(dtype)
        self._width = width

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def counts(self, entries: Int64s | slice = slice(None)) -> Int64s:
        """Return the number of items of each of the given entries; by default, of all entries."""
        item_bytes = self._dtype.itemsize * self._width
        if isinstance(entries, slice):
            return np.diff(self._offsets) // item_bytes
        counts: Int64s = (self._offsets[entries + 1] - self._offsets[entries]) // item_bytes
        return counts

    def take(self, entries: Int64s) -> Values:
        """Return the joined items of the given entries, [sum] or [sum, width]; one memcpy per entry.

        The entries [7 8] and [9], taken in the order 1, 0, give [9 7 8].
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
    """Map a file into memory as an array. An empty file can't be mapped; it gives an empty array."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


def as_buffer(array: Values) -> pa.Buffer:
    """Return an array's bytes as an Arrow buffer, without a copy."""
    return pa.py_buffer(array.data)


@dataclass(frozen=True, kw_only=True, slots=True)
class Structures:
    """Structure of a batch of n documents: the fields of their `EncodedStructure`, concatenated."""

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
    """Encodings of a batch of n documents: the fields of their `Encoding`, concatenated."""

    document_ids: npt.NDArray[np.uint8]
    """[n, 16]: raw bytes of each document id, which is written as 32 hex digits elsewhere."""
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
    """Writer of encodings, singly or in batches, to files in a folder. The caller removes the folder."""

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
        """Add one document. It takes about 2 µs; every FLUSH_TOKENS tokens are written to disk together."""
        self._add_domain(domain, 1)
        self._waiting.append(encoding)
        self._waiting_tokens += len(encoding.ids)
        if self._waiting_tokens >= FLUSH_TOKENS:
            self._flush()

    def extend(self, batch: Encodings, *, domain: str = "") -> None:
        """Add many documents; they follow the documents that were added before."""
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
    """Return, for each document, the sum of the numbers of tokens that precede its targets, [n].

    The mask [1 1 0 1 0] for documents of 3 and 2 tokens gives [3 1].
    """
    starts = np.cumsum(lengths) - lengths
    before = np.arange(1, len(loss_mask) + 1) - np.repeat(starts, lengths)
    sums: Int64s = np.add.reduceat(before * loss_mask, starts)
    return sums


class SpooledDocuments:
    """Content of a closed spool. Documents are numbered in the order in which they were added."""

    def __init__(self, folder: Path) -> None:
        self.ids, self.loss_mask, self.pieces = _columns(folder, _LISTS).values()
        self.document_ids = mapped(folder / "document_ids", np.uint8).reshape(-1, ID_BYTES)
        self.lengths: Int64s = self.ids.counts()
        self.scored: Int64s = mapped(folder / "scored", np.int64)
        """Number of scored tokens (tokens that the loss counts) of each document."""
        self.context_sums: Int64s = mapped(folder / "context_sums", np.int64)
        """For each document, the sum over its scored tokens of the number of tokens before them."""
        self.structured = (folder / _BASE_IDS).exists()
        self.structure = _columns(folder, _STRUCTURE) if self.structured else {}
        """Codes, chunks and edges, by the name of the column; empty without structure."""
        self.tie_ids = self.document_ids
        """[n, 16]: ids for `best_fit.tie_breakers`. For a document with structure, it is the id of its base
        document.
        """
        if self.structured:
            self.tie_ids = mapped(folder / _BASE_IDS, np.uint8).reshape(-1, ID_BYTES)
        self._domain: Int32s = mapped(folder / "domain", np.dtype("<i4"))
        self._domains: list[str] = json.loads((folder / _DOMAINS).read_text())

    def __len__(self) -> int:
        return len(self.lengths)

    def with_targets(self) -> Int64s:
        """Return the numbers of those documents that have a target, which is a token that the loss counts."""
        return np.flatnonzero(self.scored)

    def by_domain(self) -> Iterator[tuple[str, Int64s]]:
        """Yield each domain with the numbers of its documents with targets, sorted by name.

        Domains without such documents are skipped.
        """
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
