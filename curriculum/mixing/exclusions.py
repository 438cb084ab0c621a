"""Rows that a plan must not hold: passed over where their turn is, and listed beside the plan."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.parquet as pq

from curriculum import frames
from curriculum.mixing.demand import Stratum
from curriculum.mixing.schedule import DrawnRows
from curriculum.mixing.supply import KEY_DIGITS, Supply, pack_ids
from schemas.mixture import LEFT_OUT_NAME, LEFT_OUT_SCHEMA, LeftOut

Ints = npt.NDArray[np.int64]
LISTED = 20
"""Rows that a report names; the file beside the plan has all."""
_NONE: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExcludedRows:
    """Rows that are left out, where they would have stood: each in the slot of the one taken next."""

    slot: Ints
    stratum: Ints
    variant: Ints
    row: Ints

    @staticmethod
    def joined(parts: "Sequence[ExcludedRows]") -> "ExcludedRows":
        """Several as one, by slot."""
        slot = np.concatenate([_NONE, *(each.slot for each in parts)])
        order = np.argsort(slot, kind="stable")
        return ExcludedRows(
            slot=slot[order],
            stratum=np.concatenate([_NONE, *(each.stratum for each in parts)])[order],
            variant=np.concatenate([_NONE, *(each.variant for each in parts)])[order],
            row=np.concatenate([_NONE, *(each.row for each in parts)])[order],
        )

    def until(self, slot: int) -> "ExcludedRows":
        """Return those before a slot."""
        end = int(np.searchsorted(self.slot, slot))
        return ExcludedRows(
            slot=self.slot[:end],
            stratum=self.stratum[:end],
            variant=self.variant[:end],
            row=self.row[:end],
        )


def passed_over(at: int, stratum: Stratum, drawn: DrawnRows, slots: Ints) -> ExcludedRows:
    """Return the rows that were skipped between the rows of a stratum in these slots."""
    gone = drawn.passed
    row = np.empty(len(gone.index), dtype=np.int64)
    for number, variant in enumerate(stratum.variants):
        mine = gone.variant == number
        row[mine] = variant.rows[gone.index[mine]]
    return ExcludedRows(
        slot=slots[gone.before],
        stratum=np.full(len(row), at, dtype=np.int64),
        variant=gone.variant.astype(np.int64),
        row=row,
    )


def of_keys(packs: Collection[str], keys: Iterable[str]) -> tuple[str, ...]:
    """Return the pack_ids that begin as these rows keys do, sorted, each once."""
    begins = tuple(f"{each[:KEY_DIGITS]}-" for each in keys)
    return tuple(sorted({each for each in packs if each.startswith(begins)}))


def write_left_out(folder: Path, came: pl.DataFrame, supplies: Sequence[Sequence[Supply]]) -> None:
    """Each row that is left out: once for every time it came, or once without a slot if it never did.

    `came` has pack_id, rows_key, stratum and slot.
    """
    known = _named(supplies)
    never = known.join(came, on="pack_id", how="anti").sort("pack_id")
    table = pl.concat([came, never.select("pack_id", "rows_key")], how="diagonal")
    pq.write_table(table.to_arrow().cast(LEFT_OUT_SCHEMA), folder / LEFT_OUT_NAME)


def read_left_out(folder: Path) -> tuple[str, ...]:
    """The pack_ids that the plan in a folder leaves out."""
    file = folder / LEFT_OUT_NAME
    if not file.is_file():
        return ()
    return tuple(frames.read(file, columns=["pack_id"])["pack_id"].unique().sort())


def passed_until(folder: Path, slots: int) -> dict[tuple[int, str], int]:
    """Count the excluded rows whose turn it was in a plan's first slots, by (stratum, rows key)."""
    file = folder / LEFT_OUT_NAME
    if not file.is_file():
        return {}
    came = frames.read(file).filter(pl.col("slot") < slots)
    counts = came.group_by("stratum", "rows_key").len()
    return {(stratum, key): count for stratum, key, count in counts.iter_rows()}


def counted(supplies: Sequence[Sequence[Supply]]) -> LeftOut | None:
    """Count the rows that are excluded from supplies, each of which counts once; None where nothing is."""
    named = _named(supplies)
    if not named.height:
        return None
    return LeftOut(
        rows=named.height,
        tokens=int(named["valid_tokens"].sum()),
        first=tuple(named["pack_id"].sort().head(LISTED)),
    )


def _named(supplies: Sequence[Sequence[Supply]]) -> pl.DataFrame:
    """pack_id, rows_key and valid_tokens of all rows that are left out."""
    every = {supply.key: supply for variants in supplies for supply in variants}
    return pl.concat([_rows(each) for each in every.values()])


def _rows(supply: Supply) -> pl.DataFrame:
    gone = _NONE if supply.left_out is None else np.flatnonzero(supply.left_out)
    keys = pl.repeat(supply.key, len(gone), dtype=pl.String, eager=True)
    return pl.DataFrame(
        {
            "pack_id": pack_ids(keys, supply.pack_index[gone]),
            "rows_key": keys,
            "valid_tokens": supply.valid_tokens[gone].astype(np.int64),
        }
    )
