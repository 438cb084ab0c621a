"""Slots and rows in training order: exact quotas, shuffled by a seed; excluded rows are skipped.

Random numbers are raw 64-bit words of the Philox generator, which are the same in every release of numpy.
"""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.parquet as pq

from curriculum import frames
from curriculum.mixing.row_supply import KEY_DIGITS, Supply, pack_ids
from curriculum.mixing.strata import Stratum
from schemas.mixture import BLOCK_SLOTS, LEFT_OUT_NAME, LEFT_OUT_SCHEMA, LeftOutRows

Ints = npt.NDArray[np.int64]
LOCAL_ABOVE = 1 << 24
"""Number of row positions in a stratum above which its row order is local.

The rows of a smaller stratum all fit decoded into a loader's memory, so their order needn't be local.
"""
GROUP_POSITIONS = 1 << 16
"""Number of positions in a group of neighbouring rows, which are read together.

The value equals GROUP_TOKENS in packing/row_writer.py, the size of a row group. It is deliberately not
imported, because the bytes of plans must not change when the writer changes.
"""
WINDOW = 16
"""Number of row groups whose rows are shuffled together in a local order: about a million positions."""
_ONE = 1 << 32
"""One slot. Quotas are integers in units of 2⁻³² slot, so that no rounding error accumulates over a plan."""


def rates(weights: Sequence[float]) -> npt.NDArray[np.int64]:
    """Return the number of slots that each stratum gets per block, in units of 2⁻³² slot.

    The rates are proportional to `weights` and sum to a whole block.

    >>> (rates([2.0, 1.0, 1.0]) >> 32).tolist()
    [512, 256, 256]
    """
    whole = BLOCK_SLOTS * _ONE
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    floors = [math.floor(whole * weight / total) for weight in exact]
    left = whole - sum(floors)
    by_rest = sorted(range(len(floors)), key=lambda at: floors[at] - whole * exact[at] / total)
    for at in by_rest[:left]:
        floors[at] += 1
    return np.array(floors, dtype=np.int64)


def counts(block_rates: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the number of slots of each stratum, block after block, endlessly.

    The exact number of slots in a block has a fraction, so it is rounded down or up. The rounding error is
    carried into the next blocks. So over many blocks, the counts stay within one slot of exact (observed, not
    proved).
    """
    base, rest = np.divmod(block_rates, _ONE)
    extras = int(BLOCK_SLOTS - base.sum())
    owed = np.zeros_like(rest)
    while True:
        owed += rest
        chosen = np.argsort(-owed, kind="stable")[:extras]
        owed[chosen] -= _ONE
        count = base.copy()
        count[chosen] += 1
        yield count


def blocks(
    block_rates: npt.NDArray[np.int64], *, seed: int, groups: Sequence[int] | None = None
) -> Iterator[npt.NDArray[np.int32]]:
    """Yield the stratum of each slot, block after block, endlessly.

    `groups` gives the group of each stratum; by default each stratum is its own group. Within a block, the
    slots of a group are spread: the block is divided into as many equal intervals as the group has slots, and
    each interval gets one slot at a random position. The slots of the group's strata are spread over the
    group's slots in the same way. So every prefix of a plan is mixed in about the right proportions. In short
    prefixes, the proportions of groups are closer than those of strata.
    """
    group_of = np.arange(len(block_rates)) if groups is None else np.array(groups)
    names, group = np.unique(group_of, return_inverse=True)
    for number, count in enumerate(counts(block_rates)):
        strata = np.repeat(np.arange(len(count), dtype=np.int32), count)
        inside = _places(count, seed, "inside", number)
        strata = strata[np.lexsort((inside, group[strata]))]
        slots = np.bincount(group, weights=count, minlength=len(names)).astype(np.int64)
        yield strata[np.argsort(_places(slots, seed, "block", number), kind="stable")]


def _places(
    count: npt.NDArray[np.int64], seed: int, name: str, number: int
) -> npt.NDArray[np.float64]:
    """Return a random position in [0, 1) for each slot of a block.

    `count` is the number of slots of each group. The positions of a group come one after another, with one
    position in each of as many equal intervals as the group has slots.
    """
    stretch = np.arange(BLOCK_SLOTS) - np.repeat(np.cumsum(count) - count, count)
    jitter = (_words(BLOCK_SLOTS, seed, name, number) >> np.uint64(11)) * 2.0**-53
    return (stretch + jitter) / np.repeat(count, count)


@dataclass(frozen=True, kw_only=True, slots=True)
class SkippedRows:
    """Excluded rows that were skipped, in order."""

    variant: npt.NDArray[np.int32]
    index: npt.NDArray[np.int64]
    """Index of each skipped row among the rows of its variant."""
    before: npt.NDArray[np.int64]
    """For each skipped row, the index among the drawn rows of the row that was drawn instead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnRows:
    """Rows in the order in which they are drawn."""

    variant: npt.NDArray[np.int32]
    index: npt.NDArray[np.int64]
    """Index of each drawn row among the rows of its variant."""
    repetition: npt.NDArray[np.int32]
    """Number of complete passes before the pass that draws the row."""
    passed: SkippedRows
    """Excluded rows that were skipped while these rows were drawn."""


class RowOrder:
    """The rows of a stratum in training order, endlessly: pass after pass, each in a new random order.

    A pass reads all rows of one variant: of the variant with the fewest complete passes, and of these the
    first. So repetition r reads variant r mod n, where n is the number of variants. A plan that starts after
    `seen` rows of each variant continues where earlier plans ended, whichever variants they had.

    Rows that are `left_out` keep their positions in a pass and are skipped there, so that the order of the
    other rows doesn't change. `seen` counts skipped rows too.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        seed: int,
        names: Sequence[str],
        seen: Sequence[int],
        row_length: int = 1,
        left_out: Sequence[npt.NDArray[np.bool_] | None] = (),
    ) -> None:
        assert all(size > 0 for size in sizes)
        assert len(sizes) == len(names) == len(seen)
        self._sizes = np.array(sizes, dtype=np.int64)
        self._seen = np.array(seen, dtype=np.int64)
        self._names = names
        self._seed = seed
        self._row_length = row_length
        self._left_out = left_out or [None] * len(sizes)
        self._pass = (-1, -1)
        self._order: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def take(self, count: int) -> DrawnRows:
        """Return the next `count` rows that aren't left out."""
        parts: list[tuple[npt.NDArray[np.int32], Ints, npt.NDArray[np.int32]]] = []
        skipped: list[tuple[npt.NDArray[np.int32], Ints, Ints]] = []
        left = count
        while left:
            whole, offsets = np.divmod(self._seen, self._sizes)
            variant = int(np.argmin(whole))
            offset = int(offsets[variant])
            part = self._permutation(variant, int(whole[variant]))[offset : offset + left]
            self._seen[variant] += len(part)
            left_out = self._left_out[variant]
            is_taken = np.ones(len(part), np.bool_) if left_out is None else ~left_out[part]
            variants = np.full(len(part), variant, np.int32)
            repetition = np.full(int(is_taken.sum()), whole.sum(), np.int32)
            parts.append((variants[is_taken], part[is_taken], repetition))
            before = count - left + np.cumsum(is_taken)[~is_taken]
            skipped.append((variants[~is_taken], part[~is_taken], before))
            left -= len(repetition)
        variant_of, index, repetitions = map(np.concatenate, zip(*parts, strict=True))
        passed_variant, passed_index, next_drawn = map(np.concatenate, zip(*skipped, strict=True))
        return DrawnRows(
            variant=variant_of,
            index=index,
            repetition=repetitions,
            passed=SkippedRows(variant=passed_variant, index=passed_index, before=next_drawn),
        )

    def _permutation(self, variant: int, number: int) -> npt.NDArray[np.int64]:
        if (variant, number) != self._pass:
            self._order = pass_order(
                int(self._sizes[variant]),
                seed=self._seed,
                name=self._names[variant],
                number=number,
                row_length=self._row_length,
            )
            self._pass = (variant, number)
        return self._order


def pass_order(size: int, *, seed: int, name: str, number: int, row_length: int) -> Ints:
    """Return the order in which pass `number` reads `size` rows, [size].

    If the rows have more than LOCAL_ABOVE positions in total, the order is that of `local_order`.
    """
    words = _words(size, seed, name, number)
    if size * row_length > LOCAL_ABOVE:
        return local_order(words, max(GROUP_POSITIONS // row_length, 1), WINDOW)
    return np.argsort(words, kind="stable")


def local_order(words: npt.NDArray[np.uint64], group: int, window: int) -> npt.NDArray[np.int64]:
    """Return a random order in which nearby positions come from few groups of neighbouring rows.

    Rows are divided into groups of `group` neighbouring rows. The groups are shuffled, and each `window` of
    consecutive groups is shuffled row by row. Stored rows are in random order already, so the local order
    loses no randomness.

    `words` are random, one per row. For example, with words [5 2 8 1 3], groups of two rows and windows of
    one group, the groups begin with the words 5, 8 and 3. The group with the smallest first word, here the
    last one, comes first, and its window is sorted by words. The order is [4 1 0 3 2].
    """
    firsts = words[::group]
    place = np.empty(len(firsts), dtype=np.int64)
    place[np.argsort(firsts, kind="stable")] = np.arange(len(firsts))
    window_of = np.repeat(place // window, group)[: len(words)]
    return np.lexsort((words, window_of))


def _words(count: int, seed: int, name: str, number: int) -> npt.NDArray[np.uint64]:
    """Return `count` random 64-bit words that depend only on `seed`, `name` and `number`."""
    seeded = json.dumps([seed, name, number]).encode()
    key = int.from_bytes(hashlib.sha256(seeded).digest()[:16], "little")
    return np.random.Philox(key=key).random_raw(count)


LISTED = 20
"""Maximum number of excluded rows named in a report; a file next to the plan lists all of them."""
_NONE: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExcludedRows:
    """Excluded rows, each with the slot of the next row that was drawn instead."""

    slot: Ints
    stratum: Ints
    variant: Ints
    row: Ints

    @staticmethod
    def joined(parts: "Sequence[ExcludedRows]") -> "ExcludedRows":
        """Concatenate the excluded rows in `parts` and sort them by slot."""
        slot = np.concatenate([_NONE, *(part.slot for part in parts)])
        order = np.argsort(slot, kind="stable")
        return ExcludedRows(
            slot=slot[order],
            stratum=np.concatenate([_NONE, *(part.stratum for part in parts)])[order],
            variant=np.concatenate([_NONE, *(part.variant for part in parts)])[order],
            row=np.concatenate([_NONE, *(part.row for part in parts)])[order],
        )

    def between(self, first: int, last: int) -> "ExcludedRows":
        """Return the excluded rows of slot `first` and the later slots before slot `last`."""
        begin, end = np.searchsorted(self.slot, (first, last))
        return ExcludedRows(
            slot=self.slot[begin:end],
            stratum=self.stratum[begin:end],
            variant=self.variant[begin:end],
            row=self.row[begin:end],
        )


def skipped_rows_of(at: int, stratum: Stratum, drawn: DrawnRows, slots: Ints) -> ExcludedRows:
    """Return the excluded rows that were skipped while `drawn` was drawn from a stratum.

    `at` is the stratum's index, and `slots` are the slots of the drawn rows.
    """
    passed = drawn.passed
    row = np.empty(len(passed.index), dtype=np.int64)
    for number, variant in enumerate(stratum.variants):
        mine = passed.variant == number
        row[mine] = variant.rows[passed.index[mine]]
    return ExcludedRows(
        slot=slots[passed.before],
        stratum=np.full(len(row), at, dtype=np.int64),
        variant=passed.variant.astype(np.int64),
        row=row,
    )


def select_pack_ids(packs: Collection[str], keys: Iterable[str]) -> tuple[str, ...]:
    """Return those of the pack_ids `packs` that belong to the rows artefacts `keys`, sorted and distinct."""
    begins = tuple(f"{key[:KEY_DIGITS]}-" for key in keys)
    return tuple(sorted({pack for pack in packs if pack.startswith(begins)}))


def write_left_out(folder: Path, came: pl.DataFrame, supplies: Sequence[Sequence[Supply]]) -> None:
    """Write a table of all excluded rows into `folder`.

    `came` has one entry (pack_id, rows_key, stratum, slot) each time that a row was skipped. Each row that
    was never skipped because the plan ended before it gets one entry without a slot.
    """
    known = _named(supplies)
    never = known.join(came, on="pack_id", how="anti").sort("pack_id")
    table = pl.concat([came, never.select("pack_id", "rows_key")], how="diagonal")
    pq.write_table(table.to_arrow().cast(LEFT_OUT_SCHEMA), folder / LEFT_OUT_NAME)


def read_left_out(folder: Path) -> tuple[str, ...]:
    """Return the pack_ids that the plan in a folder excludes."""
    file = folder / LEFT_OUT_NAME
    if not file.is_file():
        return ()
    return tuple(frames.read(file, columns=["pack_id"])["pack_id"].unique().sort())


def count_skipped_until(folder: Path, slots: int) -> dict[tuple[int, str], int]:
    """Count the excluded rows skipped in the first `slots` slots of a plan, by (stratum, rows key)."""
    file = folder / LEFT_OUT_NAME
    if not file.is_file():
        return {}
    came = frames.read(file).filter(pl.col("slot") < slots)
    counts = came.group_by("stratum", "rows_key").len()
    return {(stratum, key): count for stratum, key, count in counts.iter_rows()}


def count_left_out(supplies: Sequence[Sequence[Supply]]) -> LeftOutRows | None:
    """Count the distinct rows that `supplies` exclude; None if there are none."""
    named = _named(supplies)
    if not named.height:
        return None
    return LeftOutRows(
        rows=named.height,
        tokens=int(named["valid_tokens"].sum()),
        first=tuple(named["pack_id"].sort().head(LISTED)),
    )


def _named(supplies: Sequence[Sequence[Supply]]) -> pl.DataFrame:
    """Return pack_id, rows_key and valid_tokens of all excluded rows."""
    named = []
    for supply in {supply.key: supply for variants in supplies for supply in variants}.values():
        excluded = _NONE if supply.left_out is None else np.flatnonzero(supply.left_out)
        keys = pl.repeat(supply.key, len(excluded), dtype=pl.String, eager=True)
        named.append(
            pl.DataFrame(
                {
                    "pack_id": pack_ids(keys, supply.pack_index[excluded]),
                    "rows_key": keys,
                    "valid_tokens": supply.valid_tokens[excluded].astype(np.int64),
                }
            )
        )
    return pl.concat(named)
