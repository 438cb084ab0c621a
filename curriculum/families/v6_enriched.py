"""v6_enriched: an unchanged document with its structure: chunks, edges between them, and dependency levels.

Generated lines count as comments. Hunks of CHANGES and lines of search/replace blocks have the category
`other` and aren't parsed. Each piece of code is parsed on its own, so its depths and sibling indices are
relative to the piece. Languages other than C and C++ have no structure: every code is 0, and there are no
chunks.
"""

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curriculum.graph.call_graph import CallGraph
from curriculum.graph.facts import NodeId, RepositoryGraph, reachable
from curriculum.graph.index import facts_of
from curriculum.graph.structure import CodeChunk, CodeStructure, code_structure
from schemas.change import Blob, TreeDelta, TreeFile
from schemas.corpus import Language
from schemas.document import Chunk, Document, EdgeKind, EdgeLabel, Part
from schemas.structure import (
    LABEL_CODES,
    MAX_LEVEL,
    RUN_COLUMNS,
    STRUCTURE_CODES,
    Structure,
    StructureChunk,
    StructureEdge,
)

_BESIDE = (STRUCTURE_CODES["comment"], STRUCTURE_CODES["preamble"])
_BODY = STRUCTURE_CODES["func_body"]
_SEVERAL = ("file", "target")
"""Kinds of chunks that show several definitions. The name of such a chunk isn't the name of one of them."""


class ByteSpan(NamedTuple):
    """Bytes `[start, end)` of a document, with the chunks and the source to which they belong."""

    start: int
    end: int
    chunks: tuple[int, ...]
    """Indices of the document's chunks in the span, in order; empty in a document without chunks."""
    source: int
    """Index of the source of the span's first part."""


def pieces(document: Document) -> Iterator[ByteSpan]:
    """Yield the contiguous pieces of code of a document, in order.

    A document of one file has one piece: the whole file, or its shown lines with the gap lines between them.
    In a context document, each chunk is a piece, without its generated first part. If a chunk begins with
    file text, it continues the previous piece. Generated lines between the parts of a piece belong to the
    piece.
    """
    parts, chunks = document.parts, document.chunks
    starts = [
        number
        for number, chunk in enumerate(chunks)
        if not number or parts[chunk.first_part].source < 0
    ]
    for first, after in pairwise((*starts, len(chunks))):
        span = slice(chunks[first].first_part, chunks[after - 1].last_part)
        yield from _piece(parts[span], tuple(range(first, after)))
    if not chunks:
        yield from _piece(tuple(part for part in parts if part.kind == "code"), ())


def _piece(parts: tuple[Part, ...], chunks: tuple[int, ...]) -> Iterator[ByteSpan]:
    sourced = [part for part in parts if part.source >= 0]
    if sourced:
        yield ByteSpan(sourced[0].start, sourced[-1].end, chunks, sourced[0].source)


def main_chunk(found: Sequence[CodeChunk], chunk: Chunk) -> int:
    """Return the index of the parsed chunk in `found` that is shown by `chunk`; -1 if there is none.

    `chunk` belongs to a document. The result is the first parsed chunk whose name is the end of its name,
    which may have more scopes in front. If there is none, it is the first function body (if `chunk` shows a
    function), else the first chunk of code.
    """
    code = [i for i, parsed in enumerate(found) if parsed.kind not in _BESIDE]
    named = [i for i in code if _prefix(chunk.name, found[i].name) is not None]
    bodies = [i for i in code if found[i].kind == _BODY and chunk.symbol == "function"]
    return next(iter(named or bodies or code), -1)


def qualify_chunks(found: Sequence[CodeChunk], main: int, chunk: Chunk) -> tuple[CodeChunk, ...]:
    """Return the chunks `found` in a piece with full names.

    The document's `chunk` knows scopes that the piece doesn't show; they are added to the names. `main` is
    the index of the parsed chunk that `chunk` shows.
    """
    if main < 0 or chunk.symbol in _SEVERAL:
        return tuple(found)
    prefix = _prefix(chunk.name, found[main].name)
    if prefix is None:
        main_only = found[main]._replace(name=chunk.name)
        return (*found[:main], main_only, *found[main + 1 :])
    return tuple(inner._replace(name=prefix + inner.name if inner.name else "") for inner in found)


def _prefix(name: str, tail: str) -> str | None:
    """Return the scopes in front of `tail` in a qualified name; None if the name doesn't end with `tail`.

    >>> _prefix("lattice::Matrix::at", "Matrix::at"), _prefix("at", "at"), _prefix("format", "at")
    ('lattice::', '', None)
    """
    prefix = name.removesuffix(tail) if tail else name
    is_whole = prefix in ("", "::") or prefix.endswith("::")
    return prefix if tail and name.endswith(tail) and is_whole else None


def levels(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the length of the shortest path from each node to a leaf, [count].

    Nodes that reach each other, such as mutually recursive functions, count as one group. A leaf is a group
    without outgoing edges, mostly a single node. For the edges 0 → 1, 1 → 2, 2 → 1, 2 → 3 and 4 → 4:

    >>> levels(5, [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4)])
    [2, 1, 1, 0, 0]
    """
    ahead: list[list[int]] = [[] for _ in range(count)]
    behind: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        ahead[source].append(target)
        behind[target].append(source)
    found = [-1] * count
    for group in _groups(ahead, behind):
        # All groups that this one leads to come earlier; its own nodes have no level yet.
        below = [found[target] for node in group for target in ahead[node] if found[target] >= 0]
        level = 1 + min(below) if below else 0
        for node in group:
            found[node] = level
    return found


def _groups(ahead: list[list[int]], behind: list[list[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, by Kosaraju's algorithm.

    A component comes after all components to which it leads.
    """
    grouped = [False] * len(ahead)
    groups: list[list[int]] = []
    for root in reversed(_finish_order(ahead)):
        if not grouped[root]:
            group = reachable(
                root, lambda node: (source for source in behind[node] if not grouped[source])
            )
            for node in group:
                grouped[node] = True
            groups.append(group)
    return groups[::-1]


def _finish_order(ahead: list[list[int]]) -> list[int]:
    """Return all nodes in the order in which a depth-first search finishes them."""
    seen = [False] * len(ahead)
    done: list[int] = []
    for root in range(len(ahead)):
        if seen[root]:
            continue
        seen[root] = True
        path = [(root, iter(ahead[root]))]
        while path:
            node, rest = path[-1]
            fresh = next((target for target in rest if not seen[target]), None)
            if fresh is None:
                done.append(node)
                path.pop()
            else:
                seen[fresh] = True
                path.append((fresh, iter(ahead[fresh])))
    return done


CALL_KINDS: frozenset[EdgeKind] = frozenset({"calls", "constructs"})
TYPE_KINDS: frozenset[EdgeKind] = frozenset({"uses", "inherits", "overrides", "member"})
_CLASS_DECL = STRUCTURE_CODES["class_decl"]
Pair = tuple[int, int]


class ChunkRelation(NamedTuple):
    """Relation from the chunk `source` to the chunk `target`."""

    source: int
    target: int
    kind: EdgeKind
    label: EdgeLabel


def edges_of(
    links: Iterable[ChunkRelation], kinds: frozenset[EdgeKind]
) -> tuple[StructureEdge, ...]:
    """Return the links of the given `kinds` as sorted edges.

    Each pair of chunks has one edge, with the best of its labels.
    """
    best: dict[Pair, int] = {}
    for link in links:
        if link.kind in kinds:
            pair = (link.source, link.target)
            best[pair] = min(LABEL_CODES[link.label], best.get(pair, len(LABEL_CODES)))
    return tuple(
        StructureEdge(source=source, target=target, label=best[source, target])
        for source, target in sorted(best)
    )


def links_in_file(
    graph: RepositoryGraph, path: str, chunks: Sequence[CodeChunk]
) -> Iterator[ChunkRelation]:
    """Yield the edges of a graph that connect the chunks of one file.

    A member that is only declared belongs to its class's chunk. A chunk has a link to itself only if a
    function calls itself.
    """
    symbols = graph.source(path).facts.symbols
    chunk_of = [chunk_at(chunks, symbol.name_start) for symbol in symbols]
    for number, source in enumerate(chunk_of):
        if source < 0:
            continue
        node = NodeId(path, number)
        for near in graph.neighbours(node):
            target = chunk_of[near.node.number] if near.node.path == path else -1
            is_recursion = near.node == node and near.kind in CALL_KINDS
            if near.outward and target >= 0 and (source != target or is_recursion):
                yield ChunkRelation(source, target, near.kind, near.label)


def chunk_at(chunks: Sequence[CodeChunk], offset: int) -> int:
    """Return the index of the chunk that contains the byte at `offset`; -1 if there is none.

    >>> chunk_at([CodeChunk(2, 5, 4, "f"), CodeChunk(7, 9, 4, "g")], 4)
    0
    """
    found = bisect_right(chunks, offset, key=lambda chunk: chunk.start) - 1
    return found if found >= 0 and offset < chunks[found].end else -1


def dep_levels(names: Sequence[tuple[int, str]], edges: Iterable[StructureEdge]) -> list[int]:
    """Return the dependency level that is stored for each chunk: the result of `levels` + 1, clamped.

    `names` has the (kind, name) of each chunk. The pieces of a class count as one node. In the example, f
    calls g, which calls nothing, and the class C, which has two pieces, uses f:

    >>> edge = lambda source, target: StructureEdge(source=source, target=target, label=1)
    >>> chunks = [(5, "C"), (4, "C::m"), (5, "C"), (4, "f"), (4, "g")]
    >>> dep_levels(chunks, [edge(2, 3), edge(3, 4)])
    [3, 1, 3, 2, 1]
    """
    first: dict[str, int] = {}
    node = [
        first.setdefault(name, number) if kind == _CLASS_DECL and name else number
        for number, (kind, name) in enumerate(names)
    ]
    found = levels(len(node), [(node[edge.source], node[edge.target]) for edge in edges])
    return [min(found[whose] + 1, MAX_LEVEL) for whose in node]


def with_levels(
    chunks: Sequence[CodeChunk], edges: Sequence[StructureEdge]
) -> tuple[StructureChunk, ...]:
    """Return the chunks with their dependency levels, which are computed from call and type edges."""
    found = dep_levels([(chunk.kind, chunk.name) for chunk in chunks], edges)
    return tuple(
        StructureChunk(**chunk._asdict(), dep_level=level)
        for chunk, level in zip(chunks, found, strict=True)
    )


_CACHED_PIECES = 10_000
"""Number of pieces whose structure is cached; a piece and its structure take some 3 kB."""
_LANGUAGES: dict[str, Language] = {"cpp": "cpp", "c": "c"}
_COLUMN = {name: number for number, name in enumerate(RUN_COLUMNS)}


@dataclass(kw_only=True, slots=True)
class _Canvas:
    """Structure of the document that is being enriched, as far as it is known."""

    data: bytes
    levels: npt.NDArray[np.uint8]
    """Values of the RUN_COLUMNS, [columns, bytes]."""
    chunks: list[CodeChunk] = field(default_factory=list)
    links: list[ChunkRelation] = field(default_factory=list)


def enrich(document: Document) -> Structure:
    """Return the structure of a document of any other family; equal documents have equal structures.

    In a context document, edges connect its own chunks. In a document of one file, chunks and edges come from
    the syntax of that file alone. Takes a second per 2 MB, for a parse and a walk.
    """
    data = document.text.encode()
    canvas = _Canvas(data=data, levels=np.zeros((len(RUN_COLUMNS), len(data)), dtype=np.uint8))
    language = _LANGUAGES.get(document.language)
    if language:
        ids = canvas.levels[_COLUMN["structure_ids"]]
        for part in document.parts:
            name = "comment" if part.source < 0 and part.kind != "changes" else "other"
            ids[part.start : part.end] = STRUCTURE_CODES[name]
        if document.chunks:
            _add_chunks(document, language, canvas)
        else:
            for piece in pieces(document):
                _add_file(document, piece, language, canvas)
    return _structure(canvas)


def _structure(canvas: _Canvas) -> Structure:
    ends, values = _runs(canvas.levels)
    calls = edges_of(canvas.links, CALL_KINDS)
    types = edges_of(canvas.links, TYPE_KINDS)
    return Structure(
        ends=tuple(ends.tolist()),
        **{name: tuple(values[number].tolist()) for name, number in _COLUMN.items()},
        chunks=with_levels(canvas.chunks, [*calls, *types]),
        call_edges=calls,
        type_edges=types,
    )


def _runs(
    levels: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the runs of equal columns in `levels`: their ends, and their values [columns, runs].

    >>> ends, values = _runs(np.array([[3, 3, 4, 4, 4], [1, 1, 1, 1, 2]], dtype=np.uint8))
    >>> ends.tolist(), values.tolist()
    ([2, 4, 5], [[3, 4, 4], [1, 1, 2]])
    """
    size = levels.shape[1]
    if not size:
        return np.zeros(0, dtype=np.int64), levels
    ends = np.append(np.flatnonzero((levels[:, 1:] != levels[:, :-1]).any(axis=0)) + 1, size)
    return ends, levels[:, ends - 1]


def _add_file(document: Document, piece: ByteSpan, language: Language, canvas: _Canvas) -> None:
    source = document.provenance[piece.source]
    text = _text(canvas, piece)
    file = TreeFile(
        path=source.path,
        language=language,
        blob=Blob(blob_id=source.blob, text=text),
        lineage=source.lineage,
    )
    graph = CallGraph()
    graph.apply(TreeDelta(removed=(), files=(file,)))
    found = code_structure(text, language, graph.source(file.path).facts)
    first = len(canvas.chunks)
    for link in links_in_file(graph, file.path, found.chunks):
        canvas.links.append(link._replace(source=link.source + first, target=link.target + first))
    _add(canvas, piece, found, found.chunks)


def _add_chunks(document: Document, language: Language, canvas: _Canvas) -> None:
    shown_by: dict[int, int] = {}
    """For each chunk of the document, the index of the structure's chunk that shows it."""
    for piece in pieces(document):
        found = _structure_of(_text(canvas, piece), language)
        first = 0
        named: list[CodeChunk] = []
        for number in piece.chunks:
            chunk = document.chunks[number]
            end = document.parts[chunk.last_part - 1].end - piece.start
            after = bisect_left(found.chunks, end, key=attrgetter("start"))
            own = found.chunks[first:after]
            main = main_chunk(own, chunk)
            if main >= 0:
                shown_by[number] = len(canvas.chunks) + first + main
            named.extend(qualify_chunks(own, main, chunk))
            first = after
        _add(canvas, piece, found, named)
    canvas.links.extend(
        ChunkRelation(shown_by[edge.source], shown_by[edge.target], edge.kind, edge.label)
        for edge in document.edges
        if edge.source in shown_by and edge.target in shown_by
    )


@functools.lru_cache(maxsize=_CACHED_PIECES)
def _structure_of(text: str, language: Language) -> CodeStructure:
    """Return the structure of a piece; cached, since consecutive commits repeat most of their context."""
    return code_structure(text, language, facts_of(text, language))


def _text(canvas: _Canvas, piece: ByteSpan) -> str:
    return canvas.data[piece.start : piece.end].decode()


def _add(
    canvas: _Canvas, piece: ByteSpan, found: CodeStructure, chunks: Sequence[CodeChunk]
) -> None:
    for name, number in _COLUMN.items():
        canvas.levels[number, piece.start : piece.end] = getattr(found, name)
    canvas.chunks.extend(
        chunk._replace(start=chunk.start + piece.start, end=chunk.end + piece.start)
        for chunk in chunks
    )
