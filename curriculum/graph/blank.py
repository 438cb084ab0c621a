r"""A copy of a source file that the grammar can read, byte for byte in the same places.

What the grammar can't know is blanked: spaces stand for it, newlines stay. That is, on request,

- branches: of each #if … #endif the first branch stays that may be compiled (conditions.py), so include
  guards and unknown features live, `#if 0` and other platforms don't; the directives of the conditions
  go, the others – #include, #define, #pragma – stay;
- macros: ALL_CAPS names, with their arguments, where no expression or type can be (macros.py);
- long runs of attributes, which stand before nothing.

What stands in a comment or literal is never taken for a directive or macro.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from curriculum.graph.conditions import may_hold
from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import without
from curriculum.graph.ranges import is_in
from schemas.corpus import Language

_BLANKS = bytes(byte if byte in b"\r\n" else ord(" ") for byte in range(256))
TO_LINE_END = rb"((?:[^\\\n]++|\\(?:\r\n|[\s\S])|\\\Z)*+)"
"""To the end of a line that a backslash may continue."""
_CONDITION = re.compile(
    rb"\n[ \t]*(#[ \t]*(ifn?def|if|elifn?def|elif|else|endif)\b" + TO_LINE_END + rb")"
)
_ANY = re.compile(rb"\n[ \t]*(#" + TO_LINE_END + rb")")
_OPAQUE = re.compile(
    rb"//[^\n]*"
    rb"|/\*"
    rb'|R(?:(?<!\w.)|(?<=\bu8R)|(?<=\b[uUL]R))"([^ ()\\\t\n]{0,16})\('
    rb'|"(?:[^"\\\n]++|\\[\s\S])*+"?'
    rb"|'(?<!\d.)(?:[^'\\\n]|\\.){1,12}+'"
)
"""Comments and literals, of block comments and raw strings only how they begin."""
FEWEST_ATTRIBUTES = 17
"""In a long run, without code between: the parser takes the square of their number, or worse."""
_ATTRIBUTES = re.compile(rb"(?:\[\[[^\[\]\n]*+\]\][\s;]*+){%d,}+" % FEWEST_ATTRIBUTES)
_REMARK = re.compile(r"//.*|/\*[\s\S]*?(?:\*/|$)|\\\r?\n")


def blank(data: bytes, ranges: Iterable[Range]) -> bytes:
    r"""The bytes with spaces for what lies in the ranges, which are sorted and disjoint.

    >>> blank(b"ab\ncd", [Range(1, 4)])
    b'a \n d'
    """
    pieces: list[bytes] = []
    done = 0
    for start, end in ranges:
        pieces += (data[done:start], data[start:end].translate(_BLANKS))
        done = end
    return b"".join((*pieces, data[done:]))


def opaque(data: bytes) -> list[Range]:
    r"""The comments and literals, sorted and disjoint.

    A block comment or raw string that isn't closed goes to the file's end, another string to its line's.

    >>> [tuple(each) for each in opaque(b'f("/*", 1); /* "\n */ // a')]
    [(2, 6), (12, 20), (21, 25)]
    """
    found: list[Range] = []
    place = 0
    while match := _OPAQUE.search(data, place):
        place = match.end()
        closing = _closing(match)
        if closing:
            at_end = data.find(closing, place)
            place = at_end + len(closing) if at_end >= 0 else len(data)
        found.append(Range(match.start(), place))
    return found


def _closing(opening: re.Match[bytes]) -> bytes:
    """What ends a block comment or raw string; nothing for what has its end already."""
    if opening[1] is not None:
        return b")" + opening[1] + b'"'
    return b"*/" if opening[0] == b"/*" else b""


def attribute_runs(data: bytes, hidden: Sequence[Range]) -> list[Range]:
    r"""Long runs of attributes, sorted and disjoint; `hidden` are comments and literals, which stay.

    >>> [tuple(each) for each in attribute_runs(b"[[a]] int x;\n" + b"[[b]];\n" * 17 + b"int y;", [])]
    [(13, 132)]
    """
    if data.count(b"[[") < FEWEST_ATTRIBUTES:
        return []
    found = [Range(*match.span()) for match in _ATTRIBUTES.finditer(blank(data, hidden))]
    return [*without(found, hidden)]


def unclosed(data: bytes, hidden: Sequence[Range]) -> list[Range]:
    """The block comment or raw string that the file ends in; each mark of one would be read to the end."""
    opening = _OPAQUE.match(data, hidden[-1].start) if hidden else None
    closing = _closing(opening) if opening else b""
    is_open = opening and closing and data.find(closing, opening.end()) < 0
    return [hidden[-1]] if is_open else []


class _Level(NamedTuple):
    """A conditional that is open: what is around it lives, a branch of it lived, this one lives."""

    is_around: bool
    had_one: bool
    is_live: bool


_TOP = _Level(True, True, True)


def dead_branches(data: bytes, hidden: Sequence[Range], language: Language) -> list[Range]:
    """The conditional directives and what a compiler wouldn't see, sorted and disjoint."""
    found: list[Range] = []
    levels = [_TOP]
    dead_from = -1
    for start, end, directive, condition in _conditions(data, hidden):
        if levels[-1].is_live:
            dead_from = start
        _step(levels, directive, condition, language)
        if levels[-1].is_live:
            found.append(Range(dead_from, end))
    if not levels[-1].is_live:
        found.append(Range(dead_from, len(data)))
    return found


def _step(levels: list[_Level], directive: str, condition: str, language: Language) -> None:
    """Take one directive; one that nothing is open for says nothing."""
    if directive.startswith("if"):
        is_around = levels[-1].is_live
        is_live = is_around and may_hold(directive, condition, language)
        levels.append(_Level(is_around, is_live, is_live))
    elif len(levels) > 1:
        is_around, had_one, _ = levels.pop()
        if directive != "endif":
            may_live = is_around and not had_one
            is_live = may_live and (directive == "else" or may_hold(directive, condition, language))
            levels.append(_Level(is_around, had_one or is_live, is_live))


def directives(data: bytes, hidden: Sequence[Range]) -> list[Range]:
    """All directives, sorted and disjoint; `hidden` are comments and literals."""
    found = (Range(match.start(1) - 1, match.end() - 1) for match in _ANY.finditer(b"\n" + data))
    return [each for each in found if not is_in(each.start, hidden)]


def _conditions(data: bytes, hidden: Sequence[Range]) -> Iterator[tuple[int, int, str, str]]:
    """Where each conditional directive begins and ends, its name and its condition."""
    for match in _CONDITION.finditer(b"\n" + data):
        start, end = (place - 1 for place in match.span(1))
        if hidden and is_in(start, hidden):
            continue
        if hidden and is_in(end, hidden):
            end = hidden[bisect_right(hidden, Range(end, end)) - 1].end
        yield start, end, match[2].decode(), _REMARK.sub(" ", match[3].decode("latin-1"))
