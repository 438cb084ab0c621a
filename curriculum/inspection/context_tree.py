"""Context documents as trees: each chunk is below the chunk that led to it, with the edge in words."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from curriculum.inspection.formats import number
from schemas.document import EDGE_KINDS, EDGE_LABELS, Chunk, Document, Edge, EdgeKind, LeftOut

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
"""Words for each kind of edge: read from the source to the target, and from the target to the source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeChunk:
    """A chunk and its place in the tree."""

    chunk: int
    depth: int
    edge: Edge | None = None
    """Edge between the chunk and its parent, in either direction; None at a root."""

    @property
    def word(self) -> str:
        """Relation of the chunk to its parent in words; empty at a root.

        TreeChunk(chunk=0, depth=1, edge=Edge(source=0, target=2, kind="calls", …)).word -> 'called by'
        """
        if self.edge is None:
            return ""
        return WORDS[self.edge.kind][self.edge.source == self.chunk]


def branches(document: Document) -> list[TreeChunk]:
    """Return every chunk once, in tree order; siblings are sorted by edge kind, then by confidence.

    The targets are roots. Chunks that can't be reached from a target are roots after them.
    """
    below = _below(document)
    roots = [index for index, chunk in enumerate(document.chunks) if chunk.via < 0]
    waiting = [TreeChunk(chunk=index, depth=0) for index in reversed(roots)]
    lost = iter(range(len(document.chunks)))
    placed: dict[int, TreeChunk] = {}
    while len(placed) < len(document.chunks):
        if not waiting:
            waiting.append(
                TreeChunk(chunk=next(number for number in lost if number not in placed), depth=0)
            )
        branch = waiting.pop()
        if branch.chunk in placed:
            continue
        placed[branch.chunk] = branch
        waiting += [
            TreeChunk(chunk=chunk, depth=branch.depth + 1, edge=edge)
            for chunk, edge in reversed(below[branch.chunk])
        ]
    return list(placed.values())


def nearest(tree: list[TreeChunk], most: int | None) -> list[TreeChunk]:
    """Return the `most` chunks that are closest to a root, in tree order; with None, return all."""
    if most is None or len(tree) <= most:
        return tree
    kept = {branch.chunk for branch in sorted(tree, key=lambda branch: branch.depth)[:most]}
    return [branch for branch in tree if branch.chunk in kept]


def guides(tree: list[TreeChunk]) -> list[str]:
    """Return, for each chunk of a tree, the characters that connect it to its parent in a text.

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
    """Return a text with the number of edges by kind and label.

    edge_words(edges) ->
    'calls 12 (resolved 8, syntactic 4) · inherits 3 (resolved)'
    """
    found = Counter((edge.kind, edge.label) for edge in edges)
    said = []
    for kind in EDGE_KINDS:
        by_label = {label: found[kind, label] for label in EDGE_LABELS if found[kind, label]}
        if by_label:
            number = len(by_label) > 1
            labels = (f"{name} {count:,}" if number else name for name, count in by_label.items())
            said.append(f"{kind} {sum(by_label.values()):,} ({', '.join(labels)})")
    return " · ".join(said)


def left_out_words(left_out: tuple[LeftOut, ...]) -> str:
    """Return a text that lists the definitions that a context leaves out, with the reasons.

    left_out_words(document.left_out) ->
    'calls fill (a.cc): doubtful, 0.33 · called by main (b.cc): unrelated, 2 edges away'
    """
    return " · ".join(
        f"{WORDS[chunk.kind][not chunk.outward]} {chunk.name} ({chunk.path}): {_reason(chunk)}"
        for chunk in left_out
    )


def _reason(left_out: LeftOut) -> str:
    match left_out.reason:
        case "doubtful":
            return f"doubtful, {left_out.confidence:.2f}"
        case "unrelated":
            return f"unrelated, {number(left_out.hop, 'edge')} away"
        case "no_room":
            return "no room"


def target_parts(document: Document) -> tuple[int, int]:
    """Return the range [first, last) of the parts that belong to the target.

    If the document has no chunks, these are all its parts.
    """
    own = [chunk for chunk in document.chunks if chunk.hop == 0]
    if not own:
        return 0, len(document.parts)
    return min(chunk.first_part for chunk in own), max(chunk.last_part for chunk in own)


def path_of(document: Document, chunk: Chunk) -> str:
    """Return the path of the file that a chunk comes from; empty for generated text."""
    sources = (document.parts[part].source for part in range(chunk.first_part, chunk.last_part))
    known = next((source for source in sources if source >= 0), None)
    return "" if known is None else document.provenance[known].path


def _below(document: Document) -> dict[int, list[tuple[int, Edge]]]:
    """Return the children of each chunk, each with the edge that leads to it."""
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
