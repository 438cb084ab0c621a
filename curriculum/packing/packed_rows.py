"""Rows as arrays: n consecutive rows of one shard, with stored or derived columns.

Imported rows may lack target_ids, doc_ids or doc_starts. These columns are derived where the contract allows
it. This module trusts stored values; row_check.py checks them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.boundaries import Int32s, Int64s, RowLayout, Values
from schemas.document import list_of
from schemas.errors import SchemaError
from schemas.packed_row import PACKED_ROW_SCHEMA, RowFormat
from schemas.structure import STRUCTURE_COLUMNS

ArrowArray: TypeAlias = "pa.Array[Any]"
REQUIRED = ("input_ids", "loss_mask")
"""Columns without which rows can't be trained on. All other columns can be derived or omitted."""
KNOWN: dict[str, pa.DataType] = {
    **{field.name: field.type for field in PACKED_ROW_SCHEMA},
    **{field.name: field.type for field in STRUCTURE_COLUMNS},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RowBatch:
    """n consecutive rows of one shard. Arrays of stored columns are views of the table, not copies."""

    row_format: RowFormat
    table: pa.Table
    """Table of the requested columns."""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def nbytes(self) -> int:
        """Size of the table in bytes."""
        return int(self.table.nbytes)

    @property
    def input_ids(self) -> Int32s:
        """Token ids, [n, T]."""
        return self.tokens("input_ids")

    @property
    def loss_mask(self) -> npt.NDArray[np.uint8]:
        """Loss mask of 0 and 1, [n, T]."""
        return self.tokens("loss_mask")

    @property
    def target_ids(self) -> Int32s:
        """Target token ids, [n, T]; derived if the rows don't store them."""
        if self.has("target_ids"):
            return self.tokens("target_ids")
        return target_ids(self.input_ids, self.loss_mask, self.row_format.pad_id)

    @property
    def doc_ids(self) -> Int32s:
        """Id of the document or padding at each position, [n, T]; derived if the rows don't store them.

        Raises:
            SchemaError: if the rows say neither where documents begin nor where they end.
        """
        if self.has("doc_ids"):
            return self.tokens("doc_ids")
        self._require_inferable()
        valid = self.valid_counts()
        starts, edges = self.doc_starts(valid)
        layout = RowLayout.from_starts(starts, np.diff(edges), valid, self.row_format.row_length)
        return layout.doc_ids.reshape(len(self), -1)

    def valid_counts(self) -> Int64s:
        """Return the number of tokens in each row without padding, [n].

        If it isn't stored, it is the position after the last token that isn't PAD: [BOS a EOS BOS c PAD PAD]
        -> 5.
        """
        if self.has("valid_token_count"):
            return self.scalars("valid_token_count").astype(np.int64)
        tokens = self.tokens("input_ids") != self.row_format.pad_id
        last = self.row_format.row_length - tokens[:, ::-1].argmax(axis=1)
        return np.where(tokens.any(axis=1), last, 0).astype(np.int64)

    def doc_starts(self, valid: Int64s) -> tuple[Int64s, Int64s]:
        """Return the first position of each document in its row, row after row, and the borders of the rows.

        The borders are indices into the positions, [n + 1]. If the positions aren't stored, a document begins
        wherever doc_ids changes; without doc_ids, at every BOS among the first `valid` tokens of a row: [BOS
        a EOS BOS c PAD PAD] -> [0 3], [0 2].
        """
        if self.has("doc_starts"):
            return self.values("doc_starts").astype(np.int64), self.offsets("doc_starts")
        if self.has("doc_ids"):
            ids = self.tokens("doc_ids")
            begins = np.ones(ids.shape, dtype=np.bool_)
            begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
        else:
            begins = self.tokens("input_ids") == self.row_format.bos_id
        begins &= np.arange(self.row_format.row_length) < valid[:, None]
        edges = np.concatenate([[0], np.cumsum(begins.sum(axis=1))])
        return np.nonzero(begins)[1].astype(np.int64), edges.astype(np.int64)

    def _require_inferable(self) -> None:
        """Raise an error unless the boundaries of documents are stored or follow from the tokens."""
        bos, eos, pad = self.row_format.bos_id, self.row_format.eos_id, self.row_format.pad_id
        if not self.has("valid_token_count") and eos == pad:
            raise SchemaError(
                "valid_token_count",
                f"eos_id and pad_id {pad}",
                cause="padding can't be distinguished from the end of a document if PAD == EOS",
                cure="Store valid_token_count in the rows",
            )
        if self.has("doc_starts"):
            return
        if bos is None or bos == pad:
            raise SchemaError(
                "doc_starts",
                f"bos_id {bos}, pad_id {pad}",
                cause="document boundaries can only be inferred from a BOS that differs from PAD",
                cure="Store doc_ids or doc_starts in the rows",
            )
        first = self.input_ids[:, 0]
        if (first != bos).any():
            raise SchemaError(
                "doc_starts",
                f"first token {first[first != bos][0]}",
                cause=f"document boundaries can only be inferred if every row begins with BOS {bos}",
                cure="Store doc_ids or doc_starts in the rows",
            )

    def document_ids(self) -> list[list[str]]:
        """Return the document ids of each row."""
        listed: list[list[str]] = self.array("document_ids").to_pylist()
        return listed

    def slice(self, row: int, rows: int = 1) -> "RowBatch":
        """Return `rows` rows, beginning with the row `row`, without a copy."""
        return RowBatch(row_format=self.row_format, table=self.table.slice(row, rows))

    def has(self, name: str) -> bool:
        """Return True if the rows store the column."""
        return name in self.table.column_names

    def scalars(self, name: str) -> Values:
        """Return a column that has one value per row, [n]."""
        values: Values = self.array(name).to_numpy(zero_copy_only=False)
        return values

    def text(self, name: str) -> list[bytes]:
        """Return a column of strings or numbers as bytes, [n]. The bytes may be invalid UTF-8."""
        return _as_bytes(self.array(name))

    def texts(self, name: str) -> list[bytes]:
        """Return the strings of a list column as bytes; the lists of all rows are joined."""
        return _as_bytes(self.items(name))

    def offsets(self, name: str) -> Int64s:
        """Return the borders of a column's lists within the result of `items`, [n + 1], beginning with 0."""
        offsets: Int64s = self.array(name).offsets.to_numpy().astype(np.int64)
        offsets -= offsets[0]
        return offsets

    def items(self, name: str) -> Any:
        """Return the items of a list column as an Arrow array; the lists of all rows are joined."""
        return self.array(name).flatten()

    def values(self, name: str) -> Values:
        """Return the numbers of a list column; the lists of all rows are joined."""
        values: Values = self.items(name).to_numpy()
        return values

    def tokens(self, name: str) -> Values:
        """Return a column that has one value per token, [n, T].

        Raises:
            SchemaError: if a list doesn't have T values.
        """
        values, length = self.values(name), self.row_format.row_length
        if len(values) != len(self) * length:
            raise SchemaError(
                name,
                f"{len(values)} values in {len(self)} rows",
                cause=f"a row must have {length} values",
                cure="Run `curriculum check` on the rows",
            )
        return values.reshape(len(self), length)

    def fields(self, name: str) -> dict[str, npt.NDArray[np.int64]]:
        """Return each field of a column of lists of structs; the lists of all rows are joined."""
        items = self.items(name)
        return {
            field.name: items.field(index).to_numpy().astype(np.int64)
            for index, field in enumerate(items.type)
        }

    def nulls(self) -> npt.NDArray[np.bool_]:
        """Return a flag for each row, [n]: True if it contains a null in a column, a list or a struct."""
        arrays = [self.array(name) for name in self.table.column_names]
        found = np.zeros(len(self), dtype=np.bool_)
        for array in arrays:
            if _nulls(array):
                found |= [_nulls(array.slice(row, 1)) > 0 for row in range(len(self))]
        return found

    def filter(self, rows: npt.NDArray[np.bool_]) -> "RowBatch":
        """Return those rows for which the mask `rows` is True; no copy is made if it is True for all."""
        if rows.all():
            return self
        return RowBatch(row_format=self.row_format, table=self.table.filter(pa.array(rows)))

    def array(self, name: str) -> Any:
        """Return a column as one Arrow array."""
        column = self.table[name]
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def target_ids(input_ids: Int32s, loss_mask: npt.NDArray[np.uint8], pad_id: int) -> Int32s:
    """Return the token after each token; pad_id where the mask is 0.

    The tokens [5 6 7 8] with the mask [1 0 1 0] give [6 P 8 P]. Rows may be [n, T] or joined to one flat row.
    The last token of a row is followed by the first token of the next row. This has no effect, because the
    mask is 0 at the last token of every document, and so at the end of every row.
    """
    targets = np.empty_like(input_ids)
    flat = targets.reshape(-1)
    flat[:-1] = input_ids.reshape(-1)[1:]
    flat[-1:] = pad_id
    np.putmask(targets, loss_mask == 0, pad_id)
    return targets


@dataclass(frozen=True, kw_only=True, slots=True)
class RowTokens:
    """Document boundaries, tokens and loss mask of n rows, from which most other columns are derived."""

    layout: RowLayout
    input_ids: Int32s
    """[n, T]"""
    loss_mask: npt.NDArray[np.uint8]
    """[n, T]"""
    pad_id: int

    def columns(self, names: Collection[str]) -> dict[str, ArrowArray]:
        """Return those of the columns `names` that can be derived, with the types of the contract."""
        return {
            name: as_column(derive(self), name) for name, derive in DERIVED.items() if name in names
        }


DERIVED: Mapping[str, Callable[[RowTokens], Values]] = {
    "target_ids": lambda rows: target_ids(rows.input_ids, rows.loss_mask, rows.pad_id),
    "doc_ids": lambda rows: rows.layout.doc_ids.reshape(rows.input_ids.shape),
    "valid_token_count": lambda rows: rows.layout.valid,
    "num_docs": lambda rows: rows.layout.num_docs,
    "loss_token_count": lambda rows: rows.loss_mask.sum(axis=1, dtype=np.int64),
    "attention_pairs": lambda rows: rows.layout.attention_pairs,
    "context_histogram": lambda rows: rows.layout.context_histogram(rows.loss_mask.reshape(-1)),
}
"""For each column that can be derived, the function that derives it, as [n] or [n, k]."""


def as_column(values: Values, name: str) -> ArrowArray:
    """Convert values [n] or [n, k] to the Arrow type of the column `name`."""
    kind = KNOWN[name]
    if pa.types.is_list(kind):
        counts = np.full(len(values), values.shape[1])
        return lists(pa.array(values.reshape(-1)), counts, kind.value_type)
    return pa.array(values, type=kind)


def row_schema(row_format: RowFormat, *, without: Collection[str], structured: bool) -> pa.Schema:
    """Return the schema of packed rows without the columns `without`; the row format is its metadata.

    `structured` adds the structure columns.
    """
    fields = [field for field in PACKED_ROW_SCHEMA if field.name not in without]
    fields += STRUCTURE_COLUMNS if structured else ()
    metadata: dict[bytes | str, bytes | str] = dict(row_format.metadata().items())
    return pa.schema(fields, metadata=metadata)


def lists(items: ArrowArray, counts: Int64s, kind: pa.DataType) -> ArrowArray:
    """Group consecutive items into lists; `counts` are the lengths of the lists."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    listed: ArrowArray = pa.ListArray.from_arrays(
        pa.array(offsets, type=pa.int32()), items, type=list_of(kind)
    )
    return listed


def same_type(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return True if two types are equal, apart from nullability and the names of list items."""
    if pa.types.is_list(expected):
        return pa.types.is_list(found) and same_type(found.value_type, expected.value_type)
    if pa.types.is_struct(expected):
        return pa.types.is_struct(found) and [(field.name, field.type) for field in found] == [
            (field.name, field.type) for field in expected
        ]
    return bool(found == expected)


def _as_bytes(array: Any) -> list[bytes]:
    texts = array if pa.types.is_string(array.type) else array.cast(pa.string())
    listed: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return listed


def _nulls(array: Any) -> int:
    nulls = int(array.null_count)
    if pa.types.is_list(array.type):
        nulls += _nulls(array.flatten())
    elif pa.types.is_struct(array.type):
        nulls += sum(_nulls(array.field(index)) for index in range(array.type.num_fields))
    return nulls
