"""A context document as a tree along the edges of its search, and text cut by structure."""

import itertools
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schemas.document import EDGE_KINDS, EDGE_LABELS, Chunk, Document, Edge, EdgeKind
from schemas.structure import Structure, StructureChunk

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
