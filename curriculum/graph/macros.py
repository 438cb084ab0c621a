"""ALL_CAPS names that no grammar can know, found by what stands around them.

    FMT_BEGIN_NAMESPACE                        alone on a line, or Q_OBJECT; PRAGMA(x) as well
    FMT_API int f();                           before a declaration
    int WINAPI f(int);                         between a type and a name
    void Lock() EXCLUSIVE_LOCK_FUNCTION() {    after a declarator
    int n_ GUARDED_BY(mutex_);                 after a member's name
    class LEVELDB_EXPORT DB {                  before the name of a class
    JSON_PRIVATE_UNLESS_TESTED:                as an access label
    JSON_TRY { … }                             before a block
    <class T, FMT_ENABLE_IF(!is_int<T>())>     the arguments alone, in a list of template parameters
    TEST_CASE("parses") {                      the arguments alone, where a function can't have them

A name in an expression, an enumerator, a type and a call with a semicolon are left alone.
"""

import re
from collections.abc import Iterator

from curriculum.graph.blank import hides
from curriculum.graph.facts import Range

_LONGEST_ARGUMENTS = 2_000
"""Bytes; what has longer arguments isn't taken for a macro."""
_LOOK_BACK = 200
"""Bytes that a word and what stands before it have room in."""
_CAPS = re.compile(rb"(?<![\w.>#:\"])[A-Z][A-Z0-9_]{2,}(?!\w)(?=[ \t]*[\n(\w{:;=~\[/<>])")
_PARENS = re.compile(rb"[()]")
_GAP = re.compile(rb"(?:\s|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|\\\n)*")
_REST = re.compile(rb"[ \t]*(?://[^\n]*|/\*[^\n]*)?(?=\n|\Z)")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_LAST_WORD = re.compile(rb"(?<!\w)[A-Za-z_]\w*\Z")
_CLASS_KEYS = frozenset((b"class", b"struct", b"union", b"enum"))
_CONTROL = frozenset(
    (b"if", b"for", b"while", b"switch", b"catch", b"return", b"sizeof", b"constexpr", b"decltype",
     b"alignof", b"static_assert", b"noexcept", b"co_return", b"co_await", b"throw", b"requires")
)  # fmt: skip
_SPECIFIERS = frozenset(
    (b"static", b"inline", b"virtual", b"explicit", b"friend", b"extern", b"constexpr", b"const",
     b"typedef", b"mutable", b"volatile", b"consteval", b"constinit", b"thread_local")
)  # fmt: skip
_AFTER_DECLARATOR = frozenset((b"const", b"noexcept", b"override", b"final", b"volatile"))
_NOT_TYPES = _CONTROL | _SPECIFIERS | _CLASS_KEYS | frozenset(
    (b"else", b"do", b"new", b"delete", b"case", b"default", b"goto", b"using", b"namespace",
     b"typename", b"template", b"operator", b"public", b"private", b"protected", b"and", b"or",
     b"not", b"co_yield", b"defined")
)  # fmt: skip
_ACCESS = frozenset((b"public", b"private", b"protected"))
_DECLARES = re.compile(
    rb"(?:template|class|struct|union|enum|using|typedef|static|inline|virtual|constexpr|const|friend"
    rb"|explicit|extern|consteval|auto|operator|mutable|unsigned|signed|void|bool|char|int|long|short"
    rb"|float|double|noexcept|override|final|[A-Z][A-Z0-9_]{2,})\b"
    rb"|\[\["
    rb"|~\w"
    rb"|(?:::)?\w+(?:::\w+|::~\w+)*(?:<[^;{}()]*>(?:::\w+)*)?(?:\s*[*&]+\s*|\s+)(?:const\b\s*)?[\w:(~&*]"
    rb"|\w+(?:::~?\w+)*\s*\("
)
"""What may follow a macro that stands before a declaration."""


def macros(data: bytes, hidden: list[Range]) -> list[Range]:
    """The bytes to blank, sorted and disjoint; `hidden` are the block comments and raw strings."""
    found: list[Range] = []
    hidden_at = 0
    for match in _CAPS.finditer(data):
        start = match.start()
        while hidden_at < len(hidden) and hidden[hidden_at].end <= start:
            hidden_at += 1
        if hidden_at < len(hidden) and hidden[hidden_at].start <= start:
            continue
        if found and start < found[-1].end:
            continue
        found.extend(_masked(data, start, match.end()))
    return found


def _masked(data: bytes, start: int, end: int) -> Iterator[Range]:
    """What to blank of the ALL_CAPS name `[start, end)`."""
    line = data.rfind(b"\n", 0, start) + 1
    lead = data[line:start]
    follows = data[_gap(data, end) :][:1] if False else data[end : end + 1]
    is_first = not lead or lead.isspace()
    if follows == b"(" and is_first and _ends_statement(data, end):
        return
    if not is_first and (lead.lstrip()[:1] == b"#" or hides(data, line, start)):
        return
    close = _arguments_end(data, end)
    if close < 0:
        return
    yield from _judged(data, Range(start, end), close, is_first=is_first)


def _ends_statement(data: bytes, place: int) -> bool:
    """Whether the line is a call with its semicolon."""
    line_end = data.find(b"\n", place)
    rest = data[place : line_end if line_end >= 0 else len(data)]
    return rest.rstrip().endswith((b");", b",", b"+", b"<<")) and b"{" not in rest


def _judged(data: bytes, name: Range, close: int, *, is_first: bool) -> Iterator[Range]:
    has_arguments = close > name.end
    after = _gap(data, close)
    c = data[after : after + 1]
    before, word = _before(data, name.start)
    whole = Range(name.start, close)
    if word in _CLASS_KEYS:
        if _is_class_name(data, after, word):
            yield whole
    elif before == b")" or word in _AFTER_DECLARATOR:
        if _is_trailing(data, name.start, after, c):
            yield whole
    elif c == b"{":
        yield from _before_block(data, name, close, before, word, is_first=is_first)
    elif c == b":" and data[after + 1 : after + 2] != b":":
        if not has_arguments and _REST.match(data, after + 1):
            if word in _ACCESS:
                yield whole
            elif is_first and before in b";{}:":
                yield Range(name.start, after + 1)
    elif has_arguments and c in (b">", b",") and before in (b"<", b","):
        if c == b">" or b"ENABLE_IF" in data[name.start : name.end]:
            yield Range(name.end, close)
    elif (
        (is_first and _REST.match(data, close) and _is_alone(data, before, word, after, c))
        or _stands_before(data, name, after, before, word, is_first=is_first)
        or (has_arguments and c in (b";", b"=", b"{") and _is_named(data, name.start, word))
    ):
        yield whole


def _is_class_name(data: bytes, after: int, key: bytes) -> bool:
    """Whether a name stands there that has a body, bases or, for `class`, only a semicolon."""
    name = re.compile(rb"[\w:]+(?:\s*<[^;{}]*>)?\s*(?:final\b\s*)?([{:;])").match(data, after)
    return bool(name) and (name[1] != b";" or key == b"class") if name else False


def _is_trailing(data: bytes, start: int, after: int, c: bytes) -> bool:
    """Whether what stands between a parameter list and `after` annotates a declarator."""
    if c not in (b"{", b";", b"=", b":", b"-", b"") and not _WORD.match(data, after):
        return False
    if c == b":" and data[after + 1 : after + 2] == b":":
        return False
    if (
        c.isalpha()
        and _WORD.match(data, after)[0] not in _AFTER_DECLARATOR
        and not _is_caps(data, after)
    ):
        return False
    word = _before_parameters(data, start)
    return word is not None and word not in _CONTROL and not (word.isupper() and len(word) > 2)


def _is_caps(data: bytes, place: int) -> bool:
    match = _CAPS.match(data, place)
    return match is not None


def _before_parameters(data: bytes, start: int) -> bytes | None:
    """The word before the parameter list that ends before `start`; b"" for an operator's sign."""
    close = data.rfind(b")", 0, start)
    depth = 0
    for match in reversed(
        list(_PARENS.finditer(data, max(0, close - _LONGEST_ARGUMENTS), close + 1))
    ):
        depth += 1 if match[0] == b")" else -1
        if depth == 0:
            head = data[max(0, match.start() - _LOOK_BACK) : match.start()].rstrip()
            word = _LAST_WORD.search(head)
            if word:
                return word[0]
            return (
                b"" if head[-1:] in (b">", b"=", b")", b"]", b"<", b"+", b"-", b"*", b"/") else None
            )
    return None


def _before_block(
    data: bytes, name: Range, close: int, before: bytes, word: bytes, *, is_first: bool
) -> Iterator[Range]:
    if before not in (b"", b";", b"{", b"}") or not is_first:
        return
    if close == name.end:
        yield name
    elif data[name.start - 1 : name.start] in (b" ", b"\t"):
        yield Range(name.start, close)
    elif b'"' in data[name.end : close]:
        yield Range(name.end + 1, close - 1)


def _is_alone(data: bytes, before: bytes, word: bytes, after: int, c: bytes) -> bool:
    """Whether a name with its line to itself is no part of what stands around it."""
    if c in (
        b",",
        b")",
        b"]",
        b"?",
        b"|",
        b"+",
        b"*",
        b"/",
        b"%",
        b"^",
        b"=",
        b".",
        b"<",
        b"&",
        b"-",
    ):
        return False
    if c == b"}" and before in (b"{", b","):
        return False
    return before in (b"", b";", b"{", b"}", b":", b">") or word == b"\n"


def _stands_before(
    data: bytes, name: Range, after: int, before: bytes, word: bytes, *, is_first: bool
) -> bool:
    """Whether a declaration follows that could do without the name."""
    if word in _SPECIFIERS or before in (b"", b";", b"{", b"}", b">", b":"):
        return b"_" in data[name.start : name.end] and bool(_DECLARES.match(data, after))
    if (before.isalnum() and word not in _NOT_TYPES) or before == b"*":
        # A calling convention.
        called = re.compile(rb"[A-Za-z_]\w*\s*\(").match(data, after)
        return bool(called) and data[name.end : name.end + 1].isspace()
    return False


def _is_named(data: bytes, start: int, word: bytes) -> bool:
    """Whether a type and a name stand before."""
    if not word or word in _NOT_TYPES:
        return False
    head = data[max(0, start - _LOOK_BACK) : start].rstrip()[: -len(word)]
    if not head[-1:].isspace() and head[-1:] not in (b"*", b"&"):
        return False
    head = head.rstrip()
    last = _LAST_WORD.search(head)
    if last:
        return last[0] not in _NOT_TYPES or last[0] == b"const"
    return head[-1:] in (b">", b"*", b"&")


def _arguments_end(data: bytes, end: int) -> int:
    """Where the arguments after a name end, `end` if there are none; -1 if they don't."""
    place = end
    while data[place : place + 1] in (b" ", b"\t"):
        place += 1
    if data[place : place + 1] != b"(":
        return end
    depth = 0
    for match in _PARENS.finditer(data, place, place + _LONGEST_ARGUMENTS):
        depth += 1 if match[0] == b"(" else -1
        if depth == 0:
            return match.end()
    return -1


def _gap(data: bytes, place: int) -> int:
    """Where space and comments end."""
    match = _GAP.match(data, place)
    assert match is not None
    return match.end()


def _before(data: bytes, place: int) -> tuple[bytes, bytes]:
    """The last character before, without space, comments and directives, and the word that it ends."""
    head = data[max(0, place - _LOOK_BACK) : place].rstrip(b" \t")
    while head.endswith(b"\n"):
        place -= 1
        lines = head.rstrip()
        place = place
        head, _, last = lines.rpartition(b"\n")
        if not lines:
            return b"", b""
        stripped = last.lstrip()
        if stripped.startswith((b"//", b"#", b"*", b"/*")) or stripped.endswith(b"*/"):
            head += b"\n"
            continue
        cut = last.find(b"//")
        head = (last[:cut] if cut >= 0 else last).rstrip()
    word = _LAST_WORD.search(head)
    return head[-1:], word[0] if word else b""
