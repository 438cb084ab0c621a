"""Matching of a tree's definitions with those of a snapshot, by name, scope, parameters and bytes.

A snapshot is made at one commit; the tree may belong to any commit. An update costs time for the changed
files and for the names that they define.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from curriculum.graph.clang.graph_snapshot import (
    GraphSnapshot,
    IndexedClass,
    IndexedFunction,
    digest_of,
)
from curriculum.graph.facts import NodeId, RepositoryGraph, Symbol

Indexed = IndexedFunction | IndexedClass

_CONVERSION = re.compile(r"operator (?!new\b|delete\b|co_await\b)")
_INLINE = re.compile(rb"\binline\s+namespace\s+(\w+)")


class _Site(NamedTuple):
    """Range of bytes that a digest covers, as numbers of bytes before and after the start of the name."""

    before: int
    after: int
    digest: str


class _Candidate(NamedTuple):
    """Definition in the tree whose name also occurs in the snapshot."""

    node: NodeId
    symbol: Symbol
    scope: tuple[str, ...]
    """Scope without anonymous and inline namespaces."""
    same: frozenset[int]
    """Items of the snapshot whose bytes equal this definition's."""


class Matching:
    """Mapping between the definitions of a tree and those of a snapshot, in both directions.

    An item is a definition of the snapshot. Each item matches at most one definition of the tree, preferably
    one in the same file, else one in a file to which it may have moved. Either name, scope and parameters
    agree, or the bytes do. Ambiguous matches are dropped.
    """

    def __init__(self, snapshot: GraphSnapshot) -> None:
        self.items: tuple[Indexed, ...] = snapshot.nodes
        self._scopes = [
            tuple(filter(None, item.qualified.removesuffix(item.name).split("::")))
            for item in self.items
        ]
        self._sites = [_site(item) for item in self.items]
        self._named: dict[str, list[int]] = defaultdict(list)
        """Items by name. Items whose name a macro produces are listed under their path."""
        for index, item in enumerate(self.items):
            self._named[_key(item)].append(index)
        self._tree: dict[str, dict[NodeId, _Candidate]] = defaultdict(dict)
        """Definitions of the tree, by the same keys as `_named`."""
        self._written: dict[str, list[tuple[str, NodeId]]] = {}
        """For each path, the key and the node of its entries in `_tree`."""
        self._node: dict[int, NodeId] = {}
        self._items: dict[NodeId, tuple[int, ...]] = {}

    def update(
        self, graph: RepositoryGraph, removed: Iterable[str], changed: Iterable[str]
    ) -> None:
        """Update the matches after files were removed (`removed`) and added or changed (`changed`)."""
        names: set[str] = set()
        for path in removed:
            names.update(self._drop(path))
        for path in changed:
            names.update(self._drop(path))
            names.update(self._add(graph, path))
        for name in sorted(names):
            for index in self._named[name]:
                self._place(index, self._find(graph, index, self._tree[name].values()))

    def node(self, index: int) -> NodeId | None:
        """Return the definition of the tree that matches item `index` of the snapshot, or None."""
        node = self._node.get(index)
        return node if node is not None and self.items_of(node) else None

    def items_of(self, node: NodeId) -> tuple[int, ...]:
        """Return the items of the snapshot that match the definition `node` of the tree, ascending.

        Several items match only if they have the same place in the snapshot, which macros can cause.
        """
        found = self._items.get(node, ())
        places = {(self.items[index].path, self.items[index].name_start) for index in found}
        return found if len(places) < 2 else ()

    def is_same(self, index: int) -> bool:
        """Return True if the tree still has item `index` with the same bytes, name and scope."""
        node = self.node(index)
        return node is not None and index in self._tree[_key(self.items[index])][node].same

    def _drop(self, path: str) -> Iterator[str]:
        for name, node in self._written.pop(path, ()):
            del self._tree[name][node]
            yield name

    def _add(self, graph: RepositoryGraph, path: str) -> Iterator[str]:
        source = graph.source(path)
        data = source.file.blob.text.encode()
        inline = {name.decode() for name in _INLINE.findall(data)}
        written = self._written[path] = []
        for number, symbol in enumerate(source.facts.symbols):
            names = (
                _match_key(symbol.name),
                *((f"\0{path}",) if symbol.kind == "function" else ()),
            )
            for name in names:
                if name in self._named:
                    node = NodeId(path, number)
                    same = frozenset(self._same(data, symbol, name))
                    scope = tuple(part for part in symbol.scope if part and part not in inline)
                    self._tree[name][node] = _Candidate(node, symbol, scope, same)
                    written.append((name, node))
                    yield name

    def _same(self, data: bytes, symbol: Symbol, name: str) -> Iterator[int]:
        digests: dict[tuple[int, int], str] = {}
        for index in self._named[name]:
            site = self._sites[index]
            span = (symbol.name_start - site.before, symbol.name_start + site.after)
            if not site.digest or span[0] < 0 or span[1] > len(data):
                continue
            if name[0] == "\0" and (symbol.body is None or symbol.body.end != span[1]):
                continue
            if span not in digests:
                digests[span] = digest_of(data[span[0] : span[1]])
            if digests[span] == site.digest:
                yield index

    def _place(self, index: int, node: NodeId | None) -> None:
        old = self._node.pop(index, None)
        if old is not None:
            left = tuple(item for item in self._items.pop(old) if item != index)
            if left:
                self._items[old] = left
        if node is not None:
            self._node[index] = node
            self._items[node] = tuple(sorted((*self._items.get(node, ()), index)))

    def _find(
        self, graph: RepositoryGraph, index: int, tree: Iterable[_Candidate]
    ) -> NodeId | None:
        item, scope = self.items[index], self._scopes[index]
        found = [
            candidate
            for candidate in tree
            if _can_match(item, scope, candidate, is_same=index in candidate.same)
        ]
        found = [candidate for candidate in found if candidate.symbol.body] or found
        found = [candidate for candidate in found if candidate.node.path == item.path] or [
            candidate
            for candidate in found
            if index in candidate.same or "" not in candidate.symbol.scope
        ]
        # Macros may hide outer scopes.
        depth = max((len(candidate.scope) for candidate in found), default=0)
        found = [candidate for candidate in found if len(candidate.scope) == depth]
        same = [candidate for candidate in found if index in candidate.same]
        found = (
            [candidate for candidate in same if candidate.symbol.name_start == item.name_start]
            or same
            or found
        )
        if len(found) > 1 and isinstance(item, IndexedFunction):
            found = [
                candidate
                for candidate in found
                if _has_parameter_words(graph, candidate, item.parameters)
            ]
        return found[0].node if len(found) == 1 else None


def _has_parameter_words(
    graph: RepositoryGraph, candidate: _Candidate, parameters: Sequence[str]
) -> bool:
    """Return True if the candidate's text contains all words of the `parameters`' types in the same order."""
    symbol = candidate.symbol
    end = symbol.body.start if symbol.body else symbol.end
    data = graph.source(candidate.node.path).file.blob.text.encode()
    text = data[symbol.name_start : end].decode(errors="replace")
    return _is_within(re.findall(r"\w+", " ".join(parameters)), re.findall(r"\w+", text))


def _is_within(short: Sequence[str], long: Sequence[str]) -> bool:
    rest = iter(long)
    return all(word in rest for word in short)


def _key(item: Indexed) -> str:
    """Return the key under which an item is looked up: usually its name.

    An item whose name a macro produces has the key of its path. All conversion operators share one key.
    """
    if isinstance(item, IndexedClass):
        return item.name
    return f"\0{item.path}" if item.is_macro else _match_key(item.name)


def _match_key(name: str) -> str:
    """Return `name`, or a key that all conversion operators share.

    The name of a conversion operator contains a type, which frontend and syntax tree spell differently.
    """
    return "operator " if _CONVERSION.match(name) else name


def _site(item: Indexed) -> _Site:
    """Return the range that an item's digest covers.

    The range of a function extends from its name to its last brace; a class is covered as a whole.
    """
    if isinstance(item, IndexedClass):
        return _Site(item.name_start - item.start, item.end - item.name_start, item.digest)
    if item.body is None:
        return _Site(0, 0, "")
    before = max(0, item.name_start - item.body.start)
    return _Site(before, item.body.end - item.name_start, item.digest)


def _can_match(
    item: Indexed, scope: tuple[str, ...], candidate: _Candidate, *, is_same: bool
) -> bool:
    """Return True if the candidate may be the item: kind, scope and parameters agree.

    Their names are known to be equal, and with `is_same` their bytes are, too. Syntax trees don't have the
    scopes that macros open and close, and in damaged code they may lack all scopes.
    """
    if isinstance(item, IndexedFunction):
        if candidate.symbol.kind != "function" or item.is_macro:
            return candidate.symbol.kind == "function" and is_same
        fits = is_same or (
            candidate.symbol.name == item.name
            and parameters_agree(item.parameters, candidate.symbol.parameters)
        )
        is_member = item.kind != "function" or candidate.symbol.parent >= 0
    else:
        has_body = candidate.symbol.body is not None or item.kind == "alias"
        fits = candidate.symbol.kind == item.kind and has_body
        is_member = candidate.symbol.parent >= 0
    return fits and _scopes_agree(item, scope, candidate, is_member=is_member, is_same=is_same)


def _scopes_agree(
    item: Indexed,
    scope: tuple[str, ...],
    candidate: _Candidate,
    *,
    is_member: bool,
    is_same: bool,
) -> bool:
    """Return True if the item's `scope` and the candidate's scope may be the same.

    The candidate's scope must equal the end of the item's scope. If the bytes are equal (`is_same`), it may
    also be a subsequence of it.
    """
    written = candidate.scope
    if scope[max(0, len(scope) - len(written)) :] == written and not (
        is_member and written[-1:] != scope[-1:]
    ):
        return True
    is_friend = not isinstance(item, IndexedClass) and item.kind == "function" and is_member
    if is_friend and is_same and _is_within(scope, written):
        return True
    return is_same and candidate.node.path == item.path and _is_within(written, scope)


_QUALIFIERS = frozenset(
    ("const", "volatile", "struct", "class", "union", "enum", "typename", "restrict", "__restrict")
)
_BUILT_IN = frozenset(("short", "int", "long", "signed", "unsigned", "char", "double"))
_WORD = re.compile(r"[A-Za-z_]\w*|[<>(]")
_ANY_TYPE = frozenset(("", "auto", "decltype"))


def type_name(spelling: str) -> str:
    """Return a short name of a type, for comparisons: the last word of its name.

    The short name of a built-in type has all of its words, sorted. The short name of an unnamed type is "".

    >>> [type_name(text) for text in ("const std::vector<int> &", "unsigned long", "void (*)(int)")]
    ['vector', 'long unsigned', '']
    """
    depth = 0
    words: list[str] = []
    for word in _WORD.findall(spelling):
        if word == "(" and not depth:
            return ""
        depth += (word == "<") - (word == ">")
        if not depth and word[-1] not in "<>(" and word not in _QUALIFIERS:
            words.append(word)
    if not words or words[-1] not in _BUILT_IN:
        return words[-1] if words else ""
    said = [word for word in words if word != "int" and (word != "signed" or "char" in words)]
    return " ".join(sorted(said)) or "int"


def parameters_agree(indexed: Sequence[str], written: Sequence[str]) -> bool:
    """Return True if two lists of parameter types can be the same; an unnamed type matches any type."""
    if len(indexed) != len(written):
        return False
    pairs = zip(map(type_name, indexed), map(type_name, written), strict=True)
    return all(a == b or a in _ANY_TYPE or b in _ANY_TYPE for a, b in pairs)
