"""Whatever else only counts, in the terminal."""

import json

from rich.table import Table
from rich.text import Text

from curriculum.store import Artefact
from flows.show import plain_table
from schemas.visible import one_line

LONGEST_VALUE = 200


def counts(artefact: Artefact) -> Table:
    """What a stage counted."""
    drawn = plain_table("counted", "value")
    for name, value in artefact.manifest.report.items():
        shown = f"{value:,}" if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
        short = shown if len(shown) < LONGEST_VALUE else f"{shown[: LONGEST_VALUE - 1]}…"
        drawn.add_row(Text(one_line(name)), Text(one_line(short)))
    return drawn
