"""Documents as one page that needs nothing else: a tree of chunks beside the text, with edges and structure.

`page_content` says what of a document is shown; `page` makes HTML of it, in which a text is once, and whole.
"""

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from curriculum.inspection.documents import (
    WORDS,
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
from curriculum.inspection.formats import integer, number
from dashboards import html, palette
from dashboards.palette import DOCUMENT_COLOURS, NAMES
from schemas.document import EDGE_KINDS, EDGE_LABELS, Chunk, EdgeKind, EdgeLabel
from schemas.structure import LABEL_CODES, STRUCTURE_CODES, StructureChunk, StructureEdge

BESIDE = {STRUCTURE_CODES[name] for name in ("none", "other", "preamble", "comment")}
"""Kinds of chunks that define nothing."""
LABELS: dict[int, EdgeLabel] = {LABEL_CODES[label]: label for label in EDGE_LABELS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A line of the tree, which leads to a section of the text or to a stretch inside one."""

    name: str
    depth: int
    word: str = ""
    """Said before the name: what the line above has to do with it."""
    size: str = ""
    note: str = ""
    colour: str = ""
    """`k` and a structure code, or `d` and the number of a document's colour."""
    is_stretch: bool = False
    """True if it leads to a stretch inside a section."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Neighbouring pieces of one structure chunk, or of none."""

    pieces: tuple[Piece, ...]
    chunk: int = -1
    """The structure chunk."""
    node: int = -1
    """-1: no line of the tree leads to it alone."""
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
    """A part of the text in an element of its own; -1 where no line of the tree leads to it."""

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
    """The content of a page in the making."""

    seen: DocumentView
    inside: dict[int, list[int]]
    """The structure chunks worth a line that begin in each part."""
    nodes: list[Node] = field(default_factory=list)
    of_chunk: dict[int, int] = field(default_factory=dict)
    of_part: dict[int, int] = field(default_factory=dict)
    of_structure: dict[int, int] = field(default_factory=dict)
    shown_by_section: set[int] = field(default_factory=set)
    """Structure chunks that are what a chunk of the document is: they have no line of their own."""


def page_content(seen: DocumentView) -> PageContent:
    """The content of a document's page."""
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
    note = [*_chunk_note(drawing.seen, chunk, branch)]
    if drawing.seen.structure and main is not None:
        drawing.of_structure[main] = len(drawing.nodes)
        drawing.shown_by_section.add(main)
        note.insert(2, f"level {drawing.seen.structure.chunks[main].dep_level - 1}")
    drawing.nodes.append(
        Node(
            name=chunk.name,
            depth=branch.depth,
            word=branch.word,
            size=_size(drawing.seen, chunk.first_part, chunk.last_part),
            note=" · ".join(filter(None, note)),
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
    yield f"{integer(last.end - first.start)} bytes"


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


DEEPEST = 12
"""Levels of the tree that are indented; what lies deeper is drawn below the deepest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeLine:
    """A line of the tree that leads to the place of its number."""

    number: int
    look: str
    name: str
    word: str = ""
    size: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Pieces of text in one element, each with its class where it isn't that of the element."""

    pieces: list[tuple[str, str]]
    look: str = ""
    """Empty where the pieces have no element of their own."""
    level: int | None = None
    """The level of a chunk, where it begins."""
    place: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A section as it is drawn; None where no line of the tree leads to it."""

    place: int | None
    look: str
    runs: list[Run]


@dataclass(frozen=True, kw_only=True, slots=True)
class Article:
    """A document as it is drawn; its place is None where it is alone."""

    title: str
    place: int | None
    facts: list[list[str]]
    """Lines of words, which break between their items only."""
    blocks: list[Block]


def page(title: str, subtitle: str, contents: Sequence[PageContent]) -> str:
    """The page as HTML; where there are several documents, each has a line of the tree above its own."""
    codes = sorted(set().union(*(content.codes for content in contents)))
    documents = "".join(f".d{at}{{--c:{colour}}}" for at, colour in enumerate(DOCUMENT_COLOURS))
    style = palette.properties() + palette.structure_style() + documents
    return html.page(
        "document.html",
        style=style + html.asset("document.css"),
        script=html.asset("document.js"),
        data=_data(contents),
        title=title,
        subtitle=subtitle,
        legend=[(code, NAMES[code]) for code in codes],
        tree=[*_tree(contents)],
        articles=[*_articles(contents)],
    )


def _tree(contents: Sequence[PageContent]) -> Iterator[TreeLine]:
    """A line a node, and one a document where there are several."""
    numbers = itertools.count()
    is_several = len(contents) > 1
    for content in contents:
        if is_several:
            yield TreeLine(
                number=next(numbers), look="l0 sheet", name=content.title, note=content.facts[0]
            )
        for node in content.nodes:
            depth = min(node.depth + is_several, DEEPEST)
            yield TreeLine(
                number=next(numbers),
                look=f"l{depth} {node.colour}{' s' if node.is_stretch else ''}",
                name=node.name,
                word=node.word,
                size=node.size,
                note=node.note,
            )


def _articles(contents: Sequence[PageContent]) -> Iterator[Article]:
    first = 0
    is_several = len(contents) > 1
    for content in contents:
        chunks_begun: set[int] = set()
        yield Article(
            title=content.title,
            place=first if is_several else None,
            facts=[fact.split(" · ") for fact in content.facts],
            blocks=[_block(each, first + is_several, chunks_begun) for each in content.sections],
        )
        first += is_several + len(content.nodes)


def _block(section: Section, first: int, chunks_begun: set[int]) -> Block:
    """A section in the colour of its first piece; a piece of another colour has a class of its own.

    `chunks_begun` has the chunks whose beginning is drawn already: their later stretches are no targets.
    """
    code = section.stretches[0].pieces[0].code if section.stretches else 0
    runs, before = list[Run](), "\n"
    for stretch in section.stretches:
        if stretch.level < 0:
            runs.append(Run(pieces=_coloured(stretch, code)))
        else:
            is_whole_lines = before.endswith("\n") and stretch.text.endswith("\n")
            begins = stretch.chunk not in chunks_begun
            chunks_begun.add(stretch.chunk)
            runs.append(
                Run(
                    pieces=_coloured(stretch, stretch.code),
                    look=f"k{stretch.code}{' w' if is_whole_lines else ''}",
                    level=stretch.level if begins else None,
                    place=first + stretch.node if begins and stretch.node >= 0 else None,
                )
            )
        before = stretch.text
    begins_empty = bool(section.stretches) and section.stretches[0].text.startswith("\n")
    looks = [f"k{code}"] * bool(code) + ["e"] * begins_empty
    place = first + section.node if section.node >= 0 else None
    return Block(place=place, look=" ".join(looks), runs=runs)


def _coloured(stretch: Stretch, code: int) -> list[tuple[str, str]]:
    """The texts of a stretch, with a class where a piece has another code than the element around it."""
    return [
        (piece.text, "" if piece.code == code or piece.text.isspace() else f"k{piece.code}")
        for piece in joined(stretch.pieces)
    ]


def joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Neighbours of one look as one: white space looks like what precedes it."""
    held: Piece | None = None
    for piece in pieces:
        if held and (held.code == piece.code or piece.text.isspace()):
            held = held._replace(text=held.text + piece.text)
            continue
        if held:
            yield held
        held = piece
    if held:
        yield held


def _data(contents: Sequence[PageContent]) -> Markup:
    """The edges for the script: source, target and look of each in one list, and the looks by number.

    A look is an edge's kind, label and, where it is known, confidence.
    """
    looks: dict[tuple[float, ...], int] = {}
    edges: list[int] = []
    first = 0
    is_several = len(contents) > 1
    for content in contents:
        first += is_several
        for link in content.links:
            confidence = () if link.confidence is None else (link.confidence,)
            look = (EDGE_KINDS.index(link.kind), EDGE_LABELS.index(link.label), *confidence)
            edges += (first + link.source, first + link.target, looks.setdefault(look, len(looks)))
        first += len(content.nodes)
    words = [WORDS[kind] for kind in EDGE_KINDS]
    return html.data({"words": words, "labels": EDGE_LABELS, "looks": [*looks], "edges": edges})
