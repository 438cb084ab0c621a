"""Statistics on changed lines of code: how many of them lie outside of functions and of all symbols.

The graph can't see lines outside of all known symbols: statements of functions that were not recognised,
unknown macros, and code for platforms that is not compiled here.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from curriculum.graph.blank import blank, comments_and_literals, directives
from curriculum.graph.facts import FileFacts, Range
from curriculum.graph.line_ranges import Flags, Offsets, line_starts
from schemas.change import FileChange
from schemas.reports import ChangedLinesReport

MAX_EXAMPLES = 5
_FRAMES = re.compile(
    rb"(?m:^)[ \t]*+(?:(?:inline\s+)?namespace|using|extern(?=\s*\{)|static_assert|_Static_assert"
    rb"|(?:public|private|protected)(?=\s*:))\b[^;{:]*+(?:::[^;{:]*+)*+"
)
"""Lines such as `namespace`, `using` and `public:`: they define nothing, and no symbol contains them."""
_MAX_EXAMPLE_BYTES = 80
_IN_WORD = np.zeros(256, dtype=bool)
_IN_WORD[[byte for byte in range(256) if chr(byte).isalnum() or byte in b"_" or byte > 127]] = True


class _LineRun(NamedTuple):
    """Consecutive lines outside of all symbols."""

    lines: int
    example: str


@dataclass(kw_only=True, slots=True)
class ChangedLines:
    """Counts of changed lines, summed over the changes of a repository."""

    lines: int = 0
    outside_functions: int = 0
    outside_symbols: int = 0
    _longest: dict[str, _LineRun] = field(default_factory=dict)
    """Longest run of lines outside of all symbols, by path."""

    def add(self, commit: str, change: FileChange, facts: FileFacts) -> None:
        """Count the lines of code that a change added or changed; costs time for the whole file."""
        if change.after is None or not change.hunks:
            return
        data = change.after.text.encode()
        starts = line_starts(data)
        changed = _changed(change, len(starts) - 1) & _has_code(data, starts)
        in_function, in_symbol = _lines_in_symbols(facts, starts)
        self.lines += int(np.count_nonzero(changed))
        self.outside_functions += int(np.count_nonzero(changed & ~in_function))
        outside = np.flatnonzero(changed & ~in_symbol)
        self.outside_symbols += len(outside)
        for run in np.split(outside, np.flatnonzero(np.diff(outside) > 1) + 1):
            if len(run) > self._longest.get(change.path, _LineRun(0, "")).lines:
                line = data[starts[run[0]] : starts[run[0] + 1]].strip()[:_MAX_EXAMPLE_BYTES]
                place = f"{commit[:12]}:{change.path}:{run[0] + 1}"
                self._longest[change.path] = _LineRun(
                    len(run), f"{place}: {line.decode(errors='replace')}"
                )

    def report(self) -> ChangedLinesReport:
        """Return the counts and the longest runs of lines outside of all symbols, one run per file."""
        longest = sorted(self._longest.values(), key=lambda run: (-run.lines, run.example))
        return ChangedLinesReport(
            lines=self.lines,
            outside_functions=self.outside_functions,
            outside_symbols=self.outside_symbols,
            examples=tuple(run.example for run in longest[:MAX_EXAMPLES]),
        )


def _changed(change: FileChange, count: int) -> Flags:
    changed = np.zeros(count, dtype=bool)
    for hunk in change.hunks:
        changed[hunk.after_start : hunk.after_start + hunk.after_lines] = True
    return changed


def _has_code(data: bytes, starts: Offsets) -> Flags:
    """Return a flag for each line: True if it has a word that counts as code.

    Comments, literals, directives and matches of _FRAMES don't count.
    """
    hidden = comments_and_literals(data)
    bare = blank(blank(data, hidden), directives(data, hidden))
    bare = blank(bare, (Range(*frame.span()) for frame in _FRAMES.finditer(bare)))
    words = np.cumsum(_IN_WORD[np.frombuffer(bare, dtype=np.uint8)])
    counted = np.concatenate(([0], words))[starts]
    found: Flags = counted[1:] > counted[:-1]
    return found


def _lines_in_symbols(facts: FileFacts, starts: Offsets) -> tuple[Flags, Flags]:
    """Return two flags for each line: True if a function definition contains it, True if any symbol does."""
    in_function, in_symbol = np.zeros((2, len(starts) - 1), dtype=bool)
    for symbol in facts.symbols:
        first, last = np.searchsorted(starts, (symbol.start, symbol.end))
        in_symbol[first:last] = True
        if symbol.kind == "function" and symbol.body is not None:
            in_function[first:last] = True
    return in_function, in_symbol
