"""The whole lines that a definition takes: with the comments, attributes and macros right above."""

import re
from bisect import bisect_left, bisect_right

from curriculum.graph.facts import Range

_LONGEST_COMMENT = 20_000
"""Bytes that the opening of a block comment is looked for in."""
_NEWLINE = re.compile(rb"\n")


class Extents:
    """The lines of a file and of its blanked copy; each line is looked at a few times at most."""

    def __init__(self, data: bytes, source: bytes) -> None:
        self._data = data
        self._source = source
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(data))]
        self._tops: dict[int, int] = {}

    def lines(self, start: int, end: int) -> Range:
        """The lines of what stands in `[start, end)`."""
        first = self._starts[bisect_right(self._starts, start) - 1]
        after = bisect_left(self._starts, end)
        last = self._starts[after] if after < len(self._starts) else len(self._data)
        return Range(self._top(first), last)

    def _top(self, first: int) -> int:
        """Where begins what belongs to what stands on the line that begins at `first`."""
        top = self._tops.get(first)
        if top is None:
            top = first
            while top:
                above = self._above(top)
                if above == top:
                    break
                top = above
            self._tops[first] = top
        return top

    def _above(self, first: int) -> int:
        """Where the comment or macro on the line above begins; `first` if there is none."""
        data = self._data
        above = data.rfind(b"\n", 0, first - 1) + 1
        line = data[above : first - 1].strip()
        if line.startswith(b"//"):
            return above
        if line.endswith(b"*/"):
            opening = data.rfind(b"/*", max(0, first - _LONGEST_COMMENT), first)
            begin = data.rfind(b"\n", 0, opening) + 1
            return first if opening < 0 or data[begin:opening].strip() else begin
        is_blanked = (
            line and not line.startswith(b"#") and self._source[above : first - 1].isspace()
        )
        return above if is_blanked else first
