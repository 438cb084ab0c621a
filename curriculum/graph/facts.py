"""Facts of source files without their text, and the graph of a repository that is made of them.

Facts depend on the bytes and language of a file alone, so they are cached by blob. Offsets are bytes of the
file as UTF-8, half-open. `Includes` finds the file that each #include means, and the files reached from one.
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
"""A class is a class, struct or union; a variable stands at namespace scope."""
CallForm = Literal["call", "construct", "macro"]


class Range(NamedTuple):
    """Bytes `[start, end)` of a file."""

    start: int
    end: int


class Symbol(NamedTuple):
    """A definition, or a declaration where `body` is None.

    `start` and `end` are line starts (or the file's end): the comment block right above, `template <…>`
    and attributes belong to it, a blank line below doesn't. A method that is defined inside its class lies
    inside the class's range.
    """

    kind: SymbolKind
    name: str
    """Without scope and template arguments: `push`, `operator[]`, `operator bool`, `~Stage`."""
    scope: tuple[str, ...]
    """Namespaces and classes around it, those written before its name included; "" for an anonymous one."""
    start: int
    end: int
    name_start: int
    """The first byte of the unqualified name: where a frontend says that the definition is."""
    body: Range | None
    """Range from brace to brace of a function (`= default` and `= delete` have none), class or enum."""
    parent: int = -1
    """The class whose body holds it, as an index into the file's symbols; -1 for none."""
    parameters: tuple[str, ...] = ()
    """The names of the parameters' types: `const std::vector<int>& x` is `vector`; "" where there is none."""
    min_arity: int = 0
    max_arity: int = 0
    """Parameters without and with those that have defaults; -1 where there is no limit."""
    returns: str = ""
    """The name of the type that a function returns, a variable has or an alias stands for."""
    bases: tuple[str, ...] = ()
    """Text as written, without template arguments: `detail::Stage`."""
    types: tuple[str, ...] = ()
    """Names of types that it mentions, sorted, itself left out; qualified where they are written so."""
    is_virtual: bool = False
    """Says `virtual`, `override` or `final`."""

    @property
    def qualified(self) -> str:
        """`lattice::Matrix::at`; anonymous scopes are left out."""
        return "::".join([*filter(None, self.scope), self.name])


class Call(NamedTuple):
    """A call as it is written."""

    caller: int
    """The innermost function around it, an index into the file's symbols (a lambda counts for the function
    that holds it); -1 outside of all."""
    form: CallForm
    """macro: an ALL_CAPS name; construct: `T x(…)`, `T{…}`, `new T(…)`, a member initialiser."""
    name: str
    qualifier: tuple[str, ...]
    """`approx::equal(…)` has ("approx",), `::f()` has ("",)."""
    receiver: str | None
    """None for a plain call; the name of the receiver's declared type where the file tells it, `this`, or ""
    for a receiver of a type that isn't known."""
    arity: int
    start: int
    """The first byte of the unqualified name."""
    object: str = ""
    """The receiver, or the member that is constructed, where it is one name whose type this file doesn't
    tell: perhaps a member of a class that stands elsewhere."""


class Member(NamedTuple):
    """A data member of a class."""

    owner: int
    """The class, as an index into the file's symbols."""
    name: str
    type: str
    """The name of its type, `Foo` for std::unique_ptr<Foo> and its like as well."""
    is_object: bool
    """True if it is of that type itself: no pointer, smart or not, and no reference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFacts:
    """Symbols in the order of their `start`, outer ones first; calls in the order of the text."""

    symbols: tuple[Symbol, ...] = ()
    calls: tuple[Call, ...] = ()
    includes: tuple[str, ...] = ()
    """Between quotes or angle brackets, as written, in order; of the live branches."""
    usings: tuple[str, ...] = ()
    """`std` of `using namespace std`, `lattice::at` of `using lattice::at`."""
    error_bytes: int
    """Bytes inside ERROR nodes of the best variant; all where there is no tree at all."""
    is_complete: bool
    """True if the file was parsed to its end within the limits; without a tree there are no symbols."""
    members: tuple[Member, ...] = ()
    """Members in the order of the text."""


class NodeId(NamedTuple):
    """A symbol of a file: sorts by path, then by place."""

    path: str
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """A file of the tree with its facts."""

    file: TreeFile
    facts: FileFacts


class Neighbour(NamedTuple):
    """An edge as one of its ends sees it: `outward` if the edge goes from that end to `node`."""

    node: NodeId
    kind: EdgeKind
    outward: bool
    label: EdgeLabel
    confidence: float


class RepositoryGraph(Protocol):
    """All answers hold for the commit whose tree was applied last."""

    def paths(self) -> Iterable[str]:
        """The files of the tree, sorted."""

    def source(self, path: str) -> SourceFile:
        """A file of the tree; a KeyError for a path that it hasn't."""

    def neighbours(self, node: NodeId) -> Sequence[Neighbour]:
        """The edges of a node in both directions, sorted by (kind, outward first, node), each once.

        A declaration stands for its definition: edges end at the definition where the tree has one.
        Macros, and names that nothing in the tree defines, have no edges.
        """


def symbol(graph: RepositoryGraph, node: NodeId) -> Symbol:
    """The symbol of a node."""
    return graph.source(node.path).facts.symbols[node.number]


Found = TypeVar("Found", bound=Hashable)


def reached(
    start: Found, ahead: Callable[[Found], Iterable[Found]], most: float = inf
) -> list[Found]:
    """Return where one starts and all that steps `ahead` lead to, breadth first, until there are `most`.

    >>> reached(1, lambda number: [2 * number, 3 * number], 4)
    [1, 2, 3, 4, 6]
    """
    found = [start]
    seen = {start}
    for node in found:
        if len(found) >= most:
            break
        new = [each for each in dict.fromkeys(ahead(node)) if each not in seen]
        seen.update(new)
        found += new
    return found


MAX_FILES = 4_000
"""Most files reached from one; the nearest come first."""


class Includes:
    """The include graph of one tree: an immutable value that caches its lookups.

    What is written is resolved to the file beside, else to the path that ends so; of several to the one
    in the nearest folder, then to the first. What lies outside of the tree is left out.
    """

    def __init__(self, paths: Iterable[str], written: Callable[[str], Sequence[str]]) -> None:
        """Index the paths of a tree; `written` returns what a file includes, in the order of its text."""
        self._written = written
        self._named: dict[str, set[str]] = {}
        """Paths by their last part."""
        self._included: dict[str, tuple[str, ...]] = {}
        self._reached: dict[str, frozenset[str]] = {}
        for path in paths:
            self._named.setdefault(posixpath.basename(path), set()).add(path)

    def of(self, path: str) -> tuple[str, ...]:
        """Return the files that a file includes, each once, in the order of its text."""
        if path not in self._included:
            found = (self._resolved(path, written) for written in self._written(path))
            self._included[path] = tuple(
                each for each in dict.fromkeys(found) if each is not None and each != path
            )
        return self._included[path]

    def include_closure(self, path: str) -> frozenset[str]:
        """Return a file, what it includes, what that includes and so on."""
        if path not in self._reached:
            self._reached[path] = frozenset(reached(path, self.of, MAX_FILES))
        return self._reached[path]

    def _resolved(self, path: str, written: str) -> str | None:
        named = self._named.get(posixpath.basename(written))
        if named is None:
            return None
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), written))
        if beside in named:
            return beside
        ending = "/" + posixpath.normpath(written).lstrip("./")
        fitting = [each for each in named if f"/{each}".endswith(ending)]
        return min(fitting, key=lambda each: (folders_between(path, each), each), default=None)


@functools.lru_cache(maxsize=1 << 16)
def folders_between(path: str, other: str) -> int:
    """Return the number of steps from the folder of one file to that of another.

    >>> folders_between("src/db/a.cc", "src/b.h")
    1
    """
    return path.count("/") + other.count("/") - 2 * shared_folders(path, other)


def shared_folders(path: str, other: str) -> int:
    """Return the number of folders that two paths have in common from the root on."""
    return len(posixpath.commonprefix([path.split("/")[:-1], other.split("/")[:-1]]))
