"""Drawings in text: code coloured by its structure, shares as bars, and numbers as sparklines."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from curriculum.inspection.formats import number, percent
from curriculum.inspection.row_view import RowChunk
from curriculum.inspection.structure_text import StructuredText, shares
from dashboards.palette import NAMES, family_colours, shade
from flows.cli.console import ACCENT, MUTED, plain_table
from schemas.structure import Structure, StructureChunk
from schemas.visible import one_line, visible

LEVEL_CELLS = 3
TAB_CELLS = 4
TONES = ("", "on grey23")
"""Background styles of neighbouring tokens."""
Chunks = Sequence[StructureChunk] | Sequence[RowChunk]


def panel(title: str, body: RenderableType) -> Panel:
    """Draw a frame with a title around `body`."""
    name = Text(one_line(title))
    return Panel(body, title=name, title_align="left", border_style=MUTED, padding=(0, 1))


def columns(*names: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table with the columns `names`, aligned left, then `right`, aligned right."""
    drawn = plain_table(*names, *right)
    for column in drawn.columns[len(names) :]:
        column.justify = "right"
    return drawn


def cut_off(lines: Iterable[Text], most: int | None) -> Iterator[Text]:
    """Yield the first `most` lines, then a line that says how many lines were left out."""
    left = iter(lines)
    yield from itertools.islice(left, most)
    more = sum(1 for _ in left)
    if more:
        yield Text(f"… {number(more, 'more line')} (--full)", MUTED)


def legend(structure: Structure) -> Text:
    """Return a legend: the categories of a structure in their colours, each with its share of the bytes."""
    drawn = Text()
    counted = shares(structure)
    for code, size in enumerate(counted):
        if size:
            drawn.append("■ ", shade(code).terminal)
            drawn.append(f"{NAMES[code] if code < len(NAMES) else code} ")
            drawn.append(f"{percent(size / sum(counted))}   ", MUTED)
    return drawn


def coloured_lines(pieces: Iterable[StructuredText], chunks: Chunks) -> Iterator[Text]:
    """Yield the lines of a text coloured by structure.

    A bar before each line marks its chunk. The first line of a chunk also shows the chunk's dep_level.
    """
    known = -1
    for line in lines_of(pieces):
        chunk = next((piece.chunk for piece in line if piece.text.strip()), line[0].chunk)
        yield _line(line, chunk, chunk > known, chunks)
        known = max(known, chunk)


def lines_of(pieces: Iterable[StructuredText]) -> Iterator[list[StructuredText]]:
    """Yield the pieces of each line, without the line end; an empty line yields one empty piece."""
    line: list[StructuredText] = []
    for piece in pieces:
        first, *rest = piece.text.split("\n")
        line.append(piece._replace(text=first))
        for text in rest:
            yield line
            line = [piece._replace(text=text)]
    if any(piece.text for piece in line):
        yield line


def plain(pieces: Iterable[StructuredText]) -> Iterator[Text]:
    """Yield the lines of a text without colours; text that isn't scored is dim."""
    text = Text()
    for piece in pieces:
        text.append(visible(piece.text), None if piece.scored else "dim")
    for line in text.split("\n"):
        line.expand_tabs(TAB_CELLS)
        yield line


def _line(pieces: Iterable[StructuredText], chunk: int, begins: bool, chunks: Chunks) -> Text:
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


EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"
BAR_CELLS = 24
LINE_CELLS = 60


def bar(share: float, cells: int = BAR_CELLS) -> Text:
    """Return a share between 0 and 1 as a bar of `cells` characters, precise to an eighth of a character.

    >>> bar(0.5, cells=4).plain, bar(0.03, cells=4).plain
    ('██  ', '▏   ')
    """
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    drawn = "█" * whole + (EIGHTHS[rest] if rest else "")
    return Text(drawn.ljust(cells), ACCENT)


def line(values: Sequence[float], cells: int = LINE_CELLS) -> str:
    """Return numbers as a sparkline, scaled from the lowest to the highest number.

    If there are more numbers than `cells`, each character shows the mean of several numbers.

    >>> line([3.0, 2.0, 1.0]), line([1.0, 1.0])
    ('█▅▁', '▁▁')
    """
    if not values:
        return ""
    cells = min(cells, len(values))
    borders = [at * len(values) // cells for at in range(cells + 1)]
    means = [sum(values[start:end]) / (end - start) for start, end in itertools.pairwise(borders)]
    least, span = min(means), max(means) - min(means)
    top = len(LEVELS) - 1
    return "".join(LEVELS[round((mean - least) / span * top) if span else 0] for mean in means)


def strip(parts: Sequence[tuple[float, str]], cells: int) -> Text:
    """Return a bar of `cells` characters with one part for each pair of share and style; the rest is dim.

    >>> strip([(0.5, "red"), (0.25, "blue")], 4).plain
    '███░'
    """
    drawn, at = Text(), 0.0
    for share, style in parts:
        size = round((at + share) * cells) - round(at * cells)
        drawn.append("█" * size, style)
        at += share
    drawn.append("░" * max(cells - len(drawn), 0), MUTED)
    return drawn


def family_style(family: str) -> str:
    """Return the colour that a family has on light pages; it is readable on dark backgrounds too."""
    return family_colours()[family].light if family in family_colours() else MUTED
