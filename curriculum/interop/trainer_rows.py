"""Rows with the columns that Hugging Face trainers read, and single documents for the trainers' collators.

    input_ids     [BOS  a EOS BOS  c PAD PAD]      loss_mask     [1 1 0 1 0 0 0]
    labels        [  .  a EOS   .  c   .   .]      seq_lengths   [3 2 2]      (. is -100: not scored)
    position_ids  [  0  1   2   0  1   0   1]

A label is the token at the label's own position, because transformers models shift labels by one. In our own
columns, the target at a position is the next token. Padding is the last segment of its row, so that
seq_lengths add up to T.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.packed_rows import lists
from schemas.document import list_of, required

IGNORED = -100
"""Label of a token that isn't scored; trainers ignore it."""
LABELS, POSITIONS, LENGTHS = "labels", "position_ids", "seq_lengths"
TRAINER_COLUMNS = tuple(
    required(name, list_of(pa.int32())) for name in (LABELS, POSITIONS, LENGTHS)
)
READ = ("input_ids", "loss_mask", "doc_starts", "num_docs", "valid_token_count")
"""Our own columns from which the trainers' columns are derived."""
SHARED = ("family", "objective", "domain", "split")
"""Labels of a row that also apply to each of its documents."""
EXAMPLE_SCHEMA = pa.schema(
    [
        required("document_id", pa.string()),
        required("input_ids", list_of(pa.int32())),
        required(LABELS, list_of(pa.int32())),
        *(required(name, pa.string()) for name in SHARED),
    ]
)
"""Schema of examples with one document each."""
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSegments:
    """Segments of rows that follow one another: documents and padding; row lengths may differ."""

    ids: Int32s
    labels: Int32s
    row_lengths: Int64s
    """Length of each row [n]."""
    starts: Int64s
    """Start of each segment [s] among the tokens of all rows."""
    row: Int64s
    """Row of each segment [s]."""
    is_document: Bools
    """True for documents, False for padding, [s]."""

    @staticmethod
    def of(table: pa.Table) -> "RowSegments":
        """Return the segments of the rows in `table`, which must have the columns READ."""
        batch: Any = table.combine_chunks().to_batches()[0]
        ids = batch["input_ids"].flatten().to_numpy()
        mask = batch["loss_mask"].flatten().to_numpy()
        lengths = batch["input_ids"].value_lengths().to_numpy().astype(np.int64)
        first = np.cumsum(lengths) - lengths
        documents = batch["num_docs"].to_numpy().astype(np.int64)
        valid = batch["valid_token_count"].to_numpy().astype(np.int64)
        starts = batch["doc_starts"].flatten().to_numpy() + np.repeat(first, documents)
        padded = np.flatnonzero(valid < lengths)
        behind = np.cumsum(documents)[padded]
        return RowSegments(
            ids=ids,
            labels=labels_of(ids, mask),
            row_lengths=lengths,
            starts=np.insert(starts, behind, first[padded] + valid[padded]),
            row=np.insert(np.repeat(np.arange(len(first)), documents), behind, padded),
            is_document=np.insert(np.ones(len(starts), dtype=np.bool_), behind, values=False),
        )

    @property
    def lengths(self) -> Int64s:
        """Number of tokens of each segment [s]."""
        return np.diff(self.starts, append=len(self.ids))

    @property
    def position_ids(self) -> Int32s:
        """Position of each token in its segment, counted from 0."""
        everywhere = np.arange(len(self.ids))
        return (everywhere - np.repeat(self.starts, self.lengths)).astype(np.int32)

    @property
    def scored(self) -> Int64s:
        """Number of scored tokens of each segment [s]."""
        counts: Int64s = np.add.reduceat((self.labels != IGNORED).astype(np.int64), self.starts)
        return counts


def labels_of(ids: Int32s, loss_mask: npt.NDArray[np.uint8]) -> Int32s:
    """Return the labels of rows that follow one another.

    For example, ids [5 6 7 8] with loss mask [1 0 1 0] -> labels [-100 6 -100 8]. The mask at a row's last
    token is 0, so no label depends on the row before it.
    """
    labels = np.full_like(ids, IGNORED)
    scored = np.flatnonzero(loss_mask[:-1]) + 1
    labels[scored] = ids[scored]
    return labels


def with_trainer_columns(table: pa.Table) -> pa.Table:
    """Return the rows with TRAINER_COLUMNS appended."""
    segments = RowSegments.of(table)
    per_row = np.bincount(segments.row, minlength=len(table))
    columns: dict[str, Any] = {
        LABELS: lists(pa.array(segments.labels), segments.row_lengths, pa.int32()),
        POSITIONS: lists(pa.array(segments.position_ids), segments.row_lengths, pa.int32()),
        LENGTHS: lists(pa.array(segments.lengths.astype(np.int32)), per_row, pa.int32()),
    }
    for field in TRAINER_COLUMNS:
        table = table.append_column(field, columns[field.name])
    return table


@dataclass(kw_only=True, slots=True)
class SingleDocuments:
    """Examples with one document each, in row order."""

    documents: int = 0
    unscored: int = 0
    """Number of documents without a scored token, which are left out."""

    def tables(self, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield one table of documents per table of rows; tables without documents are skipped."""
        found = map(self._documents, rows)
        return (table for table in found if len(table))

    def _documents(self, table: pa.Table) -> pa.Table:
        segments = RowSegments.of(table)
        chosen = segments.is_document & (segments.scored > 0)
        inside = np.repeat(chosen, segments.lengths)
        counts = segments.lengths[chosen]
        self.documents += len(counts)
        self.unscored += int(segments.is_document.sum()) - len(counts)
        names: Any = table["document_ids"].combine_chunks()
        columns: dict[str, Any] = {
            "document_id": names.flatten().filter(pa.array(chosen[segments.is_document])),
            "input_ids": lists(pa.array(segments.ids[inside]), counts, pa.int32()),
            LABELS: lists(pa.array(segments.labels[inside]), counts, pa.int32()),
        }
        for name in SHARED:
            values: Any = table[name].combine_chunks()
            columns[name] = values.take(pa.array(segments.row[chosen]))
        ordered = [columns[name] for name in EXAMPLE_SCHEMA.names]
        return pa.table(ordered, schema=EXAMPLE_SCHEMA)
