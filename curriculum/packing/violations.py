"""Violations of the contract of rows, and the columns of a batch of rows as arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.layout import Int64s, Values
from schemas.errors import SchemaError
from schemas.packed_row import PACKED_ROW_SCHEMA, RowFormat
from schemas.structure import STRUCTURE_COLUMNS

CURE = "Rebuild with: curriculum build"


class Rule(Enum):
    """The invariants of the packed row by number; 0 is that a file can be read as rows at all."""

    FILE = 0
    SHAPE = 1
    BOUNDARIES = 2
    BOS = 3
    TARGETS = 4
    STRUCTURE = 5
    LOSS = 6
    COVERAGE = 7
    REPEATS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """One row that breaks one rule; `row` is None where a whole file does."""

    rule: Rule
    shard: str
    row: int | None
    found: str
    cause: str

    def error(self) -> SchemaError:
        """An exception that reads `row 17 of part-00003.parquet: doc_ids falls …; …. Rebuild with: …`."""
        name = self.shard if self.row is None else f"row {self.row} of {self.shard}"
        return SchemaError(name, self.found, cause=self.cause, cure=CURE)

    def __str__(self) -> str:
        return str(self.error())


@dataclass(kw_only=True, slots=True)
class Violations:
    """Counts all faults and keeps the first `limit` of them."""

    limit: int
    count: int = 0
    kept: list[Violation] = field(default_factory=list)

    def add(self, fault: Violation) -> None:
        """One fault more."""
        self.count += 1
        if len(self.kept) < self.limit:
            self.kept.append(fault)


@dataclass(kw_only=True, slots=True)
class BatchPosition:
    """Files faults of a batch of rows; `rows` are their numbers in the shard."""

    faults: Violations
    shard: str
    rows: npt.NDArray[np.int64]

    def only(self, rows: npt.NDArray[np.bool_]) -> "BatchPosition":
        """The rows where `rows` is true."""
        return BatchPosition(faults=self.faults, shard=self.shard, rows=self.rows[rows])

    def wrong(
        self,
        rule: Rule,
        rows: npt.NDArray[Any],
        cause: str,
        describe: Callable[[int], str],
    ) -> None:
        """Every row where `rows` is true breaks `rule`; describe(i) says what was found in the i-th."""
        for index in np.flatnonzero(rows).tolist():
            found = describe(index) if len(self.faults.kept) < self.faults.limit else ""
            self.faults.add(
                Violation(
                    rule=rule,
                    shard=self.shard,
                    row=int(self.rows[index]),
                    found=found,
                    cause=cause,
                )
            )

    def wrong_tokens(
        self,
        rule: Rule,
        tokens: npt.NDArray[np.bool_],
        cause: str,
        describe: Callable[[int, int], str],
    ) -> None:
        """Every row of `tokens` [n, T] with a true token breaks `rule`; describe(i, t) is of the first."""
        if not tokens.any():
            return
        first = tokens.argmax(axis=1)
        rows = tokens[np.arange(len(tokens)), first]
        self.wrong(rule, rows, cause, lambda i: describe(i, int(first[i])))


REQUIRED = ("input_ids", "loss_mask")
"""Without these nothing can be trained; everything else has a fill."""
KNOWN: dict[str, pa.DataType] = {
    **{field.name: field.type for field in PACKED_ROW_SCHEMA},
    **{field.name: field.type for field in STRUCTURE_COLUMNS},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """n rows of one shard, as stored."""

    row_format: RowFormat
    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

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
        """[n, T]; the lists must have T values."""
        return self.values(name).reshape(len(self), self.row_format.row_length)

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

    def only(self, rows: npt.NDArray[np.bool_]) -> "Columns":
        """The rows where `rows` is true; without a copy where all are."""
        if rows.all():
            return self
        return Columns(row_format=self.row_format, table=self.table.filter(pa.array(rows)))

    def array(self, name: str) -> Any:
        """The column as one Arrow array."""
        column = self.table[name]
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


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
