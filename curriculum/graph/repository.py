"""A repository at one commit as a graph of definitions: what families ask, whoever knows the answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from curriculum.graph.facts import FileFacts, Symbol
from schemas.change import TreeFile
from schemas.document import EdgeKind, EdgeLabel


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
