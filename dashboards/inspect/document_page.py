"""A document as a sheet: its chunks as a tree, or its parts in a row, each with the structure in it."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from curriculum.inspection.context_tree import Branch, branches, path_of
from curriculum.inspection.document_facts import facts, what
from curriculum.inspection.documents import DocumentView
from curriculum.inspection.formats import number
from curriculum.inspection.pieces import pieces
from dashboards.inspect.page_content import (
    Link,
    Node,
    PageContent,
    Section,
    stretches,
    structure_links,
    structure_node,
    worth_a_line,
)
from dashboards.palette import DOCUMENT_COLOURS
from schemas.document import Chunk
from schemas.structure import STRUCTURE_CODES

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
