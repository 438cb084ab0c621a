"""Related lines of a changed file: the edited lines, and signatures of other definitions.

edited       functions and classes of at most MAX_PART_BYTES that contain a hunk, whole. Other hunks are shown
             with up to LINES_AROUND lines above and below, which end at a blank line or a whole definition
signatures   of functions and types, without the insides of their bodies: first those around a hunk, then
             those that the change names, then those nearest to a hunk, until the budget is used
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from curriculum.graph.facts import Range, Symbol
from curriculum.graph.index import facts_of
from curriculum.graph.line_ranges import (
    LineRanges,
    inner_lines,
    merge_ranges,
    size_of,
    subtract_ranges,
    with_text,
)
from curriculum.graph.names import TYPES
from curriculum.graph.outline import MAX_CLASS_BYTES, Item, Outline
from schemas.change import Hunk
from schemas.corpus import Language

MAX_PART_BYTES = MAX_CLASS_BYTES
"""Maximum bytes of a function or class that is shown whole; of a larger one, only the lines around its hunks
are shown.
"""
LINES_AROUND = 16
_WORD = re.compile(r"\w+")


class RelatedLines(NamedTuple):
    """Whole lines of a file, as a byte range, and the rank of their part; edited lines have the rank None."""

    start: int
    end: int
    rank: int | None


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(_WORD.findall(text))


def related_lines(
    text: str,
    language: Language,
    outline: Outline,
    hunks: Sequence[Hunk],
    *,
    named: Collection[str],
    room: int,
    gap: int,
) -> list[RelatedLines]:
    """Return the related lines of a changed file, in the order of the file.

    Args:
        text: file after the change.
        language: language of the file.
        outline: outline of the file.
        hunks: hunks of the change.
        named: names that the change mentions.
        room: maximum bytes of all signatures, including a gap line per run of lines.
        gap: bytes of the line that replaces omitted lines.
    """
    data = text.encode()
    edited = edited_lines(data, outline, hunks)
    found = [RelatedLines(start, end, None) for start, end in edited]
    shown = LineRanges()
    shown.add(edited)
    symbols = [symbol for symbol in facts_of(text, language).symbols if _is_definition(symbol)]
    places = np.searchsorted(
        outline.starts, [(symbol.start, symbol.end) for symbol in symbols] or np.empty((0, 2))
    )
    gaps = lines_to_hunks([(first, last) for first, last in places.tolist()], hunks)
    order = sorted(
        range(len(symbols)),
        key=lambda at: (gaps[at] >= 0, symbols[at].name not in named, max(gaps[at], 0), at),
    )
    rank = 0
    for symbol in (symbols[at] for at in order):
        ranges = with_text(data, shown.missing(_signature(data, symbol)))
        cost = size_of(ranges) + gap * len(ranges)
        if ranges and cost <= room:
            room -= cost
            rank += 1
            shown.add(ranges)
            found += [RelatedLines(start, end, rank) for start, end in ranges]
    return sorted(found)


def edited_lines(data: bytes, outline: Outline, hunks: Sequence[Hunk]) -> tuple[Range, ...]:
    """Return the lines that are shown because of the hunks, sorted and disjoint.

    They are whole functions and classes, and lines around hunks outside of these.
    """
    starts = outline.starts
    definitions = [item for item in outline.items if _is_part(item)]
    gaps = lines_to_hunks([(item.first, item.last) for item in definitions], hunks)
    spans = [Range(item.start, item.end) for item in definitions]
    held = [span for span, gap in zip(spans, gaps, strict=True) if gap < 0]
    is_border = np.array(
        [data[start:end].isspace() for start, end in pairwise(starts.tolist())], dtype=np.bool_
    )
    for item in definitions:
        is_border[item.first : item.last] = True
    borders = np.flatnonzero(is_border)
    for hunk in hunks:
        first, last = hunk.after_start, hunk.after_start + hunk.after_lines
        above, below = np.searchsorted(borders, (first, last))
        highest = int(borders[above - 1]) + 1 if above else 0
        lowest = int(borders[below]) if below < len(borders) else len(is_border)
        first, last = max(highest, first - LINES_AROUND), min(lowest, last + LINES_AROUND)
        held += subtract_ranges([Range(int(starts[first]), int(starts[last]))], spans)
    return merge_ranges(held)


def lines_to_hunks(places: Sequence[tuple[int, int]], hunks: Sequence[Hunk]) -> list[int]:
    """Return, for each range of lines `[first, last)` in `places`, the number of lines to the nearest hunk.

    The number is negative for a range that contains a hunk. A hunk that only removes lines has a position
    between two lines: a range contains this hunk if it contains both lines.
    """
    starts = [hunk.after_start for hunk in hunks]
    ends = [hunk.after_start + hunk.after_lines for hunk in hunks]
    found: list[int] = []
    for first, last in places:
        below = bisect_left(starts, last)
        gaps = [first - end for end in ends[below - 1 : below]]
        gaps += [start - last for start in starts[below : below + 1]]
        found.append(min(gaps))
    return found


def _is_part(item: Item) -> bool:
    return item.kind in ("function", "class") and item.end - item.start <= MAX_PART_BYTES


def _is_definition(symbol: Symbol) -> bool:
    is_type = symbol.kind in TYPES and (symbol.body is not None or symbol.kind == "alias")
    return symbol.kind == "function" or is_type


def _signature(data: bytes, symbol: Symbol) -> tuple[Range, ...]:
    """Return the lines of a definition without the lines inside its body."""
    inside = merge_ranges([inner_lines(data, symbol.body)] if symbol.body is not None else [])
    return subtract_ranges([Range(symbol.start, symbol.end)], inside)
