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
from schemas.document import EDGE_KINDS, EDGE_LABELS, EdgeKind, EdgeLabel
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
class _Tree:
    """The tree of a document in the making, with the line of each chunk, part and structure chunk."""

    seen: DocumentView
    inside: dict[int, list[int]]
    """The structure chunks with lines of their own that begin in each part."""
    nodes: list[Node] = field(default_factory=list)
    of_chunk: dict[int, int] = field(default_factory=dict)
    of_part: dict[int, int] = field(default_factory=dict)
    of_structure: dict[int, int] = field(default_factory=dict)
    shown_by_section: set[int] = field(default_factory=set)
    """Structure chunks that are what a chunk of the document is: they have no line of their own."""


def page_content(seen: DocumentView) -> PageContent:
    """The content of a document's page."""
    tree = _Tree(seen=seen, inside=_structure_by_part(seen))
    if seen.document.chunks:
        for branch in branches(seen.document):
            _add_chunk(tree, branch)
    else:
        for part in range(len(seen.document.parts)):
            _add_part(tree, part)
    return PageContent(
        title=seen.document_id,
        facts=tuple(facts(seen)),
        nodes=tuple(tree.nodes),
        sections=tuple(_sections(tree)),
        links=tuple(_links(tree)),
    )


def _structure_by_part(seen: DocumentView) -> dict[int, list[int]]:
    """The structure chunks of each part that the tree shows: definitions, and whatever an edge ends at."""
    found: dict[int, list[int]] = defaultdict(list)
    structure = seen.structure
    if structure is None:
        return found
    edges = (*structure.call_edges, *structure.type_edges)
    ends = {end for edge in edges for end in (edge.source, edge.target)}
    starts = [part.start for part in seen.document.parts]
    for index, chunk in enumerate(structure.chunks):
        if index in ends or chunk.kind not in BESIDE:
            found[bisect_right(starts, chunk.start) - 1].append(index)
    return found


def _add_chunk(tree: _Tree, branch: Branch) -> None:
    """Add the line of a chunk, and below it those of the structure chunks in it."""
    document, structure = tree.seen.document, tree.seen.structure
    chunk = document.chunks[branch.chunk]
    first, last = document.parts[chunk.first_part], document.parts[chunk.last_part - 1]
    parts = range(chunk.first_part, chunk.last_part)
    tree.of_chunk[branch.chunk] = len(tree.nodes)
    note = [path_of(document, chunk)]
    if branch.edge:
        note.append(f"{branch.edge.label} {branch.edge.confidence:.2g}")
    note += [
        what(chunk),
        f"hop {chunk.hop}",
        f"rank {first.rank}" if first.elidable else "kept",
        f"{integer(last.end - first.start)} bytes",
    ]
    # The first structure chunk of its name is what the chunk is.
    inside = (index for part in parts for index in tree.inside.get(part, ()))
    same = [index for index in inside if structure and structure.chunks[index].name == chunk.name]
    if structure and same:
        tree.of_structure[same[0]] = len(tree.nodes)
        tree.shown_by_section.add(same[0])
        note.insert(2, f"level {structure.chunks[same[0]].dep_level - 1}")
    tree.nodes.append(
        Node(
            name=chunk.name,
            depth=branch.depth,
            word=branch.word,
            size=_size(tree.seen, chunk.first_part, chunk.last_part),
            note=" · ".join(filter(None, note)),
            colour=f"k{STRUCTURE_CODES[COLOURS.get(chunk.symbol, 'other')]}",
        )
    )
    _add_structure(tree, parts, branch.depth)


def _add_part(tree: _Tree, index: int) -> None:
    part = tree.seen.document.parts[index]
    text = tree.seen.content[part.start : part.end].decode(errors="replace")
    first_line = text.strip().partition("\n")[0][:LONGEST_NAME]
    tree.nodes.append(
        Node(
            name=first_line or "white space",
            depth=0,
            word=part.kind,
            size=_size(tree.seen, index, index + 1),
            note=f"rank {part.rank}, may be left out" if part.elidable else "",
            colour=f"d{index % len(DOCUMENT_COLOURS)}",
        )
    )
    _add_structure(tree, range(index, index + 1), 0)


def _add_structure(tree: _Tree, parts: range, depth: int) -> None:
    """Give parts to the last line, and put the lines of the structure chunks in them below it."""
    tree.of_part.update(dict.fromkeys(parts, len(tree.nodes) - 1))
    structure = tree.seen.structure
    if structure is None:
        return
    for part in parts:
        for index in tree.inside.get(part, ()):
            if index in tree.shown_by_section:
                continue
            chunk = structure.chunks[index]
            tree.of_structure[index] = len(tree.nodes)
            tree.nodes.append(structure_node(chunk, depth + 1))


def _size(seen: DocumentView, first: int, last: int) -> str:
    parts = seen.document.parts
    tokens = seen.tokens(first, last)
    if tokens is not None:
        return number(tokens, "token")
    return number(parts[last - 1].end - parts[first].start, "byte")


def _sections(tree: _Tree) -> Iterator[Section]:
    """The text in its order: a section a chunk, and a section a part that is of no chunk."""
    document, seen = tree.seen.document, tree.seen
    ends = {chunk.first_part: chunk.last_part for chunk in document.chunks}
    structure_chunks = seen.structure.chunks if seen.structure else ()
    own = {
        index: node
        for index, node in tree.of_structure.items()
        if index not in tree.shown_by_section
    }
    part = 0
    while part < len(document.parts):
        last = max(ends.get(part, 0), part + 1)
        start, end = document.parts[part].start, document.parts[last - 1].end
        cut = pieces(seen.content, start, end, seen.structure)
        yield Section(
            node=tree.of_part.get(part, -1),
            stretches=tuple(stretches(cut, structure_chunks, own)),
        )
        part = last


def _links(tree: _Tree) -> Iterator[Link]:
    """The document's edges, and those of its structure that say more."""
    known = set()
    for edge in tree.seen.document.edges:
        source, target = tree.of_chunk[edge.source], tree.of_chunk[edge.target]
        known.add((source, target))
        confidence = round(edge.confidence, 2)
        yield Link(
            source=source, target=target, kind=edge.kind, label=edge.label, confidence=confidence
        )
    structure = tree.seen.structure
    if structure is None:
        return
    kinds: tuple[tuple[EdgeKind, Sequence[StructureEdge]], ...] = (
        ("calls", structure.call_edges),
        ("uses", structure.type_edges),
    )
    for kind, edges in kinds:
        for each in edges:
            source, target = tree.of_structure[each.source], tree.of_structure[each.target]
            if (source, target) not in known:
                yield Link(source=source, target=target, kind=kind, label=LABELS[each.label])


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
