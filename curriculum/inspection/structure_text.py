"""Text of documents and rows, cut where its structure changes."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from schemas.structure import Structure, StructureChunk

_INDENT = re.compile(r"(?<![^\n])[ \t]+$")
"""White space that ends a text and begins a line, or the text."""
_LINE_END = re.compile(r"[ \t]*\n")


class StructuredText(NamedTuple):
    """A run of text that is one thing throughout."""

    text: str
    code: int = 0
    """A STRUCTURE_CODE."""
    chunk: int = -1
    """The structure chunk that it stands in; -1 for none."""
    scored: bool = True
    """True if a prediction of it counts."""


def pieces(
    content: bytes, start: int, end: int, structure: Structure | None
) -> Iterator[StructuredText]:
    """The bytes [start, end) of a text, cut at the borders of runs of one category and of chunks.

    Without structure it is one piece. Borders inside a character are shown as U+FFFD.
    """
    if structure is None:
        yield StructuredText(content[start:end].decode(errors="replace"))
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
        yield StructuredText(content[at:stop].decode(errors="replace"), code, chunk)
        at = stop


def widened(pieces: Iterable[StructuredText]) -> Iterator[StructuredText]:
    r"""The same text, where each chunk has its indentation and its line feed: white space beside it.

    >>> texts = (StructuredText("a\n  "), StructuredText("f();", 4, 0), StructuredText("\nb"))
    >>> [(piece.text, piece.chunk) for piece in widened(texts)]
    [('a\n', -1), ('  ', 0), ('f();', 0), ('\n', 0), ('b', -1)]
    """
    before, begins_line = -1, True
    for piece, after in itertools.pairwise((*pieces, StructuredText(""))):
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
