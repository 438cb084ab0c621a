"""Extraction of a file's definitions in one pass over its syntax nodes, with a stack of enclosing scopes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import tree_sitter

from curriculum.graph.declarators import FunctionDeclarator, function_declarator
from curriculum.graph.facts import Member, Range, Symbol, SymbolKind
from curriculum.graph.line_ranges import Extents
from curriculum.graph.spelling import (
    MAX_TEXT_LENGTH,
    NO_NAME,
    NO_PARAMETERS,
    Name,
    Parameters,
    bases_of,
    declared_name,
    name_of,
    parameters_of,
    type_of,
)
from curriculum.graph.syntax_tree import Kinds, Nodes

Node = tree_sitter.Node

_MAX_SCOPES = 64
"""Maximum number of namespaces and classes recorded around a definition; the outermost ones are kept."""
_VIRTUAL = re.compile(r"\b(?:override|final)\b")
_IN_WORD = re.compile(r"\w")
_NO_NAMES = frozenset(
    ("if", "else", "for", "while", "switch", "return", "do", "catch", "sizeof", "defined", "case", "throw")
)  # fmt: skip


class _Frame(NamedTuple):
    """Scope that encloses the text up to the offset `end`.

    `symbol`, `function` and `owner` are indices into `ExtractedSymbols.drafts`, or -1.
    """

    end: int
    symbol: int
    function: int
    owner: int
    scope: tuple[str, ...]
    space: tuple[str, ...]
    """Namespaces of the scope, without its classes."""
    in_body: bool
    """True if the text is in a function's body, and not in a class inside of that body."""


_OUTSIDE = _Frame(1 << 62, -1, -1, -1, (), (), False)
_NOWHERE = Range(-1, -1)


@dataclass(kw_only=True, slots=True)
class ExtractedSymbols:
    """Symbols, members and variable types of a file.

    `drafts` holds the symbols. The innermost symbol from offset places[i] to places[i + 1] is
    drafts[symbols[i]], and the innermost function is drafts[functions[i]].
    """

    drafts: list[Symbol] = field(default_factory=list)
    """Symbols whose `types` are not yet set, and whose `parent` is an index into this list."""
    places: list[int] = field(default_factory=lambda: [0])
    symbols: list[int] = field(default_factory=lambda: [-1])
    functions: list[int] = field(default_factory=lambda: [-1])
    members: list[Member] = field(default_factory=list)
    globals: dict[str, str] = field(default_factory=dict)
    """Types of variables at namespace scope, by name."""
    locals: list[Node] = field(default_factory=list)
    """Declarations inside functions."""

    def at(self, places: Sequence[int], values: Sequence[int]) -> list[int]:
        """Return the index of the innermost symbol or function at each of `places`, or -1.

        `values` is `symbols` or `functions` of this object.
        """
        rows = np.searchsorted(self.places, np.asarray(places, dtype=np.int64), "right") - 1
        found: list[int] = np.asarray(values, dtype=np.int64)[rows].tolist()
        return found


def _within(scope: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return (scope + names)[:_MAX_SCOPES]


def extract_symbols(shells: Nodes, kinds: Kinds, extents: Extents, text: str) -> ExtractedSymbols:
    """Return the symbols of a file; takes a few µs per node.

    `shells` are the nodes that are or contain definitions.
    """
    sweeping = _Sweep(kinds=kinds, extents=extents, text=text)
    handlers = sweeping.handlers()
    order = sorted((node.start_byte, -node.end_byte, i) for i, node in enumerate(shells))
    for start, minus_end, i in order:
        while start >= sweeping.frame.end:
            sweeping.leave_scope()
        node = shells[i]
        handlers[node.kind_id](node, start, -minus_end)
    while sweeping.stack:
        sweeping.leave_scope()
    return sweeping.found


@dataclass(kw_only=True, slots=True)
class _Sweep:
    kinds: Kinds
    extents: Extents
    text: str
    found: ExtractedSymbols = field(default_factory=ExtractedSymbols)
    stack: list[_Frame] = field(default_factory=list)
    frame: _Frame = _OUTSIDE
    template: Range = _NOWHERE
    """Byte range of a template declaration; the declaration that it introduces comes next."""
    friend_end: int = -1
    typedef: tuple[int, Name, int] = (-1, NO_NAME, 0)
    """End of a typedef, its name, and the offset of its name. It gives a name to a class that has none of its
    own.
    """

    def handlers(self) -> Mapping[int, Callable[[Node, int, int], None]]:
        named = {
            "function_definition": self._function,
            "declaration": self._declaration,
            "field_declaration": self._field,
            "struct_specifier": self._class,
            "union_specifier": self._class,
            "class_specifier": self._class,
            "enum_specifier": self._enum,
            "type_definition": self._typedef,
            "namespace_definition": self._namespace,
            "template_declaration": self._template,
            "friend_declaration": self._friend,
            "alias_declaration": self._alias,
            "concept_definition": self._concept,
        }
        return {kind: named[name] for name, kind in self.kinds.shells.items()}

    def leave_scope(self) -> None:
        place = self.frame.end
        self.frame = self.stack.pop()
        self._mark(place)

    def _enter(self, start: int, frame: _Frame) -> None:
        self.stack.append(self.frame)
        self.frame = frame
        self._mark(start)

    def _mark(self, place: int) -> None:
        self.found.places.append(place)
        self.found.symbols.append(self.frame.symbol)
        self.found.functions.append(self.frame.function)

    def _template(self, _node: Node, start: int, end: int) -> None:
        if start >= self.template.end:
            self.template = Range(start, end)

    def _friend(self, _node: Node, _start: int, end: int) -> None:
        self.friend_end = end

    def _add(  # noqa: PLR0913
        self,
        kind: SymbolKind,
        name: Name,
        name_at: int,
        start: int,
        end: int,
        *,
        body: Range | None = None,
        parameters: Parameters = NO_PARAMETERS,
        returns: str = "",
        bases: tuple[str, ...] = (),
        is_virtual: bool = False,
    ) -> int:
        """Append a draft of a symbol and return its index.

        If a template declaration encloses the symbol, the symbol's range includes it.
        """
        first = self.template.start if start < self.template.end else start
        self.template = _NOWHERE
        scope = self.frame.space if start < self.friend_end else self.frame.scope
        lines = self.extents.lines(first, end)
        self.found.drafts.append(
            Symbol(kind, name.name, scope + name.qualifier if name.qualifier else scope, lines.start,
                   lines.end, name_at + name.at, body, self.frame.owner, *parameters, returns, bases,
                   (), is_virtual)
        )  # fmt: skip
        return len(self.found.drafts) - 1

    def _namespace(self, node: Node, start: int, end: int) -> None:
        name = node.child_by_field_id(self.kinds.name)
        written = self.text[name.start_byte : name.end_byte] if name else ""
        names = tuple(part.strip().removeprefix("inline").strip() for part in written.split("::"))
        frame = self.frame
        scope, space = _within(frame.scope, names), _within(frame.space, names)
        self._enter(start, frame._replace(end=end, scope=scope, space=space))

    def _class(self, node: Node, start: int, end: int) -> None:
        body = node.child_by_field_id(self.kinds.body)
        name = node.child_by_field_id(self.kinds.name)
        frame = self.frame
        if body is None:
            if name and not frame.in_body and self._is_forward(node):
                name_at = name.start_byte
                self._add("class", name_of(self.text[name_at : name.end_byte]), name_at, start, end)
            return
        named = self._named(name, start)
        if named is None:
            self._enter(start, frame._replace(end=end, in_body=False))
            return
        inside = Range(body.start_byte, body.end_byte)
        bases = bases_of(self.text[name.end_byte : inside.start]) if name else ()
        at = self._add("class", *named, start, end, body=inside, bases=bases)
        scope = _within(frame.scope, (*named[0].qualifier, named[0].name))
        self._enter(start, _Frame(end, at, frame.function, at, scope, frame.space, False))

    def _is_forward(self, node: Node) -> bool:
        """Return True if `node`, a class without a body, is a forward declaration.

        Otherwise, it is only a use of the class.
        """
        parent = node.parent
        if parent is None or parent.kind_id in self.kinds.around_classes:
            return True
        is_field = parent.kind_id == self.kinds.shells["field_declaration"]
        return is_field and parent.child_by_field_id(self.kinds.declarator) is None

    def _enum(self, node: Node, start: int, end: int) -> None:
        body = node.child_by_field_id(self.kinds.body)
        named = self._named(node.child_by_field_id(self.kinds.name), start)
        if body and named and not self.frame.in_body:
            self._add("enum", *named, start, end, body=Range(body.start_byte, body.end_byte))

    def _named(self, name: Node | None, start: int) -> tuple[Name, int] | None:
        """Return the name of a class or enum and its offset.

        If the class or enum has no name, they are those of the typedef around it.
        """
        if name:
            return name_of(self.text[name.start_byte : name.end_byte]), name.start_byte
        return self.typedef[1:] if start < self.typedef[0] else None

    def _typedef(self, node: Node, start: int, end: int) -> None:
        made = node.child_by_field_id(self.kinds.type)
        if made is None or self.frame.in_body:
            return
        body = made.child_by_field_id(self.kinds.body)
        tag = made.child_by_field_id(self.kinds.name) if body else None
        for declarator in node.children_by_field_id(self.kinds.declarator):
            written = self.text[declarator.start_byte : declarator.end_byte]
            name = declared_name(written)
            at = declarator.start_byte + max(0, written.find(name))
            if body is not None and tag is None:
                self.typedef = (end, Name((), name, 0), at)
                return
            if name and not (tag and self.text[tag.start_byte : tag.end_byte] == name):
                self._alias_of(Name((), name, 0), at, start, end, made)

    def _alias(self, node: Node, start: int, end: int) -> None:
        name = node.child_by_field_id(self.kinds.name)
        made = node.child_by_field_id(self.kinds.type)
        if name and made and not self.frame.in_body:
            written = self.text[name.start_byte : name.end_byte]
            self._alias_of(Name((), written, 0), name.start_byte, start, end, made)

    def _alias_of(self, name: Name, at: int, start: int, end: int, made: Node) -> None:
        stands_for = self._type_of(made)[0]
        self._enter_symbol(self._add("alias", name, at, start, end, returns=stands_for), start, end)

    def _type_of(self, made: Node) -> tuple[str, str]:
        # Nested classes can be long. The name of a type is read from its beginning only.
        start = made.start_byte
        return type_of(self.text[start : min(made.end_byte, start + MAX_TEXT_LENGTH + 1)])

    def _concept(self, node: Node, start: int, end: int) -> None:
        name = node.child_by_field_id(self.kinds.name)
        if name:
            written = name_of(self.text[name.start_byte : name.end_byte])
            self._enter_symbol(self._add("alias", written, name.start_byte, start, end), start, end)

    def _enter_symbol(self, symbol: int, start: int, end: int) -> None:
        """Record that the text in `[start, end)` belongs to `symbol`, which contains no other symbols."""
        self._enter(start, self.frame._replace(end=end, symbol=symbol))

    def _function(self, node: Node, start: int, end: int) -> None:
        if self.frame.in_body:
            return
        declarator = node.child_by_field_id(self.kinds.declarator)
        declared = declarator and function_declarator(declarator, self.kinds, self.text)
        if declared is None:
            return
        last = node.child(node.child_count - 1)
        body = None
        if last is not None and last.kind_id in self.kinds.bodies:
            body = Range(self.text.find("{", last.start_byte), last.end_byte)
        number = self._add_function(declared, start, end, body)
        if number >= 0:
            frame = self.frame
            self._enter(
                start, frame._replace(end=end, symbol=number, function=number, in_body=True)
            )

    def _add_function(
        self, declared: FunctionDeclarator, start: int, end: int, body: Range | None
    ) -> int:
        """Append a draft of a function and return its index; -1 if the text declares no function."""
        text = self.text
        stop = body.start if body else end
        begin, close, listed = declared
        while begin > start and _IN_WORD.match(text, begin - 1):
            begin -= 1
        written = name_of(text[begin:close])
        if not written.name or written.name in _NO_NAMES:
            return -1
        if listed is None:
            tail = text[close:stop]
            parameters, returns = NO_PARAMETERS, type_of(written.name[8:])[0]
        else:
            tail = text[listed.end_byte : stop]
            parameters = parameters_of(text[listed.start_byte + 1 : listed.end_byte - 1])
            if body is not None and ";" in tail:
                # K&R style: the list has names alone, and the types follow it.
                parameters = parameters._replace(types=("",) * len(parameters.types))
            returns = self._returned(text[start:begin], tail)
        is_virtual = text.find("virtual", start, begin) >= 0 or bool(_VIRTUAL.search(tail))
        return self._add(
            "function", written, begin, start, end,
            body=body, parameters=parameters, returns=returns, is_virtual=is_virtual,
        )  # fmt: skip

    def _returned(self, head: str, tail: str) -> str:
        name = type_of(head)[0]
        _, arrow, trailing = tail.partition("->") if name == "auto" else ("", "", "")
        return type_of(trailing)[0] if arrow else name

    def _declaration(self, node: Node, start: int, end: int) -> None:
        if self.frame.in_body:
            self.found.locals.append(node)
            return
        number = -1
        for declarator in node.children_by_field_id(self.kinds.declarator):
            function = function_declarator(declarator, self.kinds, self.text)
            added = -1
            if function is not None:
                added = self._add_function(function, start, end, None)
            if added < 0 and self.frame.owner < 0:
                added = self._add_variable(node, declarator, start, end)
            number = max(number, added)
        if number >= 0:
            self._enter_symbol(number, start, end)

    def _add_variable(self, node: Node, declarator: Node, start: int, end: int) -> int:
        made = node.child_by_field_id(self.kinds.type)
        inner = declarator.child_by_field_id(self.kinds.declarator)
        if declarator.kind_id != self.kinds.init_declarator or inner is None:
            inner = declarator
        begin = inner.start_byte
        written = self.text[begin : min(inner.end_byte, begin + MAX_TEXT_LENGTH)]
        if "::" in written:
            begin += len(written) - len(written.lstrip("*& "))
            name = name_of(written.lstrip("*& ").partition("[")[0])
        else:
            name = NO_NAME._replace(name=declared_name(written))
            begin += max(0, written.find(name.name))
        if made is None or not name.name:
            return -1
        direct, pointee = self._type_of(made)
        self.found.globals.setdefault(name.name, pointee)
        return self._add("variable", name, begin, start, end, returns=direct)

    def _field(self, node: Node, start: int, end: int) -> None:
        made = node.child_by_field_id(self.kinds.type)
        for declarator in node.children_by_field_id(self.kinds.declarator):
            function = function_declarator(declarator, self.kinds, self.text)
            if function is not None:
                number = self._add_function(function, start, end, None)
                if number >= 0:
                    self._enter_symbol(number, start, end)
            elif made is not None and self.frame.owner >= 0:
                written = self.text[declarator.start_byte : declarator.end_byte]
                name = declared_name(written)
                direct, pointee = self._type_of(made)
                is_object = direct == pointee and not written.startswith(("*", "&", "("))
                self.found.members.append(Member(self.frame.owner, name, pointee, is_object))
