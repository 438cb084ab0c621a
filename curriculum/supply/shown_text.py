"""Lines of text in the sample's documents, and an estimate of which lines are new in the whole history.

A line is new in the first document that shows it. Documents that aren't in the sample may have shown the line
earlier, so two estimates are made.

Families of files: the sample has the text of each file before its changes, and the log gives the number of
earlier documents of the file that are not in the sample. A line of that text counts as known with the
probability that one of those documents shows it.

Families of graphs: any commit may show any function. Some lines are shown by exactly one sampled commit,
others by exactly two. These two counts give the number of lines that no sampled commit shows: the Chao2
estimator, extrapolated to all commits. Colwell et al., Models and estimators linking individual-based and
sample-based rarefaction, 2012.
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
"""A commit and the lineage of a changed file."""
NO_LINES = ShownLines(ranges=np.empty((0, 2), dtype=np.int32), keys=np.empty(0, dtype=np.uint64))

LINES_SCHEMA = pl.Schema({"unit": pl.String, "key": pl.UInt64, "tokens": pl.Int64})
"""One row per commit and line that its documents show.

`key` is the key of the line, and `tokens` is the number of scored tokens in the line.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierVersions:
    """State of files before their sampled changes: earlier documents and previous text."""

    again: frozenset[Change] = frozenset()
    """Changes of files that were already shown by an earlier document."""
    unread: Mapping[Change, int] = field(default_factory=dict)
    """Number of earlier documents of the same file that are not in the sample, by change."""
    lines: Mapping[Change, UInt64s] = field(default_factory=dict)
    """Keys of the lines in the file before the change, by change."""

    def known(self, change: Change, shown: UInt64s) -> UInt64s:
        """Return the lines that earlier documents outside of the sample are expected to show.

        `shown` are the lines that the sampled document of `change` shows. Each earlier document is assumed to
        show the same share of the file.

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
    """Lines of a document after fitting, with the number of scored tokens in each line."""

    turn: int
    """Position of the document's commit in the order of commits."""
    change: Change
    keys: UInt64s
    """Keys of the lines, [lines]."""
    scored: Int64s
    """Scored tokens of each line in each encoding, [encodings, lines]."""
    lengths: Int64s
    """Valid tokens of each encoding, [encodings]."""
    others: int
    """Number of scored tokens that belong to no line: those of the header and the end token."""

    @staticmethod
    def from_fitted(
        fitted: FitResult, lines: ShownLines, *, turn: int, change: Change, token_bytes: Int32s
    ) -> "ShownText":
        """Count the scored tokens of each line of `fitted`; a token belongs to the line of its first byte."""
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
            lengths=np.array([len(encoding.ids) for encoding in fitted.encodings], dtype=np.int64),
            others=int(scored[:, -1].sum()),
        )


def first_shown(texts: Sequence[ShownText], earlier: EarlierVersions) -> list[Bools]:
    """Flag the lines of each document that are new.

    A line is new if no earlier document of the sample shows it and `earlier` doesn't expect it to be known.
    """
    shown = FirstShowings()
    for text in texts:
        shown.add(text.turn, text.keys)
    return [
        shown.are_first(text.turn, text.keys)
        & ~np.isin(text.keys, earlier.known(text.change, text.keys))
        for text in texts
    ]


def lines_by_commit(texts: Sequence[ShownText]) -> pl.DataFrame:
    """Return a table of LINES_SCHEMA, in which each pair of commit and line occurs once."""
    tables = [
        pl.DataFrame(
            {"unit": text.change[0], "key": text.keys, "tokens": text.scored.sum(axis=0)},
            schema=LINES_SCHEMA,
        )
        for text in texts
    ]
    whole = pl.concat([pl.DataFrame(schema=LINES_SCHEMA), *tables])
    return whole.group_by("unit", "key").agg(pl.col("tokens").max())


def extrapolate_tokens(lines: pl.DataFrame, *, read: int, population: int) -> float:
    """Estimate the tokens in the distinct lines of all commits.

    `lines` is a table of LINES_SCHEMA for the `read` commits that were read, out of `population` commits.

    If few lines are shown by one of these commits only, hardly any line is missing:

    >>> lines = pl.DataFrame({"unit": ["a", "b", "a", "b"], "key": [1, 1, 2, 2], "tokens": [9, 9, 5, 5]},
    ...     schema=LINES_SCHEMA)
    >>> extrapolate_tokens(lines, read=2, population=100)
    14.0
    >>> new = pl.DataFrame({"unit": ["a", "b"], "key": [1, 2], "tokens": [9, 9]}, schema=LINES_SCHEMA)
    >>> extrapolate_tokens(new, read=2, population=2), round(extrapolate_tokens(new, read=2, population=4))
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
