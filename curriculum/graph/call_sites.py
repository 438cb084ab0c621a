"""Calls of a file with their places, and their receivers."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import tree_sitter

from curriculum.graph.extract_symbols import ExtractedSymbols
from curriculum.graph.facts import Call, CallForm, Member
from curriculum.graph.spelling import declared, name_of, type_of
from curriculum.graph.syntax_tree import Kinds, Nodes

Node = tree_sitter.Node

_LONGEST_RECEIVER = 100
"""Characters; the type of a longer one isn't looked for."""
_MOST_BASES = 8
"""Base classes that are walked up for a member."""
_RECEIVER = re.compile(r"(?:(this)\s*->\s*)?(?:([^\W\d]\w*)\s*(?:\.|->)\s*)?\Z")
_NOT_CALLS = frozenset(
    """static_cast dynamic_cast const_cast reinterpret_cast sizeof alignof decltype typeid noexcept
    defined if for while switch return catch""".split()  # noqa: SIM905
)
_BUILT_IN = frozenset(
    """auto void bool char short int long float double unsigned signed size_t wchar_t char8_t
    char16_t char32_t""".split()  # noqa: SIM905
)


class _Site(NamedTuple):
    """A call before its caller is known."""

    start: int
    form: CallForm
    name: str
    qualifier: tuple[str, ...]
    receiver: str | None
    """None, `this`, "" or, followed by a dot, the receiver's name; of a member initialiser `.`."""
    arity: int


@lru_cache(maxsize=4_096)
def _receiver(text: str) -> str:
    """Return the text before a method's name, as a _Site has it."""
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
    """The calls in the order of the text; draft i is symbol places[i]."""
    sites = [*_calls(found, kinds, text), *_constructions(found, kinds, text)]
    sites += _built_locals(swept.locals, kinds, text)
    sites.sort()
    functions = swept.functions_at([site[0] for site in sites])
    types = _Types(swept=swept, kinds=kinds, text=text)
    types.learn(found, sites, functions)
    for site, function in zip(sites, functions, strict=True):
        start, form, name, qualifier, receiver, arity = site
        if not receiver or receiver == "this":
            yield Call(places[function], form, name, qualifier, receiver, arity, start)
        else:
            yield from _resolved(site, function, places[function], types)


def _resolved(site: _Site, function: int, caller: int, types: "_Types") -> Iterator[Call]:
    """A call on something that is named, or of a constructor of a member."""
    start, form, name, qualifier, receiver, arity = site
    assert receiver is not None
    if form == "call":
        object_ = receiver[:-1]
        kind = types.of(object_, function, start)
        if kind is None:
            yield Call(caller, form, name, qualifier, "", arity, start, object_)
        else:
            yield Call(caller, form, name, qualifier, kind, arity, start)
    elif name in types.classes:
        yield Call(caller, form, name, qualifier, None, arity, start)
    else:
        member = types.member(name, function) if function >= 0 else None
        if member is None:
            yield Call(caller, form, name, qualifier, None, arity, start, name)
        elif member.is_object and member.type not in _BUILT_IN:
            yield Call(caller, form, member.type, qualifier, None, arity, start)


def _calls(found: Mapping[str, Nodes], kinds: Kinds, text: str) -> Iterator[_Site]:
    remarks = sorted(each.start_byte for each in found.get("remark", ()))
    for call in found.get("call", ()):
        callee = call.child_by_field_id(kinds.function)
        listed = call.child_by_field_id(kinds.arguments)
        if callee is None or listed is None:
            continue
        kind, start = callee.kind_id, callee.start_byte
        arity = _arity(listed, kinds, remarks)
        if kind == kinds.identifier:
            name = text[start : callee.end_byte]
            if name not in _NOT_CALLS:
                form: CallForm = "macro" if name.isupper() and len(name) > 1 else "call"
                yield _Site(start, form, name, (), None, arity)
        elif kind == kinds.field_expression:
            method = callee.child_by_field_id(kinds.field)
            if method is not None:
                at = method.start_byte
                written = name_of(text[at : method.end_byte])
                receiver = _receiver(text[start:at]) if at - start < _LONGEST_RECEIVER else ""
                yield _Site(
                    at + written.at, "call", written.name, written.qualifier, receiver, arity
                )
        elif kind in kinds.written_names:
            written = name_of(text[start : callee.end_byte])
            if written.name not in _NOT_CALLS:
                yield _Site(
                    start + written.at, "call", written.name, written.qualifier, None, arity
                )


def _arity(listed: Node, kinds: Kinds, remarks: Sequence[int]) -> int:
    """The arguments in a list; its comments are no such."""
    arity = listed.named_child_count
    next_ = bisect_left(remarks, listed.start_byte)
    if next_ < len(remarks) and remarks[next_] < listed.end_byte:
        arity -= sum(each.kind_id == kinds.comment for each in listed.named_children)
    return arity


def _constructions(found: Mapping[str, Nodes], kinds: Kinds, text: str) -> Iterator[_Site]:
    made = sorted(found.get("made", ()), key=attrgetter("start_byte"))
    starts = [each.start_byte for each in made]
    for value in found.get("value", ()):
        yield from _constructed(made[bisect_left(starts, value.start_byte) - 1], value, text)
    for each in found.get("new", ()):
        type_node = each.child_by_field_id(kinds.type)
        if type_node is not None:
            yield from _constructed(type_node, each.child_by_field_id(kinds.arguments), text)
    for each in found.get("literal", ()):
        type_node = each.child_by_field_id(kinds.type)
        if type_node is not None:
            yield from _constructed(type_node, each.child_by_field_id(kinds.value), text)
    for each in found.get("initialiser", ()):
        first, last = each.child(0), each.child(each.child_count - 1)
        if first is not None and last is not None:
            for site in _constructed(first, last, text):
                yield site._replace(receiver=None if site.qualifier else ".")


def _constructed(type_: Node, value: Node | None, text: str) -> Iterator[_Site]:
    written = name_of(text[type_.start_byte : type_.end_byte])
    if written.name.isidentifier() and written.name not in _BUILT_IN:
        arity = 0 if value is None else value.named_child_count
        start = type_.start_byte + written.at
        yield _Site(start, "construct", written.name, written.qualifier, None, arity)


def _built_locals(declarations: Nodes, kinds: Kinds, text: str) -> Iterator[_Site]:
    """`Foo x(a, b);` in a function reads like a function's declaration."""
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
    """The declared types of names, by where they are used."""

    swept: ExtractedSymbols
    kinds: Kinds
    text: str
    classes: dict[str, int] = field(default_factory=dict)
    _members: dict[tuple[int, str], Member] = field(default_factory=dict)
    _owners: dict[tuple[str, ...], int] = field(default_factory=dict)
    _locals: dict[tuple[int, str], list[tuple[int, str]]] = field(default_factory=dict)

    def learn(self, found: Mapping[str, Nodes], sites: list[_Site], functions: list[int]) -> None:
        """Learn the types of members, and of those locals that methods are called on."""
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
        owners = self.swept.functions_at(places)
        for node, place, function in zip(nodes, places, owners, strict=True):
            names = wanted.get(function)
            if names:
                self._learn_local(node, place, function, names)
        for each in self._locals.values():
            each.sort()

    def _learn_local(self, node: Node, place: int, function: int, names: set[str]) -> None:
        for each in node.children_by_field_id(self.kinds.declarator):
            name = declared(self.text[each.start_byte : min(each.end_byte, each.start_byte + 200)])
            made = node.child_by_field_id(self.kinds.type) if name in names else None
            if made is not None:
                kind = type_of(self.text[made.start_byte : made.end_byte])[1]
                kind = "" if kind == "auto" else kind
                self._locals.setdefault((function, name), []).append((place, kind))

    def of(self, name: str, function: int, place: int) -> str | None:
        """The type of a name in a function at a place; None where it isn't declared in this file."""
        known = self._locals.get((function, name))
        if known:
            before = bisect_left(known, (place, ""))
            if before:
                return known[before - 1][1]
        member = self.member(name, function) if function >= 0 else None
        return self.swept.globals.get(name) if member is None else member.type

    def member(self, name: str, function: int) -> Member | None:
        """The data member that a function sees by a name; None where this file doesn't tell."""
        draft = self.swept.drafts[function]
        owner = draft.parent if draft.parent >= 0 else self._owners.get(draft.scope, -1)
        for _ in range(_MOST_BASES):
            if owner < 0:
                return None
            member = self._members.get((owner, name))
            if member is not None:
                return member
            bases = self.swept.drafts[owner].bases
            owner = self.classes.get(bases[0].rpartition("::")[2], -1) if bases else -1
        return None
