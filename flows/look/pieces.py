"""Text cut where its structure changes."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from schemas.structure import Structure, StructureChunk


class Piece(NamedTuple):
    """A run of text that is one thing throughout."""

    text: str
    code: int = 0
    """A STRUCTURE_CODE."""
    chunk: int = -1
    """The structure chunk that it stands in; -1 for none."""
    scored: bool = True
    """Whether a prediction of it counts."""


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
