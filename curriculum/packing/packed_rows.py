"""Rows as arrays: n consecutive rows of one shard, as they are stored or derived.

Rows that others wrote may store neither target_ids nor doc_ids, nor doc_starts: these are derived where the
contract allows it. What is stored is trusted here; row_check.py is what doubts it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.boundaries import Int32s, Int64s, Layout, Values
from schemas.document import list_of
from schemas.errors import SchemaError
from schemas.packed_row import PACKED_ROW_SCHEMA, RowFormat
from schemas.structure import STRUCTURE_COLUMNS

ArrowArray: TypeAlias = "pa.Array[Any]"
REQUIRED = ("input_ids", "loss_mask")
"""Without these nothing can be trained; everything else has a fill."""
KNOWN: dict[str, pa.DataType] = {
    **{field.name: field.type for field in PACKED_ROW_SCHEMA},
    **{field.name: field.type for field in STRUCTURE_COLUMNS},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RowBatch:
    """n consecutive rows of one shard; arrays are views of the table wherever they are stored."""

    row_format: RowFormat
    table: pa.Table
    """The columns that were asked for."""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return int(self.table.nbytes)

    @property
    def input_ids(self) -> Int32s:
        """[n, T]."""
        return self.tokens("input_ids")

    @property
    def loss_mask(self) -> npt.NDArray[np.uint8]:
        """[n, T]."""
        return self.tokens("loss_mask")

    @property
    def target_ids(self) -> Int32s:
        """[n, T]; derived where the rows don't store it."""
        if self.has("target_ids"):
            return self.tokens("target_ids")
        return target_ids(self.input_ids, self.loss_mask, self.row_format.pad_id)

    @property
    def doc_ids(self) -> Int32s:
        """[n, T]; derived where the rows don't store it.

        Raises:
            SchemaError: where neither doc_starts nor a BOS says where documents begin, or where they end.
        """
        if self.has("doc_ids"):
            return self.tokens("doc_ids")
        self._require_inferable()
        valid = self.valid_counts()
        starts, edges = self.doc_starts(valid)
        layout = Layout.of(starts, np.diff(edges), valid, self.row_format.row_length)
        return layout.doc_ids.reshape(len(self), -1)

    def valid_counts(self) -> Int64s:
        """[n]: stored, or up to the last token that isn't PAD: [BOS a EOS BOS c PAD PAD] -> 5."""
        if self.has("valid_token_count"):
            return self.scalars("valid_token_count").astype(np.int64)
        tokens = self.tokens("input_ids") != self.row_format.pad_id
        last = self.row_format.row_length - tokens[:, ::-1].argmax(axis=1)
        return np.where(tokens.any(axis=1), last, 0).astype(np.int64)

    def doc_starts(self, valid: Int64s) -> tuple[Int64s, Int64s]:
        """First positions of documents end to end, and their edges by row, [n + 1].

        Stored; or where doc_ids changes among valid tokens; or where BOS is one of them:
        [BOS a EOS BOS c PAD PAD] -> [0 3], [0 2].
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
        """Refuse rows whose tokens don't say where documents begin and end, where nothing else does."""
        bos, eos, pad = self.row_format.bos_id, self.row_format.eos_id, self.row_format.pad_id
        if not self.has("valid_token_count") and eos == pad:
            raise SchemaError(
                "valid_token_count",
                f"eos_id and pad_id {pad}",
                cause="padding can't be told from a document's end where PAD == EOS",
                cure="Store valid_token_count in the rows",
            )
        if self.has("doc_starts"):
            return
        if bos is None or bos == pad:
            raise SchemaError(
                "doc_starts",
                f"bos_id {bos}, pad_id {pad}",
                cause="boundaries are inferred only from a BOS that differs from PAD",
                cure="Store doc_ids or doc_starts in the rows",
            )
        first = self.input_ids[:, 0]
        if (first != bos).any():
            raise SchemaError(
                "doc_starts",
                f"first token {first[first != bos][0]}",
                cause=f"boundaries are inferred only from rows that begin with BOS {bos}",
                cure="Store doc_ids or doc_starts in the rows",
            )

    def document_ids(self) -> list[list[str]]:
        """The documents of each row."""
        listed: list[list[str]] = self.array("document_ids").to_pylist()
        return listed

    def slice(self, row: int, rows: int = 1) -> "RowBatch":
        """Some of its rows, without a copy."""
        return RowBatch(row_format=self.row_format, table=self.table.slice(row, rows))

    def has(self, name: str) -> bool:
        """Return True if the rows store the column."""
        return name in self.table.column_names

    def scalars(self, name: str) -> Values:
        """[n]."""
        values: Values = self.array(name).to_numpy(zero_copy_only=False)
        return values

    def text(self, name: str) -> list[bytes]:
        """[n]: a column of strings or numbers, as bytes that need not be UTF-8."""
        return _as_bytes(self.array(name))

    def texts(self, name: str) -> list[bytes]:
        """The strings of all lists end to end, as bytes."""
        return _as_bytes(self.items(name))

    def offsets(self, name: str) -> Int64s:
        """[n + 1]: edges of the lists in `items`, from 0."""
        offsets: Int64s = self.array(name).offsets.to_numpy().astype(np.int64)
        offsets -= offsets[0]
        return offsets

    def items(self, name: str) -> Any:
        """The items of all lists end to end, as an Arrow array."""
        return self.array(name).flatten()

    def values(self, name: str) -> Values:
        """The numbers of all lists end to end."""
        values: Values = self.items(name).to_numpy()
        return values

    def tokens(self, name: str) -> Values:
        """[n, T]: a column of a value a token.

        Raises:
            SchemaError: where the lists don't have T values.
        """
        values, length = self.values(name), self.row_format.row_length
        if len(values) != len(self) * length:
            raise SchemaError(
                name,
                f"{len(values)} values in {len(self)} rows",
                cause=f"each row has {length}",
                cure="Run `curriculum check` on the rows",
            )
        return values.reshape(len(self), length)

    def fields(self, name: str) -> dict[str, npt.NDArray[np.int64]]:
        """The fields of all structs end to end."""
        items = self.items(name)
        return {
            field.name: items.field(index).to_numpy().astype(np.int64)
            for index, field in enumerate(items.type)
        }

    def nulls(self) -> npt.NDArray[np.bool_]:
        """[n]: rows with a null in a column, in its lists or in their structs."""
        arrays = [self.array(name) for name in self.table.column_names]
        found = np.zeros(len(self), dtype=np.bool_)
        for array in arrays:
            if _nulls(array):
                found |= [_nulls(array.slice(row, 1)) > 0 for row in range(len(self))]
        return found

    def only(self, rows: npt.NDArray[np.bool_]) -> "RowBatch":
        """The rows where `rows` is true; without a copy where all are."""
        if rows.all():
            return self
        return RowBatch(row_format=self.row_format, table=self.table.filter(pa.array(rows)))

    def array(self, name: str) -> Any:
        """The column as one Arrow array."""
        column = self.table[name]
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def target_ids(input_ids: Int32s, loss_mask: npt.NDArray[np.uint8], pad_id: int) -> Int32s:
    """The token after each, pad_id where it doesn't count: [5 6 7 8] masked [1 0 1 0] -> [6 P 8 P].

    Any number of rows, as [n, T] or end to end. The shift reads past each row's end; it can't be seen,
    because the mask is 0 at the last token of every document, and so at the last of every row.
    """
    targets = np.empty_like(input_ids)
    flat = targets.reshape(-1)
    flat[:-1] = input_ids.reshape(-1)[1:]
    flat[-1:] = pad_id
    np.putmask(targets, loss_mask == 0, pad_id)
    return targets


@dataclass(frozen=True, kw_only=True, slots=True)
class RowTokens:
    """Boundaries, tokens and mask of n rows, which determine most of their other columns."""

    layout: Layout
    input_ids: Int32s
    """[n, T]"""
    loss_mask: npt.NDArray[np.uint8]
    """[n, T]"""
    pad_id: int

    def columns(self, names: Collection[str]) -> dict[str, ArrowArray]:
        """The derived columns among `names`, as the contract stores them."""
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
"""Columns [n] or [n, k] by name."""


def as_column(values: Values, name: str) -> ArrowArray:
    """Values [n] or [n, k] as the contract's column of that name."""
    kind = KNOWN[name]
    if pa.types.is_list(kind):
        counts = np.full(len(values), values.shape[1])
        return lists(pa.array(values.reshape(-1)), counts, kind.value_type)
    return pa.array(values, type=kind)


def row_schema(row_format: RowFormat, *, without: Collection[str], structured: bool) -> pa.Schema:
    """The contract's columns but for those left out, with the format as metadata."""
    fields = [field for field in PACKED_ROW_SCHEMA if field.name not in without]
    fields += STRUCTURE_COLUMNS if structured else ()
    metadata: dict[bytes | str, bytes | str] = dict(row_format.metadata().items())
    return pa.schema(fields, metadata=metadata)


def lists(items: ArrowArray, counts: Int64s, kind: pa.DataType) -> ArrowArray:
    """Items end to end as lists of `counts` items each."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    listed: ArrowArray = pa.ListArray.from_arrays(
        pa.array(offsets, type=pa.int32()), items, type=list_of(kind)
    )
    return listed


def same_type(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return True if values are of the same type, apart from nulls and the names of list items."""
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
