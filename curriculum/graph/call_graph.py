"""Call graph of a repository, computed from syntax trees: calls, overrides, bases, members and used types.

A call is resolved by the scopes, arities and includes of its candidates and by the type of its receiver. This
approximation needs neither a compiler nor a build; every edge is therefore labelled `syntactic`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from sys import intern

from curriculum.graph.facts import FileFacts, Neighbour, NodeId, SourceFile, Symbol
from curriculum.graph.index import facts_of
from curriculum.graph.memo import derived
from curriculum.graph.name_resolution import Methods, Resolver, Spaces
from curriculum.graph.names import (
    TYPES,
    Function,
    Lookup,
    Names,
    Scope,
    TrackedNames,
    Type,
    names_of,
)
from curriculum.graph.scopes import Scopes
from schemas.change import TreeDelta, TreeFile
from schemas.corpus import CODE, Language
from schemas.document import EdgeKind

_Version = tuple[str, Language]
"""Blob id, and the language in which the blob is parsed."""


@dataclass(kw_only=True, slots=True)
class _Read:
    """Facts of a blob, and the number of paths in the tree that have this blob."""

    facts: FileFacts
    names: Names
    paths: int = 0


def _version(file: TreeFile) -> _Version:
    return file.blob.blob_id, file.language


Ends = dict[tuple[EdgeKind, NodeId], float]
"""Confidence of each edge, by its kind and the node at its other end."""


class CallGraph:
    """RepositoryGraph that is updated commit by commit; an update costs time for the changed files only.

    Macros and variables have no edges, nor do declarations whose definition is in the tree. Resolved names
    are cached until something that they depend on changes. Memory, not counting the texts: 5 to 6.5 KB per
    function with a body, and up to 16 KB once the neighbours of all nodes have been computed (measured on
    leveldb and fmt).
    """

    def __init__(self, read: Callable[[str, Language], FileFacts] = facts_of) -> None:
        """Create the graph of an empty tree; `read` computes the facts of a file from its text."""
        self._facts_of = read
        self._files: dict[str, SourceFile] = {}
        self._read: dict[_Version, _Read] = {}
        """Facts of those blobs that are in the tree."""
        self._names = names = TrackedNames()
        scopes = Scopes(names=names)
        methods = Methods(names=names, scopes=scopes)
        resolver = Resolver(names=names, scopes=scopes, methods=methods)
        self._edges = _Edges(names=names, scopes=scopes, methods=methods, resolver=resolver)

    def apply(self, delta: TreeDelta) -> None:
        """Update the graph from the previous tree to the next one, which differ by `delta`.

        Raises:
            KeyError: for a removed path that is not in the tree.
        """
        gone = [self._files[path] for path in delta.removed]
        gone += [self._files[file.path] for file in delta.files if file.path in self._files]
        new: dict[_Version, _Read] = {}
        for file in delta.files:
            if _version(file) not in new:
                new[_version(file)] = self._facts(file)
        for source in gone:
            self._remove(source.file)
        for file in delta.files:
            read = self._read[_version(file)] = new[_version(file)]
            read.paths += 1
            self._files[intern(file.path)] = SourceFile(file=file, facts=read.facts)
        names = {intern(file.path): new[_version(file)].names for file in delta.files}
        self._names.advance(delta.removed, names)

    def paths(self) -> list[str]:
        """Return the paths of the tree's files, sorted."""
        return sorted(self._files)

    def source(self, path: str) -> SourceFile:
        """Return a file of the tree; raise a KeyError for an unknown path."""
        return self._files[path]

    def _facts(self, file: TreeFile) -> _Read:
        """Return the facts of a file, from the cache if a path of the previous tree has the same blob."""
        known = self._read.get(_version(file))
        if known is not None:
            return known
        text = file.blob.text
        facts = (
            self._facts_of(text, file.language)
            if file.language in CODE
            else FileFacts(error_bytes=0, is_complete=True)
        )
        return _Read(facts=facts, names=names_of(facts))

    def _remove(self, file: TreeFile) -> None:
        del self._files[file.path]
        read = self._read[_version(file)]
        read.paths -= 1
        if not read.paths:
            del self._read[_version(file)]

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Paths of the C and C++ files without a complete syntax tree, sorted."""
        return tuple(
            path
            for path, source in sorted(self._files.items())
            if source.file.language in CODE and not source.facts.is_complete
        )

    def neighbours(self, node: NodeId) -> Sequence[Neighbour]:
        """Return the edges at `node` in both directions, without duplicates.

        The edges are sorted by (kind, outward first, node).
        """
        return self._edges.neighbours(node)


@dataclass(kw_only=True, slots=True, eq=False)
class _Edges(Lookup):
    """Edges of nodes, computed on demand."""

    scopes: Scopes
    methods: Methods
    resolver: Resolver

    @derived
    def neighbours(self, node: NodeId) -> tuple[Neighbour, ...]:
        """Return the edges at `node` in both directions, without duplicates.

        The edges are sorted by (kind, outward first, node).
        """
        sides = ((True, self.outward(node)), (False, self.inward(node)))
        found = [
            Neighbour(end, kind, outward, "syntactic", confidence)
            for outward, ends in sides
            for (kind, end), confidence in ends.items()
        ]
        return tuple(sorted(found, key=lambda edge: (edge.kind, not edge.outward, edge.node)))

    def outward(self, node: NodeId) -> Ends:
        """Return the edges that leave a node."""
        declared = self.names.declaration(node)
        ends: Ends = {}
        if (function := self._function(node, declared)) is not None:
            ends.update(self.callees(node))
            for method in self.methods.overridden(function) if function.scope else ():
                ends.update((("overrides", base), 1.0) for base in method.nodes)
        elif self._type(node, declared) is not None:
            ends.update((("inherits", base), 1.0) for base in self._bases(node))
        else:
            return ends
        owners = self._owners(node, declared)
        ends.update((("member", owner), 1.0) for owner in owners)
        for used in self.used_types(node):
            if used != node and used not in owners:
                ends["uses", used] = 1.0
        return ends

    def inward(self, node: NodeId) -> Ends:
        """Return the edges that enter `node`.

        Their sources are those symbols that use the name of the node and resolve it to this node.
        """
        declared = self.names.declaration(node)
        if (function := self._function(node, declared)) is not None:
            return self._into_function(node, function)
        if (found := self._type(node, declared)) is not None:
            return self._into_type(node, found)
        return {}

    def _into_function(self, node: NodeId, function: Function) -> Ends:
        names: tuple[str, ...] = (function.name,)
        if function.is_constructor:
            names = self.scopes.constructor_names(function.name)
        ends = self._callers(node, names, "calls")
        for other in self.methods.overriders(function):
            if function in self.methods.overridden(other):
                ends.update((("overrides", base), 1.0) for base in other.nodes)
        return ends

    def _into_type(self, node: NodeId, found: Type) -> Ends:
        name = found.key[-1]
        names = self.scopes.alias_names(name)
        ends = self._callers(node, self.scopes.constructor_names(name), "constructs")
        for subclass in self._functions_and_types(
            self.names.nodes("subclasses", alias) for alias in names
        ):
            if node in self._bases(subclass):
                ends["inherits", subclass] = 1.0
        for member in self._functions_and_types([self.names.nodes("members", name)]):
            if node in self._owners(member, self.names.declaration(member)):
                ends["member", member] = 1.0
        for user in self._functions_and_types([self.names.nodes("users", name)]):
            if user != node and ("member", user) not in ends and node in self.used_types(user):
                ends["uses", user] = 1.0
        return ends

    def _callers(self, node: NodeId, names: Sequence[str], kind: EdgeKind) -> Ends:
        ends: Ends = {}
        for caller in {caller for name in names for caller in self.names.nodes("callers", name)}:
            confidence = self.callees(caller).get((kind, node))
            if confidence is not None:
                ends[kind, caller] = confidence
        return ends

    @derived
    def callees(self, node: NodeId) -> Ends:
        """Return the functions that a function calls and the classes that it constructs."""
        scope = self.scopes.scope_of(node)
        spaces: Spaces | None = None
        ends: Ends = {}
        for call in self.names.calls(node):
            found = self.resolver.targets(node.path, scope, call)
            if found is None:
                spaces = self._spaces(node, scope) if spaces is None else spaces
                found = self.resolver.by_arguments(node.path, call, spaces)
            for kind, end, confidence in found:
                if confidence > ends.get((kind, end), 0.0):
                    ends[kind, end] = confidence
        return ends

    @derived
    def used_types(self, node: NodeId) -> frozenset[NodeId]:
        """Return the types that a function or type refers to."""
        scope = self.scopes.scope_of(node)
        return frozenset(
            target
            for name in self.names.type_references(node)
            for found in self.scopes.resolve(node.path, scope, name)
            for target in self.scopes.nearest(node.path, found.nodes)
        )

    def _spaces(self, node: NodeId, scope: Scope) -> Spaces:
        """Return the namespaces around the types that a function refers to.

        The types of its parameters count as well.
        """
        parameters = filter(None, self.names.declaration(node).parameters)
        return frozenset(
            self.scopes.space(found.key)
            for written in {*self.names.type_references(node), *parameters}
            for found in self.scopes.resolve(node.path, scope, written)
        )

    def _function(self, node: NodeId, declared: Symbol) -> Function | None:
        """Return the function at `node`, or None if `node` is another kind of symbol."""
        if declared.kind != "function":
            return None
        return self.scopes.functions_by_node(declared.name).get(node)

    def _type(self, node: NodeId, declared: Symbol) -> Type | None:
        """Return the type at `node`, or None if `node` is another kind of symbol."""
        if declared.kind not in TYPES:
            return None
        found = self.scopes.type_at((*self.scopes.scope_of(node), declared.name))
        return found if found is not None and node in found.nodes else None

    def _functions_and_types(self, nodes: Iterable[Iterable[NodeId]]) -> Iterator[NodeId]:
        """Yield those of the `nodes` that are functions or types, without duplicates."""
        for node in {node for group in nodes for node in group}:
            declared = self.names.declaration(node)
            if self._function(node, declared) is not None or self._type(node, declared) is not None:
                yield node

    def _bases(self, node: NodeId) -> list[NodeId]:
        return [
            definition
            for base in self.scopes.bases(node)
            for definition in self.scopes.nearest(node.path, base.nodes)
            if definition != node
        ]

    def _owners(self, node: NodeId, declared: Symbol) -> tuple[NodeId, ...]:
        """Return the class that contains a function or type.

        The result has several nodes if several files define the class.
        """
        scope: Scope = self.scopes.scope_of(node)
        found = self.scopes.type_at(scope)
        if found is None or found.kind != "class":
            return ()
        return self.scopes.nearest(node.path, found.nodes)
