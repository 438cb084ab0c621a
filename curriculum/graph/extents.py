"""The whole lines that a definition takes: with the comments, attributes and macros right above."""

from dataclasses import dataclass

from curriculum.graph.facts import Range

_LONGEST_COMMENT = 20_000
"""Bytes that the opening of a block comment is looked for in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extents:
    """The lines of a file and of its blanked copy."""

    data: bytes
    source: bytes

    def lines(self, start: int, end: int) -> Range:
        """The lines of what stands in `[start, end)`."""
        first = self.data.rfind(b"\n", 0, start) + 1
        while first:
            above = self._above(first)
            if above == first:
                break
            first = above
        last = self.data.find(b"\n", end - 1) + 1
        return Range(first, last or len(self.data))

    def _above(self, first: int) -> int:
        """Where the comment or macro on the line above begins; `first` if there is none."""
        data = self.data
        above = data.rfind(b"\n", 0, first - 1) + 1
        line = data[above : first - 1].strip()
        if line.startswith(b"//"):
            return above
        if line.endswith(b"*/"):
            opening = data.rfind(b"/*", max(0, first - _LONGEST_COMMENT), first)
            begin = data.rfind(b"\n", 0, opening) + 1
            return first if opening < 0 or data[begin:opening].strip() else begin
        is_blanked = line and not line.startswith(b"#") and self.source[above : first - 1].isspace()
        return above if is_blanked else first
