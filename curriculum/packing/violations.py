"""Violations of the contract of rows: the rule, the place, the value, the reason."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.errors import SchemaError

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
