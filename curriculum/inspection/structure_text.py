"""Text of documents and rows, split where its structure changes."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from schemas.structure import Structure, StructureChunk

_INDENT = re.compile(r"(?<![^\n])[ \t]+$")
"""White space at the end of a text, if it follows a line feed or the start of the text."""
_LINE_END = re.compile(r"[ \t]*\n")


class StructuredText(NamedTuple):
    """A piece of text with a single category, chunk and scoring."""

    text: str
    code: int = 0
    """Category: one of STRUCTURE_CODES."""
    chunk: int = -1
    """Index of the structure chunk that the text belongs to; -1 for none."""
    scored: bool = True
    """True if the predictions of these tokens are scored."""


def pieces(
    content: bytes, start: int, end: int, structure: Structure | None
) -> Iterator[StructuredText]:
    """Yield the bytes [start, end) of a text, split where category or chunk changes.

    Without structure, there is one piece. If a border splits a character, U+FFFD is shown.
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
    r"""Yield the same text, but let each chunk start with its indentation and end with its line feed.

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
    """Return the number of bytes in each category; the index is the category's code."""
    counted = [0] * (max(structure.structure_ids, default=0) + 1)
    start = 0
    for end, code in zip(structure.ends, structure.structure_ids, strict=True):
        counted[code] += end - start
        start = end
    return counted


def _chunk_at(
    chunks: Sequence[StructureChunk], starts: list[int], at: int, end: int
) -> tuple[int, int]:
    """Return the index of the chunk at byte `at` (-1 for none), and the end of that chunk or gap."""
    index = bisect_right(starts, at) - 1
    if index >= 0 and at < chunks[index].end:
        return index, chunks[index].end
    return -1, starts[index + 1] if index + 1 < len(starts) else end
