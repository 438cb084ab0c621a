r"""Search/replace blocks, which describe changes of a text: each block replaces given lines of the text.

A block is `<<<<<<< SEARCH`, lines of the old text, `=======`, lines of the new text, `>>>>>>> REPLACE`. All
blocks apply to the old text at once, so their order doesn't matter. SEARCH is empty only if the old text is
empty. A final line without a line end is followed by the line NO_NEWLINE, as in git's patches.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.change import Hunk

SEARCH, DIVIDER, REPLACE = "<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n"
NO_NEWLINE = "\\ No newline at end of file\n"
MARKERS = (SEARCH, DIVIDER, REPLACE, NO_NEWLINE)
MAX_CONTEXT = 32
"""Maximum number of lines added above a change, and maximum number added below it, to make it unique."""
MAX_PLACES = 1_024
"""Maximum number of other places in the text that are compared with a change's lines; with more places, no
block is made.
"""
_NAMES = frozenset(marker.strip() for marker in MARKERS)
_BLOCK = re.compile(rf"{SEARCH}(?P<search>(?:.*\n)*?){DIVIDER}(?P<replace>(?:.*\n)*?){REPLACE}")
LineRange = tuple[int, int]
"""Lines `[first, last)`, counted from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EditBlock:
    """Search/replace block, as ranges of lines of the old and the new text."""

    search: LineRange
    """Lines of the old text."""
    replace: LineRange
    """Lines of the new text."""
    added: tuple[LineRange, ...]
    """Lines of `replace` that are new, in order; not empty."""


def whole_lines(text: str) -> list[str]:
    r"""Return the lines of a text with their line ends; the last line may have none.

    Only `\n` ends a line.

    >>> whole_lines("a\n\nb")
    ['a\n', '\n', 'b']
    """
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def has_marker(lines: Sequence[str]) -> bool:
    r"""Return True if any line, without white space around it, is a marker of search/replace blocks.

    >>> has_marker(["a\n", " ======= \n"]), has_marker(["// =======\n"])
    (True, False)
    """
    return any(line.strip() in _NAMES for line in lines)


def blocks_between(
    before: Sequence[str], after: Sequence[str], hunks: Sequence[Hunk]
) -> tuple[EditBlock, ...] | None:
    r"""Return the blocks of a change, in order; None if no blocks can be made within the limits.

    The limits are MAX_CONTEXT and MAX_PLACES. The SEARCH section of a block is the shortest run of lines that
    is unique in the old text and contains all lines that its hunks remove; the first one of several. For an
    insertion, it contains at least the line above or below. Hunks whose runs touch or overlap form one block.

    In the first example, the line `c` is replaced, which is unique. In the second example, a line is inserted
    below the second of two lines `a`:

    >>> hunks = [Hunk(before_start=2, before_lines=1, after_start=2, after_lines=1)]
    >>> blocks = blocks_between([*"abcab"], [*"abxab"], hunks)
    >>> [(block.search, block.replace, block.added) for block in blocks]
    [((2, 3), (2, 3), ((2, 3),))]
    >>> hunks = [Hunk(before_start=4, before_lines=0, after_start=4, after_lines=1)]
    >>> blocks = blocks_between([*"abcab"], [*"abcaxb"], hunks)
    >>> [(block.search, block.replace, block.added) for block in blocks]
    [((2, 4), (2, 5), ((4, 5),))]
    """
    if not before:
        whole = (0, len(after))
        return (EditBlock(search=(0, 0), replace=whole, added=(whole,)),) if after else ()
    finder = _Finder.from_lines(before)
    groups = [[hunk] for hunk in hunks]
    while True:
        runs = [finder.unique_run(_removed(group)) for group in groups]
        found = [run for run in runs if run is not None]
        if len(found) < len(runs):
            return None
        joined = _joined(groups, found)
        if len(joined) == len(groups):
            return tuple(map(_block, groups, found))
        groups = joined


def _removed(group: Sequence[Hunk]) -> LineRange:
    """Return the range from the first line that a group of hunks removes to the last one."""
    return group[0].before_start, group[-1].before_start + group[-1].before_lines


def _joined(groups: Sequence[list[Hunk]], runs: Sequence[LineRange]) -> list[list[Hunk]]:
    """Return the groups of hunks; adjacent groups are merged if their `runs` of lines touch or overlap."""
    joined: list[list[Hunk]] = []
    end = -1
    for group, run in zip(groups, runs, strict=True):
        if run[0] <= end:
            joined[-1] = [*joined[-1], *group]
        else:
            joined.append(group)
        end = max(end, run[1])
    return joined


def _block(group: Sequence[Hunk], run: LineRange) -> EditBlock:
    first, last = group[0], group[-1]
    above = first.before_start - run[0]
    below = run[1] - last.before_start - last.before_lines
    return EditBlock(
        search=run,
        replace=(first.after_start - above, last.after_start + last.after_lines + below),
        added=tuple(
            (hunk.after_start, hunk.after_start + hunk.after_lines)
            for hunk in group
            if hunk.after_lines
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Finder:
    """Lines of a text, with an index from each line to its places in the text."""

    lines: Sequence[str]
    places: dict[str, list[int]]

    @staticmethod
    def from_lines(lines: Sequence[str]) -> "_Finder":
        places: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(lines):
            places[line].append(number)
        return _Finder(lines=lines, places=places)

    def unique_run(self, core: LineRange) -> LineRange | None:
        """Return the shortest run of lines around `core` that is unique in the text; None if there is none.

        Of several, it is the first one. An empty `core` is a position between two lines; the run contains at
        least one of them.
        """
        first, last = core
        cores = [core] if first < last else [(first - 1, first), (first, first + 1)]
        runs = (
            self._run(first, last)
            for first, last in cores
            if first >= 0 and last <= len(self.lines)
        )
        return min(
            (run for run in runs if run), key=lambda run: (run[1] - run[0], run), default=None
        )

    def _run(self, first: int, last: int) -> LineRange | None:
        equal = self._equal(first, last)
        if equal is None:
            return None
        matches = [
            (
                self._common(first - 1, place - 1, -1),
                self._common(last, place + last - first, 1),
            )
            for place in equal
        ]
        best: tuple[int, int] | None = None
        for above in range(min(first, MAX_CONTEXT) + 1):
            # A place that is equal this far above must differ below.
            below = 1 + max((down for up, down in matches if up >= above), default=-1)
            fits = below <= min(len(self.lines) - last, MAX_CONTEXT)
            if fits and (best is None or above + below <= sum(best)):
                best = above, below
        return best and (first - best[0], last + best[1])

    def _equal(self, first: int, last: int) -> list[int] | None:
        """Return the other places at which the lines `[first, last)` occur.

        None if there are more than MAX_PLACES candidates.
        """
        wanted = self.lines[first:last]
        rarest = min(range(first, last), key=lambda number: len(self.places[self.lines[number]]))
        listed = self.places[self.lines[rarest]]
        if len(listed) > MAX_PLACES:
            return None
        starts = (number - rarest + first for number in listed if number != rarest)
        return [
            start
            for start in starts
            if start >= 0 and self.lines[start : start + last - first] == wanted
        ]

    def _common(self, one: int, other: int, step: int) -> int:
        """Return how many lines are equal from the lines `one` and `other` on, at most MAX_CONTEXT.

        `step` is 1 for a comparison downwards and -1 for a comparison upwards.
        """
        count = 0
        while (
            count < MAX_CONTEXT
            and min(one, other) >= 0
            and max(one, other) < len(self.lines)
            and self.lines[one] == self.lines[other]
        ):
            one, other, count = one + step, other + step, count + 1
        return count


def apply_blocks(before: str, blocks: str) -> str | None:
    r"""Return the text `before` with `blocks` applied; None if they are malformed or don't fit the text.

    Blocks fit if each SEARCH section occurs exactly once in the text, as whole lines, and no two sections
    overlap.

    >>> apply_blocks("a\nb\nc\n", "<<<<<<< SEARCH\nb\n=======\nx\ny\n>>>>>>> REPLACE\n")
    'a\nx\ny\nc\n'
    >>> apply_blocks("b\nb\n", "<<<<<<< SEARCH\nb\n=======\nx\n>>>>>>> REPLACE\n")
    """
    end = 0
    edits: list[tuple[int, int, str]] = []
    for match in _BLOCK.finditer(blocks):
        search, replace = (_section(match[name]) for name in ("search", "replace"))
        place = _place(before, search)
        if match.start() != end or place is None:
            return None
        edits.append((place, place + len(search), replace))
        end = match.end()
    edits.sort()
    shown, at = [], 0
    for start, stop, replace in edits:
        if start < at:
            return None
        shown += [before[at:start], replace]
        at = stop
    return "".join([*shown, before[at:]]) if end == len(blocks) else None


def _section(text: str) -> str:
    """Return the text of a SEARCH or REPLACE section.

    If NO_NEWLINE follows its last line, the text has no final line end.
    """
    return text.removesuffix(f"\n{NO_NEWLINE}")


def _place(text: str, search: str) -> int | None:
    """Return the offset at which the lines `search` occur in a text; None unless they occur exactly once."""
    if not search:
        return None if text else 0
    whole, lines = f"\n{text}", f"\n{search}"
    if not search.endswith("\n"):
        return len(text) - len(search) if whole.endswith(lines) else None
    first = whole.find(lines)
    is_unique = first >= 0 and whole.find(lines, first + 1) < 0
    return first if is_unique else None
