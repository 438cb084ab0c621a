"""What a page shows: lines of a tree, stretches of text, and the edges between them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flows.look.colours import NAMES
from flows.look.pieces import Piece
from schemas.document import EDGE_LABELS, EdgeKind, EdgeLabel
from schemas.structure import LABEL_CODES, StructureChunk, StructureEdge

LABELS: dict[int, EdgeLabel] = {LABEL_CODES[label]: label for label in EDGE_LABELS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A line of the tree; what it stands for is a section of the text, or a stretch inside one."""

    name: str
    depth: int
    word: str = ""
    """Said before the name: what the line above has to do with it."""
    size: str = ""
    note: str = ""
    colour: str = ""
    """`k` and a structure code, or `d` and the number of a document's colour."""
    is_stretch: bool = False
    """Whether it stands for a stretch inside a section."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Neighbouring pieces of one structure chunk, or of none."""

    pieces: tuple[Piece, ...]
    node: int = -1
    level: str = ""
    """dep_level, from 0."""
    colour: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of the text under a heading; -1 where no line of the tree stands for it."""

    node: int
    title: str
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """An edge between two nodes; one of structure has no confidence."""

    source: int
    target: int
    kind: EdgeKind
    label: EdgeLabel
    confidence: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """Where a document lies in its row, in shares of the row."""

    start: float
    end: float
    colour: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """One document or row; its nodes are numbered from 0, in the order of the tree."""

    title: str
    facts: tuple[str, ...]
    nodes: tuple[Node, ...]
    sections: tuple[Section, ...]
    links: tuple[Link, ...] = ()
    bars: tuple[Bar, ...] = ()

    @property
    def codes(self) -> set[int]:
        """The structure categories that occur; none where nothing has structure."""
        stretches = (stretch for section in self.sections for stretch in section.stretches)
        found = {piece.code for stretch in stretches for piece in stretch.pieces}
        return found if found - {0} else set()


def stretches(
    pieces: Iterable[Piece], chunks: Sequence[StructureChunk], nodes: Mapping[int, int]
) -> Iterator[Stretch]:
    """Pieces put together by structure chunk; `nodes` has the line of each chunk in the tree."""
    for index, group in itertools.groupby(pieces, key=lambda piece: piece.chunk):
        if index < 0:
            yield Stretch(pieces=tuple(group))
            continue
        chunk = chunks[index]
        yield Stretch(
            pieces=tuple(group),
            node=nodes.get(index, -1),
            level=str(chunk.dep_level - 1),
            colour=f"k{chunk.kind}",
        )


def structure_node(chunk: StructureChunk, depth: int, size: str) -> Node:
    """The line of a structure chunk."""
    kind = NAMES[chunk.kind] if 0 <= chunk.kind < len(NAMES) else f"kind {chunk.kind}"
    return Node(
        name=chunk.name or kind,
        depth=depth,
        size=size,
        note=f"{kind} · level {chunk.dep_level - 1}",
        colour=f"k{chunk.kind}",
        is_stretch=True,
    )


def structure_links(
    calls: Iterable[StructureEdge], types: Iterable[StructureEdge], nodes: Mapping[int, int]
) -> Iterator[Link]:
    """Call and type edges, between the lines of their chunks."""
    kinds: tuple[tuple[EdgeKind, Iterable[StructureEdge]], ...] = (
        ("calls", calls),
        ("uses", types),
    )
    for kind, edges in kinds:
        for edge in edges:
            label = LABELS[edge.label]
            yield Link(source=nodes[edge.source], target=nodes[edge.target], kind=kind, label=label)
