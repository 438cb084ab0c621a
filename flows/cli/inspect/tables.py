"""Tables of counts, and drawings of characters: a share as a bar, numbers as a line."""

import itertools
import json
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from curriculum.store import Artefact
from dashboards.palette import family_colours
from flows.cli.console import ACCENT, MUTED, plain_table
from schemas.visible import one_line

EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"
BAR_CELLS = 24
LINE_CELLS = 60


def bar(share: float, style: str = ACCENT, cells: int = BAR_CELLS) -> Text:
    """A share in [0, 1] as a bar, to an eighth of a cell.

    >>> bar(0.5, cells=4).plain, bar(0.03, cells=4).plain
    ('██  ', '▏   ')
    """
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    drawn = "█" * whole + (EIGHTHS[rest] if rest else "")
    return Text(drawn.ljust(cells), style)


def line(values: Sequence[float], cells: int = LINE_CELLS) -> str:
    """Numbers as a line of levels, lowest to highest; of more than there are cells the means of runs.

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
    return "".join(LEVELS[round((each - least) / span * top) if span else 0] for each in means)


def strip(parts: Sequence[tuple[float, str]], cells: int) -> Text:
    """Shares of a whole side by side, each in its style; what is left is dim.

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
    """The colour of a family, as pages have it on a light ground: it stands on a dark one too."""
    return family_colours()[family].light if family in family_colours() else MUTED


LONGEST_VALUE = 200


def counts(artefact: Artefact) -> Table:
    """Return the counts of a stage as a table."""
    drawn = plain_table("counted", "value")
    for name, value in artefact.manifest.report.items():
        shown = f"{value:,}" if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
        short = shown if len(shown) < LONGEST_VALUE else f"{shown[: LONGEST_VALUE - 1]}…"
        drawn.add_row(Text(one_line(name)), Text(one_line(short)))
    return drawn
