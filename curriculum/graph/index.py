"""Extraction of the facts of one C or C++ file from its syntax tree, without recursion.

One query captures the relevant nodes. A pass in the order of the text extracts the definitions; calls, types
and local variables are then assigned to the definitions by their offsets.
"""

import functools
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

import tree_sitter

from curriculum.graph.blank import TO_LINE_END
from curriculum.graph.extract_symbols import ExtractedSymbols, extract_symbols
from curriculum.graph.facts import Call, CallForm, FileFacts, Member, Range, Symbol
from curriculum.graph.line_ranges import Extents, byte_text, from_byte_text, is_in
from curriculum.graph.spelling import Name, declared_name, name_of, split, type_of, using_of
from curriculum.graph.syntax_tree import Kinds, Nodes, Parsed, captures_of, kinds, parse
from schemas.corpus import Language

Node = tree_sitter.Node

_MAX_RECEIVER_LENGTH = 100
"""Maximum number of characters of a receiver whose type is looked up."""
_MAX_BASES = 8
"""Maximum number of base classes searched for a member."""
_RECEIVER = re.compile(r"(?:(this)\s*->\s*)?(?:([^\W\d]\w*)\s*(?:\.|->)\s*)?\Z")
_NOT_CALLS = frozenset(
    """static_cast dynamic_cast const_cast reinterpret_cast sizeof alignof decltype typeid noexcept
    defined if for while switch return catch""".split()  # noqa: SIM905
)
_BUILT_IN = frozenset(
    """auto void bool char short int long float double unsigned signed size_t wchar_t char8_t
    char16_t char32_t""".split()  # noqa: SIM905
)


@lru_cache(maxsize=4_096)
def _receiver(text: str) -> str:
    """Return the receiver of a method call from `text`, the code before the method's name.

    The result is `this`, the receiver's name followed by a dot, or "" for other expressions.
    """
    found = _RECEIVER.match(text)
    if found is None:
        return ""
    return f"{found[2]}." if found[2] else found[1] or ""


def calls_of(
    found: Mapping[str, Nodes],
    swept: ExtractedSymbols,
    kinds: Kinds,
    text: str,
    places: Sequence[int],
) -> Iterator[Call]:
    """Yield the calls of a file in the order of the text, with the functions that contain them.

    `swept` holds drafts of the symbols; draft i becomes symbol places[i] of the file. A call site is a Call
    whose caller is not yet known. Its receiver is None, `this`, "", the receiver's name followed by a dot, or
    "." for a member initialiser.
    """
    sites = [*_calls(found, kinds, text), *_constructions(found, kinds, text)]
    sites += _built_locals(swept.locals, kinds, text)
    sites.sort(key=attrgetter("start", "form", "name", "qualifier"))
    functions = swept.at([site.start for site in sites], swept.functions)
    types = _Types(swept=swept, kinds=kinds, text=text)
    types.learn(found, sites, functions)
    for site, function in zip(sites, functions, strict=True):
        call = Call(places[function], *site[1:])
        if not call.receiver or call.receiver == "this":
            yield call
        else:
            yield from _resolved(call, call.receiver, function, types)


def _resolved(call: Call, receiver: str, function: int, types: "_Types") -> Iterator[Call]:
    """Yield the call with the type of its `receiver`.

    The call is a method call or the construction of a member by a member initialiser.
    """
    if call.form == "call":
        kind = types.type_at(receiver[:-1], function, call.start)
        if kind is None:
            yield call._replace(receiver="", object=receiver[:-1])
        else:
            yield call._replace(receiver=kind)
    elif call.name in types.classes:
        yield call._replace(receiver=None)
    else:
        member = types.member(call.name, function) if function >= 0 else None
        if member is None:
            yield call._replace(receiver=None, object=call.name)
        elif member.is_object and member.type not in _BUILT_IN:
            yield call._replace(name=member.type, receiver=None)


def _site(form: CallForm, written: Name, at: int, receiver: str | None, arity: int) -> Call:
    return Call(-1, form, written.name, written.qualifier, receiver, arity, at + written.at)


def _calls(found: Mapping[str, Nodes], kinds: Kinds, text: str) -> Iterator[Call]:
    remarks = sorted(comment.start_byte for comment in found.get("remark", ()))
    for call in found.get("call", ()):
        callee = call.child_by_field_id(kinds.function)
        listed = call.child_by_field_id(kinds.arguments)
        if callee is None or listed is None:
            continue
        while callee.kind_id == kinds.parenthesized_expression and callee.named_child_count == 1:
            callee = callee.named_children[0]
        kind, start = callee.kind_id, callee.start_byte
        arity = _arity(listed, kinds, remarks)
        if kind == kinds.identifier:
            name = text[start : callee.end_byte]
            if name not in _NOT_CALLS:
                form: CallForm = "macro" if name.isupper() and len(name) > 1 else "call"
                yield Call(-1, form, name, (), None, arity, start)
        elif kind == kinds.field_expression:
            method = callee.child_by_field_id(kinds.field)
            if method is not None:
                at = method.start_byte
                written = name_of(text[at : method.end_byte])
                receiver = _receiver(text[start:at]) if at - start < _MAX_RECEIVER_LENGTH else ""
                yield _site("call", written, at, receiver, arity)
        elif kind in kinds.written_names:
            written = name_of(text[start : callee.end_byte])
            if written.name not in _NOT_CALLS:
                yield _site("call", written, start, None, arity)
    yield from _calls_like_casts(found, kinds, text)


def _calls_like_casts(found: Mapping[str, Nodes], kinds: Kinds, text: str) -> Iterator[Call]:
    """Yield calls such as `(std::min)(a, b)`, which the grammar parses as casts."""
    for cast in found.get("cast", ()):
        called = cast.child_by_field_id(kinds.type)
        value = cast.child_by_field_id(kinds.value)
        if called is not None and value is not None:
            written = name_of(text[called.start_byte : called.end_byte])
            arity = sum(1 for _ in split(text[value.start_byte + 1 : value.end_byte - 1]))
            yield _site("call", written, called.start_byte, None, arity)


def _arity(listed: Node, kinds: Kinds, remarks: Sequence[int]) -> int:
    """Return the number of arguments in the argument list `listed`; comments don't count."""
    arity = listed.named_child_count
    next_ = bisect_left(remarks, listed.start_byte)
    if next_ < len(remarks) and remarks[next_] < listed.end_byte:
        arity -= sum(argument.kind_id == kinds.comment for argument in listed.named_children)
    return arity


def _constructions(found: Mapping[str, Nodes], kinds: Kinds, text: str) -> Iterator[Call]:
    made = sorted(found.get("made", ()), key=attrgetter("start_byte"))
    starts = [node.start_byte for node in made]
    for value in found.get("value", ()):
        yield from _constructed(made[bisect_left(starts, value.start_byte) - 1], value, text)
    for capture, listed in (("new", kinds.arguments), ("literal", kinds.value)):
        for node in found.get(capture, ()):
            type_node = node.child_by_field_id(kinds.type)
            if type_node is not None:
                yield from _constructed(type_node, node.child_by_field_id(listed), text)
    for initialiser in found.get("initialiser", ()):
        first, last = initialiser.child(0), initialiser.child(initialiser.child_count - 1)
        if first is not None and last is not None:
            for site in _constructed(first, last, text):
                yield site._replace(receiver=None if site.qualifier else ".")


def _constructed(type_: Node, value: Node | None, text: str) -> Iterator[Call]:
    written = name_of(text[type_.start_byte : type_.end_byte])
    if written.name.isidentifier() and written.name not in _BUILT_IN:
        arity = 0 if value is None else value.named_child_count
        yield _site("construct", written, type_.start_byte, None, arity)


def _built_locals(declarations: Nodes, kinds: Kinds, text: str) -> Iterator[Call]:
    """Yield constructions such as `Foo x(a, b);`, which the grammar parses as function declarations."""
    for node in declarations:
        if not text.endswith(");", node.start_byte, node.end_byte):
            continue
        declarator = node.child_by_field_id(kinds.declarator)
        made = node.child_by_field_id(kinds.type)
        if declarator is None or made is None or declarator.kind_id != kinds.function_declarator:
            continue
        yield from _constructed(made, declarator.child_by_field_id(kinds.parameters), text)


@dataclass(kw_only=True, slots=True)
class _Types:
    """Declared types of names, looked up by function and offset."""

    swept: ExtractedSymbols
    kinds: Kinds
    text: str
    classes: dict[str, int] = field(default_factory=dict)
    _members: dict[tuple[int, str], Member] = field(default_factory=dict)
    _owners: dict[tuple[str, ...], int] = field(default_factory=dict)
    _locals: dict[tuple[int, str], list[tuple[int, str]]] = field(default_factory=dict)

    def learn(self, found: Mapping[str, Nodes], sites: list[Call], functions: list[int]) -> None:
        """Record the types of members, and of those local variables on which methods are called."""
        for number, draft in enumerate(self.swept.drafts):
            if draft.kind == "class":
                self.classes.setdefault(draft.name, number)
                if draft.body:
                    self._owners.setdefault((*draft.scope, draft.name), number)
        for member in self.swept.members:
            self._members.setdefault((member.owner, member.name), member)
        wanted: defaultdict[int, set[str]] = defaultdict(set)
        for site, function in zip(sites, functions, strict=True):
            if site.receiver and site.receiver.endswith("."):
                wanted[function].add(site.receiver[:-1])
        nodes = [*found.get("typed", ()), *self.swept.locals]
        places = [node.start_byte for node in nodes]
        owners = self.swept.at(places, self.swept.functions)
        for node, place, function in zip(nodes, places, owners, strict=True):
            names = wanted.get(function)
            if names:
                self._learn_local(node, place, function, names)
        for local in self._locals.values():
            local.sort()

    def _learn_local(self, node: Node, place: int, function: int, names: set[str]) -> None:
        for declarator in node.children_by_field_id(self.kinds.declarator):
            name = declared_name(
                self.text[
                    declarator.start_byte : min(declarator.end_byte, declarator.start_byte + 200)
                ]
            )
            made = node.child_by_field_id(self.kinds.type) if name in names else None
            if made is not None:
                kind = type_of(self.text[made.start_byte : made.end_byte])[1]
                kind = "" if kind == "auto" else kind
                self._locals.setdefault((function, name), []).append((place, kind))

    def type_at(self, name: str, function: int, place: int) -> str | None:
        """Return the type that `name` has at `place` in a function; None if this file doesn't declare it."""
        known = self._locals.get((function, name))
        if known:
            before = bisect_left(known, (place, ""))
            if before:
                return known[before - 1][1]
        member = self.member(name, function) if function >= 0 else None
        return self.swept.globals.get(name) if member is None else member.type

    def member(self, name: str, function: int) -> Member | None:
        """Return the data member that `name` means in a function; None if this file doesn't declare it."""
        draft = self.swept.drafts[function]
        owner = draft.parent if draft.parent >= 0 else self._owners.get(draft.scope, -1)
        for _ in range(_MAX_BASES):
            if owner < 0:
                return None
            member = self._members.get((owner, name))
            if member is not None:
                return member
            bases = self.swept.drafts[owner].bases
            owner = self.classes.get(bases[0].rpartition("::")[2], -1) if bases else -1
        return None


_LAST_WORD = re.compile(r"\w+\Z")
_IN_WORD = re.compile(r"\w")
_MAX_SCOPE_LENGTH = 40


def types_by_draft(
    mentions: Nodes, swept: ExtractedSymbols, text: str
) -> dict[int, tuple[str, ...]]:
    """Return the names of the types that each draft of a symbol refers to, sorted; its own name is excluded.

    Types in a class's methods belong to the methods. Empty names, which the parser inserts for missing names,
    are skipped.
    """
    starts = [node.start_byte for node in mentions]
    found: defaultdict[int, set[str]] = defaultdict(set)
    for node, start, symbol in zip(mentions, starts, swept.at(starts, swept.symbols), strict=True):
        name = text[start : node.end_byte]
        # The first letter of a function without a type is not a type (see heads.untyped_functions).
        if symbol >= 0 and name and not _IN_WORD.match(text, node.end_byte):
            if text.startswith("::", start - 2):
                name = _scopes(text, start) + name
            found[symbol].add(name)
    return {
        symbol: tuple(sorted(names - {swept.drafts[symbol].name}))
        for symbol, names in found.items()
    }


def _scopes(text: str, place: int) -> str:
    """Return the scopes written before the name at `place`, as text: `a::b::` for `a::b::name`.

    A scope with template arguments ends the search.
    """
    first = place
    while text.startswith("::", first - 2):
        head = text[max(0, first - _MAX_SCOPE_LENGTH) : first - 2]
        word = _LAST_WORD.search(head)
        if word is None:
            break
        first -= 2 + len(word[0])
    return text[first:place]


_DIRECTIVE = re.compile(
    rb"\n[ \t]*#[ \t]*(?:include(?:_next)?[ \t]*[<\"]([^>\"\n]*)[>\"]"
    rb"|define[ \t]+([A-Za-z_]\w*)(\([^)\n]*\))?" + TO_LINE_END + rb")"
)


class Directives:
    """#include and #define directives of one file, outside of comments and raw strings."""

    def __init__(self, data: bytes, hidden: Sequence[Range]) -> None:
        self._found = [
            match
            for match in _DIRECTIVE.finditer(b"\n" + data)
            if not (hidden and is_in(match.start(), hidden))
        ]

    def includes(self, dead: Sequence[Range]) -> tuple[str, ...]:
        """Return the names in #include directives outside of `dead`, the branches that aren't compiled."""
        return tuple(
            match[1].decode(errors="replace")
            for match in self._found
            if match[1] is not None and not is_in(match.start(), dead)
        )

    def macros(self, extents: Extents) -> Iterator[Symbol]:
        """Yield all macros, including those in branches that are not compiled."""
        for match in self._found:
            if match[2] is None:
                continue
            lines = extents.lines(match.start(), match.end() - 1)
            listed = (match[3] or b"()")[1:-1].strip()
            number = len(listed.split(b",")) if listed else 0
            is_open = b"..." in listed
            yield Symbol(
                kind="macro",
                name=match[2].decode(),
                scope=(),
                start=lines.start,
                end=lines.end,
                name_start=match.start(2) - 1,
                body=None,
                min_arity=number - is_open,
                max_arity=-1 if is_open else number,
            )


@functools.lru_cache(maxsize=8)
def facts_of(text: str, language: Language) -> FileFacts:
    """Return the facts of a file; never raises. Files in other languages than C and C++ have no facts."""
    parsed = parse(text, language)
    if parsed is None:
        size = len(text.encode())
        return FileFacts(error_bytes=size, is_complete=not size)
    return _facts(parsed, language)


def _facts(parsed: Parsed, language: Language) -> FileFacts:
    text = byte_text(parsed.data)
    extents = Extents(parsed.data, parsed.source)
    numbers = kinds(language)
    found = captures_of(parsed.tree, language)
    swept = extract_symbols(found.get("shell", ()), numbers, extents, text)
    types = types_by_draft(found.get("mention", ()), swept, text)
    directives = Directives(parsed.data, parsed.hidden)
    nodes = sorted(found.get("using", ()), key=attrgetter("start_byte"))
    usings = (using_of(text[node.start_byte : node.end_byte]) for node in nodes)
    drafts = [*swept.drafts, *directives.macros(extents)]
    order = sorted(range(len(drafts)), key=lambda i: (drafts[i].start, -drafts[i].end))
    places = [-1] * (len(order) + 1)
    for new, old in enumerate(order):
        places[old] = new
    facts = FileFacts(
        symbols=tuple(
            drafts[i]._replace(parent=places[drafts[i].parent], types=types.get(i, ()))
            for i in order
        ),
        calls=tuple(calls_of(found, swept, numbers, text, places)),
        includes=directives.includes(parsed.dead),
        usings=tuple(filter(None, usings)),
        error_bytes=parsed.error_bytes,
        is_complete=True,
        members=tuple(member._replace(owner=places[member.owner]) for member in swept.members),
    )
    return facts if text.isascii() else _with_original_text(facts)


def _with_original_text(facts: FileFacts) -> FileFacts:
    return replace(
        facts,
        symbols=tuple(Symbol._make(map(_decoded, symbol)) for symbol in facts.symbols),
        calls=tuple(Call._make(map(_decoded, call)) for call in facts.calls),
        usings=_decoded(facts.usings),
        members=tuple(Member._make(map(_decoded, member)) for member in facts.members),
    )


def _decoded(value: Any) -> Any:
    if isinstance(value, tuple) and not isinstance(value, Range):
        return tuple(map(_decoded, value))
    return from_byte_text(value) if isinstance(value, str) else value
