"""Blanked copies of source files, in which every byte keeps its offset and which the grammar can parse.

Blanking replaces bytes by spaces and keeps newlines. The functions here find three kinds of bytes to blank:

- Branches of #if … #endif that are not compiled, such as `#if 0` and code for other platforms. Of the other
  branches, the first one that may be compiled is kept, so include guards and code for unknown features stay.
  The conditional directives themselves are blanked; #include, #define and #pragma are kept.
- Long runs of attributes without code between them.
- An unclosed comment or raw string at the end of a file.

Text inside comments and literals is never read as a directive. macros.py finds macros to blank.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import is_in, subtract_ranges
from schemas.corpus import Language

_MAX_CONDITION_LENGTH = 500
"""Characters. Longer conditions are not evaluated and count as true."""
_FALSE = frozenset(
    """_WIN32 WIN32 _WIN64 __WIN32__ _MSC_VER _MSC_FULL_VER __MINGW32__ __MINGW64__ __CYGWIN__
    __APPLE__ __MACH__ __ANDROID__ __FreeBSD__ __NetBSD__ __OpenBSD__ __sun __HAIKU__ _AIX
    __INTEL_COMPILER __NVCC__ __NVCOMPILER __CUDACC__ __CUDA_ARCH__ __EMSCRIPTEN__ __BORLANDC__
    __SUNPRO_CC __SUNPRO_C __IBMCPP__ __ICCARM__ __CC_ARM __DMC__ __SWITCH__ __VXWORKS__ DOXYGEN
    __DOXYGEN__ DOXYGEN_SHOULD_SKIP_THIS GENERATING_DOCUMENTATION SWIG""".split()  # noqa: SIM905
)
_TRUE = frozenset(("__linux__", "__linux", "linux", "__unix__", "__unix", "__GNUC__", "__STDC__"))
_STANDARD = 202_002
"""Value of __cplusplus that is assumed in C++. In C, __cplusplus is undefined."""

_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_COMPARED = re.compile(r"(\d+)(?:u?l{0,2})\s*([<>]=?|[!=]=)\s*(\d+)(?:u?l{0,2})", re.IGNORECASE)
_ORDERS = {"<": lt, ">": gt, "<=": le, ">=": ge, "==": eq, "!=": ne}
_MACRO_CALL = re.compile(r"(?!defined\b)\b[A-Za-z_]\w*\s*\([^()]*\)")
_NUMBER = re.compile(r"(?<!\w)(\d+)(?:u?l{0,2})(?!\w)", re.IGNORECASE)
_NAME = re.compile(r"\b(?![TFU]\b)[A-Za-z_]\w*")
_RULES = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        (r"\(([TFU])\)", r"\1"),
        (r"!!", ""),
        (r"!T", "F"),
        (r"!F", "T"),
        (r"!U", "U"),
        (r"(?<!!)(?:F&&[TFU]|[TU]&&F)", "F"),
        (r"(?<!!)T&&T", "T"),
        (r"(?<!!)(?:U&&[TU]|T&&U)", "U"),
        (r"(?<![!&])(?:T\|\|[TFU]|[FU]\|\|T)(?!&)", "T"),
        (r"(?<![!&])F\|\|F(?!&)", "F"),
        (r"(?<![!&])(?:U\|\|[FU]|F\|\|U)(?!&)", "U"),
    )
)
"""Rewriting rules for conditions in three-valued logic: T is true, F is false, U is unknown."""


@functools.lru_cache(maxsize=4096)
def may_be_compiled(directive: str, condition: str, language: Language) -> bool:
    """Return True if the branch that `#directive condition` opens may be compiled.

    Conditions that can't be evaluated count as true.

    >>> may_be_compiled("if", "defined(_WIN32) && X", "cpp"), may_be_compiled("ifndef", "A_H", "cpp")
    (False, True)
    >>> may_be_compiled("if", "0 || (X > 3)", "cpp"), may_be_compiled("ifdef", "__cplusplus", "c")
    (True, False)
    """
    condition = condition.strip()
    if directive in ("ifdef", "ifndef", "elifdef", "elifndef"):
        condition = f"defined {condition.split()[0]}" if condition else ""
        condition = f"!{condition}" if directive.endswith("ndef") else condition
    return len(condition) > _MAX_CONDITION_LENGTH or _evaluate(condition, language) != "F"


def _evaluate(condition: str, language: Language) -> str:
    reduced = _DEFINED.sub(lambda match: _truth(match[1] or match[2], language), condition)
    if language == "cpp":
        reduced = re.sub(r"\b__cplusplus\b", str(_STANDARD), reduced)
    reduced = re.sub(r"\b[A-Za-z_]\w*\b(?!\s*\()", lambda m: _number(m[0], language), reduced)
    reduced = _COMPARED.sub(
        lambda match: "T" if _ORDERS[match[2]](int(match[1]), int(match[3])) else "F", reduced
    )
    reduced = _MACRO_CALL.sub("U", reduced)
    reduced = _NUMBER.sub(lambda match: "T" if int(match[1]) else "F", reduced)
    reduced = _NAME.sub("U", reduced)
    return _simplify("".join(reduced.split()))


def _truth(name: str, language: Language) -> str:
    if name == "__cplusplus":
        return "T" if language == "cpp" else "F"
    return "T" if name in _TRUE else "F" if name in _FALSE else "U"


def _number(name: str, language: Language) -> str:
    if name in _FALSE or (name == "__cplusplus" and language == "c"):
        return "0"
    return {"true": "1", "false": "0"}.get(name, name)


def _simplify(logic: str) -> str:
    while True:
        before = logic
        for pattern, to in _RULES:
            logic = pattern.sub(to, logic)
        if logic == before:
            return logic


_BLANKS = bytes(byte if byte in b"\r\n" else ord(" ") for byte in range(256))
TO_LINE_END = rb"((?:[^\\\n]++|\\(?:\r\n|[\s\S])|\\\Z)*+)"
"""Pattern that matches to the end of a line, including lines continued by a backslash."""
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
"""Comments and literals. Of block comments and raw strings, the pattern matches only the opening."""
MIN_ATTRIBUTES = 17
"""Minimum number of attributes in a row that are blanked: the parser takes quadratic time or more for longer
runs.
"""
_ATTRIBUTES = re.compile(rb"(?:\[\[[^\[\]\n]*+\]\][\s;]*+){%d,}+" % MIN_ATTRIBUTES)
_REMARK = re.compile(r"//.*|/\*[\s\S]*?(?:\*/|$)|\\\r?\n")


def blank(data: bytes, ranges: Iterable[Range]) -> bytes:
    r"""Return a copy of `data` in which the sorted, disjoint `ranges` are spaces; newlines are kept.

    >>> blank(b"ab\ncd", [Range(1, 4)])
    b'a \n d'
    """
    pieces: list[bytes] = []
    done = 0
    for start, end in ranges:
        pieces += (data[done:start], data[start:end].translate(_BLANKS))
        done = end
    return b"".join((*pieces, data[done:]))


def comments_and_literals(data: bytes) -> list[Range]:
    r"""Return the ranges of comments and literals, sorted and disjoint.

    An unclosed block comment or raw string ends at the end of the file, any other unclosed string at the end
    of its line.

    >>> [tuple(found) for found in comments_and_literals(b'f("/*", 1); /* "\n */ // a')]
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
    """Return the end marker of a block comment or raw string; b"" if the match already includes its end."""
    if opening[1] is not None:
        return b")" + opening[1] + b'"'
    return b"*/" if opening[0] == b"/*" else b""


def attribute_runs(data: bytes, hidden: Sequence[Range]) -> list[Range]:
    r"""Return the runs of at least MIN_ATTRIBUTES attributes outside of `hidden`, sorted and disjoint.

    `hidden` holds the comments and literals.

    >>> [tuple(run) for run in attribute_runs(b"[[a]] int x;\n" + b"[[b]];\n" * 17 + b"int y;", [])]
    [(13, 132)]
    """
    if data.count(b"[[") < MIN_ATTRIBUTES:
        return []
    found = [Range(*match.span()) for match in _ATTRIBUTES.finditer(blank(data, hidden))]
    return list(subtract_ranges(found, hidden))


def unclosed(data: bytes, hidden: Sequence[Range]) -> list[Range]:
    """Return the unclosed block comment or raw string at the end of the file, as a list of at most one range.

    The range should be blanked: the grammar would scan to the end of the file at every opening mark inside.
    """
    opening = _OPAQUE.match(data, hidden[-1].start) if hidden else None
    closing = _closing(opening) if opening else b""
    is_open = opening and closing and data.find(closing, opening.end()) < 0
    return [hidden[-1]] if is_open else []


class _Level(NamedTuple):
    """Conditional (#if …) that is open at a place in the file.

    The flags tell whether the code around the conditional, an earlier branch of it, and the current branch
    are compiled.
    """

    is_around: bool
    had_one: bool
    is_live: bool


_TOP = _Level(True, True, True)


def dead_branches(data: bytes, hidden: Sequence[Range], language: Language) -> list[Range]:
    """Return the conditional directives and the branches that are not compiled, sorted and disjoint."""
    found: list[Range] = []
    levels = [_TOP]
    dead_from = -1
    for match in _CONDITION.finditer(b"\n" + data):
        start, end = (place - 1 for place in match.span(1))
        if is_in(start, hidden):
            continue
        if is_in(end, hidden):
            end = hidden[bisect_right(hidden, Range(end, end)) - 1].end
        if levels[-1].is_live:
            dead_from = start
        condition = _REMARK.sub(" ", match[3].decode("latin-1"))
        _step(levels, match[2].decode(), condition, language)
        if levels[-1].is_live:
            found.append(Range(dead_from, end))
    if not levels[-1].is_live:
        found.append(Range(dead_from, len(data)))
    return found


def _step(levels: list[_Level], directive: str, condition: str, language: Language) -> None:
    """Update the open conditionals for one directive; ignore a directive that has no matching #if."""
    if directive.startswith("if"):
        is_around = levels[-1].is_live
        is_live = is_around and may_be_compiled(directive, condition, language)
        levels.append(_Level(is_around, is_live, is_live))
    elif len(levels) > 1:
        is_around, had_one, _ = levels.pop()
        if directive != "endif":
            may_live = is_around and not had_one
            is_live = may_live and (
                directive == "else" or may_be_compiled(directive, condition, language)
            )
            levels.append(_Level(is_around, had_one or is_live, is_live))


def directives(data: bytes, hidden: Sequence[Range]) -> list[Range]:
    """Return all preprocessor directives outside of `hidden` (comments and literals), sorted and disjoint."""
    found = (Range(match.start(1) - 1, match.end() - 1) for match in _ANY.finditer(b"\n" + data))
    return [directive for directive in found if not is_in(directive.start, hidden)]
