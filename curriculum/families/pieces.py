"""The contiguous pieces of code in a document, each of which is parsed as one text."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from curriculum.graph.structure import CodeChunk
from schemas.document import Chunk, Document, Part
from schemas.structure import STRUCTURE_CODES

_BESIDE = (STRUCTURE_CODES["comment"], STRUCTURE_CODES["preamble"])
_BODY = STRUCTURE_CODES["func_body"]
_SEVERAL = ("file", "target")
"""Chunks that show more than one definition, under a name that is none of theirs."""


class Piece(NamedTuple):
    """Bytes `[start, end)` of a document."""

    start: int
    end: int
    chunks: tuple[int, ...]
    """The document's chunks that it shows, in order; none in a document without chunks."""
    source: int
    """The source of its first part."""


def pieces(document: Document) -> Iterator[Piece]:
    """The pieces in order.

    Of a file document each run of parts of one source: as a rule the whole file. Of a context document
    each chunk without the generated part that it begins with, and what begins with a part of a file goes on
    with the piece before; generated lines between its parts are in the piece.
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
        for _, group in groupby(parts, key=lambda part: part.source):
            yield from _piece(tuple(group), ())


def _piece(parts: tuple[Part, ...], chunks: tuple[int, ...]) -> Iterator[Piece]:
    sourced = [part for part in parts if part.source >= 0]
    if sourced:
        yield Piece(sourced[0].start, sourced[-1].end, chunks, sourced[0].source)


def main_chunk(found: Sequence[CodeChunk], chunk: Chunk) -> int:
    """Return the chunk found in a piece that the document's chunk shows; -1 where there is none.

    The first whose name ends the document's, which knows namespaces that the piece doesn't; else the
    first body of a function, where it shows one; else the first that is code.
    """
    code = [i for i, each in enumerate(found) if each.kind not in _BESIDE]
    named = [i for i in code if _prefix(chunk.name, found[i].name) is not None]
    bodies = [i for i in code if found[i].kind == _BODY and chunk.symbol == "function"]
    return next(iter(named or bodies or code), -1)


def renamed(found: Sequence[CodeChunk], main: int, chunk: Chunk) -> tuple[CodeChunk, ...]:
    """The chunks of a piece with names as the document's chunk qualifies them."""
    if main < 0 or chunk.symbol in _SEVERAL:
        return tuple(found)
    prefix = _prefix(chunk.name, found[main].name)
    if prefix is None:
        main_only = found[main]._replace(name=chunk.name)
        return (*found[:main], main_only, *found[main + 1 :])
    return tuple(each._replace(name=prefix + each.name if each.name else "") for each in found)


def _prefix(name: str, tail: str) -> str | None:
    """Return the text before a qualified name's tail.

    >>> _prefix("lattice::Matrix::at", "Matrix::at"), _prefix("at", "at"), _prefix("format", "at")
    ('lattice::', '', None)
    """
    prefix = name.removesuffix(tail) if tail else name
    is_whole = prefix in ("", "::") or prefix.endswith("::")
    return prefix if tail and name.endswith(tail) and is_whole else None
