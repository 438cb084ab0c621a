"""The structure of a document, from its bytes to the tokens of its encodings.

A token takes what its first byte that isn't whitespace has, since tokens begin with the space before a
word; one of whitespace alone takes what its first byte has. A chunk is the tokens that it gave its level
to, so chunks stay disjoint; one that no token took is dropped with its edges, and counted. Tokens that
encode no text have 0 everywhere; a chunk goes on behind the line of a gap inside it. Where an objective
moved a part of a chunk, each stretch of it is a chunk of its own, without edges, and that is counted too.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curriculum.encode.documents import Bools, FitResult, Int32s, StructureCounts
from curriculum.tokens import (
    BYTE_START,
    KIND,
    TOKEN_END,
    TOKEN_START,
    EncodedStructure,
    Encoding,
    byte_ranges,
)
from schemas.packed_row import TEXT_PIECE
from schemas.structure import STRUCTURE_TOKENS

Codes = npt.NDArray[np.uint8]
_LEVEL = STRUCTURE_TOKENS.index("dep_levels")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ByteStructure:
    """schemas.structure.Structure of one document as arrays."""

    base_document_id: str
    ends: Int32s
    """[runs]"""
    codes: Codes
    """[runs, 4]: RUN_COLUMNS"""
    chunks: Int32s
    """[chunks, 4]: start, end, kind, dep_level"""
    call_edges: Int32s
    """[edges, 3]: source, target, label"""
    type_edges: Int32s


class _Held(NamedTuple):
    """The structure of an encoding, and what of the document's it holds."""

    structure: EncodedStructure
    chunks: Bools
    cut: Bools
    """Chunks that it holds in several stretches."""
    calls: Bools
    types: Bools


def with_structure(
    fitted: FitResult, structure: ByteStructure, token_bytes: Int32s, leading_space: Int32s
) -> FitResult:
    """The document with the structure of its encodings; `token_bytes`, `leading_space` are by id."""
    if not fitted.encodings:
        return fitted
    held = [_encoded(structure, each, token_bytes, leading_space) for each in fitted.encodings]
    chunks, cut, calls, types = (
        np.logical_or.reduce(masks)
        for masks in zip(
            *((each.chunks, each.cut, each.calls, each.types) for each in held), strict=True
        )
    )
    edges = len(calls) + len(types)
    return replace(
        fitted,
        encodings=tuple(
            replace(encoding, structure=each.structure)
            for encoding, each in zip(fitted.encodings, held, strict=True)
        ),
        structure=StructureCounts(
            chunks=len(chunks),
            chunks_without_tokens=int((~chunks).sum()),
            chunks_cut=int(cut.sum()),
            edges=edges,
            edges_dropped=edges - int(calls.sum()) - int(types.sum()),
        ),
    )


def _encoded(
    structure: ByteStructure, encoding: Encoding, token_bytes: Int32s, leading_space: Int32s
) -> _Held:
    at = _deciding_bytes(encoding, token_bytes, leading_space)
    chunk = chunk_of(at, structure.chunks)
    found = token_ranges(chunk, _stretches(encoding.pieces))
    stretches = np.bincount(found[:, 0], minlength=len(structure.chunks))
    place = np.full(len(structure.chunks), -1, dtype=np.int32)
    whole = np.flatnonzero(stretches[found[:, 0]] == 1)
    place[found[whole, 0]] = whole
    calls, call_edges = _renumbered(structure.call_edges, place)
    types, type_edges = _renumbered(structure.type_edges, place)
    encoded = EncodedStructure(
        base_document_id=structure.base_document_id,
        codes=_token_codes(structure, at, chunk),
        chunks=np.concatenate((found[:, 1:], structure.chunks[found[:, 0], 2:]), axis=1),
        call_edges=call_edges,
        type_edges=type_edges,
    )
    return _Held(encoded, stretches > 0, stretches > 1, calls, types)


def _deciding_bytes(encoding: Encoding, token_bytes: Int32s, leading_space: Int32s) -> Int32s:
    """[n]: the byte that each token takes its values from; -1 where it encodes no text."""
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, token_bytes)
    at: Int32s = np.where(ends > starts, starts + leading_space[encoding.ids], np.int32(-1))
    return at


def _token_codes(structure: ByteStructure, at: Int32s, chunk: Int32s) -> Codes:
    """[n, 5]: STRUCTURE_TOKENS."""
    runs = structure.codes[np.searchsorted(structure.ends, at, side="right")]
    runs[at < 0] = 0
    levels = np.append(structure.chunks[:, 3], 0).astype(np.uint8)
    return np.insert(runs, _LEVEL, levels[chunk], axis=1)


def chunk_of(at: Int32s, chunks: Int32s) -> Int32s:
    """[n]: the chunk ([k, 2] or wider: start, end) that each byte of `at` lies in, -1 for none.

    >>> chunk_of(np.array([-1, 0, 2, 3, 5]), np.array([[0, 2], [3, 6]])).tolist()
    [-1, 0, -1, 1, 1]
    """
    number = np.searchsorted(chunks[:, 0], at, side="right").astype(np.int32) - np.int32(1)
    ends = np.append(chunks[:, 1], 0)
    number[at >= ends[number]] = -1
    return number


def token_ranges(chunk: Int32s, stretch: Int32s) -> Int32s:
    """[held, 3]: chunk, its first token, the one after its last; [n] chunks and stretches of tokens.

    A chunk that a stretch interrupts comes once a stretch; -1 is no chunk and interrupts none.

    >>> chunk, stretch = np.array([-1, 0, 0, -1, 2, -1, 2, 2]), np.array([0, 0, 0, 0, 0, 0, 0, 1])
    >>> token_ranges(chunk, stretch).tolist()
    [[0, 1, 3], [2, 4, 7], [2, 7, 8]]
    """
    tokens = np.flatnonzero(chunk >= 0)
    numbers, own = chunk[tokens], stretch[tokens]
    begin = np.ones(len(tokens), dtype=np.bool_)
    begin[1:] = (numbers[1:] != numbers[:-1]) | (own[1:] != own[:-1])
    first = np.flatnonzero(begin)
    last = np.append(first[1:], len(tokens))[: len(first)] - 1
    found = (numbers[first], tokens[first], tokens[last] + 1)
    return np.stack(found, axis=1).astype(np.int32)


def _stretches(pieces: Int32s) -> Int32s:
    """[n]: the number of the stretch of text that each token stands in: text that moved begins another.

    What follows a piece of text is what follows it in the document, but for what no piece has: a gap.

    >>> _stretches(np.array([[0, 0, 1, 0, 3], [1, 1, 2, 3, 3], [0, 2, 3, 7, 9], [0, 3, 5, 3, 7]])).tolist()
    [0, 0, 1, 2, 2]
    """
    text = np.flatnonzero(pieces[:, KIND] == TEXT_PIECE)
    rank = np.argsort(np.argsort(pieces[text, BYTE_START]))
    moved = np.zeros(len(pieces), dtype=np.int32)
    moved[text[1:]] = np.diff(rank) != 1
    lengths = pieces[:, TOKEN_END] - pieces[:, TOKEN_START]
    return np.repeat(np.cumsum(moved, dtype=np.int32), lengths)


def _renumbered(edges: Int32s, place: Int32s) -> tuple[Bools, Int32s]:
    """Flag edges [e, 3] between chunks with a place (≥ 0), and return them between places, sorted.

    >>> edges = np.array([[0, 1, 1], [0, 2, 1], [2, 0, 4]], dtype=np.int32)
    >>> stays, kept = _renumbered(edges, np.array([1, -1, 0], dtype=np.int32))
    >>> stays.tolist(), kept.tolist()
    ([False, True, True], [[0, 1, 4], [1, 0, 1]])
    """
    stays: Bools = (place[edges[:, 0]] >= 0) & (place[edges[:, 1]] >= 0)
    kept = edges[stays]
    kept[:, :2] = place[kept[:, :2]]
    return stays, kept[np.lexsort((kept[:, 2], kept[:, 1], kept[:, 0]))]
