"""Operations on the bytes and lines of a source file.

They decode a file with one character per byte, compute with byte ranges, and find whole lines and groups of
lines.
"""

import codecs
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from curriculum.graph.facts import Range, Symbol

_FAR = 1 << 62
_start, _end = attrgetter("start"), attrgetter("end")


def is_in(place: int, ranges: Sequence[Range]) -> bool:
    """Return True if `place` lies in one of the sorted `ranges`; takes logarithmic time.

    >>> is_in(1, [Range(0, 2), Range(4, 6)]), is_in(2, [Range(0, 2), Range(4, 6)])
    (True, False)
    """
    around = bisect_right(ranges, (place, _FAR)) - 1
    return around >= 0 and place < ranges[around].end


_LETTERS = "".join(chr(byte) if byte < 128 else chr(256 + byte) for byte in range(256))
"""Decoding table. Bytes that are not ASCII become the letters U+0180 to U+01FF, since identifiers may contain
letters.
"""
_BYTES = codecs.charmap_build(_LETTERS)


def byte_text(data: bytes) -> str:
    """Decode a file so that each byte becomes one character.

    >>> byte_text("größe".encode()).isidentifier(), len(byte_text("größe".encode()))
    (True, 7)
    """
    return codecs.charmap_decode(data, "strict", _LETTERS)[0]


def from_byte_text(text: str) -> str:
    """Return the original text of `text`, which is a part of what `byte_text` returned.

    >>> from_byte_text(byte_text("größe".encode()))
    'größe'
    """
    if text.isascii():
        return text
    return codecs.charmap_encode(text, "strict", _BYTES)[0].decode(errors="replace")


BLANK = b" \t\r\n\f\v"
"""White space, the same bytes as in bytes.isspace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineRanges:
    """Growing set of lines of one file.

    Each operation costs time for its arguments, not for the lines in the set.
    """

    _ranges: list[Range] = field(default_factory=list)

    def add(self, ranges: Iterable[Range]) -> None:
        """Add `ranges` to the set; they may overlap with lines that are already in it."""
        for start, end in ranges:
            first = bisect_left(self._ranges, start, key=_end)
            last = bisect_right(self._ranges, end, key=_start)
            near = self._ranges[first:last]
            low = min([start, *(span.start for span in near[:1])])
            high = max([end, *(span.end for span in near[-1:])])
            self._ranges[first:last] = [Range(low, high)]

    def missing(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        """Return the parts of the sorted, disjoint `ranges` that are not in the set."""
        if not ranges:
            return ()
        first = bisect_right(self._ranges, ranges[0].start, key=_end)
        last = bisect_left(self._ranges, ranges[-1].end, key=_start)
        return subtract_ranges(ranges, self._ranges[first:last])


def subtract_ranges(ranges: Iterable[Range], others: Iterable[Range]) -> tuple[Range, ...]:
    """Return the parts of `ranges` outside of `others`; both are sorted and disjoint.

    >>> parts = subtract_ranges([Range(0, 5), Range(7, 9)], [Range(1, 2), Range(4, 8)])
    >>> [tuple(part) for part in parts]
    [(0, 1), (2, 4), (8, 9)]
    """
    taken = list(others)
    found: list[Range] = []
    at = 0
    for start, end in ranges:
        while at < len(taken) and taken[at].end <= start:
            at += 1
        next_one = at
        while next_one < len(taken) and taken[next_one].start < end:
            if start < taken[next_one].start:
                found.append(Range(start, taken[next_one].start))
            start = max(start, taken[next_one].end)
            next_one += 1
        if start < end:
            found.append(Range(start, end))
    return tuple(found)


def merge_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the union of the ranges, sorted and disjoint; adjacent ranges are merged.

    >>> merged = merge_ranges([Range(4, 6), Range(0, 2), Range(2, 3), Range(5, 7)])
    >>> [tuple(span) for span in merged]
    [(0, 3), (4, 7)]
    """
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1].end:
            found[-1] = Range(found[-1].start, max(end, found[-1].end))
        elif start < end:
            found.append(Range(start, end))
    return tuple(found)


def size_of(ranges: Iterable[Range]) -> int:
    """Return the number of bytes in disjoint ranges."""
    return sum(end - start for start, end in ranges)


def with_text(data: bytes, ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ranges that contain more than white space."""
    return tuple(span for span in ranges if not data[span.start : span.end].isspace())


def end_of_blanks(data: bytes, start: int, end: int) -> int:
    """Return the offset of the first byte in `[start, end)` that isn't white space, or `end`."""
    while start < end and data[start] in BLANK:
        start += 1
    return start


def blank_lines_after(data: bytes, end: int, limit: int) -> int:
    r"""Return the end of the blank lines that begin at `end`, but at most `limit`.

    `end` is the offset at which a line has ended and the next one begins.

    >>> blank_lines_after(b"a;\n\n \n b;\n", 3, 10)
    6
    """
    at = end_of_blanks(data, end, limit)
    return at if at == limit else data.rfind(b"\n", end, at) + 1 or end


def blank_lines_before(data: bytes, start: int, limit: int) -> int:
    r"""Return the start of the blank lines directly above `start`, but at least `limit`.

    `start` is the offset at which a line begins.

    >>> blank_lines_before(b"a;\n\n \n b;\n", 6, 0)
    3
    """
    at = start
    while at > limit and data[at - 1] in BLANK:
        at -= 1
    return at if at == limit else data.find(b"\n", at, start) + 1 or start


def inner_lines(data: bytes, body: Range) -> Range:
    r"""Return the lines between the lines of the opening and the closing brace of `body`; may be empty.

    >>> data = b"f() {\n  g();\n}\n"
    >>> tuple(inner_lines(data, Range(4, 14)))
    (6, 13)
    """
    start = data.find(b"\n", body.start, body.end) + 1
    if not start:
        return Range(body.end, body.end)
    return Range(start, max(start, data.rfind(b"\n", start, body.end) + 1))


def outside_bodies(data: bytes, span: Range, symbols: Sequence[Symbol]) -> tuple[Range, ...]:
    """Return the lines of `span` outside of the bodies of the functions in `symbols`.

    `symbols` is sorted by start.
    """
    first, last = (bisect_left(symbols, place, key=_start) for place in span)
    inner = merge_ranges(
        inner_lines(data, symbol.body)
        for symbol in symbols[first:last]
        if symbol.kind == "function" and symbol.body is not None and symbol.end <= span.end
    )
    return subtract_ranges([span], inner)


_MAX_COMMENT_LENGTH = 20_000
"""Maximum bytes searched backwards for the opening of a block comment."""
_NEWLINE = re.compile(rb"\n")


class Extents:
    """Whole lines around definitions, computed from a file (`data`) and its blanked copy (`source`).

    Each line is read only a few times, however many definitions there are.
    """

    def __init__(self, data: bytes, source: bytes) -> None:
        self._data = data
        self._source = source
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(data))]
        self._tops: dict[int, int] = {}

    def lines(self, start: int, end: int) -> Range:
        """Return the lines that contain `[start, end)`, with comments and blanked macros directly above."""
        first = self._starts[bisect_right(self._starts, start) - 1]
        after = bisect_left(self._starts, end)
        last = self._starts[after] if after < len(self._starts) else len(self._data)
        return Range(self._top(first), last)

    def _top(self, first: int) -> int:
        """Return the start of the comment and macro lines above the line that begins at `first`."""
        top = self._tops.get(first)
        if top is None:
            top = first
            while top and (above := self._above(top)) != top:
                top = above
            self._tops[first] = top
        return top

    def _above(self, first: int) -> int:
        """Return the start of the comment or macro on the line above; `first` if there is none."""
        data = self._data
        above = data.rfind(b"\n", 0, first - 1) + 1
        line = data[above : first - 1].strip()
        if line.startswith(b"//"):
            return above
        if line.endswith(b"*/"):
            opening = data.rfind(b"/*", max(0, first - _MAX_COMMENT_LENGTH), first)
            begin = data.rfind(b"\n", 0, opening) + 1
            return first if opening < 0 or data[begin:opening].strip() else begin
        is_blanked = (
            line and not line.startswith(b"#") and self._source[above : first - 1].isspace()
        )
        return above if is_blanked else first


Offsets = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MIN_GROUP_BYTES = 512
"""Minimum bytes of a group; a smaller group is merged with the next one."""
MAX_GROUP_BYTES = 8_192
"""Maximum bytes of a group; a larger group is split at a line boundary, regardless of its content."""


def line_starts(data: bytes) -> Offsets:
    r"""Return the offset at which each line begins, followed by the length of the text.

    >>> line_starts(b"a\n\nbc").tolist()
    [0, 2, 3, 5]
    """
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    inner = ends[:-1] if len(ends) and ends[-1] == len(data) else ends
    if not data:
        return np.zeros(1, dtype=np.int64)
    return np.concatenate(([0], inner, [len(data)])).astype(np.int64)


def group_lines(starts: Offsets, blank: Flags, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Divide the lines `[first, last)` into groups of about MIN_GROUP_BYTES to MAX_GROUP_BYTES.

    A group ends where a `blank` line is followed by a non-blank line, once it has at least MIN_GROUP_BYTES.
    """
    inside = blank[first:last]
    borders = np.flatnonzero(inside[:-1] & ~inside[1:]) + first + 1
    begin = first
    for border in (*borders.tolist(), last):
        size = int(starts[border] - starts[begin])
        if size < MIN_GROUP_BYTES and border != last:
            continue
        while size > MAX_GROUP_BYTES:
            full = int(np.searchsorted(starts, starts[begin] + MAX_GROUP_BYTES, "right")) - 1
            cut = max(begin + 1, full)
            if cut >= border:
                break
            yield begin, cut
            begin = cut
            size = int(starts[border] - starts[begin])
        if begin < border:
            yield begin, border
            begin = border
