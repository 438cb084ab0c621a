"""Facts about source files, and the interface of a repository graph built from them.

Facts depend only on a file's bytes and language, so they are cached by blob. They don't contain the file's
text. Offsets are half-open byte ranges of the file in UTF-8. `Includes` resolves #include directives.
"""

import functools
import posixpath
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple, Protocol, TypeVar

from schemas.change import TreeFile
from schemas.document import EdgeKind, EdgeLabel

SymbolKind = Literal["function", "class", "enum", "alias", "macro", "variable"]
"""`class` includes structs and unions; `variable` is a variable at namespace scope."""
CallForm = Literal["call", "construct", "macro"]


class Range(NamedTuple):
    """Bytes `[start, end)` of a file."""

    start: int
    end: int


class Symbol(NamedTuple):
    """Definition of a symbol, or its declaration if `body` is None.

    `start` and `end` are line starts (or the end of the file). The range includes the comment block directly
    above, `template <…>` and attributes, but no blank lines below. The range of a method that is defined
    inside its class lies inside the range of the class.
    """

    kind: SymbolKind
    name: str
    """Name without scope and template arguments: `push`, `operator[]`, `operator bool`, `~Stage`."""
    scope: tuple[str, ...]
    """Enclosing namespaces and classes, including those written before the name; "" for an anonymous
    namespace or class.
    """
    start: int
    end: int
    name_start: int
    """Offset of the unqualified name; compiler frontends report this offset as the definition's location."""
    body: Range | None
    """Range of a function's, class's or enum's braces; None for `= default` and `= delete`."""
    parent: int = -1
    """Index of the class whose body contains this symbol; -1 for none."""
    parameters: tuple[str, ...] = ()
    """Names of the parameters' types: `vector` for `const std::vector<int>& x`; "" where a type
    has no name.
    """
    min_arity: int = 0
    max_arity: int = 0
    """Number of parameters without (`min_arity`) and with (`max_arity`) default arguments; `max_arity` is -1
    for no limit.
    """
    returns: str = ""
    """Name of the return type of a function, of the type of a variable, or of the type to which an alias
    refers.
    """
    bases: tuple[str, ...] = ()
    """Base classes as written, without template arguments: `detail::Stage`."""
    types: tuple[str, ...] = ()
    """Names of the types that the symbol refers to, sorted, without its own name; qualified if written so."""
    is_virtual: bool = False
    """True if declared `virtual`, `override` or `final`."""

    @property
    def qualified(self) -> str:
        """Qualified name without anonymous scopes: `lattice::Matrix::at`."""
        return "::".join([*filter(None, self.scope), self.name])


class Call(NamedTuple):
    """Call as written in the text."""

    caller: int
    """Index of the innermost enclosing function; -1 if there is none. A lambda counts as part of its
    enclosing function.
    """
    form: CallForm
    """`macro` for an ALL_CAPS name; `construct` for `T x(…)`, `T{…}`, `new T(…)` and member initialisers."""
    name: str
    qualifier: tuple[str, ...]
    """Scopes written before the name: ("approx",) for `approx::equal(…)`, ("",) for `::f()`."""
    receiver: str | None
    """Object on which a method is called: `this`, or the name of the receiver's declared type; "" if the file
    doesn't declare this type. None for a call without a receiver.
    """
    arity: int
    start: int
    """Offset of the unqualified name."""
    object: str = ""
    """Name of the receiver or of the initialised member, if this file doesn't declare its type.

    The name may belong to a member of a class in another file.
    """


class Member(NamedTuple):
    """Data member of a class."""

    owner: int
    """Index of the class among the file's symbols."""
    name: str
    type: str
    """Name of the member's type; `Foo` for `Foo*` and for smart pointers such as `std::unique_ptr<Foo>`."""
    is_object: bool
    """True if the member holds an object of that type, not a pointer, smart pointer or reference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFacts:
    """Facts about one file.

    `symbols` are sorted by `start`, outer symbols first; `calls` are in the order of the text.
    """

    symbols: tuple[Symbol, ...] = ()
    calls: tuple[Call, ...] = ()
    includes: tuple[str, ...] = ()
    """Names as written between quotes or angle brackets, in the order of the text; branches that aren't
    compiled are skipped.
    """
    usings: tuple[str, ...] = ()
    """Names in using declarations and directives: `std` for `using namespace std`, `lattice::at` for `using
    lattice::at`.
    """
    error_bytes: int
    """Number of bytes inside ERROR nodes of the best parsed variant; without a syntax tree, the size of the
    file.
    """
    is_complete: bool
    """True if the file was parsed to its end within the limits. Without a tree there are no symbols."""
    members: tuple[Member, ...] = ()
    """Data members in the order of the text."""


class NodeId(NamedTuple):
    """Symbol of a file: the file's path, and the symbol's number. Sorts by path, then by offset."""

    path: str
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """File of the tree with its facts."""

    file: TreeFile
    facts: FileFacts


class Neighbour(NamedTuple):
    """Edge at a node, with the node at its other end.

    `outward` is True if the edge points to `node`.
    """

    node: NodeId
    kind: EdgeKind
    outward: bool
    label: EdgeLabel
    confidence: float


class RepositoryGraph(Protocol):
    """Graph of one commit's tree. All methods answer for the tree that was applied last."""

    def paths(self) -> Iterable[str]:
        """Return the paths of the tree's files, sorted."""

    def source(self, path: str) -> SourceFile:
        """Return a file of the tree; raise a KeyError for an unknown path."""

    def neighbours(self, node: NodeId) -> Sequence[Neighbour]:
        """Return the edges at `node` in both directions, without duplicates.

        The edges are sorted by (kind, outward first, node). If the definition of a symbol is in the tree,
        edges end at the definition and not at a declaration. Macros and names without a definition in the
        tree have no edges.
        """


def symbol(graph: RepositoryGraph, node: NodeId) -> Symbol:
    """Return the symbol of a node."""
    return graph.source(node.path).facts.symbols[node.number]


Found = TypeVar("Found", bound=Hashable)


def reachable(
    start: Found, ahead: Callable[[Found], Iterable[Found]], limit: float = inf
) -> list[Found]:
    """Return `start` and everything that is reachable from it, breadth first; stop at `limit` nodes.

    `ahead` returns the nodes one step away from a node.

    >>> reachable(1, lambda number: [2 * number, 3 * number], 4)
    [1, 2, 3, 4, 6]
    """
    found = [start]
    seen = {start}
    for node in found:
        if len(found) >= limit:
            break
        new = [successor for successor in dict.fromkeys(ahead(node)) if successor not in seen]
        seen.update(new)
        found += new
    return found


MAX_FILES = 4_000
"""Maximum number of files in an include closure; the nearest files are kept."""


class Includes:
    """Include graph of one tree: an immutable value that caches its lookups.

    The name in an #include is looked up relative to the including file, then among all paths that end with
    this name. Of several such paths, the one in the nearest folder is chosen, then the first one. Files
    outside of the tree are ignored.
    """

    def __init__(self, paths: Iterable[str], written: Callable[[str], Sequence[str]]) -> None:
        """Index the paths of a tree.

        `written` returns, for a path, the names in the file's #include directives in textual order.
        """
        self._written = written
        self._named: dict[str, set[str]] = {}
        """Paths by the last part of the path, the file's name."""
        self._included: dict[str, tuple[str, ...]] = {}
        self._reached: dict[str, frozenset[str]] = {}
        for path in paths:
            self._named.setdefault(posixpath.basename(path), set()).add(path)

    def included(self, path: str) -> tuple[str, ...]:
        """Return the files that a file includes directly, without duplicates, in the order of its text."""
        if path not in self._included:
            found = (self._resolved(path, written) for written in self._written(path))
            self._included[path] = tuple(
                included
                for included in dict.fromkeys(found)
                if included is not None and included != path
            )
        return self._included[path]

    def include_closure(self, path: str) -> frozenset[str]:
        """Return a file and all files that it includes, directly or indirectly."""
        if path not in self._reached:
            self._reached[path] = frozenset(reachable(path, self.included, MAX_FILES))
        return self._reached[path]

    def _resolved(self, path: str, written: str) -> str | None:
        named = self._named.get(posixpath.basename(written))
        if named is None:
            return None
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), written))
        if beside in named:
            return beside
        ending = "/" + posixpath.normpath(written).lstrip("./")
        fitting = [other for other in named if f"/{other}".endswith(ending)]
        return min(fitting, key=lambda other: (folders_between(path, other), other), default=None)


@functools.lru_cache(maxsize=1 << 16)
def folders_between(path: str, other: str) -> int:
    """Return the number of steps up and down the folder tree from one file's folder to the other's.

    >>> folders_between("src/db/a.cc", "src/b.h")
    1
    """
    return path.count("/") + other.count("/") - 2 * shared_folders(path, other)


def shared_folders(path: str, other: str) -> int:
    """Return the number of leading folders that two paths have in common."""
    return len(posixpath.commonprefix([path.split("/")[:-1], other.split("/")[:-1]]))
