"""Text with its structure in colour, for the terminal."""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from flows.lines import percent
from flows.look.colours import NAMES, shade
from flows.look.pieces import Piece, shares
from flows.look.safe import safe
from flows.show import MUTED
from schemas.structure import Structure, StructureChunk

LEVEL_CELLS = 3
TAB_CELLS = 4


def legend(structure: Structure) -> Text:
    """Each category that occurs, in its colour, with its share of the bytes."""
    drawn = Text()
    counted = shares(structure)
    for code, size in enumerate(counted):
        if size:
            drawn.append("■ ", shade(code).terminal)
            drawn.append(f"{NAMES[code] if code < len(NAMES) else code} ")
            drawn.append(f"{percent(size / sum(counted))}   ", MUTED)
    return drawn


def painted(pieces: Iterable[Piece], chunks: Sequence[StructureChunk]) -> Iterator[Text]:
    """Lines in the colours of their structure; a bar marks each chunk, its dep_level its first line."""
    line, first, known = Text(), -1, -1
    for piece in pieces:
        style = shade(piece.code).terminal
        for index, part in enumerate(safe(piece.text).split("\n")):
            if index:
                yield _line(line, first, known, chunks)
                line, first, known = Text(), -1, max(known, first)
            if part and first < 0:
                first = piece.chunk
            line.append(part, style if piece.scored else f"dim {style}")
    if line:
        yield _line(line, first, known, chunks)


def plain(pieces: Iterable[Piece]) -> Iterator[Text]:
    """Lines without structure; what no prediction is scored on is dim."""
    text = Text()
    for piece in pieces:
        text.append(safe(piece.text), None if piece.scored else "dim")
    for line in text.split("\n"):
        line.expand_tabs(TAB_CELLS)
        yield line


def _line(line: Text, chunk: int, known: int, chunks: Sequence[StructureChunk]) -> Text:
    line.expand_tabs(TAB_CELLS)
    if chunk < 0:
        return Text.assemble(" " * (LEVEL_CELLS + 3), line, no_wrap=True, overflow="ellipsis")
    begins = chunk > known
    level = str(chunks[chunk].dep_level - 1) if begins else ""
    bar = "╭ " if begins else "│ "
    colour = shade(chunks[chunk].kind).terminal
    gutter = Text.assemble((f"{level:>{LEVEL_CELLS}} ", MUTED), (bar, colour))
    return Text.assemble(gutter, line, no_wrap=True, overflow="ellipsis")
