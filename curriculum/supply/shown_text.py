"""Lines that a sample shows, and which of them the whole history shows for the first time.

Files: the sample has the text of each file before its changes, and the log says how many earlier documents
of the file the sample lacks. A line of that text is known as likely as one of them shows it.

Graphs: any commit may show any function. The lines that one and that two of the sampled commits show tell
how many lines of the others no sampled commit shows: the estimator Chao2, extrapolated to all commits.
Colwell et al., Models and estimators linking individual-based and sample-based rarefaction, 2012.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum.encode import FitResult
from curriculum.objectives.new_lines import FirstShowings, ShownLines
from curriculum.tokens.encoding import byte_ranges

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Change = tuple[str, str]
"""A commit and the lineage of the file that it changed."""
NO_LINES = ShownLines(ranges=np.empty((0, 2), dtype=np.int32), keys=np.empty(0, dtype=np.uint64))

LINES_SCHEMA = pl.Schema({"unit": pl.String, "key": pl.UInt64, "tokens": pl.Int64})
"""Columns by commit and line that its documents show: key of the line, and tokens that are scored in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierVersions:
    """State of files before sampled changes: earlier documents of them, and their text."""

    again: frozenset[Change] = frozenset()
    """Changes of a file that some earlier document shows."""
    unread: Mapping[Change, int] = field(default_factory=dict)
    """Earlier documents of the file that the sample lacks."""
    lines: Mapping[Change, UInt64s] = field(default_factory=dict)
    """Lines of the file before the change."""

    def known(self, change: Change, shown: UInt64s) -> UInt64s:
        """Return the lines that unread documents show, where they show as much of the file as this one does.

        >>> lines = np.array([1, 1 << 62, 1 << 63], dtype=np.uint64)
        >>> earlier = EarlierVersions(unread={("c", "f"): 1}, lines={("c", "f"): lines})
        >>> [len(earlier.known(("c", "f"), lines[:n])) for n in (0, 1, 3)]  # 0, 1/3, all are shown
        [0, 2, 3]
        """
        unread, lines = self.unread.get(change, 0), self.lines.get(change)
        if lines is None or not unread or not len(lines):
            return np.empty(0, dtype=np.uint64)
        chance = 1 - (1 - float(np.isin(lines, shown).mean())) ** unread
        found: UInt64s = lines[lines / 2.0**64 <= chance]
        return found


NOTHING_EARLIER = EarlierVersions()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ShownText:
    """Lines of a fitted document, with the tokens that are scored in them."""

    turn: int
    """Place of the document in the order of commits."""
    change: Change
    keys: UInt64s
    """[lines]"""
    scored: Int64s
    """[encodings, lines]"""
    lengths: Int64s
    """[encodings]: valid tokens."""
    others: int
    """Scored tokens in no line: those of the header, and the end."""

    @staticmethod
    def of(
        fitted: FitResult, lines: ShownLines, *, turn: int, change: Change, token_bytes: Int32s
    ) -> "ShownText":
        """Count the tokens of each line; a token belongs to the line of its first byte."""
        scored = np.zeros((len(fitted.encodings), len(lines.keys) + 1), dtype=np.int64)
        begins, ends = lines.ranges[:, 0], np.append(lines.ranges[:, 1], -1)
        for encoding, counts in zip(fitted.encodings, scored, strict=True):
            starts, after = byte_ranges(encoding.ids, encoding.pieces, token_bytes)
            targets = np.flatnonzero(encoding.loss_mask) + 1
            targets = targets[targets < len(encoding.ids)]
            line = np.searchsorted(begins, starts[targets], side="right") - 1
            inside = (after[targets] > starts[targets]) & (starts[targets] < ends[line])
            counts += np.bincount(
                np.where(inside & (line >= 0), line, len(begins)), minlength=len(counts)
            )
        return ShownText(
            turn=turn,
            change=change,
            keys=lines.keys,
            scored=scored[:, :-1],
            lengths=np.array([len(each.ids) for each in fitted.encodings], dtype=np.int64),
            others=int(scored[:, -1].sum()),
        )


def first_shown(texts: Sequence[ShownText], earlier: EarlierVersions) -> list[Bools]:
    """Flag the lines of each document that no earlier document shows, of the sample or of the same file."""
    shown = FirstShowings()
    for text in texts:
        shown.add(text.turn, text.keys)
    return [
        shown.are_first(text.turn, text.keys)
        & ~np.isin(text.keys, earlier.known(text.change, text.keys))
        for text in texts
    ]


def lines_by_commit(texts: Sequence[ShownText]) -> pl.DataFrame:
    """A table of LINES_SCHEMA; a line counts once a commit."""
    tables = [
        pl.DataFrame(
            {"unit": text.change[0], "key": text.keys, "tokens": text.scored.sum(axis=0)},
            schema=LINES_SCHEMA,
        )
        for text in texts
    ]
    whole = pl.concat([pl.DataFrame(schema=LINES_SCHEMA), *tables])
    return whole.group_by("unit", "key").agg(pl.col("tokens").max())


def extrapolated(lines: pl.DataFrame, *, read: int, population: int) -> float:
    """Estimate the tokens of the different lines of all commits from those of the commits that were read.

    Where the lines are few that a single commit shows, hardly any are missing:

    >>> lines = pl.DataFrame({"unit": ["a", "b", "a", "b"], "key": [1, 1, 2, 2], "tokens": [9, 9, 5, 5]},
    ...     schema=LINES_SCHEMA)
    >>> extrapolated(lines, read=2, population=100)
    14.0
    >>> new = pl.DataFrame({"unit": ["a", "b"], "key": [1, 2], "tokens": [9, 9]}, schema=LINES_SCHEMA)
    >>> extrapolated(new, read=2, population=2), round(extrapolated(new, read=2, population=4))
    (18.0, 33)
    """
    different = lines.group_by("key").agg(pl.len().alias("commits"), pl.col("tokens").max())
    once, twice = (float(different.filter(commits=n)["tokens"].sum()) for n in (1, 2))
    found = float(different["tokens"].sum())
    if not once or population <= read:
        return found
    unseen = (read - 1) / read * once * once / (2 * max(twice, 1.0))
    if not unseen:
        return found * population / read
    further = (population - read) * math.log1p(-once / (read * unseen + once))
    return found - unseen * math.expm1(further)
