"""Content of a page: lines of a tree, stretches of text, and the edges between them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from curriculum.inspection.pieces import Piece, widened
from dashboards.palette import NAMES
from schemas.document import EDGE_LABELS, EdgeKind, EdgeLabel
from schemas.structure import LABEL_CODES, STRUCTURE_CODES, StructureChunk, StructureEdge

BESIDE = {STRUCTURE_CODES[name] for name in ("none", "other", "preamble", "comment")}
"""Kinds of chunks that define nothing."""
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
    """True if it stands for a stretch inside a section."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Neighbouring pieces of one structure chunk, or of none."""

    pieces: tuple[Piece, ...]
    chunk: int = -1
    """The structure chunk."""
    node: int = -1
    """-1: no line of the tree stands for it alone."""
    level: int = -1
    """dep_level, from 0; -1 outside of chunks."""
    code: int = 0
    """The structure code of the chunk."""

    @property
    def text(self) -> str:
        """The text of all its pieces."""
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of the text that stands by itself; -1 where no line of the tree stands for it."""

    node: int
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
class PageContent:
    """One document; its nodes are numbered from 0, in the order of the tree."""

    title: str
    facts: tuple[str, ...]
    nodes: tuple[Node, ...]
    sections: tuple[Section, ...]
    links: tuple[Link, ...] = ()

    @property
    def codes(self) -> set[int]:
        """The structure categories that occur; none where nothing has structure."""
        stretches = (stretch for section in self.sections for stretch in section.stretches)
        found = {piece.code for stretch in stretches for piece in stretch.pieces}
        return found if found - {0} else set()


def stretches(
    pieces: Iterable[Piece], chunks: Sequence[StructureChunk], nodes: Mapping[int, int]
) -> Iterator[Stretch]:
    """Pieces put together by structure chunk; `nodes` has the line of each chunk that has one of its own."""
    for index, group in itertools.groupby(widened(pieces), key=lambda piece: piece.chunk):
        if index < 0:
            yield Stretch(pieces=tuple(group))
            continue
        chunk = chunks[index]
        yield Stretch(
            pieces=tuple(group),
            chunk=index,
            node=nodes.get(index, -1),
            level=chunk.dep_level - 1,
            code=chunk.kind,
        )


def worth_a_line(chunks: Sequence[StructureChunk], *edges: Iterable[StructureEdge]) -> set[int]:
    """The structure chunks that are shown in the tree: definitions, and whatever an edge ends at."""
    ends = {end for some in edges for edge in some for end in (edge.source, edge.target)}
    return ends | {index for index, chunk in enumerate(chunks) if chunk.kind not in BESIDE}


def structure_node(chunk: StructureChunk, depth: int) -> Node:
    """The line of a structure chunk."""
    kind = NAMES[chunk.kind] if 0 <= chunk.kind < len(NAMES) else f"kind {chunk.kind}"
    return Node(
        name=chunk.name or kind,
        depth=depth,
        note=f"{kind} · level {chunk.dep_level - 1}",
        colour=f"k{chunk.kind}",
        is_stretch=True,
    )


def structure_links(
    calls: Iterable[StructureEdge], types: Iterable[StructureEdge], nodes: Mapping[int, int]
) -> Iterator[Link]:
    """Call and type edges, between the lines that stand for their chunks."""
    kinds: tuple[tuple[EdgeKind, Iterable[StructureEdge]], ...] = (
        ("calls", calls),
        ("uses", types),
    )
    for kind, edges in kinds:
        for edge in edges:
            label = LABELS[edge.label]
            yield Link(source=nodes[edge.source], target=nodes[edge.target], kind=kind, label=label)
