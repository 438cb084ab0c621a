"""v6_enriched: any document as it is, and its structure beside it.

Generated lines are comments, the hunks of CHANGES are `other` and aren't parsed. Each piece of code is
parsed by itself, so depth and siblings count within it. Languages other than C and C++ have no structure:
every code is 0, and there are no chunks.
"""

import functools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from curriculum.families.chunk_edges import (
    CALL_KINDS,
    TYPE_KINDS,
    Link,
    Piece,
    edges_of,
    links_in_file,
    main_chunk,
    pieces,
    renamed,
    with_levels,
)
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.index import facts_of
from curriculum.graph.structure import CodeChunk, CodeStructure, code_structure
from schemas.change import Blob, TreeDelta, TreeFile
from schemas.corpus import Language
from schemas.document import Document
from schemas.structure import RUN_COLUMNS, STRUCTURE_CODES, Structure

_REMEMBERED = 10_000
"""Pieces, some 3 kB each with their structure."""
_LANGUAGES: dict[str, Language] = {"cpp": "cpp", "c": "c"}
_COLUMN = {name: number for number, name in enumerate(RUN_COLUMNS)}


@dataclass(kw_only=True, slots=True)
class _Canvas:
    """Columns, chunks and links of a document in the making."""

    data: bytes
    levels: npt.NDArray[np.uint8]
    """[columns, bytes] the RUN_COLUMNS."""
    chunks: list[CodeChunk] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def enrich(document: Document) -> Structure:
    """The structure of a document of any other family; equal documents have equal structure.

    Chunks and edges of a context document are those of its chunks; in a document of one file they are
    what the syntax of that file alone tells. Costs a parse and a walk, 2 MB/s.
    """
    data = document.text.encode()
    canvas = _Canvas(data=data, levels=np.zeros((len(RUN_COLUMNS), len(data)), dtype=np.uint8))
    language = _LANGUAGES.get(document.language)
    if language:
        _add_generated(document, canvas)
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
    runs = {name: tuple(values[number].tolist()) for name, number in _COLUMN.items()}
    return Structure(
        ends=tuple(ends.tolist()),
        structure_ids=runs["structure_ids"],
        ast_depth=runs["ast_depth"],
        sibling_index=runs["sibling_index"],
        ast_node_type=runs["ast_node_type"],
        chunks=with_levels(canvas.chunks, [*calls, *types]),
        call_edges=calls,
        type_edges=types,
    )


def _runs(
    levels: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the ends of runs of equal columns, and their values [columns, runs].

    >>> ends, values = _runs(np.array([[3, 3, 4, 4, 4], [1, 1, 1, 1, 2]], dtype=np.uint8))
    >>> ends.tolist(), values.tolist()
    ([2, 4, 5], [[3, 4, 4], [1, 1, 2]])
    """
    size = levels.shape[1]
    if not size:
        return np.zeros(0, dtype=np.int64), levels
    ends = np.append(np.flatnonzero((levels[:, 1:] != levels[:, :-1]).any(axis=0)) + 1, size)
    return ends, levels[:, ends - 1]


def _add_generated(document: Document, canvas: _Canvas) -> None:
    ids = canvas.levels[_COLUMN["structure_ids"]]
    for part in document.parts:
        name = "comment" if part.source < 0 and part.kind != "changes" else "other"
        ids[part.start : part.end] = STRUCTURE_CODES[name]


def _add_file(document: Document, piece: Piece, language: Language, canvas: _Canvas) -> None:
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
    """The structure's chunk that shows a chunk of the document."""
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
            named.extend(renamed(own, main, chunk))
            first = after
        _add(canvas, piece, found, named)
    canvas.links.extend(_links(document, shown_by))


@functools.lru_cache(maxsize=_REMEMBERED)
def _structure_of(text: str, language: Language) -> CodeStructure:
    """The structure of a piece by itself: successive commits show most of their context again."""
    return code_structure(text, language, facts_of(text, language))


def _links(document: Document, shown_by: dict[int, int]) -> Iterator[Link]:
    for edge in document.edges:
        if edge.source in shown_by and edge.target in shown_by:
            yield Link(shown_by[edge.source], shown_by[edge.target], edge.kind, edge.label)


def _text(canvas: _Canvas, piece: Piece) -> str:
    return canvas.data[piece.start : piece.end].decode()


def _add(canvas: _Canvas, piece: Piece, found: CodeStructure, chunks: Sequence[CodeChunk]) -> None:
    for name, number in _COLUMN.items():
        canvas.levels[number, piece.start : piece.end] = getattr(found, name)
    canvas.chunks.extend(
        chunk._replace(start=chunk.start + piece.start, end=chunk.end + piece.start)
        for chunk in chunks
    )
