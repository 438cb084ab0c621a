"""Copies of source files that the grammar can read, byte for byte in the same places.

What the grammar can't know is blanked: spaces stand for it, newlines stay. That is, on request,

- branches: of each #if … #endif the first branch stays that may be compiled, so include guards and unknown
  features live, `#if 0` and other platforms don't; the directives of the conditions go, the others –
  #include, #define, #pragma – stay;
- macros: ALL_CAPS names, with their arguments, where no expression or type can be;
- long runs of attributes, which stand before nothing.

What stands in a comment or literal is never taken for a directive or macro. Macros are found by what stands
around them:

    FMT_BEGIN_NAMESPACE                        alone on a line; Q_OBJECT, PRAGMA(x) as well
    FMT_API int f();                           before a declaration; `static FMT_INLINE int f()`, too
    JSON_PRIVATE_UNLESS_TESTED:                as an access label
    JSON_TRY { … }                             before a block
    TEST_CASE("parses") {                      only the arguments, where no function has such
    int WINAPI f(int);                         between a type and a function's name
    int n_ GUARDED_BY(mutex_);                 after a variable's name
    class LEVELDB_EXPORT DB {                  before the name of a class
    void Lock() EXCLUSIVE_LOCK_FUNCTION() {    after a parameter list
    CHECK_THROWS_AS(f(), Error&);              only the & of a type among arguments
    <class T, FMT_ENABLE_IF(!is_int<T>())>     only the arguments, among template parameters

A name in an expression, an enumerator, a type, and a call that ends with a semicolon are left alone.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import is_in, without
from schemas.corpus import Language

_LONGEST = 500
"""Characters; longer conditions aren't judged."""
_FALSE = frozenset(
    """_WIN32 WIN32 _WIN64 __WIN32__ _MSC_VER _MSC_FULL_VER __MINGW32__ __MINGW64__ __CYGWIN__
    __APPLE__ __MACH__ __ANDROID__ __FreeBSD__ __NetBSD__ __OpenBSD__ __sun __HAIKU__ _AIX
    __INTEL_COMPILER __NVCC__ __NVCOMPILER __CUDACC__ __CUDA_ARCH__ __EMSCRIPTEN__ __BORLANDC__
    __SUNPRO_CC __SUNPRO_C __IBMCPP__ __ICCARM__ __CC_ARM __DMC__ __SWITCH__ __VXWORKS__ DOXYGEN
    __DOXYGEN__ DOXYGEN_SHOULD_SKIP_THIS GENERATING_DOCUMENTATION SWIG""".split()  # noqa: SIM905
)
_TRUE = frozenset(("__linux__", "__linux", "linux", "__unix__", "__unix", "__GNUC__", "__STDC__"))
_STANDARD = 202_002
"""Value that __cplusplus is assumed to have; in C it isn't defined."""

_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_COMPARED = re.compile(r"(\d+)(?:u?l{0,2})\s*([<>]=?|[!=]=)\s*(\d+)(?:u?l{0,2})", re.IGNORECASE)
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
"""T, F and U are true, false and unknown."""


@functools.lru_cache(maxsize=4096)
def may_hold(directive: str, condition: str, language: Language) -> bool:
    """Return True if the branch of `#directive condition` may be compiled; what isn't known may be.

    >>> may_hold("if", "defined(_WIN32) && X", "cpp"), may_hold("ifndef", "A_H", "cpp")
    (False, True)
    >>> may_hold("if", "0 || (X > 3)", "cpp"), may_hold("ifdef", "__cplusplus", "c")
    (True, False)
    """
    condition = condition.strip()
    if directive in ("ifdef", "ifndef", "elifdef", "elifndef"):
        condition = f"defined {condition.split()[0]}" if condition else ""
        condition = f"!{condition}" if directive.endswith("ndef") else condition
    return len(condition) > _LONGEST or _judged(condition, language) != "F"


def _judged(condition: str, language: Language) -> str:
    def is_defined(match: re.Match[str]) -> str:
        return _truth(match[1] or match[2], language)

    reduced = _DEFINED.sub(is_defined, condition)
    if language == "cpp":
        reduced = re.sub(r"\b__cplusplus\b", str(_STANDARD), reduced)
    reduced = re.sub(r"\b[A-Za-z_]\w*\b(?!\s*\()", lambda m: _number(m[0], language), reduced)
    reduced = _COMPARED.sub(_comparison, reduced)
    reduced = _MACRO_CALL.sub("U", reduced)
    reduced = _NUMBER.sub(lambda match: "T" if int(match[1]) else "F", reduced)
    reduced = _NAME.sub("U", reduced)
    return _reduced("".join(reduced.split()))


def _truth(name: str, language: Language) -> str:
    if name == "__cplusplus":
        return "T" if language == "cpp" else "F"
    return "T" if name in _TRUE else "F" if name in _FALSE else "U"


def _number(name: str, language: Language) -> str:
    if name in _FALSE or (name == "__cplusplus" and language == "c"):
        return "0"
    return {"true": "1", "false": "0"}.get(name, name)


def _comparison(match: re.Match[str]) -> str:
    left, right = int(match[1]), int(match[3])
    order = (left > right) - (left < right)
    holds = {"<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}
    return "T" if holds.get(match[2], (order == 0) == (match[2] == "==")) else "F"


def _reduced(logic: str) -> str:
    while True:
        before = logic
        for pattern, to in _RULES:
            logic = pattern.sub(to, logic)
        if logic == before:
            return logic


_BLANKS = bytes(byte if byte in b"\r\n" else ord(" ") for byte in range(256))
TO_LINE_END = rb"((?:[^\\\n]++|\\(?:\r\n|[\s\S])|\\\Z)*+)"
"""Pattern to the end of a line that a backslash may continue."""
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
"""Number of attributes in a run without code from which the parser takes its square, or worse."""
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
    """Return the end of a block comment or raw string; nothing for one that has its end already."""
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


_CAPS = rb"[A-Z][A-Z0-9_]{2,}(?!\w)"
_FIRST = re.compile(
    rb"\n[ \t]*(" + _CAPS + rb")(?![^\S\n]*(?:[,;.)?|+*%^=&-]|\([^\n{}]*\)[^\S\n]*[;,][^\S\n]*\n))"
)
_LATER = re.compile(rb" (?<=[\w>*&] )(" + _CAPS + rb")(?=[ (:])")
_TRAILING = re.compile(
    rb"\)\s*(?:(?:const|noexcept|override|final|volatile|&)\s*)*("
    + _CAPS
    + rb")(?!\s*[.\[?|+*%^!)])"
)
_ENABLING = re.compile(rb"(ENABLE_IF\w*)\(")
_TYPE_ARGUMENT = re.compile(rb"\n[ \t]*[A-Z][A-Z0-9_]{2,}\([^\n;]*[\w>][ \t]*([&*]+)\)+;")
_LONGEST_ARGUMENTS = 2_000
"""Bytes; what has longer arguments isn't taken for a macro."""
_DEEPEST_ARGUMENTS = 30
"""Parentheses in one another; likewise."""
_LOOK_BACK = 120
"""Bytes that a word and what stands before it have room in."""
_LineEnd = tuple[bytes, bytes]
"""The last character of a line, and the word that it ends."""

_PARENS = re.compile(rb"""[()]|"(?:[^"\\\n]++|\\.)*+"|'(?:[^'\\\n]|\\.)'""")
_GAP = re.compile(rb"(?:\s|//[^\n]*|/\*(?:[^*]|\*(?!/)){0,2000}\*/|\\\n)*")
_LINE_END = re.compile(rb"[ \t]*(?://[^\n]*|/\*[^\n]*)?(?=\n|\Z)")
_LAST_WORD = re.compile(rb"(?<!\w)[A-Za-z_]\w*\Z")
_CLASS_NAME = re.compile(
    rb"[A-Za-z_][\w:]*(\s*<[^;{}]{0,500}>)?\s*(?:final\b\s*)?(?:\{|:(?!:)|(;))"
)
_CONST_POINTER = re.compile(rb"([*&])\s*const\Z")
_SAYS_NOTHING = re.compile(rb"//|#|\*|/\*|.*(?:\*/|\\)\Z|" + _CAPS + rb"(?:\(.*\))?\s*(?://.*)?\Z")
"""A line of comments, a directive, or a macro that has it to itself."""
_CALLED = re.compile(rb"[A-Za-z_]\w*\s*\(")
_AFTER_PARAMETERS = re.compile(
    rb"[{;=:]|->|(?:const|noexcept|override|final|volatile|try|" + _CAPS + rb")\b|\Z"
)
_DECLARES = re.compile(
    rb"(?:template|class|struct|union|enum|using|typedef|static|inline|virtual|constexpr|const|friend"
    rb"|explicit|extern|consteval|auto|operator|mutable|unsigned|signed|void|bool|char|int|long|short"
    rb"|float|double|[A-Z][A-Z0-9_]{2,})\b"
    rb"|\[\[|~\w"
    rb"|(?:::)?\w+(?:::~?\w+)*(?:<[^;{}()]{0,500}>(?:::\w+)*)?(?:\s*[*&]+\s*|\s+)(?:const\s*)?[\w:(~&*]"
    rb"|\w+(?:<[^;{}()]{0,500}>)?(?:::~?\w+)*\s*\("
)
"""Words that may follow a macro before a declaration."""


_CLASS_KEYS = frozenset(b"class struct union enum".split())
_ACCESS = frozenset(b"public private protected".split())
_CONTROL = frozenset(
    b"""if for while switch catch return sizeof constexpr decltype alignof static_assert noexcept
    co_return co_await throw requires""".split()
)
_SPECIFIERS = frozenset(
    b"""static inline virtual explicit friend extern constexpr const typedef mutable volatile consteval
    constinit thread_local""".split()
)
_NOT_TYPES = (
    _CONTROL
    | _SPECIFIERS
    | _CLASS_KEYS
    | _ACCESS
    | frozenset(
        b"""else do new delete case default goto using namespace typename template operator and or not
        co_yield defined override final""".split()
    )
)


def macros(data: bytes, hidden: Sequence[Range], lines: Sequence[Range]) -> list[Range]:
    """The bytes to blank, sorted and disjoint: none of comments and literals, none of directives."""

    def names(pattern: re.Pattern[bytes], *, shift: int = 0) -> Iterator[Range]:
        for match in pattern.finditer(b"\n" + data if shift else data):
            start, end = match.span(1)
            if not is_in(start - shift, hidden) and not is_in(start - shift, lines):
                yield Range(start - shift, end - shift)

    before = _Before(data, hidden, lines)
    masked = chain(
        (
            each
            for name in names(_FIRST, shift=1)
            for each in _first(data, name, before.of(name.start))
        ),
        (each for name in names(_LATER) for each in _later(data, name)),
        (each for name in names(_TRAILING) for each in _trailing(data, name)),
        names(_TYPE_ARGUMENT, shift=1),
        (each for name in names(_ENABLING) for each in _enabling(data, name)),
    )
    found: list[Range] = []
    for each in sorted(masked):
        if not (found and each.start < found[-1].end):
            found.append(each)
    return found


def _first(data: bytes, name: Range, line_end: _LineEnd) -> Iterator[Range]:
    """Yield the ranges to blank of a name that a line begins with."""
    close = _arguments_end(data, name.end)
    after = _after_blanks(data, close)
    c = data[after : after + 1]
    before, word = line_end
    whole = Range(name.start, close)
    if close < 0 or before == b")" or word in _CLASS_KEYS:
        return
    if c == b"{":
        yield from _before_block(data, name, close, before)
    elif c == b":" and data[after + 1 : after + 2] != b":":
        if close == name.end and before in b";{}:" and _LINE_END.match(data, after + 1):
            yield Range(name.start, after + 1)
    elif _LINE_END.match(data, close) and _is_alone(before, c):
        yield whole
    elif before not in b";{}>:" and word not in _SPECIFIERS:
        return
    elif _is_declared(data, name, after):
        yield whole


def _before_block(data: bytes, name: Range, close: int, before: bytes) -> Iterator[Range]:
    """A macro before a block in a function goes; one that defines a function is left its name."""
    if before not in b";{}":
        return
    is_indented = data[name.start - 1 : name.start] in (b" ", b"\t")
    if close == name.end or is_indented:
        yield Range(name.start, close)
    elif b'"' in data[name.end : close]:
        yield Range(name.end + 1, close - 1)


def _is_alone(before: bytes, c: bytes) -> bool:
    """Return True if a name with its line to itself is no part of an expression or enumeration."""
    is_enumerator = c == b"}" and before in b"{,"
    return not is_enumerator and before in b";{}:>" and (not c or c not in b",)]?|+*/%^=.<&-")


def _is_declared(data: bytes, name: Range, after: int) -> bool:
    return b"_" in data[name.start : name.end] and _DECLARES.match(data, after) is not None


def _later(data: bytes, name: Range) -> Iterator[Range]:
    """Yield the ranges to blank of a name that follows a word, a type or template parameters on its line."""
    first = max(0, name.start - _LOOK_BACK)
    line = data.rfind(b"\n", first, name.start) + 1
    head = data[max(line, first) : name.start].rstrip()
    close = _arguments_end(data, name.end)
    if close < 0:
        return
    after = _after_blanks(data, close)
    found = _LAST_WORD.search(head)
    word = found[0] if found else b""
    if word in _CLASS_KEYS:
        is_macro = _is_before_class(data, word, after)
    elif word in _ACCESS:
        is_macro = data.startswith(b":", after)
    elif word in _SPECIFIERS or head.endswith(b">"):
        is_macro = not head.endswith(b"->") and _is_declared(data, name, after)
    elif word in _NOT_TYPES:
        is_macro = False
    elif close > name.end:
        is_macro = data[after : after + 1] in (b";", b"=", b"{") and _is_variable(head, word)
    else:
        is_macro = _CALLED.match(data, after) is not None
    if is_macro:
        yield Range(name.start, close)


def _is_before_class(data: bytes, key: bytes, after: int) -> bool:
    """Return True if the name of a class follows; `struct NAME x;` in C is a variable."""
    found = _CLASS_NAME.match(data, after)
    return found is not None and (found[2] is None or found[1] is not None or key == b"class")


def _is_variable(head: bytes, word: bytes) -> bool:
    """Return True if a type and a name end what stands before."""
    type_ = head[: -len(word)] if word else head
    if not word or not (type_[-1:].isspace() or type_[-1:] in (b"*", b"&")):
        return False
    type_ = _CONST_POINTER.sub(rb"\1", type_.rstrip())
    found = _LAST_WORD.search(type_)
    return found[0] not in _NOT_TYPES if found else type_[-1:] in (b">", b"*", b"&")


def _trailing(data: bytes, name: Range) -> Iterator[Range]:
    """Yield the ranges to blank of a name that follows a parameter list."""
    close = _arguments_end(data, name.end)
    after = _after_blanks(data, close)
    if close < 0 or not _AFTER_PARAMETERS.match(data, after) or data.startswith(b"::", after):
        return
    word = _before_parameters(data, name.start)
    if word is not None and word not in _CONTROL and not (word.isupper() and len(word) > 2):
        yield Range(name.start, close)


def _before_parameters(data: bytes, start: int) -> bytes | None:
    """The word before the parameter list that ends before `start`; b"" for an operator, None for neither."""
    place = data.rfind(b")", 0, start) + 1
    first = max(0, place - _LONGEST_ARGUMENTS)
    depth = 0
    while depth < _DEEPEST_ARGUMENTS:
        opening, closing = data.rfind(b"(", first, place), data.rfind(b")", first, place)
        place = max(opening, closing)
        if place < 0:
            return None
        depth += 1 if place == closing else -1
        if depth == 0:
            head = data[max(0, place - _LOOK_BACK) : place].rstrip()
            found = _LAST_WORD.search(head)
            if found:
                return found[0]
            return b"" if head[-1:] and head[-1:] in b">=)]<+-*/" else None
    return None


def _enabling(data: bytes, name: Range) -> Iterator[Range]:
    """The arguments of a condition among template parameters."""
    close = _arguments_end(data, name.end)
    after = _after_blanks(data, close)
    if close > name.end and data[after : after + 1] in (b">", b","):
        yield Range(name.end, close)


def _arguments_end(data: bytes, end: int) -> int:
    """Return the start of the arguments after a name, `end` if there are none; -1 if they don't end."""
    place = end
    while data[place : place + 1] in (b" ", b"\t"):
        place += 1
    if data[place : place + 1] != b"(":
        return end
    depth = 0
    for match in _PARENS.finditer(data, place, place + _LONGEST_ARGUMENTS):
        depth += (match[0] == b"(") - (match[0] == b")")
        if depth == 0:
            return match.end()
        if depth > _DEEPEST_ARGUMENTS:
            break
    return -1


def _after_blanks(data: bytes, place: int) -> int:
    """Return the end of space and comments."""
    match = _GAP.match(data, place)
    assert match is not None
    return match.end()


class _Before:
    """Text before a line; each line is looked at once."""

    def __init__(self, data: bytes, hidden: Sequence[Range], lines: Sequence[Range]) -> None:
        self._data = data
        self._hidden = hidden
        self._lines = lines
        self._known: dict[int, _LineEnd] = {}

    def of(self, place: int) -> _LineEnd:
        """The last character before a line, without space, comments and directives; and the word it ends.

        Nothing at all before it reads like a semicolon.
        """
        silent: list[int] = []
        end = self._data.rfind(b"\n", 0, place)
        while end >= 0 and end not in self._known:
            start = self._data.rfind(b"\n", 0, end) + 1
            line = self._data[start:end].strip()
            is_hidden = is_in(start, self._hidden) or is_in(start, self._lines)
            if not line or _SAYS_NOTHING.match(line) or is_hidden:
                silent.append(end)
                end = start - 1
            else:
                code = line.partition(b"//")[0].rstrip()
                word = _LAST_WORD.search(code)
                self._known[end] = code[-1:], word[0] if word else b""
        before = self._known.get(end, (b";", b""))
        self._known.update(dict.fromkeys(silent, before))
        return before
