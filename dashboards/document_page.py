"""Page of documents: a tree of chunks next to the text, with edges between chunks and the text's structure.

`article_of` numbers the lines of a document's tree and the places in its text to which the lines link. `page`
renders the result as HTML that needs no other files. The text of a document occurs only once in it.
"""

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from curriculum.inspection.context_tree import WORDS, TreeChunk, branches, path_of
from curriculum.inspection.document_view import DocumentView, facts, what
from curriculum.inspection.formats import integer, number
from curriculum.inspection.structure_text import StructuredText, pieces, widened
from dashboards import html, palette
from dashboards.palette import DOCUMENT_COLOURS, NAMES
from schemas.document import EDGE_KINDS, EDGE_LABELS, EdgeKind, EdgeLabel
from schemas.structure import LABEL_CODES, STRUCTURE_CODES, StructureEdge

BESIDE = {STRUCTURE_CODES[name] for name in ("none", "other", "preamble", "comment")}
"""Codes of structure chunks that contain no definition."""
LABELS: dict[int, EdgeLabel] = {LABEL_CODES[label]: label for label in EDGE_LABELS}
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
"""Structure category whose colour symbols of a kind have."""
MAX_NAME_LENGTH = 80
MAX_DEPTH = 12
"""Maximum indentation of a line in the tree; lines at a greater depth are not indented further."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeLine:
    """A line of the tree. It links to the place in the text that has the same number."""

    number: int
    look: str
    """CSS classes of the line.

    `l` is followed by the depth of the line, `k` by a structure code, `d` by the number of a document colour.
    `s` means that the line links to a place inside a block.
    """
    name: str
    word: str = ""
    """Relation to the line above; it is shown before the name."""
    size: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextRun:
    """Pieces of text in one HTML element.

    A piece has a CSS class if its category differs from that of the element. `place` is the number of the
    tree line that links to the element, if any.
    """

    pieces: list[tuple[str, str]]
    look: str = ""
    """CSS class of the element; empty if the pieces have no element."""
    level: int | None = None
    """dep_level, counted from 0, of the structure chunk that starts here, if any."""
    place: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TextBlock:
    """A part of the text in its own HTML element; `place` is None if no tree line links to it."""

    place: int | None
    look: str
    runs: list[TextRun]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeLink:
    """An edge between two tree lines; edges of the structure have no confidence, those of chunks do."""

    source: int
    target: int
    kind: EdgeKind
    label: EdgeLabel
    confidence: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Article:
    """A rendered document; `place` is None if the page has only one document."""

    title: str
    place: int | None = None
    facts: list[list[str]]
    """Lines of facts about the document; a line may be broken between two facts only."""
    tree: list[TreeLine]
    blocks: list[TextBlock]
    links: list[TreeLink]
    codes: set[int]
    """Structure categories of the document; empty without structure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tree:
    """The tree of a document while it is built.

    It records the number of the line of each chunk, part and structure chunk. A chunk consists of parts of
    the document. A structure chunk is a span that the structure of the text marks, such as a definition.
    """

    document: DocumentView
    first: int
    """Number of the first line."""
    has_title: bool
    inside: dict[int, list[int]]
    """Structure chunks that get a line, by the part in which they start."""
    lines: list[TreeLine] = field(default_factory=list)
    of_chunk: dict[int, int] = field(default_factory=dict)
    of_part: dict[int, int] = field(default_factory=dict)
    of_structure: dict[int, int] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    """Structure chunks that are the same as a chunk and share its line."""

    @property
    def next(self) -> int:
        """Number of the line that is added next."""
        return self.first + len(self.lines)

    def add(
        self, name: str, depth: int, look: str, *, word: str = "", size: str = "", note: str = ""
    ) -> None:
        indented = f"l{min(depth + self.has_title, MAX_DEPTH)} {look}"
        self.lines.append(
            TreeLine(number=self.next, look=indented, name=name, word=word, size=size, note=note)
        )


def articles(documents: Sequence[DocumentView]) -> Iterator[Article]:
    """Yield documents as articles; if there are several, each has a title line in the tree."""
    first = 0
    for document in documents:
        article = article_of(document, first, has_title=len(documents) > 1)
        first += len(article.tree)
        yield article


def article_of(document: DocumentView, first: int = 0, *, has_title: bool = False) -> Article:
    """Return a document as an article; the numbers of its lines and places start at `first`."""
    inside = _structure_by_part(document)
    tree = _Tree(document=document, first=first, has_title=has_title, inside=inside)
    words = [*facts(document)]
    if has_title:
        title = document.document_id
        tree.lines.append(TreeLine(number=first, look="l0 sheet", name=title, note=words[0]))
    if document.chunks:
        for branch in branches(document):
            _add_chunk(tree, branch)
    else:
        for part in range(len(document.parts)):
            _add_part(tree, part)
    codes = set(document.structure.structure_ids) if document.structure else set()
    return Article(
        title=document.document_id,
        place=first if has_title else None,
        facts=[line.split(" · ") for line in words],
        tree=tree.lines,
        blocks=[*_blocks(tree)],
        links=[*_links(tree)],
        codes=codes if codes - {0} else set(),
    )


def _structure_by_part(document: DocumentView) -> dict[int, list[int]]:
    """Return the structure chunks that have a line in the tree, by the index of the part in which they start.

    These are definitions, and chunks at which an edge starts or ends.
    """
    found: dict[int, list[int]] = defaultdict(list)
    structure = document.structure
    if structure is None:
        return found
    edges = (*structure.call_edges, *structure.type_edges)
    ends = {end for edge in edges for end in (edge.source, edge.target)}
    starts = [part.start for part in document.parts]
    for index, chunk in enumerate(structure.chunks):
        if index in ends or chunk.kind not in BESIDE:
            found[bisect_right(starts, chunk.start) - 1].append(index)
    return found


def _add_chunk(tree: _Tree, branch: TreeChunk) -> None:
    """Add the line of a chunk, and below it the lines of its structure chunks."""
    document, structure = tree.document, tree.document.structure
    chunk = document.chunks[branch.chunk]
    first, last = document.parts[chunk.first_part], document.parts[chunk.last_part - 1]
    parts = range(chunk.first_part, chunk.last_part)
    tree.of_chunk[branch.chunk] = tree.next
    note = [path_of(document, chunk)]
    if branch.edge:
        note.append(f"{branch.edge.label} {branch.edge.confidence:.2g}")
    note += [
        what(chunk),
        f"hop {chunk.hop}",
        f"rank {first.rank}" if first.elidable else "kept",
        f"{integer(last.end - first.start)} bytes",
    ]
    # The first structure chunk with the name of the chunk is the chunk itself.
    inside = (index for part in parts for index in tree.inside.get(part, ()))
    same = [index for index in inside if structure and structure.chunks[index].name == chunk.name]
    if structure and same:
        tree.of_structure[same[0]] = tree.next
        tree.whole.add(same[0])
        note.insert(2, f"level {structure.chunks[same[0]].dep_level - 1}")
    colour = STRUCTURE_CODES[COLOURS.get(chunk.symbol, "other")]
    tree.add(
        chunk.name,
        branch.depth,
        f"k{colour}",
        word=branch.word,
        size=_size(document, parts),
        note=" · ".join(filter(None, note)),
    )
    _add_structure(tree, parts, branch.depth)


def _add_part(tree: _Tree, index: int) -> None:
    part = tree.document.parts[index]
    text = tree.document.content[part.start : part.end].decode(errors="replace")
    first_line = text.strip().partition("\n")[0][:MAX_NAME_LENGTH]
    parts = range(index, index + 1)
    tree.add(
        first_line or "white space",
        0,
        f"d{index % len(DOCUMENT_COLOURS)}",
        word=part.kind,
        size=_size(tree.document, parts),
        note=f"rank {part.rank}, may be left out" if part.elidable else "",
    )
    _add_structure(tree, parts, 0)


def _add_structure(tree: _Tree, parts: range, depth: int) -> None:
    """Record that `parts` belong to the last line, and add the lines of their structure chunks below it."""
    tree.of_part.update(dict.fromkeys(parts, tree.next - 1))
    structure = tree.document.structure
    for index in (index for part in parts for index in tree.inside.get(part, ())):
        if structure and index not in tree.whole:
            chunk = structure.chunks[index]
            tree.of_structure[index] = tree.next
            kind = NAMES[chunk.kind] if 0 <= chunk.kind < len(NAMES) else f"kind {chunk.kind}"
            note = f"{kind} · level {chunk.dep_level - 1}"
            tree.add(chunk.name or kind, depth + 1, f"k{chunk.kind} s", note=note)


def _size(document: DocumentView, parts: range) -> str:
    tokens = document.tokens(parts.start, parts.stop)
    if tokens is not None:
        return number(tokens, "token")
    first, last = document.parts[parts.start], document.parts[parts.stop - 1]
    return number(last.end - first.start, "byte")


def _blocks(tree: _Tree) -> Iterator[TextBlock]:
    """Yield the text in order: a block for each chunk, and a block for each part that belongs to no chunk."""
    document = tree.document
    ends = {chunk.first_part: chunk.last_part for chunk in document.chunks}
    begun: set[int] = set()
    part = 0
    while part < len(document.parts):
        last = max(ends.get(part, 0), part + 1)
        start, end = document.parts[part].start, document.parts[last - 1].end
        cut = [*widened(pieces(document.content, start, end, document.structure))]
        code = cut[0].code if cut else 0
        is_empty = bool(cut) and cut[0].text.startswith("\n")
        yield TextBlock(
            place=tree.of_part.get(part),
            look=" ".join([f"k{code}"] * bool(code) + ["e"] * is_empty),
            runs=[*_runs(tree, cut, code, begun)],
        )
        part = last


def _runs(
    tree: _Tree, cut: Sequence[StructuredText], code: int, begun: set[int]
) -> Iterator[TextRun]:
    """Yield the pieces of a block, grouped by structure chunk; `code` is the category of the block.

    `begun` are the structure chunks of which a run was already yielded. Only the first run of a structure
    chunk is the target of a link.
    """
    chunks = tree.document.structure.chunks if tree.document.structure else ()
    before = "\n"
    for index, group in itertools.groupby(cut, key=lambda piece: piece.chunk):
        same = [*group]
        text = "".join(piece.text for piece in same)
        if index < 0:
            yield TextRun(pieces=_coloured(same, code))
        else:
            chunk, begins = chunks[index], index not in begun
            begun.add(index)
            is_whole_lines = before.endswith("\n") and text.endswith("\n")
            is_target = begins and index not in tree.whole
            yield TextRun(
                pieces=_coloured(same, chunk.kind),
                look=f"k{chunk.kind}{' w' if is_whole_lines else ''}",
                level=chunk.dep_level - 1 if begins else None,
                place=tree.of_structure.get(index) if is_target else None,
            )
        before = text


def _coloured(cut: Iterable[StructuredText], code: int) -> list[tuple[str, str]]:
    """Return texts with CSS classes; a text of category `code`, that of the HTML element, has none."""
    return [
        (piece.text, "" if piece.code == code or piece.text.isspace() else f"k{piece.code}")
        for piece in joined(cut)
    ]


def joined(pieces: Iterable[StructuredText]) -> Iterator[StructuredText]:
    """Merge neighbouring pieces of the same category.

    White space is merged with the piece before it.
    """
    held: StructuredText | None = None
    for piece in pieces:
        if held and (held.code == piece.code or piece.text.isspace()):
            held = held._replace(text=held.text + piece.text)
            continue
        if held:
            yield held
        held = piece
    if held:
        yield held


def _links(tree: _Tree) -> Iterator[TreeLink]:
    """Yield the edges between chunks, then those edges between structure chunks that connect other lines."""
    known = set()
    for edge in tree.document.edges:
        source, target = tree.of_chunk[edge.source], tree.of_chunk[edge.target]
        known.add((source, target))
        confidence = round(edge.confidence, 2)
        yield TreeLink(
            source=source, target=target, kind=edge.kind, label=edge.label, confidence=confidence
        )
    structure = tree.document.structure
    if structure is None:
        return
    kinds: tuple[tuple[EdgeKind, Sequence[StructureEdge]], ...] = (
        ("calls", structure.call_edges),
        ("uses", structure.type_edges),
    )
    for kind, edges in kinds:
        for link in edges:
            source, target = tree.of_structure[link.source], tree.of_structure[link.target]
            if (source, target) not in known:
                yield TreeLink(source=source, target=target, kind=kind, label=LABELS[link.label])


def page(title: str, subtitle: str, articles: Sequence[Article]) -> str:
    """Return the page as HTML."""
    codes = sorted(set().union(*(article.codes for article in articles)))
    documents = "".join(f".d{at}{{--c:{colour}}}" for at, colour in enumerate(DOCUMENT_COLOURS))
    style = palette.properties() + palette.structure_style() + documents
    return html.page(
        "document.html",
        style=style + html.asset("document.css"),
        script=html.asset("document.js"),
        data=_data(articles),
        title=title,
        subtitle=subtitle,
        legend=[(code, NAMES[code]) for code in codes],
        articles=articles,
    )


def _data(articles: Sequence[Article]) -> Markup:
    """Return the edges of all articles as JSON for the page's script.

    Edges are one flat list of numbers: source line, target line and look of each edge. A look is the kind,
    the label and, if it is known, the confidence of an edge; distinct looks are listed once.
    """
    looks: dict[tuple[float, ...], int] = {}
    edges: list[int] = []
    for link in (link for article in articles for link in article.links):
        confidence = () if link.confidence is None else (link.confidence,)
        look = (EDGE_KINDS.index(link.kind), EDGE_LABELS.index(link.label), *confidence)
        edges += (link.source, link.target, looks.setdefault(look, len(looks)))
    words = [WORDS[kind] for kind in EDGE_KINDS]
    return html.data({"words": words, "labels": EDGE_LABELS, "looks": [*looks], "edges": edges})
