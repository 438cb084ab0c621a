"""Documents of an artefact as values; context documents as trees, and text cut by structure."""

import itertools
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.inspection.formats import number
from curriculum.inspection.line_selection import InspectOptions, Mask, line_files, select_lines
from curriculum.store import Artefact, Store
from curriculum.tokens.store import TokenStore
from schemas.document import (
    EDGE_KINDS,
    EDGE_LABELS,
    Chunk,
    Document,
    Edge,
    EdgeKind,
    Part,
    Provenance,
    Span,
)
from schemas.errors import StoreError
from schemas.structure import RUN_COLUMNS, Structure, StructureChunk, StructureEdge

_INDENT = re.compile(r"(?<![^\n])[ \t]+$")
"""White space that ends a text and begins a line, or the text."""
_LINE_END = re.compile(r"[ \t]*\n")


class Piece(NamedTuple):
    """A run of text that is one thing throughout."""

    text: str
    code: int = 0
    """A STRUCTURE_CODE."""
    chunk: int = -1
    """The structure chunk that it stands in; -1 for none."""
    scored: bool = True
    """True if a prediction of it counts."""


def pieces(content: bytes, start: int, end: int, structure: Structure | None) -> Iterator[Piece]:
    """The bytes [start, end) of a text, cut at the borders of runs of one category and of chunks.

    Without structure it is one piece. Borders inside a character are shown as U+FFFD.
    """
    if structure is None:
        yield Piece(content[start:end].decode(errors="replace"))
        return
    at = start
    starts = [chunk.start for chunk in structure.chunks]
    while at < end:
        run = bisect_right(structure.ends, at)
        code = structure.structure_ids[run] if run < len(structure.ends) else 0
        chunk, chunk_end = _chunk_at(structure.chunks, starts, at, end)
        while run < len(structure.ends) and structure.structure_ids[run] == code:
            run += 1
        run_end = structure.ends[run - 1] if run else end
        stop = min(run_end if run_end > at else end, chunk_end, end)
        yield Piece(content[at:stop].decode(errors="replace"), code, chunk)
        at = stop


def widened(pieces: Iterable[Piece]) -> Iterator[Piece]:
    r"""The same text, where each chunk has its indentation and its line feed: white space beside it.

    >>> [(piece.text, piece.chunk) for piece in widened([Piece("a\n  "), Piece("f();", 4, 0), Piece("\nb")])]
    [('a\n', -1), ('  ', 0), ('f();', 0), ('\n', 0), ('b', -1)]
    """
    before, begins_line = -1, True
    for piece, after in itertools.pairwise((*pieces, Piece(""))):
        if piece.chunk >= 0:
            yield piece
        else:
            line_end = _LINE_END.match(piece.text) if before >= 0 else None
            first = line_end.end() if line_end else 0
            indent = _INDENT.search(piece.text, first) if after.chunk >= 0 else None
            whole = indent and (indent.start() or begins_line or line_end)
            last = indent.start() if indent and whole else len(piece.text)
            cut = ((0, first, before), (first, last, -1), (last, len(piece.text), after.chunk))
            yield from (
                piece._replace(text=piece.text[start:end], chunk=chunk)
                for start, end, chunk in cut
                if start < end
            )
        before, begins_line = piece.chunk, piece.text.endswith("\n")


def shares(structure: Structure) -> list[int]:
    """Bytes of each category, by code."""
    counted = [0] * (max(structure.structure_ids, default=0) + 1)
    start = 0
    for end, code in zip(structure.ends, structure.structure_ids, strict=True):
        counted[code] += end - start
        start = end
    return counted


def _chunk_at(
    chunks: Sequence[StructureChunk], starts: list[int], at: int, end: int
) -> tuple[int, int]:
    """The chunk that a byte stands in, and where it, or the gap between two, ends."""
    index = bisect_right(starts, at) - 1
    if index >= 0 and at < chunks[index].end:
        return index, chunks[index].end
    return -1, starts[index + 1] if index + 1 < len(starts) else end


WORDS: dict[EdgeKind, tuple[str, str]] = {
    "calls": ("calls", "called by"),
    "constructs": ("constructs", "constructed by"),
    "overrides": ("overrides", "overridden by"),
    "inherits": ("inherits", "base of"),
    "uses": ("uses", "used by"),
    "member": ("member of", "has member"),
    "includes": ("includes", "included by"),
    "links": ("links", "linked by"),
    "compiles": ("compiles", "compiled by"),
}
"""An edge from its source to its target, and read the other way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """A chunk where it hangs in the tree."""

    chunk: int
    depth: int
    edge: Edge | None = None
    """Edge from or to the chunk above; None at a root."""

    @property
    def word(self) -> str:
        """Return the relation to the chunk above in words; empty at a root.

        Branch(chunk=0, depth=1, edge=Edge(source=0, target=2, kind="calls", …)).word -> 'called by'
        """
        if self.edge is None:
            return ""
        return WORDS[self.edge.kind][self.edge.source == self.chunk]


def branches(document: Document) -> list[Branch]:
    """Every chunk once, each below the chunk that led to it; siblings by edge kind, surest first.

    A chunk that no target leads to is a root of its own, after the targets.
    """
    below = _below(document)
    roots = [index for index, chunk in enumerate(document.chunks) if chunk.via < 0]
    waiting = [Branch(chunk=index, depth=0) for index in reversed(roots)]
    lost = iter(range(len(document.chunks)))
    placed: dict[int, Branch] = {}
    while len(placed) < len(document.chunks):
        if not waiting:
            waiting.append(Branch(chunk=next(each for each in lost if each not in placed), depth=0))
        branch = waiting.pop()
        if branch.chunk in placed:
            continue
        placed[branch.chunk] = branch
        waiting += [
            Branch(chunk=chunk, depth=branch.depth + 1, edge=edge)
            for chunk, edge in reversed(below[branch.chunk])
        ]
    return list(placed.values())


def nearest(tree: list[Branch], most: int | None) -> list[Branch]:
    """Return at most so many branches, the shallowest, in their order; all of them for None."""
    if most is None or len(tree) <= most:
        return tree
    kept = {branch.chunk for branch in sorted(tree, key=lambda each: each.depth)[:most]}
    return [branch for branch in tree if branch.chunk in kept]


def guides(tree: list[Branch]) -> list[str]:
    """The lines that lead to each branch.

    At depths 0, 1, 2, 1: ['', '├ ', '│ └ ', '└ ']
    """
    drawn: list[str] = []
    open_depths: set[int] = set()
    for branch in reversed(tree):
        open_depths = {depth for depth in open_depths if depth <= branch.depth}
        bars = ("│ " if depth in open_depths else "  " for depth in range(1, branch.depth))
        own = ("├ " if branch.depth in open_depths else "└ ") if branch.depth else ""
        drawn.append("".join(bars) + own)
        open_depths.add(branch.depth)
    return drawn[::-1]


def edge_words(edges: tuple[Edge, ...]) -> str:
    """Edges by kind, and how they are known.

    edge_words(edges) ->
    'calls 12 (resolved 8, syntactic 4) · inherits 3 (resolved)'
    """
    found = Counter((edge.kind, edge.label) for edge in edges)
    said = []
    for kind in EDGE_KINDS:
        by_label = {label: found[kind, label] for label in EDGE_LABELS if found[kind, label]}
        if by_label:
            number = len(by_label) > 1
            labels = (f"{name} {each:,}" if number else name for name, each in by_label.items())
            said.append(f"{kind} {sum(by_label.values()):,} ({', '.join(labels)})")
    return " · ".join(said)


def target_parts(document: Document) -> tuple[int, int]:
    """The parts of the target, [first, last); all parts of a document without chunks."""
    own = [chunk for chunk in document.chunks if chunk.hop == 0]
    if not own:
        return 0, len(document.parts)
    return min(chunk.first_part for chunk in own), max(chunk.last_part for chunk in own)


def path_of(document: Document, chunk: Chunk) -> str:
    """The file that a chunk came from; empty for generated text."""
    sources = (document.parts[part].source for part in range(chunk.first_part, chunk.last_part))
    known = next((source for source in sources if source >= 0), None)
    return "" if known is None else document.provenance[known].path


def _below(document: Document) -> dict[int, list[tuple[int, Edge]]]:
    """The chunks that hang below each chunk, and by which edge."""
    below: dict[int, list[tuple[int, Edge]]] = defaultdict(list)
    for index, chunk in enumerate(document.chunks):
        if 0 <= chunk.via < len(document.edges):
            edge = document.edges[chunk.via]
            below[edge.source if edge.target == index else edge.target].append((index, edge))
    for hanging in below.values():
        hanging.sort(key=lambda item: _place(document, *item))
    return below


def _place(document: Document, index: int, edge: Edge) -> tuple[int, bool, float, str, int]:
    kind = EDGE_KINDS.index(edge.kind)
    return kind, edge.source == index, -edge.confidence, document.chunks[index].name, index


Line = dict[str, Any]
"""A line of a Parquet file, as Arrow gives it."""

BATCH_LINES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentView:
    """A document of an artefact, and what is known beside it."""

    document: Document
    document_id: str
    number: int
    """Its row number in the artefact."""
    part_tokens: tuple[int, ...] | None
    """Tokens of each part, where the workspace has them."""
    base_document_id: str | None
    structure: Structure | None

    @property
    def content(self) -> bytes:
        """The text as UTF-8: what all offsets count in."""
        return self.document.text.encode()

    def tokens(self, first_part: int, last_part: int) -> int | None:
        """Tokens of the parts [first_part, last_part)."""
        return None if self.part_tokens is None else sum(self.part_tokens[first_part:last_part])


def lines(artefact: Artefact, options: InspectOptions) -> Iterator[Line]:
    """The chosen lines: a row by its pack_id, a document by its id, else all in order."""
    for _, line in numbered_lines(artefact, options):
        yield line


def chosen_lines(
    store: Store, artefact: Artefact, options: InspectOptions
) -> Iterator[tuple[int, Line]]:
    """The lines that options and filter choose, each with its number in the artefact.

    Raises:
        StoreError: for what lines of this stage can't be chosen by.
    """
    yield from numbered_lines(artefact, options, select_lines(store, artefact, options.only))


def numbered_lines(
    artefact: Artefact, options: InspectOptions, masks: Sequence[Mask] | None = None
) -> Iterator[tuple[int, Line]]:
    """Lines by their id, or those of masks, one a file, each with its row number in the artefact."""
    name, value = (
        ("pack_id", options.pack_id) if options.pack_id else ("document_id", options.document)
    )
    first = 0
    for at, file in enumerate(line_files(artefact)):
        mask, inside = None if masks is None else masks[at], 0
        with parquet.File(file) as opened:
            for group in range(opened.num_row_groups):
                size = opened.metadata.row_group(group).num_rows
                mine = None if mask is None else mask[inside : inside + size]
                if value is not None:
                    for number, line in _line_in(opened, group, name, value, first + inside):
                        if mine is None or mine[number - first - inside]:
                            yield number, line
                elif mine is None or mine.any():
                    yield from _lines_in(opened, group, first + inside, mine)
                inside += size
        first += inside


def _lines_in(
    opened: pq.ParquetFile, group: int, first: int, mask: Mask | None
) -> Iterator[tuple[int, Line]]:
    """The lines of a row group, a few at a time: who looks at one doesn't decode all."""
    at = 0
    for batch in opened.iter_batches(BATCH_LINES, row_groups=[group]):
        size = len(batch)
        kept = np.arange(size) if mask is None else np.flatnonzero(mask[at : at + size])
        taken = batch.take(kept).to_pylist() if len(kept) else []
        yield from zip((kept + first + at).tolist(), taken, strict=True)
        at += size


def _line_in(
    opened: pq.ParquetFile, group: int, name: str, value: str, first: int
) -> Iterator[tuple[int, Line]]:
    names = opened.read_row_group(group, columns=[name])[name]
    at = pc.index(names, value).as_py()
    if at >= 0:
        yield first + at, opened.read_row_group(group).slice(at, 1).to_pylist()[0]


def documents(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[DocumentView]:
    """The chosen documents, `options.rows` at most.

    Raises:
        StoreError: where the artefact has none.
    """
    tokens = tokens_of(store, artefact)
    found = itertools.islice(chosen_lines(store, artefact, options), options.rows)
    first = next(found, None)
    if first is None:
        raise StoreError(
            str(artefact.path),
            cause="it holds no documents",
            cure="Its manifest's report says what was left out: --json prints it",
        )
    for at, line in itertools.chain([first], found):
        yield seen(line, at, tokens)


def document_lines(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[Line]:
    """The chosen documents as they lie; `part_tokens` is added, None where nothing is known."""
    tokens = tokens_of(store, artefact)
    for at, line in itertools.islice(chosen_lines(store, artefact, options), options.rows):
        yield {**line, "part_tokens": _part_tokens(tokens, at)}


def tokens_of(store: Store, artefact: Artefact) -> TokenStore | None:
    """The tokens of the documents, the newest where several tokenizers made some.

    A v6 artefact has the parts of its base, row by row, so the base's tokens are as good.
    """
    keys = {artefact.key, *(each.key for each in artefact.manifest.inputs)}
    made = [
        each
        for each in store.artefacts("tokens")
        if any(record.name == "documents" and record.key in keys for record in each.manifest.inputs)
    ]
    newest = max(made, key=lambda each: each.manifest.created, default=None)
    return TokenStore.open(newest.path) if newest else None


def seen(line: Line, number: int, tokens: TokenStore | None) -> DocumentView:
    """A document from its line; columns that an older artefact lacks are empty."""
    own = {name: line[name] for name in ("text", "family", "language", "licence")}
    document = Document(
        **own,
        timestamp=line["timestamp"],
        parts=tuple(Part(**each) for each in line["parts"]),
        spans=tuple(Span(**each) for each in line["spans"]),
        provenance=tuple(Provenance(**{"lineage": "", **each}) for each in line["provenance"]),
        lineage=line.get("lineage", ""),
        chunks=tuple(Chunk(**each) for each in line.get("chunks") or ()),
        edges=tuple(Edge(**each) for each in line.get("edges") or ()),
    )
    return DocumentView(
        document=document,
        document_id=line["document_id"],
        number=number,
        part_tokens=_part_tokens(tokens, number),
        base_document_id=line.get("base_document_id"),
        structure=_structure(line),
    )


def _part_tokens(tokens: TokenStore | None, number: int) -> tuple[int, ...] | None:
    if tokens is None or number >= len(tokens):
        return None
    ranges = tokens.part_ranges(number)
    return tuple((ranges[:, 1] - ranges[:, 0]).tolist())


def _structure(line: Line) -> Structure | None:
    if "run_ends" not in line:
        return None
    runs = {name: tuple(line[f"run_{name}"]) for name in RUN_COLUMNS}
    return Structure(
        ends=tuple(line["run_ends"]),
        **runs,
        chunks=tuple(StructureChunk(**each) for each in line["structure_chunks"]),
        call_edges=tuple(StructureEdge(**each) for each in line["call_edges"]),
        type_edges=tuple(StructureEdge(**each) for each in line["type_edges"]),
    )


_SUBJECT = re.compile(r"Subject: +(.+)|^\S* ?=== TARGET: (.+) ===$", re.MULTILINE)


def subject_of(document: Document) -> str:
    """The subject of the commit, where a generated header has it."""
    content = document.text.encode()
    headers = (part for part in document.parts if part.kind == "header")
    for part in headers:
        found = _SUBJECT.search(content[part.start : part.end].decode(errors="replace"))
        if found:
            return found[1] or found[2]
    return ""


def facts(seen: DocumentView) -> Iterator[str]:
    """Yield the facts of a document, in a few lines of words."""
    document = seen.document
    origin = document.provenance[-1] if document.provenance else None
    if origin:
        path = "" if document.chunks else origin.path
        yield " ".join(filter(None, (origin.repository, origin.commit[:10], path)))
    if subject := subject_of(document):
        yield subject
    known = seen.tokens(0, len(document.parts))
    yield " · ".join(_sizes(seen, known))
    if document.edges:
        yield edge_words(document.edges)
    if seen.base_document_id:
        yield f"made of {seen.base_document_id}"


def _sizes(seen: DocumentView, tokens: int | None) -> Iterator[str]:
    document = seen.document
    yield f"{len(seen.content):,} bytes"
    if tokens is not None:
        yield number(tokens, "token")
    yield number(len(document.parts), "part")
    if document.chunks:
        yield number(len(document.chunks), "chunk")
        yield number(len(document.edges), "edge")
    if seen.structure:
        edges = len(seen.structure.call_edges), len(seen.structure.type_edges)
        yield number(len(seen.structure.chunks), "structure chunk")
        yield f"{number(edges[0], 'call edge')}, {number(edges[1], 'type edge')}"
    if document.language:
        yield document.language
    yield document.licence or "no licence"


def what(chunk: Chunk) -> str:
    """Return the kind of a chunk: `function`, or where it isn't whole, `function, signature`."""
    return chunk.symbol if chunk.form == "whole" else f"{chunk.symbol}, {chunk.form}"
