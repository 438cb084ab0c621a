"""Plan of a phase: the rows of all whole steps within the budget, slot by slot in training order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_supply import Supply, pack_ids
from curriculum.mixing.schedule import (
    DrawnRows,
    ExcludedRows,
    RowOrder,
    blocks,
    rates,
    skipped_rows_of,
    write_left_out,
)
from curriculum.mixing.strata import Stratum
from schemas.errors import MixtureError
from schemas.mixture import BLOCK_SLOTS, PLAN_SCHEMA

ROW_GROUP = 1 << 15
"""Approximate number of rows per row group.

A reader that starts at any position decodes one or two groups.
"""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Totals of a plan; each array has one element per stratum."""

    slots: int
    rows: int
    tokens: int
    whole: "WholeSteps"
    slots_of: Ints
    rows_of: tuple[Ints, ...]
    """Number of drawn rows of each variant, by stratum."""
    passed_of: tuple[Ints, ...]
    """Number of skipped rows of each variant, by stratum; rows are skipped if they are excluded."""
    tokens_of: Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeSteps:
    """Count of the whole steps of a plan that fit its budget."""

    steps: int = 0
    tokens: int = 0
    """Valid tokens in the whole steps."""
    first: int = 0
    """Valid tokens of the first step, even if it exceeds the budget; a phase needs at least so many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Part of a plan: consecutive slots, with one array element per row."""

    slot: Ints
    stratum: Ints
    variant: npt.NDArray[np.int32]
    """Index of the row's variant among the variants of its stratum."""
    row: Ints
    """Number of the row in its variant's supply."""
    repetition: npt.NDArray[np.int32]
    valid_tokens: npt.NDArray[np.int32]
    passed: ExcludedRows

    def between(self, first: int, last: int) -> "Piece":
        """Return the rows of slot `first` and the later slots before slot `last`."""
        begin, end = np.searchsorted(self.slot, (first, last))
        return Piece(
            slot=self.slot[begin:end],
            stratum=self.stratum[begin:end],
            variant=self.variant[begin:end],
            row=self.row[begin:end],
            repetition=self.repetition[begin:end],
            valid_tokens=self.valid_tokens[begin:end],
            passed=self.passed.between(first, last),
        )

    def then(self, other: "Piece") -> "Piece":
        """Return the rows of this piece followed by those of `other`, which has the next slots."""
        return Piece(
            slot=np.concatenate([self.slot, other.slot]),
            stratum=np.concatenate([self.stratum, other.stratum]),
            variant=np.concatenate([self.variant, other.variant]),
            row=np.concatenate([self.row, other.row]),
            repetition=np.concatenate([self.repetition, other.repetition]),
            valid_tokens=np.concatenate([self.valid_tokens, other.valid_tokens]),
            passed=ExcludedRows.joined([self.passed, other.passed]),
        )


class Planner:
    """Planner that draws the rows of a phase, slot by slot.

    The rows depend only on strata, supplies and seed. Memory is 30 bytes per row of the supplies, plus one
    permutation per stratum (8 bytes per row).
    """

    def __init__(
        self,
        strata: Sequence[Stratum],
        supplies: Sequence[Sequence[Supply]],
        *,
        slot_length: int,
        seed: int,
    ) -> None:
        self._strata = strata
        self._supplies = supplies
        self._rows_per_slot = np.array(
            [slot_length // stratum.serving.row_length for stratum in strata], dtype=np.int64
        )
        self._orders = [
            RowOrder(
                [len(variant.rows) for variant in stratum.variants],
                seed=seed,
                names=[f"{variant.key} {stratum.domain}" for variant in stratum.variants],
                seen=[variant.drawn_before for variant in stratum.variants],
                row_length=stratum.serving.row_length,
                left_out=[variant.left_out for variant in stratum.variants],
            )
            for stratum in strata
        ]
        weights = [stratum.served * stratum.slots_per_token(slot_length) for stratum in strata]
        servings = [stratum.serving.index for stratum in strata]
        self._blocks = blocks(rates(weights), seed=seed, groups=servings)

    def pieces(self, most_rows: int = ROW_GROUP) -> Iterator[Piece]:
        """Yield pieces of about `most_rows` rows, endlessly.

        `most_rows` doesn't change which rows come in which order. The plan for a larger budget begins with
        the same rows.
        """
        at_once = max(1, most_rows // (BLOCK_SLOTS * int(self._rows_per_slot.max())))
        start = 0
        while True:
            slots = np.concatenate([next(self._blocks) for _ in range(at_once)])
            yield self._piece(slots.astype(np.int64), start)
            start += len(slots)

    def _piece(self, strata: Ints, start: int) -> Piece:
        counts = self._rows_per_slot[strata]
        stratum = np.repeat(strata, counts)
        row = np.empty(len(stratum), dtype=np.int64)
        variant, repetition, valid_tokens = (
            np.empty(len(stratum), dtype=np.int32) for _ in range(3)
        )
        slot = np.repeat(np.arange(start, start + len(strata)), counts)
        passed: list[ExcludedRows] = []
        by_stratum = np.argsort(stratum, kind="stable")
        ends = np.cumsum(np.bincount(stratum, minlength=len(self._strata)))
        for at, places in enumerate(np.split(by_stratum, ends[:-1])):
            if len(places):
                drawn = self._orders[at].take(len(places))
                variant[places], repetition[places] = drawn.variant, drawn.repetition
                row[places], valid_tokens[places] = self._rows(self._strata[at], drawn)
                if len(drawn.passed.index):
                    passed.append(skipped_rows_of(at, self._strata[at], drawn, slot[places]))
        return Piece(
            slot=slot,
            stratum=stratum,
            variant=variant,
            row=row,
            repetition=repetition,
            valid_tokens=valid_tokens,
            passed=ExcludedRows.joined(passed),
        )

    def _rows(self, stratum: Stratum, drawn: DrawnRows) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Return the row numbers of drawn rows in their supplies, and the valid tokens of these rows."""
        rows = np.empty(len(drawn.index), dtype=np.int64)
        valid_tokens = np.empty(len(rows), dtype=np.int32)
        only = len(stratum.variants) == 1
        for at, variant in enumerate(stratum.variants):
            mine = slice(None) if only else drawn.variant == at
            rows[mine] = variant.rows[drawn.index[mine]]
            supply = self._supplies[stratum.serving.index][variant.number]
            valid_tokens[mine] = supply.valid_tokens[rows[mine]]
        return rows, valid_tokens


def take_whole_steps(
    pieces: Iterator[Piece], *, budget: int, slots_per_step: int, max_steps: int | None = None
) -> Iterator[tuple[Piece, WholeSteps]]:
    """Yield the rows of all whole steps within the budget, piece by piece, with the number of steps so far.

    The plan ends before the first step with which the valid tokens would exceed `budget`. If `max_steps` is
    given, it replaces the budget. Rows after the last whole step of a piece come with the next piece, so that
    a piece may be empty.
    """
    whole, held = WholeSteps(), None
    for piece in pieces:
        held = piece if held is None else held.then(piece)
        start = int(held.slot[0])
        by_slot = np.bincount(held.slot - start, weights=held.valid_tokens).astype(np.int64)
        sums = whole.tokens + np.cumsum(by_slot)
        ends = np.flatnonzero((np.arange(start, start + len(sums)) + 1) % slots_per_step == 0)
        is_within = sums[ends] <= budget
        if max_steps is not None:
            is_within = whole.steps + np.arange(len(ends)) < max_steps
        inside = ends[is_within]
        whole = WholeSteps(
            steps=whole.steps + len(inside),
            tokens=int(sums[inside[-1]]) if len(inside) else whole.tokens,
            first=whole.first or (int(sums[ends[0]]) if len(ends) else 0),
        )
        end = start + int(inside[-1]) + 1 if len(inside) else start
        yield held.between(start, end), whole
        is_done = whole.tokens == budget if max_steps is None else whole.steps == max_steps
        if is_done or len(inside) < len(ends):
            return
        held = held.between(end, start + len(sums))


def count_plan(
    pieces: Iterator[tuple[Piece, WholeSteps]],
    strata: Sequence[Stratum],
    supplies: Sequence[Sequence[Supply]],
) -> Totals:
    """Compute the totals of a plan without writing it; memory doesn't grow with the plan's length."""
    lanes, counts = _Lanes(strata, supplies), _Counts(strata)
    for piece, whole in pieces:
        counts.add(piece, lanes, whole)
    return counts.totals(lanes)


def write_plan(
    file: Path,
    pieces: Iterator[tuple[Piece, WholeSteps]],
    strata: Sequence[Stratum],
    supplies: Sequence[Sequence[Supply]],
) -> Totals:
    """Write a plan in row groups and return its totals; memory doesn't grow with the plan's length."""
    lanes, counts = _Lanes(strata, supplies), _Counts(strata)
    passed: list[ExcludedRows] = []
    with _writer(file) as writer:
        for piece, whole in pieces:
            if len(piece.slot):
                table = _table(piece, counts.rows, strata, lanes)
                writer.write_table(table, row_group_size=len(table))
            counts.add(piece, lanes, whole)
            passed.append(piece.passed)
    if any(supply.left_out is not None for variants in supplies for supply in variants):
        write_left_out(file.parent, lanes.named(ExcludedRows.joined(passed)), supplies)
    return counts.totals(lanes)


class _Counts:
    """Running totals of a plan."""

    def __init__(self, strata: Sequence[Stratum]) -> None:
        lanes = sum(len(stratum.variants) for stratum in strata)
        self._slots, self._tokens = (np.zeros(len(strata), dtype=np.int64) for _ in range(2))
        self._rows, self._passed = (np.zeros(lanes, dtype=np.int64) for _ in range(2))
        self._whole = WholeSteps()
        self.rows = 0

    def add(self, piece: Piece, lanes: "_Lanes", whole: WholeSteps) -> None:
        """Add the rows of `piece`, which has the next slots of the plan."""
        first_rows = np.flatnonzero(np.diff(piece.slot, prepend=-1))
        self._slots += np.bincount(piece.stratum[first_rows], minlength=len(self._slots))
        self._rows += np.bincount(lanes.of(piece), minlength=len(self._rows))
        self._passed += np.bincount(lanes.of(piece.passed), minlength=len(self._passed))
        self._tokens += np.bincount(
            piece.stratum, weights=piece.valid_tokens, minlength=len(self._tokens)
        ).astype(np.int64)
        self.rows += len(piece.row)
        self._whole = whole

    def totals(self, lanes: "_Lanes") -> Totals:
        """Return the totals so far."""
        return Totals(
            slots=int(self._slots.sum()),
            rows=self.rows,
            tokens=int(self._tokens.sum()),
            whole=self._whole,
            slots_of=self._slots,
            rows_of=tuple(np.split(self._rows, lanes.starts[1:])),
            passed_of=tuple(np.split(self._passed, lanes.starts[1:])),
            tokens_of=self._tokens,
        )


def check_step(phase: ResolvedPhase, tokens_per_step: int) -> None:
    """Raise unless a step of `tokens_per_step` row positions is a whole number of the phase's slots.

    Raises:
        MixtureError: naming the phase and a valid multiple.
    """
    if tokens_per_step % phase.slot_length:
        raise MixtureError(
            f"phase {phase.name}",
            f"tokens_per_step = {tokens_per_step}",
            cause=f"a step must be a whole number of slots of {phase.slot_length} row positions",
            cure=f"Choose a multiple of {phase.slot_length}, the same in every phase",
            location=phase.location,
        )


def less_than_a_step(
    phase: ResolvedPhase, first: int, *, tokens_per_step: int, cure: str | None = None
) -> MixtureError:
    """Return the error for a phase with fewer tokens than its first step; `first` is what the step needs."""
    usual = f"Raise token_budget until {phase.name} has {first:,} tokens, or lower tokens_per_step"
    return MixtureError(
        f"phase {phase.name}",
        f"{phase.tokens:,} tokens",
        cause=f"one step takes {first:,} tokens, in {tokens_per_step:,} row positions",
        cure=cure or usual,
        location=phase.location,
    )


def _writer(file: Path) -> pq.ParquetWriter:
    columns = [
        "serving",
        "stratum",
        "row_length",
        "rows_key",
        "shard",
        "repetition",
        "valid_tokens",
    ]
    return pq.ParquetWriter(
        file,
        PLAN_SCHEMA,
        compression="zstd",
        compression_level=1,
        use_dictionary=columns,  # type: ignore[arg-type]
        column_encoding={
            "position": "DELTA_BINARY_PACKED",
            "slot": "DELTA_BINARY_PACKED",
            "attention_pairs": "DELTA_BINARY_PACKED",
            "pack_id": "DELTA_BYTE_ARRAY",
        },
    )


class _Lanes:
    """Numbering of all variants of all strata: strata with 1, 3 and 1 variants begin at 0, 1 and 4."""

    def __init__(self, strata: Sequence[Stratum], supplies: Sequence[Sequence[Supply]]) -> None:
        lanes = [(stratum, variant) for stratum in strata for variant in stratum.variants]
        counts = [len(stratum.variants) for stratum in strata]
        self.starts = np.cumsum([0, *counts[:-1]], dtype=np.int64)
        self.keys = pl.Series([variant.key for _, variant in lanes], dtype=pl.String)
        self.supplies = [
            supplies[stratum.serving.index][variant.number] for stratum, variant in lanes
        ]

    def of(self, piece: Piece | ExcludedRows) -> Ints:
        """Return the number of the lane (the variant of a stratum) of each row of `piece`."""
        return self.starts[piece.stratum] + piece.variant

    def named(self, passed: ExcludedRows) -> pl.DataFrame:
        """Return pack_id, rows_key, stratum and slot of the skipped rows `passed`."""
        lane = self.of(passed)
        keys = self.keys.gather(lane)
        return pl.DataFrame(
            {
                "pack_id": pack_ids(keys, _places(passed.row, lane, self.supplies).pack),
                "rows_key": keys,
                "stratum": passed.stratum.astype(np.int32),
                "slot": passed.slot,
            }
        )


def _table(piece: Piece, position: int, strata: Sequence[Stratum], lanes: _Lanes) -> pa.Table:
    serving = np.array([stratum.serving.index for stratum in strata], dtype=np.int32)
    length = np.array([stratum.serving.row_length for stratum in strata], dtype=np.int32)
    lane = lanes.of(piece)
    places = _places(piece.row, lane, lanes.supplies)
    keys = lanes.keys.gather(lane)
    columns = {
        "position": np.arange(position, position + len(piece.row)),
        "slot": piece.slot,
        "serving": serving[piece.stratum],
        "stratum": piece.stratum.astype(np.int32),
        "row_length": length[piece.stratum],
        "rows_key": keys.to_arrow().cast(pa.string()),
        "shard": places.shard,
        "row": places.row,
        "pack_id": pack_ids(keys, places.pack).to_arrow().cast(pa.string()),
        "repetition": piece.repetition,
        "valid_tokens": piece.valid_tokens,
        "attention_pairs": places.attention_pairs,
    }
    return pa.table(columns, schema=PLAN_SCHEMA)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Places:
    """Places of rows in their files and their numbers of attention pairs; all arrays are [n]."""

    shard: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]
    """Number of the row in its shard."""
    pack: Ints
    """Pack index of the row, which is the number at the end of its pack_id."""
    attention_pairs: Ints


def _places(rows: Ints, lane: Ints, supplies: Sequence[Supply]) -> _Places:
    shard, row_in_shard = (np.empty(len(rows), dtype=np.int32) for _ in range(2))
    pack, pairs = (np.empty(len(rows), dtype=np.int64) for _ in range(2))
    for at, supply in enumerate(supplies):
        mine = np.flatnonzero(lane == at)
        number = rows[mine]
        shard[mine] = np.searchsorted(supply.shard_starts, number, side="right") - 1
        row_in_shard[mine] = number - supply.shard_starts[shard[mine]]
        pack[mine] = supply.pack_index[number]
        pairs[mine] = supply.attention_pairs[number]
    return _Places(shard=shard, row=row_in_shard, pack=pack, attention_pairs=pairs)
