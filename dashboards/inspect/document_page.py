"""A document as a page: lines of a tree, stretches of text, edges, and structure."""

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from curriculum.inspection.documents import (
    Branch,
    DocumentView,
    Piece,
    branches,
    facts,
    path_of,
    pieces,
    what,
    widened,
)
from curriculum.inspection.formats import number
from dashboards.palette import DOCUMENT_COLOURS, NAMES
from schemas.document import EDGE_LABELS, Chunk, EdgeKind, EdgeLabel
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


COLOURS = {
    "function": "func_sig",
    "class": "class_decl",
    "enum": "typedef",
    "alias": "typedef",
    "macro": "preamble",
    "variable": "class_member",
    "target": "namespace",
    "file": "namespace",
}
"""A definition has the colour of the category that it would be."""
LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class _Drawing:
    """A sheet in the making."""

    seen: DocumentView
    inside: dict[int, list[int]]
    """The structure chunks worth a line that begin in each part."""
    nodes: list[Node] = field(default_factory=list)
    of_chunk: dict[int, int] = field(default_factory=dict)
    of_part: dict[int, int] = field(default_factory=dict)
    of_structure: dict[int, int] = field(default_factory=dict)
    shown_by_section: set[int] = field(default_factory=set)
    """Structure chunks that are what a chunk of the document is: they have no line of their own."""


def document_page(seen: DocumentView) -> PageContent:
    """The sheet of a document."""
    drawing = _Drawing(seen=seen, inside=_beginning(seen))
    if seen.document.chunks:
        for branch in branches(seen.document):
            _add_chunk(drawing, branch)
    else:
        for part in range(len(seen.document.parts)):
            _add_part(drawing, part)
    return PageContent(
        title=seen.document_id,
        facts=tuple(facts(seen)),
        nodes=tuple(drawing.nodes),
        sections=tuple(_sections(drawing)),
        links=tuple(_links(drawing)),
    )


def _beginning(seen: DocumentView) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    starts = [part.start for part in seen.document.parts]
    structure = seen.structure
    if structure is None:
        return found
    for index in sorted(worth_a_line(structure.chunks, structure.call_edges, structure.type_edges)):
        found[bisect_right(starts, structure.chunks[index].start) - 1].append(index)
    return found


def _add_chunk(drawing: _Drawing, branch: Branch) -> None:
    chunk = drawing.seen.document.chunks[branch.chunk]
    drawing.of_chunk[branch.chunk] = len(drawing.nodes)
    parts = range(chunk.first_part, chunk.last_part)
    main = _main(drawing, chunk, parts)
    said = [*_chunk_note(drawing.seen, chunk, branch)]
    if drawing.seen.structure and main is not None:
        drawing.of_structure[main] = len(drawing.nodes)
        drawing.shown_by_section.add(main)
        said.insert(2, f"level {drawing.seen.structure.chunks[main].dep_level - 1}")
    drawing.nodes.append(
        Node(
            name=chunk.name,
            depth=branch.depth,
            word=branch.word,
            size=_size(drawing.seen, chunk.first_part, chunk.last_part),
            note=" · ".join(filter(None, said)),
            colour=f"k{STRUCTURE_CODES[COLOURS.get(chunk.symbol, 'other')]}",
        )
    )
    _own(drawing, parts, branch.depth)


def _main(drawing: _Drawing, chunk: Chunk, parts: range) -> int | None:
    """The structure chunk that is what a chunk of the document is: the first of its name."""
    structure = drawing.seen.structure
    inside = (index for part in parts for index in drawing.inside.get(part, ()))
    return next((i for i in inside if structure and structure.chunks[i].name == chunk.name), None)


def _chunk_note(seen: DocumentView, chunk: Chunk, branch: Branch) -> Iterator[str]:
    parts = seen.document.parts
    first, last = parts[chunk.first_part], parts[chunk.last_part - 1]
    yield path_of(seen.document, chunk)
    if branch.edge:
        yield f"{branch.edge.label} {branch.edge.confidence:.2g}"
    yield what(chunk)
    yield f"hop {chunk.hop}"
    yield f"rank {first.rank}" if first.elidable else "kept"
    yield f"{last.end - first.start:,} bytes"


def _add_part(drawing: _Drawing, index: int) -> None:
    part = drawing.seen.document.parts[index]
    text = drawing.seen.content[part.start : part.end].decode(errors="replace")
    first_line = text.strip().partition("\n")[0][:LONGEST_NAME]
    drawing.nodes.append(
        Node(
            name=first_line or "white space",
            depth=0,
            word=part.kind,
            size=_size(drawing.seen, index, index + 1),
            note=f"rank {part.rank}, may be left out" if part.elidable else "",
            colour=f"d{index % len(DOCUMENT_COLOURS)}",
        )
    )
    _own(drawing, range(index, index + 1), 0)


def _own(drawing: _Drawing, parts: range, depth: int) -> None:
    """The last node has these parts; the structure chunks that begin in them hang below it."""
    drawing.of_part.update(dict.fromkeys(parts, len(drawing.nodes) - 1))
    structure = drawing.seen.structure
    if structure is None:
        return
    for part in parts:
        for index in drawing.inside.get(part, ()):
            if index in drawing.shown_by_section:
                continue
            chunk = structure.chunks[index]
            drawing.of_structure[index] = len(drawing.nodes)
            drawing.nodes.append(structure_node(chunk, depth + 1))


def _size(seen: DocumentView, first: int, last: int) -> str:
    parts = seen.document.parts
    tokens = seen.tokens(first, last)
    if tokens is not None:
        return number(tokens, "token")
    return number(parts[last - 1].end - parts[first].start, "byte")


def _sections(drawing: _Drawing) -> Iterator[Section]:
    """The text in its order: a section a chunk, and a section a part that is of no chunk."""
    document, seen = drawing.seen.document, drawing.seen
    ends = {chunk.first_part: chunk.last_part for chunk in document.chunks}
    structure_chunks = seen.structure.chunks if seen.structure else ()
    own = {
        index: node
        for index, node in drawing.of_structure.items()
        if index not in drawing.shown_by_section
    }
    part = 0
    while part < len(document.parts):
        last = max(ends.get(part, 0), part + 1)
        start, end = document.parts[part].start, document.parts[last - 1].end
        cut = pieces(seen.content, start, end, seen.structure)
        yield Section(
            node=drawing.of_part.get(part, -1),
            stretches=tuple(stretches(cut, structure_chunks, own)),
        )
        part = last


def _links(drawing: _Drawing) -> Iterator[Link]:
    """The document's edges, and those of its structure that say more."""
    known = set()
    for edge in drawing.seen.document.edges:
        source, target = drawing.of_chunk[edge.source], drawing.of_chunk[edge.target]
        known.add((source, target))
        sure = round(edge.confidence, 2)
        yield Link(source=source, target=target, kind=edge.kind, label=edge.label, confidence=sure)
    structure = drawing.seen.structure
    if structure:
        nodes = drawing.of_structure
        for link in structure_links(structure.call_edges, structure.type_edges, nodes):
            if (link.source, link.target) not in known:
                yield link
