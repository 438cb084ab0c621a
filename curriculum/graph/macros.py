"""ALL_CAPS macros that the grammar can't parse: the bytes to blank, outside of expressions and types.

Macros are recognised by the text around them:

    FMT_BEGIN_NAMESPACE                        alone on a line; also Q_OBJECT, PRAGMA(x)
    FMT_API int f();                           before a declaration; also `static FMT_INLINE int f()`
    JSON_PRIVATE_UNLESS_TESTED:                as an access label
    JSON_TRY { … }                             before a block
    TEST_CASE("parses") {                      only the arguments, which no function definition has
    int WINAPI f(int);                         between a type and a function's name
    int n_ GUARDED_BY(mutex_);                 after a variable's name
    class LEVELDB_EXPORT DB {                  before the name of a class
    void Lock() EXCLUSIVE_LOCK_FUNCTION() {    after a parameter list
    CHECK_THROWS_AS(f(), Error&);              only the & of a type among arguments
    <class T, FMT_ENABLE_IF(!is_int<T>())>     only the arguments, among template parameters

Names in expressions, enumerators and types, and calls that end with a semicolon, are not blanked.
"""

import re
from collections.abc import Iterator, Sequence

from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import is_in

_CAPS = rb"[A-Z][A-Z0-9_]{2,}(?!\w)"
_FIRST = re.compile(
    rb"\n[ \t]*+(" + _CAPS + rb")(?![^\S\n]*(?:[,;.)?|+*%^=&-]|\([^\n{}]*\)[^\S\n]*[;,][^\S\n]*\n))"
)
_LATER = re.compile(rb" (?=[A-Z])(?<=[\w>*&] )(" + _CAPS + rb")(?=[ (:])")
_TRAILING = re.compile(
    rb"\)\s*(?:(?:const|noexcept|override|final|volatile|&)\s*)*("
    + _CAPS
    + rb")(?!\s*[.\[?|+*%^!)])"
)
_ENABLING = re.compile(rb"(?<!\w)(?:(?!ENABLE_IF)\w)*+(ENABLE_IF\w*+)\(")
_TYPE_ARGUMENT = re.compile(rb"\n[ \t]*+[A-Z][A-Z0-9_]{2,}\([^\n;]*[\w>][ \t]*([&*]+)\)+;")
_MAX_ARGUMENTS_LENGTH = 2_000
"""Maximum bytes of a macro's arguments; a name with longer arguments is not treated as a macro."""
_MAX_ARGUMENTS_DEPTH = 30
"""Maximum depth of nested parentheses in a macro's arguments."""
_LOOK_BACK = 120
"""Maximum bytes searched backwards for a word and the text before it."""
_LineEnd = tuple[bytes, bytes]
"""Last character of a line, and the word at its end."""

_PARENS = re.compile(rb"""[()]|"(?:[^"\\\n]++|\\.)*+"|'(?:[^'\\\n]|\\.)'""")
_GAP = re.compile(rb"(?:\s|//[^\n]*|/\*(?:[^*]|\*(?!/)){0,2000}\*/|\\\n)*")
_LINE_END = re.compile(rb"[ \t]*(?://[^\n]*|/\*[^\n]*)?(?=\n|\Z)")
_LAST_WORD = re.compile(rb"(?<!\w)[A-Za-z_]\w*\Z")
_CLASS_NAME = re.compile(
    rb"[A-Za-z_][\w:]*(\s*<[^;{}]{0,500}>)?\s*(?:final\b\s*)?(?:\{|:(?!:)|(;))"
)
_CONST_POINTER = re.compile(rb"([*&])\s*const\Z")
_WITHOUT_CODE = re.compile(rb"//|#|\*|/\*|.*(?:\*/|\\)\Z|" + _CAPS + rb"(?:\(.*\))?\s*(?://.*)?\Z")
"""Line with only a comment, a directive or a macro."""
_CALLED = re.compile(rb"[A-Za-z_]\w*\s*\(")
_BETWEEN = re.compile(_CAPS + rb"[ \t]+[A-Za-z_]\w*\s*\(")
"""Macro between a type and a function's name."""
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
"""Text with which a declaration after a macro may begin."""


_ATTRIBUTED = re.compile(
    rb"\b(?:class|struct|union|enum)\s+(?:(?:__attribute__|__declspec|alignas)\s*\([^;{}]*\)\s*)+\Z"
)
"""Class keyword and attributes before a class's name. After their parentheses, the name would look like a
macro after a parameter list.
"""
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
    """Return the bytes to blank, sorted and disjoint.

    `hidden` (comments and literals) and `lines` (directives) are not searched.
    """

    def names(pattern: re.Pattern[bytes], *, shift: int = 0) -> Iterator[Range]:
        for match in pattern.finditer(b"\n" + data if shift else data):
            start, end = match.span(1)
            if not is_in(start - shift, hidden) and not is_in(start - shift, lines):
                yield Range(start - shift, end - shift)

    before = _Before(data, hidden, lines)
    masked = [*names(_TYPE_ARGUMENT, shift=1)]
    for name in names(_FIRST, shift=1):
        masked += _at_line_start(data, name, before.line_end(name.start))
    for pattern, rule in (
        (_LATER, _after_word),
        (_TRAILING, _after_parameters),
        (_ENABLING, _enable_if_arguments),
    ):
        for name in names(pattern):
            masked += rule(data, name)
    found: list[Range] = []
    for span in sorted(masked):
        if not (found and span.start < found[-1].end):
            found.append(span)
    return found


def _at_line_start(data: bytes, name: Range, line_end: _LineEnd) -> Iterator[Range]:
    """Yield the ranges to overwrite with spaces for `name`, an ALL_CAPS name at the start of a line."""
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
    """Yield the range to blank for a `name` that precedes a block.

    Inside a function it is the macro; for a macro that defines a function it is only the macro's arguments.
    """
    if before not in b";{}":
        return
    is_indented = data[name.start - 1 : name.start] in (b" ", b"\t")
    if close == name.end or is_indented:
        yield Range(name.start, close)
    elif b'"' in data[name.end : close]:
        yield Range(name.end + 1, close - 1)


def _is_alone(before: bytes, c: bytes) -> bool:
    """Return True if a name that is alone on its line is not part of an expression or enumeration.

    `before` is the last code before the name, `c` the first character of code after it.
    """
    is_enumerator = c == b"}" and before in b"{,"
    return not is_enumerator and before in b";{}:>" and (not c or c not in b",)]?|+*/%^=.<&-")


def _is_declared(data: bytes, name: Range, after: int) -> bool:
    is_macro = b"_" in data[name.start : name.end] and not _BETWEEN.match(data, after)
    return is_macro and _DECLARES.match(data, after) is not None


def _after_word(data: bytes, name: Range) -> Iterator[Range]:
    """Yield the range to blank for `name` if a word, type or `template <…>` precedes it on the same line."""
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
    """Return True if a class's name follows at `after`; in C, `struct NAME x;` declares a variable."""
    found = _CLASS_NAME.match(data, after)
    return found is not None and (found[2] is None or found[1] is not None or key == b"class")


def _is_variable(head: bytes, word: bytes) -> bool:
    """Return True if the text before the macro ends with a type and a name."""
    type_ = head[: -len(word)] if word else head
    if not word or not (type_[-1:].isspace() or type_[-1:] in (b"*", b"&")):
        return False
    type_ = _CONST_POINTER.sub(rb"\1", type_.rstrip())
    found = _LAST_WORD.search(type_)
    return found[0] not in _NOT_TYPES if found else type_[-1:] in (b">", b"*", b"&")


def _after_parameters(data: bytes, name: Range) -> Iterator[Range]:
    """Yield the range to blank for `name` if it follows a parameter list."""
    close = _arguments_end(data, name.end)
    after = _after_blanks(data, close)
    if close < 0 or not _AFTER_PARAMETERS.match(data, after) or data.startswith(b"::", after):
        return
    word = _before_parameters(data, name.start)
    if word is None or word in _CONTROL or (word.isupper() and len(word) > 2):
        return
    if not _ATTRIBUTED.search(data, max(0, name.start - _LOOK_BACK), name.start):
        yield Range(name.start, close)


def _before_parameters(data: bytes, start: int) -> bytes | None:
    """Return the word before the parameter list that ends before `start`.

    The result is b"" if an operator such as `=` or `>` precedes the list, and None if nothing like that does.
    """
    place = data.rfind(b")", 0, start) + 1
    first = max(0, place - _MAX_ARGUMENTS_LENGTH)
    depth = 0
    while depth < _MAX_ARGUMENTS_DEPTH:
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


def _enable_if_arguments(data: bytes, name: Range) -> Iterator[Range]:
    """Yield the arguments of an ENABLE_IF condition if it is a template parameter."""
    close = _arguments_end(data, name.end)
    after = _after_blanks(data, close)
    if close > name.end and data[after : after + 1] in (b">", b","):
        yield Range(name.end, close)


def _arguments_end(data: bytes, end: int) -> int:
    """Return the end of the arguments after a name that ends at `end`.

    The result is `end` if there are no arguments, and -1 if they are too long or not closed.
    """
    place = end
    while data[place : place + 1] in (b" ", b"\t"):
        place += 1
    if data[place : place + 1] != b"(":
        return end
    depth = 0
    for match in _PARENS.finditer(data, place, place + _MAX_ARGUMENTS_LENGTH):
        depth += (match[0] == b"(") - (match[0] == b")")
        if depth == 0:
            return match.end()
        if depth > _MAX_ARGUMENTS_DEPTH:
            break
    return -1


def _after_blanks(data: bytes, place: int) -> int:
    """Return the end of white space and comments that begin at `place`."""
    match = _GAP.match(data, place)
    assert match is not None
    return match.end()


class _Before:
    """Lookup of the last code before a line; each line is read once."""

    def __init__(self, data: bytes, hidden: Sequence[Range], lines: Sequence[Range]) -> None:
        self._data = data
        self._hidden = hidden
        self._lines = lines
        self._known: dict[int, _LineEnd] = {}

    def line_end(self, place: int) -> _LineEnd:
        """Return the last character of code before the line of `place`, and the word that ends there.

        White space, comments and directives are skipped. At the beginning of a file, the character is a
        semicolon.
        """
        silent: list[int] = []
        end = self._data.rfind(b"\n", 0, place)
        while end >= 0 and end not in self._known:
            start = self._data.rfind(b"\n", 0, end) + 1
            line = self._data[start:end].strip()
            is_hidden = is_in(start, self._hidden) or is_in(start, self._lines)
            if not line or _WITHOUT_CODE.match(line) or is_hidden:
                silent.append(end)
                end = start - 1
            else:
                code = line.partition(b"//")[0].rstrip()
                word = _LAST_WORD.search(code)
                self._known[end] = code[-1:], word[0] if word else b""
        before = self._known.get(end, (b";", b""))
        self._known.update(dict.fromkeys(silent, before))
        return before
