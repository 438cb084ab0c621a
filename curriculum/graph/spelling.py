"""Parsing of names, types and parameter lists as they are written; results are cached by text.

The syntax tree says where these texts are. They have one character per byte (see line_ranges.byte_text).
"""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_TEXT_LENGTH = 2_000
"""Maximum number of characters of a text; longer texts are not parsed."""
_CACHE_SIZE = 8_192
_ARGUMENTS = re.compile(r"<[^<>]*>")
_OPERATOR = re.compile(r"\boperator\b")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_REMARK = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BRACKETS = re.compile(r"->|[<>()\[\]{},]|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)+'")
_SPECIFIERS = (
    r"(?:\s++|\[\[[^\]]*\]\]|(?:alignas|__attribute__|__declspec|explicit|noexcept)\s*\(.*?\)+"
    r"|(?:const|volatile|struct|class|union|enum|typename|static|inline|constexpr|consteval|constinit"
    r"|extern|mutable|thread_local|register|virtual|explicit|friend|typedef|restrict|__restrict"
    r"|__inline|__extension__|this|template)\b"
    r"|[A-Z][A-Z0-9]*_[A-Z0-9_]*(?=\s+[\w:]))*"
)
_TYPE = re.compile(
    _SPECIFIERS + r"(?:((?:(?:unsigned|signed|long|short|int|char|double|float)\b\s*)+)"
    r"|(?:::\s*)?((?:[^\W\d]\w*\s*::\s*(?:template\s+)?)*)([^\W\d]\w*))"
)
_NO_TYPES = frozenset(
    ("decltype", "explicit", "virtual", "inline", "static", "constexpr", "friend")
)
_POINTERS = frozenset(
    ("unique_ptr", "shared_ptr", "weak_ptr", "optional", "atomic", "scoped_refptr")
)
_POINTEE = re.compile(r"[^<]*<(.*)>\s*\Z", re.DOTALL)
_DECLARED = re.compile(
    r"(?:(?:const|volatile|restrict|__restrict)\b|[\s*&.(^])*"
    r"(?!(?:const|volatile|restrict|__restrict)\b)([^\W\d]\w*)"
)


class Name(NamedTuple):
    """Name as written in the code; `at` is the offset of its last part in the parsed text."""

    qualifier: tuple[str, ...]
    name: str
    at: int


class Parameters(NamedTuple):
    """Types of a parameter list, and the minimum and maximum number of arguments (-1 for no limit)."""

    types: tuple[str, ...]
    min_arity: int
    max_arity: int


NO_NAME = Name((), "", 0)
NO_PARAMETERS = Parameters((), 0, 0)


@functools.lru_cache(maxsize=_CACHE_SIZE)
def name_of(text: str) -> Name:
    """Return the qualifier, the name and the name's offset in `text`, without template arguments.

    >>> name_of("a::Map<int, b::C>::at"), name_of("::f<T>")
    (Name(qualifier=('a', 'Map'), name='at', at=19), Name(qualifier=('',), name='f', at=2))
    >>> name_of("A::operator  bool").name, name_of("operator ()").name, name_of("~A").name
    ('operator bool', 'operator()', '~A')
    """
    if len(text) > MAX_TEXT_LENGTH:
        return Name((), "", 0)
    operator = _OPERATOR.search(text)
    flat = _flat(text[: operator.start()] if operator else text)
    *scopes, last = flat.split("::")
    at = len(flat) - len(last) + len(last) - len(last.lstrip())
    name = last.strip().removeprefix("template ").strip()
    if last.lstrip().startswith("template "):
        at = flat.index(name, at)
    if operator:
        at, name = operator.start(), _operator(text[operator.end() :])
    elif name.startswith("~"):
        name = "~" + name[1:].strip()
    qualifier = tuple(part.removeprefix("template ").strip() for part in map(str.strip, scopes))
    return Name(qualifier, name, at)


def _flat(text: str) -> str:
    """Return the text with its template arguments replaced by spaces.

    >>> _flat("A<B<1>>::c")
    'A      ::c'
    """
    while "<" in text:
        before = text
        text = _ARGUMENTS.sub(lambda match: " " * len(match[0]), text)
        if text == before:
            return text.split("<")[0]
    return text


def _operator(signs: str) -> str:
    signs = " ".join(signs.split())
    if signs[:1].isalpha() or signs[:1] == "_":
        return f"operator {signs}"
    return "operator" + signs.replace(" ", "")


@functools.lru_cache(maxsize=_CACHE_SIZE)
def type_of(text: str) -> tuple[str, str]:
    """Return the name of a type, and the name of the type to which a smart pointer points.

    For other types than smart pointers, both are the same.

    >>> type_of("const std::vector<int>&"), type_of("std::unique_ptr<a::Foo>"), type_of("unsigned  long")
    (('vector', 'vector'), ('unique_ptr', 'Foo'), ('unsigned long', 'unsigned long'))
    """
    if len(text) > MAX_TEXT_LENGTH:
        return "", ""
    found = _TYPE.match(_flat(text))
    if found is None:
        return "", ""
    if found[1]:
        name = " ".join(found[1].split())
        return name, name
    name = found[3]
    if name in _NO_TYPES:
        return "", ""
    pointee = _POINTEE.match(text) if name in _POINTERS else None
    return name, type_of(pointee[1])[0] if pointee else name


@functools.lru_cache(maxsize=_CACHE_SIZE)
def declared_name(text: str) -> str:
    """Return the name that a declarator declares; "" for none.

    >>> declared_name("*const *names[3]"), declared_name("(&all)[N]"), declared_name("(*call)(int)")
    ('names', 'all', 'call')
    >>> declared_name("&&")
    ''
    """
    found = _DECLARED.match(text)
    return found[1] if found else ""


@functools.lru_cache(maxsize=_CACHE_SIZE)
def parameters_of(text: str) -> Parameters:
    """Parse the text between the parentheses of a parameter list.

    >>> parameters_of("const std::vector<int>& x, int n = 3")
    Parameters(types=('vector', 'int'), min_arity=1, max_arity=2)
    >>> parameters_of("void"), parameters_of("const char* format, ...").max_arity
    (Parameters(types=(), min_arity=0, max_arity=0), -1)
    """
    if len(text) > MAX_TEXT_LENGTH:
        return Parameters((), 0, -1)
    if "/" in text:
        text = _REMARK.sub(" ", text)
    types: list[str] = []
    min_arity, is_open = 0, False
    for parameter in split(text):
        if parameter in ("", "void"):
            continue
        if parameter == "...":
            is_open = True
            continue
        head, has_default, _ = parameter.partition("=")
        is_pack = "..." in head
        is_open |= is_pack
        min_arity += not has_default and not is_pack
        is_callable = "(*" in head or "(&" in head or "(^" in head
        types.append("" if is_callable else type_of(head)[0])
    return Parameters(tuple(types), min_arity, -1 if is_open else len(types))


def split(text: str) -> Iterator[str]:
    """Yield the parts of `text` between the commas that are outside of brackets.

    >>> list(split("A<B, C> a, int b = f(1, 2)"))
    ['A<B, C> a', 'int b = f(1, 2)']
    """
    depth = start = 0
    for match in _BRACKETS.finditer(text):
        sign = match[0]
        if sign in ("<", "(", "[", "{"):
            depth += 1
        elif sign in (">", ")", "]", "}"):
            depth -= 1
        elif sign == "," and depth <= 0:
            yield text[start : match.start()].strip()
            start = match.end()
    yield text[start:].strip()


_USING = re.compile(r"using\s++(?:namespace\s++|enum\s++)?(?:typename\s++)?([\w:\s]++);")


def using_of(text: str) -> str:
    """Return the name in a using declaration; "" if it has template arguments.

    >>> using_of("using namespace std;"), using_of("using  a::b ;")
    ('std', 'a::b')
    """
    found = _USING.match(text)
    return "".join(found[1].split()) if found else ""


@functools.lru_cache(maxsize=_CACHE_SIZE)
def bases_of(text: str) -> tuple[str, ...]:
    """Return the base classes in the text between a class's name and its body.

    >>> bases_of(" final : public detail::Stage<T, 2>, private B ")
    ('detail::Stage', 'B')
    """
    _, colon, listed = _flat(text[:MAX_TEXT_LENGTH]).partition(":")
    if not colon:
        return ()
    words = (base.replace("...", " ").split() for base in listed.split(","))
    return tuple("".join(word for word in some if word not in _ACCESS) for some in words if some)


_ACCESS = frozenset(("public", "private", "protected", "virtual", "typename"))
