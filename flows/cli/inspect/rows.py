"""Packed rows in the terminal: what they hold down to the commit, and their text as it is trained on."""

import itertools
from collections.abc import Iterator

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from curriculum.inspection.documents import chosen_lines
from curriculum.inspection.formats import number, percent
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.rows import Origin, Row, origins_of, row_of, row_pieces, tokenizer_of
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from flows.cli.console import MUTED, colour, plain_table
from flows.cli.inspect.painted import painted, plain
from schemas.visible import one_line

STRIP_WIDTH = 96
ROW_TEXT_LINES = 24


def row_panels(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[Panel]:
    """A panel a row."""
    tokenizer = tokenizer_of(store, artefact)
    for _, line in itertools.islice(chosen_lines(store, artefact, options), options.rows):
        row = row_of(line)
        yield _row_panel(row, origins_of(store, artefact, row), tokenizer, full=options.full)


def row_facts(row: Row) -> str:
    """Describe a row in a line."""
    length = len(row.input_ids)
    return (
        f"{row.valid:,}/{length:,} tokens · {number(len(row.document_ids), 'document')} · "
        f"{percent(row.valid / length)} packed · {percent(row.scored / row.valid)} scored · "
        f"{row.domain}"
    )


def strip(row: Row) -> Text:
    """The row as a bar, a colour a document, padding dim; every document has at least one cell."""
    length = len(row.input_ids)
    drawn = Text()
    for index, (start, end) in enumerate(row.spans):
        cells = round(end * STRIP_WIDTH / length) - round(start * STRIP_WIDTH / length)
        drawn.append("█" * max(cells, 1), colour(index))
    drawn.append("░" * max(STRIP_WIDTH - len(drawn), 0), MUTED)
    return drawn


def _row_panel(row: Row, origins: dict[str, Origin], tokenizer: Tokenizer, *, full: bool) -> Panel:
    table = _row_documents(row, origins)
    body = Group(Text(row_facts(row)), strip(row), table, "", *_row_text(row, tokenizer, full=full))
    return Panel(
        body,
        title=Text(one_line(row.pack_id)),
        title_align="left",
        border_style=MUTED,
        padding=(0, 1),
    )


def _row_documents(row: Row, origins: dict[str, Origin]) -> Table:
    table = plain_table("doc", "repository", "commit", "path", "start", "tokens", "scored")
    for column in table.columns[4:]:
        column.justify = "right"
    for index, (start, end) in enumerate(row.spans):
        origin = origins[row.document_ids[index]]
        table.add_row(
            Text(f"■ {index}", colour(index)),
            Text(one_line(origin.repository)),
            origin.commit[:10],
            Text(one_line(origin.path)),
            f"{start:,}",
            f"{end - start:,}",
            f"{sum(row.loss_mask[start:end]):,}",
        )
    return table


def _row_text(row: Row, tokenizer: Tokenizer, *, full: bool) -> Iterator[Text]:
    """The documents' text, a coloured bar beside each; tokens that no prediction is scored on are dim."""
    most = None if full else max(ROW_TEXT_LINES // max(len(row.spans), 1), 3)
    for index, (start, end) in enumerate(row.spans):
        cut = row_pieces(row, tokenizer, start, end)
        drawn = [*(painted(cut, row.chunks) if row.is_structured else plain(cut))]
        for line in drawn[:most]:
            yield Text.assemble(("▎", colour(index)), line, no_wrap=True, overflow="ellipsis")
        if most and len(drawn) > most:
            yield Text.assemble(
                ("▎", colour(index)), (f"… {len(drawn) - most} more lines (--full)", MUTED)
            )
