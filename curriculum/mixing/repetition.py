"""Repetition of tokens in the rows that plans draw: scored tokens ÷ distinct tokens.

Distinct tokens are counted with hashed windows of tokens, stored next to the rows (schemas/windows.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import frames
from curriculum.mixing.row_supply import INDEX_DIGITS, Supply, read_supply
from curriculum.mixing.schedule import pass_order
from curriculum.mixing.strata import Taken
from curriculum.store import Artefact
from schemas.mixture import TokenRepetition
from schemas.reports import RowsReport, WindowsReport
from schemas.windows import WINDOWS_NAME

Ints = npt.NDArray[np.int64]
MAX_COUNTED = 1 << 22
"""Maximum number of windows that are counted; of more windows, only those with small hashes are counted."""
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenCount:
    """Scored tokens of rows, and the number of distinct ones among them."""

    scored: int
    distinct: int

    @property
    def repetition(self) -> float:
        """Average number of times that a distinct token is scored."""
        return self.scored / max(self.distinct, 1)


class ReadTokens:
    """Counter of the scored and distinct tokens in any number of rows that plans draw from artefacts.

    For each artefact and domain, the seed fixes the order in which plans draw rows, and each plan continues
    where the previous one ended. So the number of drawn rows says which rows were drawn. Distinct tokens are
    counted by windows of tokens, of which roughly MAX_COUNTED are counted at most. Memory is 24 bytes per row
    and per counted window.
    """

    def __init__(self, rows: Iterable[Artefact], *, seed: int, without: Sequence[str] = ()) -> None:
        artefacts = {artefact.key: artefact for artefact in rows}
        self._halvings = _halvings(
            [artefact.reported(RowsReport).windows for artefact in artefacts.values()]
        )
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._windows = pl.concat(
            [_NOTHING, *(self._read(artefact, seed, without) for artefact in artefacts.values())]
        )

    def count(self, taken: Taken) -> TokenCount:
        """Count the tokens of drawn rows; `taken` is the number of rows per artefact and domain."""
        scored = sum(lane.scored_until(taken.get(place, 0)) for place, lane in self._lanes.items())
        until = np.array([taken.get(place, 0) for place in self._lanes], dtype=np.int64)
        read = self._windows.filter(pl.col("position") < until[self._windows["lane"].to_numpy()])
        return TokenCount(scored=scored, distinct=read["hash"].n_unique() << self._halvings)

    def _read(self, artefact: Artefact, seed: int, without: Sequence[str]) -> pl.DataFrame:
        """Return the windows of an artefact, each with its row's lane and its row's position in the lane."""
        supply = read_supply(artefact.shards(), key=artefact.key, without=without)
        if not supply.rows:
            return _NOTHING
        scored = _scored(artefact, supply)
        lane_of, position_of = (np.zeros(supply.rows, dtype=np.int64) for _ in range(2))
        for domain in supply.domains:
            lane = _Lane(
                rows=supply.rows_of(domain),
                scored=scored,
                seed=seed,
                name=f"{artefact.key} {domain}",
                row_length=int(artefact.manifest.labels["row_length"]),
            )
            lane_of[lane.rows] = len(self._lanes)
            position_of[lane.order(0)] = np.arange(len(lane.rows))
            self._lanes[artefact.key, domain] = lane
        if supply.left_out is not None:
            position_of[supply.left_out] = _NEVER
        windows = frames.read(artefact.path / WINDOWS_NAME, ["pack_id", "hash"])
        if self._halvings:
            windows = windows.filter(pl.col("hash") < 1 << (64 - self._halvings))
        packs = windows["pack_id"].str.tail(INDEX_DIGITS).cast(pl.Int64).to_numpy()
        by_pack = np.argsort(supply.pack_index)
        row = by_pack[np.searchsorted(supply.pack_index, packs, sorter=by_pack)]
        return pl.DataFrame(
            {"lane": lane_of[row], "position": position_of[row], "hash": windows["hash"]}
        )


def repetition_warning(found: TokenRepetition) -> str | None:
    """Return a warning if tokens are scored more often than the diet allows, else None."""
    if found.repetition <= found.limit:
        return None
    return (
        f"each distinct token is scored {found.repetition:.1f} times over this phase and those before it "
        f"({found.scored:,} scored, {found.distinct:,} distinct); max_token_repetition is {found.limit:g}. "
        "Lower token_budget, drop a serving that shows the same text, or enlarge the corpus"
    )


_NOTHING = pl.DataFrame(schema={"lane": pl.Int64, "position": pl.Int64, "hash": pl.UInt64})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lane:
    """The rows of one artefact in one domain."""

    rows: Ints
    """Numbers of the lane's rows in their supply."""
    scored: Ints
    """Scored tokens of every row of the supply, including other lanes."""
    seed: int
    name: str
    row_length: int

    def order(self, number: int) -> Ints:
        """Return the rows in the order in which pass `number` reads them."""
        return self.rows[
            pass_order(
                len(self.rows),
                seed=self.seed,
                name=self.name,
                number=number,
                row_length=self.row_length,
            )
        ]

    def scored_until(self, count: int) -> int:
        """Return the scored tokens of the first `count` rows, read in as many passes as needed."""
        passes, rest = divmod(count, len(self.rows))
        whole = passes * int(self.scored[self.rows].sum())
        return whole + (int(self.scored[self.order(passes)[:rest]].sum()) if rest else 0)


def _halvings(reports: Sequence[WindowsReport]) -> int:
    """Return how often the range of counted hashes must be halved.

    After so many halvings, at most MAX_COUNTED windows are counted. The windows of each artefact were stored
    after a number of halvings, so the result is at least the highest of these numbers.
    """
    lowest = max((report.halvings for report in reports), default=0)
    kept = sum(report.kept >> (lowest - report.halvings) for report in reports)
    return lowest + max(0, (kept - 1) // MAX_COUNTED).bit_length()


def _scored(artefact: Artefact, supply: Supply) -> Ints:
    """Return the scored tokens of each row of `supply`; 0 for excluded rows."""
    scored = pl.concat(frames.read(file, ["loss_token_count"]) for file in artefact.shards())
    found = scored["loss_token_count"].cast(pl.Int64).to_numpy().copy()
    if supply.left_out is not None:
        found[supply.left_out] = 0
    return found
