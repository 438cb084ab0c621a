"""Text with its structure in colour, for the terminal."""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from curriculum.inspection.context_tree import Piece, shares
from curriculum.inspection.formats import percent
from dashboards.palette import NAMES, shade
from flows.cli.console import MUTED
from schemas.structure import Structure, StructureChunk
from schemas.visible import visible

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
    known = -1
    for line in lines_of(pieces):
        chunk = next((piece.chunk for piece in line if piece.text.strip()), line[0].chunk)
        yield _line(line, chunk, chunk > known, chunks)
        known = max(known, chunk)


def lines_of(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The pieces of each line, without its end; an empty line has one that is empty."""
    line: list[Piece] = []
    for piece in pieces:
        first, *rest = piece.text.split("\n")
        line.append(piece._replace(text=first))
        for text in rest:
            yield line
            line = [piece._replace(text=text)]
    if any(piece.text for piece in line):
        yield line


def plain(pieces: Iterable[Piece]) -> Iterator[Text]:
    """Lines without structure; what no prediction is scored on is dim."""
    text = Text()
    for piece in pieces:
        text.append(visible(piece.text), None if piece.scored else "dim")
    for line in text.split("\n"):
        line.expand_tabs(TAB_CELLS)
        yield line


def _line(
    pieces: Iterable[Piece], chunk: int, begins: bool, chunks: Sequence[StructureChunk]
) -> Text:
    line = Text()
    for piece in pieces:
        style = shade(piece.code).terminal
        line.append(visible(piece.text), style if piece.scored else f"dim {style}")
    line.expand_tabs(TAB_CELLS)
    gutter = Text(" " * (LEVEL_CELLS + 3))
    if chunk >= 0:
        level = str(chunks[chunk].dep_level - 1) if begins else ""
        colour = shade(chunks[chunk].kind).terminal
        gutter = Text.assemble(
            (f"{level:>{LEVEL_CELLS}} ", MUTED), ("╭ " if begins else "│ ", colour)
        )
    return Text.assemble(gutter, line, no_wrap=True, overflow="ellipsis")
