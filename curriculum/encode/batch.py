"""A batch of documents as flat arrays, as the columns of their artefact hold them."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.encode.documents import Int32s, Spans, Tokenised
from curriculum.encode.sides import Placed, Split, placed
from curriculum.tokens.store import TokenStore
from schemas.document import SPAN_KINDS

_COLUMNS = ("document_id", "language", "num_bytes", "parts", "spans")
_CHUNKS, _LINEAGE = "chunks", "provenance.list.element.lineage"
_HOP = "chunks.list.element.hop"


def columns_of(path: Path, *, split: bool) -> list[str]:
    """The columns that fitting needs of a file: chunks where there are any, then sources for a split."""
    if not _has_chunks(path):
        return list(_COLUMNS)
    return [*_COLUMNS, _CHUNKS, *((_LINEAGE,) if split else ())]


def _has_chunks(path: Path) -> bool:
    """Whether a file is of context documents; files of other families take some ms."""
    with pq.ParquetFile(path) as file:
        if _CHUNKS not in file.schema_arrow.names:
            return False
        counts = (
            pc.sum(pc.list_value_length(batch.column(_CHUNKS))).as_py()
            for batch in file.iter_batches(columns=[_HOP])
        )
        return any(counts)


class Batch:
    """Documents of one artefact; `first_row` is the row of the first there."""

    def __init__(self, batch: pa.RecordBatch, first_row: int, split: Split | None) -> None:
        self.first_row = first_row
        self._ids: list[Any] = batch.column("document_id").to_pylist()
        self._languages: list[Any] = batch.column("language").to_pylist()
        self._parts, part = flat(batch.column("parts"))
        self._spans, span = flat(batch.column("spans"))
        self._part_ends: Int32s = part.field("end").to_numpy()
        self._ranks: Int32s = part.field("rank").to_numpy()
        self._elidable = part.field("elidable").to_numpy(zero_copy_only=False).astype(np.bool_)
        self._kinds: Int32s = _codes(span.field("kind"))
        self._starts: Int32s = span.field("start").to_numpy()
        self._ends: Int32s = span.field("end").to_numpy()
        self._context = _Context(batch, part, split) if _CHUNKS in batch.schema.names else None
        self.num_parts = int(self._parts[-1])

    def __len__(self) -> int:
        return len(self._ids)

    def document(self, index: int, store: TokenStore, tokens: npt.NDArray[np.int64]) -> Tokenised:
        """One document of the batch; `tokens` are the lengths of all its parts."""
        row = self.first_row + index
        parts = slice(self._parts[index], self._parts[index + 1])
        spans = slice(self._spans[index], self._spans[index + 1])
        found = self._context and self._context.placed(index, row, parts)
        nothing = np.zeros(len(self._ranks[parts]), dtype=np.bool_)
        return Tokenised(
            row=row,
            document_id=self._ids[index],
            language=self._languages[index],
            ids=store.tokens(row),
            part_bytes=_after_zero(self._part_ends[parts]),
            part_tokens=_after_zero(np.cumsum(tokens[parts])),
            ranks=self._ranks[parts],
            elidable=self._elidable[parts],
            spans=Spans(
                kinds=self._kinds[spans], starts=self._starts[spans], ends=self._ends[spans]
            ),
            other_side=found.other_side if found else nothing,
            straddles=found.straddles if found else False,
            context=found.context if found else None,
        )


class _Context:
    """The chunks of a batch, and on which side of the split their sources lie."""

    def __init__(self, batch: pa.RecordBatch, part: Any, split: Split | None) -> None:
        self._chunks, chunk = flat(batch.column(_CHUNKS))
        edges = [chunk.field(name).to_numpy() for name in ("first_part", "last_part")]
        self._ranges: Int32s = np.stack(edges, axis=1)
        self._hops: Int32s = chunk.field("hop").to_numpy()
        self._sources: Int32s = part.field("source").to_numpy()
        self._split = split
        if split is not None:
            self._provenance, source = flat(batch.column("provenance"))
            held_out = pa.array(sorted(split.val_lineages), type=pa.string())
            is_val = pc.is_in(source.field("lineage"), value_set=held_out)
            self._is_val = is_val.to_numpy(zero_copy_only=False).astype(np.bool_)

    def placed(self, index: int, row: int, parts: slice) -> Placed | None:
        """The context of one document; None where it has no chunks."""
        chunks = slice(self._chunks[index], self._chunks[index + 1])
        if chunks.start == chunks.stop:
            return None
        foreign = np.zeros(len(self._sources[parts]), dtype=np.bool_)
        if self._split is not None:
            cited = np.flatnonzero(self._sources[parts] >= 0)
            sources = self._provenance[index] + self._sources[parts][cited]
            foreign[cited] = self._is_val[sources] != self._split.val[row]
        return placed(self._ranges[chunks], self._hops[chunks], foreign)


def flat(column: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Borders [n + 1] and items of a list column."""
    counts = pc.list_value_length(column).to_numpy()
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), column.flatten()


def _codes(kinds: Any) -> Int32s:
    codes: Int32s = pc.index_in(kinds, value_set=pa.array(SPAN_KINDS)).to_numpy()
    return codes


def _after_zero(values: npt.NDArray[np.integer[Any]]) -> Int32s:
    borders = np.zeros(len(values) + 1, dtype=np.int32)
    borders[1:] = values
    return borders
