"""Lines grouped by the blank lines between them: what is left to say where there is no syntax tree."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SMALLEST_GROUP = 512
"""Bytes; smaller groups join the one below."""
LARGEST_GROUP = 8_192
"""Bytes; a larger group is cut at a line, whatever stands there."""


def line_starts(data: bytes) -> Offsets:
    r"""Where each line begins, and the end of the text.

    >>> line_starts(b"a\n\nbc").tolist()
    [0, 2, 3, 5]
    """
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    inner = ends[:-1] if len(ends) and ends[-1] == len(data) else ends
    if not data:
        return np.zeros(1, dtype=np.int64)
    return np.concatenate(([0], inner, [len(data)])).astype(np.int64)


def blank_lines(starts: Offsets) -> Flags:
    r"""Which lines hold nothing but their end; trailing spaces make a line that isn't blank.

    >>> blank_lines(line_starts(b"a\n\nbc")).tolist()
    [False, True, False]
    """
    blank: Flags = np.diff(starts) == 1
    return blank


def group_borders(blank: Flags) -> Offsets:
    """Lines that follow a blank line and aren't blank.

    >>> group_borders(np.array([False, True, True, False, False])).tolist()
    [3]
    """
    return np.flatnonzero(blank[:-1] & ~blank[1:]) + 1


def group_lines(
    starts: Offsets, borders: Offsets, first: int, last: int
) -> Iterator[tuple[int, int]]:
    """The groups that tile the lines `[first, last)`, each at least a line and at most a screen or two."""
    inside = borders[np.searchsorted(borders, first, "right") : np.searchsorted(borders, last)]
    begin = first
    for border in (*inside.tolist(), last):
        size = int(starts[border] - starts[begin])
        if size >= SMALLEST_GROUP or border == last:
            yield from _cut(starts, begin, border)
            begin = border


def _cut(starts: Offsets, first: int, last: int) -> Iterator[tuple[int, int]]:
    while starts[last] - starts[first] > LARGEST_GROUP:
        full = int(np.searchsorted(starts, starts[first] + LARGEST_GROUP, "right")) - 1
        cut = max(first + 1, full)
        if cut >= last:
            break
        yield first, cut
        first = cut
    if first < last:
        yield first, last
