"""Columns of packed rows as Hugging Face trainers write them, converted to our own columns.

    input_ids      [ a  b EOS  c  d PAD]     labels            [.  b EOS  .  d  .]      (. is -100)
    position_ids   [ 0  1   2  0  1   0]     document_starts   [0 3]
    seq_lengths    [3 2 1] or [3 2]          cu_seqlens        [0 3 5 6] or [0 3 5]     seq_lens: seq_lengths

    loss_mask      [ 1  1   0  1  0   0]     doc_starts        [0 3]                    valid_token_count   5

A label is the token at the label's own position. At the first token of a document the label is ignored,
because no token predicts the first one. A last segment that consists of padding without labels isn't a
document. Positions that no segment covers are padding too. Rows may be shorter than T and are then padded.
Columns with the same meaning must agree.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.interop.trainer_rows import IGNORED, LABELS, LENGTHS, POSITIONS
from curriculum.packing.packed_rows import lists
from schemas.document import list_of
from schemas.errors import SchemaError
from schemas.packed_row import RowFormat

CURE = "Mend the file where it was made"
Values = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SCORES = "loss_mask"
COUNT = "valid_token_count"
STARTS = "doc_starts"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedBatch:
    """Batch of n rows, read as matrices [n, T] in which shorter rows are padded."""

    shard: str
    first_row: int
    """Number of the batch's first row in its file."""
    row_format: RowFormat
    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def flat(self, name: str) -> tuple[Values, Int64s]:
        """Return the values of a list column end to end, and the number of values per row.

        Raises:
            SchemaError: if there is a null.
        """
        array: Any = self.table[name].combine_chunks()
        values: Any = array.flatten()
        if array.null_count or values.null_count:
            raise SchemaError(
                self.shard,
                f"a null in {name}",
                cause="rows and their values have no nulls",
                cure=CURE,
            )
        return values.to_numpy(), array.value_lengths().to_numpy().astype(np.int64)

    def matrix(self, name: str, blank: int) -> Values:
        """Return the column `name`, which has one value per token, as [n, T]; `blank` fills the padding.

        Raises:
            SchemaError: if a row has another number of values than of tokens.
        """
        values, counts = self.flat(name)
        self.require(
            counts == self.lengths,
            lambda row: f"{name} has {counts[row]} values, input_ids {self.lengths[row]}",
            "there is one value a token",
        )
        return self._filled(values, counts, blank)

    def rows_of(self, name: str, *, first_is_zero: bool) -> tuple[Values, Int64s, Int64s]:
        """Return three arrays for the column `name`, which contains positions or lengths.

        They are the column's values, the row of each value, and the number of values per row.

        Raises:
            SchemaError: if a row is empty, or doesn't begin with 0 although `first_is_zero`.
        """
        values, counts = self.flat(name)
        self.require(counts > 0, lambda row: f"{name} is empty", "a row has a document")
        first = values[np.cumsum(counts) - counts]
        if first_is_zero:
            self.require(
                first == 0,
                lambda row: f"{name} begins with {first[row]}",
                "a row begins with a document",
            )
        return values, np.repeat(np.arange(len(self)), counts), counts

    @property
    def lengths(self) -> Int64s:
        """Number of tokens in each row [n] as stored, without the padding that is added here."""
        return self.flat("input_ids")[1]

    @property
    def columns(self) -> Int64s:
        """Positions 0 … T-1."""
        return np.arange(self.row_format.row_length)

    def require(self, right: Bools, found: Callable[[int], str], cause: str) -> None:
        """Raise unless `right` [n] is true for all rows; `found` describes a row in which it is false.

        Raises:
            SchemaError: names the row and the file.
        """
        if not right.all():
            row = int(np.argmin(right))
            name = f"row {self.first_row + row} of {self.shard}"
            raise SchemaError(name, found(row), cause=cause, cure=CURE)

    def require_tokens(self, right: Bools, found: Callable[[int, int], str], cause: str) -> None:
        """Raise unless `right` [n, T] is true for all tokens; `found` describes a token at which it is false.

        Raises:
            SchemaError: names the row and the file.
        """
        at = np.argmin(right, axis=1)
        whole = right[np.arange(len(right)), at]
        self.require(whole, lambda row: found(row, int(at[row])), cause)

    def _filled(self, values: Values, counts: Int64s, blank: int) -> Values:
        filled = np.full((len(self), self.row_format.row_length), blank, dtype=np.int64)
        starts = np.cumsum(counts) - counts
        rows = np.repeat(np.arange(len(self)), counts)
        filled[rows, np.arange(len(values)) - np.repeat(starts, counts)] = values
        return filled


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmentStarts:
    """Segments of rows, as one column gives them."""

    begins: Bools
    """True where a segment begins, [n, T]."""
    covered: Int64s
    """Number of positions in each row that segments cover, [n]."""


def _by_lengths(batch: PackedBatch, name: str) -> SegmentStarts:
    values, row, counts = batch.rows_of(name, first_is_zero=False)
    positive = np.bincount(row, weights=values < 1, minlength=len(batch)) == 0
    batch.require(positive, lambda at: f"{name} has a length below 1", "segments have tokens")
    sums = np.cumsum(values)
    before = (sums - values)[np.cumsum(counts) - counts]
    covered = sums[np.cumsum(counts) - 1] - before
    batch.require(
        covered <= batch.lengths,
        lambda at: f"{name} adds up to {covered[at]}",
        "segments lie inside their row",
    )
    return _starting(batch, row, sums - values - before[row], covered)


def _by_edges(batch: PackedBatch, name: str) -> SegmentStarts:
    values, row, counts = batch.rows_of(name, first_is_zero=True)
    last = np.cumsum(counts) - 1
    _require_rising(batch, name, values, row)
    batch.require(
        (counts > 1) & (values[last] <= batch.lengths),
        lambda at: f"{name} ends with {values[last[at]]}",
        "the last edge is the end of the last segment, inside its row",
    )
    is_start = np.ones(len(values), dtype=np.bool_)
    is_start[last] = False
    return _starting(batch, row[is_start], values[is_start], values[last])


def _by_starts(batch: PackedBatch, name: str) -> SegmentStarts:
    values, row, counts = batch.rows_of(name, first_is_zero=True)
    _require_rising(batch, name, values, row)
    last = np.cumsum(counts) - 1
    batch.require(
        values[last] < batch.lengths,
        lambda at: f"{name} ends with {values[last[at]]}",
        "segments begin inside their row",
    )
    return _starting(batch, row, values, batch.lengths)


def _by_positions(batch: PackedBatch, name: str) -> SegmentStarts:
    found = batch.matrix(name, 0)
    inside = batch.columns < batch.lengths[:, None]
    before = np.concatenate([np.full((len(batch), 1), -1), found[:, :-1]], axis=1)
    begins = found == 0
    batch.require_tokens(
        ~inside | begins & (batch.columns > 0) | (found == before + 1),
        lambda row, at: f"{name} is {found[row, at]} at token {at}, after {before[row, at]}",
        "positions begin at 0, and rise by 1 or begin anew",
    )
    return SegmentStarts(begins=begins & inside, covered=batch.lengths)


def _by_document_numbers(batch: PackedBatch, name: str) -> SegmentStarts:
    found = batch.matrix(name, -1)
    begins = np.ones(found.shape, dtype=np.bool_)
    begins[:, 1:] = found[:, 1:] != found[:, :-1]
    return SegmentStarts(
        begins=begins & (batch.columns < batch.lengths[:, None]), covered=batch.lengths
    )


def _require_rising(batch: PackedBatch, name: str, values: Values, row: Int64s) -> None:
    falls = (np.diff(values) < 1) & (np.diff(row) == 0)
    rising = np.bincount(row[1:], weights=falls, minlength=len(batch)) == 0
    batch.require(
        rising, lambda at: f"{name} doesn't rise", "segments follow one another, none empty"
    )


def _starting(batch: PackedBatch, row: Int64s, starts: Values, covered: Values) -> SegmentStarts:
    begins = np.zeros((len(batch), batch.row_format.row_length), dtype=np.bool_)
    begins[row, starts] = True
    return SegmentStarts(begins=begins, covered=covered.astype(np.int64))


Reader = Callable[[PackedBatch, str], SegmentStarts]
SEGMENTS: Mapping[str, Reader] = {
    LENGTHS: _by_lengths,
    "seq_lens": _by_lengths,
    "cu_seqlens": _by_edges,
    "document_starts": _by_starts,
    POSITIONS: _by_positions,
}
"""Foreign columns that determine where documents begin, each with the function that reads it."""
_OWN: Mapping[str, Reader] = {STARTS: _by_starts, "doc_ids": _by_document_numbers}
FOREIGN: Mapping[str, pa.DataType] = {name: list_of(pa.int64()) for name in (LABELS, *SEGMENTS)}


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedColumns:
    """Converter from the columns of foreign files to our own columns."""

    row_format: RowFormat
    foreign: tuple[str, ...]
    """Names of the files' columns that are among FOREIGN."""
    stored: tuple[str, ...]
    """Names of the files' columns that are our own columns."""

    @staticmethod
    def of(names: Sequence[str], row_format: RowFormat) -> "PackedColumns":
        """Return the converter for files with the columns `names`."""
        return PackedColumns(
            row_format=row_format,
            foreign=tuple(name for name in names if name in FOREIGN),
            stored=tuple(name for name in names if name not in FOREIGN),
        )

    @property
    def segmented(self) -> tuple[str, ...]:
        """Foreign columns that determine where documents begin."""
        return tuple(name for name in self.foreign if name in SEGMENTS)

    @property
    def derived(self) -> tuple[str, ...]:
        """Names of our columns that are missing and can be derived from foreign columns."""
        made = [SCORES] if LABELS in self.foreign else []
        if self.segmented:
            made.append(COUNT)
            if not {*_OWN} & {*self.stored}:
                made.append(STARTS)
        return tuple(name for name in made if name not in self.stored)

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence per derived column, which names the columns that it is derived from."""
        of = {SCORES: LABELS, STARTS: ", ".join(self.segmented), COUNT: ", ".join(self.segmented)}
        return tuple(f"{name} is read from {of[name]}" for name in self.derived)

    def read(self, table: pa.Table, shard: str, first_row: int) -> pa.Table:
        """Return the rows of `table` with our own columns only.

        Raises:
            SchemaError: if a column is invalid or contradicts another column; names the row and the column.
        """
        batch = PackedBatch(
            shard=shard, first_row=first_row, row_format=self.row_format, table=table
        )
        length = self.row_format.row_length
        batch.require(
            batch.lengths <= length,
            lambda row: f"input_ids has {batch.lengths[row]} values",
            f"rows have at most {length} tokens",
        )
        ids = batch.matrix("input_ids", self.row_format.pad_id)
        segments = self._segments(batch, ids)
        labels = _labels(batch, ids) if LABELS in self.foreign else None
        valid = self._valid(batch, ids, labels, segments)
        begins = segments.begins & (batch.columns < valid[:, None])
        columns: dict[str, Any] = {name: table[name] for name in self.stored}
        columns |= self._derived(batch, ids, begins, valid)
        if labels is not None:
            columns[SCORES] = self._scores(batch, labels, begins, valid)
        return pa.table({name: columns[name] for name in (*self.stored, *self.derived)})

    def _segments(self, batch: PackedBatch, ids: Values) -> SegmentStarts:
        """Return the segments of rows; all columns that give segments must agree.

        If no column gives segments, each BOS begins a segment.
        """
        own = {name: reader for name, reader in _OWN.items() if name in self.stored}
        segmented = {name: SEGMENTS[name] for name in self.segmented}
        found = {name: read(batch, name) for name, read in {**segmented, **own}.items()}
        if not found:
            bos = self.row_format.bos_id if self.row_format.bos_marks_documents else None
            begins = ids == bos if bos is not None else np.zeros(ids.shape, dtype=np.bool_)
            return SegmentStarts(begins=begins, covered=batch.lengths)
        (first, segments), *others = found.items()
        covered = np.min([source.covered for source in found.values()], axis=0)
        for name, other in others:
            # Columns may differ in padding, and in positions that only one of them covers.
            real = _last(ids != self.row_format.pad_id, covered)
            inside = batch.columns < real[:, None]
            batch.require_tokens(
                ~inside | (segments.begins == other.begins),
                lambda row, at, name=name: f"{first} and {name} differ at token {at}",  # type: ignore[misc]
                "columns that say where documents begin must agree",
            )
        return SegmentStarts(begins=segments.begins, covered=covered)

    def _valid(
        self, batch: PackedBatch, ids: Values, labels: Values | None, segments: SegmentStarts
    ) -> Int64s:
        """Return the number of valid tokens of each row [n].

        Unless it is stored, it is the end of the last segment that has a label or isn't only padding.
        """
        if COUNT in self.stored:
            return np.asarray(batch.table[COUNT].to_numpy(), dtype=np.int64)
        real = ids != self.row_format.pad_id
        if labels is not None:
            real |= labels != IGNORED
        last = _last(real, segments.covered)
        if not self.segmented:
            return last
        later = segments.begins & (batch.columns >= last[:, None])
        next_start = np.where(later.any(axis=1), later.argmax(axis=1), segments.covered)
        return np.where(last > 0, np.minimum(next_start, segments.covered), 0)

    def _derived(
        self, batch: PackedBatch, ids: Values, begins: Bools, valid: Int64s
    ) -> dict[str, Any]:
        row_lengths = np.full(len(batch), self.row_format.row_length)
        starts = np.nonzero(begins)[1].astype(np.int32)
        made: dict[str, Any] = {
            STARTS: lists(pa.array(starts), begins.sum(axis=1), pa.int32()),
            COUNT: pa.array(valid.astype(np.int32)),
        }
        flat = ids.astype(np.int32).reshape(-1)
        return {
            "input_ids": lists(pa.array(flat), row_lengths, pa.int32()),
            **{name: array for name, array in made.items() if name in self.derived},
        }

    def _scores(self, batch: PackedBatch, labels: Values, begins: Bools, valid: Int64s) -> Any:
        """Return loss_mask: 1 where the next token has a label, is valid and doesn't begin a document."""
        mask = np.zeros(labels.shape, dtype=np.uint8)
        learnt = (labels != IGNORED) & ~begins & (batch.columns < valid[:, None])
        mask[:, :-1] = learnt[:, 1:]
        if SCORES in self.stored:
            own = batch.matrix(SCORES, 0)
            batch.require_tokens(
                own == mask,
                lambda row, at: f"{SCORES} is {own[row, at]} at token {at}",
                f"it must say what {LABELS} says of the token behind it",
            )
        row_lengths = np.full(len(batch), self.row_format.row_length)
        return lists(pa.array(mask.reshape(-1)), row_lengths, pa.uint8())


def _labels(batch: PackedBatch, ids: Values) -> Values:
    """Return the labels [n, T]; raise unless each label is -100 or the token at its position."""
    labels = batch.matrix(LABELS, IGNORED)
    right = (labels == IGNORED) | (labels == ids)
    shifted = np.append(ids[:, 1:], np.full((len(ids), 1), IGNORED), axis=1)
    is_shifted = ((labels == IGNORED) | (labels == shifted)).all(axis=1)
    batch.require_tokens(
        right,
        lambda row, at: f"{LABELS} is {labels[row, at]} at token {at}, input_ids {ids[row, at]}",
        f"a label is the token at its own position, or {IGNORED}"
        + (" (these are shifted by one)" if is_shifted[np.argmin(right.all(axis=1))] else ""),
    )
    return labels


def _last(real: Bools, covered: Int64s) -> Int64s:
    """Return for each row [n] the position after the last true value of `real`, or 0 if there is none.

    Only the first `covered` positions of a row count.
    """
    real = real & (np.arange(real.shape[1]) < covered[:, None])
    behind = real.shape[1] - real[:, ::-1].argmax(axis=1)
    return np.where(real.any(axis=1), behind, 0).astype(np.int64)
