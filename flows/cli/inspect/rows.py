"""Packed rows in the terminal: their documents, the commits of the documents, and the text."""

from collections.abc import Iterator

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from curriculum.inspection.formats import number, percent
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.lineage import tokenizer_of
from curriculum.inspection.row_view import RowView, row_pieces
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from flows.cli.console import MUTED, colour, out
from flows.cli.inspect.artefacts import InspectedArtefact
from flows.cli.inspect.text import coloured_lines, columns, panel, plain
from schemas.visible import one_line

STRIP_WIDTH = 96
PANEL_FRAME = 4
"""Width of a panel's border in columns."""
TEXT_LINES = 24


def row_panels(
    store: Store, artefact: Artefact, view: InspectedArtefact[RowView], options: InspectOptions
) -> Iterator[Panel]:
    """Yield a panel for each row."""
    tokenizer = tokenizer_of(store, artefact)
    width = min(STRIP_WIDTH, out.options.max_width - PANEL_FRAME)
    for row in view.lines:
        text = _text(row, tokenizer, full=options.full)
        facts = Text(row_facts(row))
        yield panel(row.pack_id, Group(facts, strip(row, width), _documents(row), "", *text))


def row_facts(row: RowView) -> str:
    """Describe a row in one line."""
    valid = row.valid_token_count
    return (
        f"{valid:,}/{row.length:,} tokens · {number(len(row.document_ids), 'document')} · "
        f"{percent(valid / row.length)} packed · {percent(row.loss_token_count / valid)} scored · "
        f"{row.domain}"
    )


def strip(row: RowView, width: int = STRIP_WIDTH) -> Text:
    """Return a row as a bar in which each document has a colour and at least one cell; padding is dim."""
    drawn = Text()
    for index, (start, end) in enumerate(row.spans):
        cells = round(end * width / row.length) - round(start * width / row.length)
        drawn.append("█" * max(cells, 1), colour(index))
    drawn.append("░" * max(width - len(drawn), 0), MUTED)
    return drawn


def _documents(row: RowView) -> Table:
    drawn = columns("doc", "repository", "commit", "path", right=("start", "tokens", "scored"))
    for index, document in enumerate(row.documents):
        drawn.add_row(
            Text(f"■ {index}", colour(index)),
            Text(one_line(document.repository)),
            document.commit[:10],
            Text(one_line(document.path)),
            f"{document.start:,}",
            f"{document.tokens:,}",
            f"{document.scored:,}",
        )
    return drawn


def _text(row: RowView, tokenizer: Tokenizer, *, full: bool) -> Iterator[Text]:
    """Yield the text of a row's documents; the bar before each line has the colour of its document.

    Tokens that are not scored are dim.
    """
    most = None if full else max(TEXT_LINES // max(len(row.spans), 1), 3)
    for index, (start, end) in enumerate(row.spans):
        cut = row_pieces(row, tokenizer, start, end)
        drawn = [*(coloured_lines(cut, row.chunk_boundaries) if row.is_structured else plain(cut))]
        for line in drawn[:most]:
            yield Text.assemble(("▎", colour(index)), line, no_wrap=True, overflow="ellipsis")
        if most and len(drawn) > most:
            yield Text.assemble(
                ("▎", colour(index)), (f"… {len(drawn) - most} more lines (--full)", MUTED)
            )
