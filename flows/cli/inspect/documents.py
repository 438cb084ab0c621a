"""Documents and packed rows in the terminal: what they are made of, down to the commit, and their text."""

import itertools
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from curriculum.inspection.documents import (
    Branch,
    DocumentView,
    branches,
    chosen_lines,
    documents,
    facts,
    guides,
    nearest,
    path_of,
    pieces,
    target_parts,
    what,
)
from curriculum.inspection.formats import number, percent
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.rows import Origin, Row, origins_of, row_of, row_pieces, tokenizer_of
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from flows.cli.console import ACCENT, MUTED, colour, out, plain_table
from flows.cli.inspect.text import legend, painted, plain
from schemas.document import Document
from schemas.families import CHAT_FAMILY
from schemas.reports import DocumentsReport
from schemas.visible import one_line, visible

TEXT_LINES = 24
TREE_LINES = 24
LABEL_STYLES = {"resolved": ACCENT, "overridden": ACCENT, "dependent": "yellow", "syntactic": MUTED}
NUMBERS = {"hop", "bytes", "tokens", "rank", "start"}
"""Columns that go right."""
FLEXIBLE = {"chunk": 5, "what": 2, "path": 3, "first line": 1}
"""Columns that share what the others leave, and how."""
FIRST_LINE = 80
Cells = dict[str, Text | str]
"""A line of a table by column; columns that nothing is known for aren't there."""


def examples_of(artefact: Artefact) -> Iterator[RenderableType]:
    """Yield the longest runs of changed lines that stand in no symbol of a syntax tree."""
    changed = artefact.reported(DocumentsReport).changed_lines
    if changed.examples:
        listed = "\n".join(f"  {one_line(example)}" for example in changed.examples)
        share = percent(changed.outside_symbols / changed.lines)
        yield Text(f"Changed lines in no known symbol: {share}. The longest runs:\n{listed}", MUTED)


def document_panels(
    store: Store, artefact: Artefact, options: InspectOptions
) -> Iterator[RenderableType]:
    """A panel a document."""
    for each in documents(store, artefact, options):
        yield Panel(
            Group(*_body(each, full=options.full)),
            title=Text(one_line(each.document_id)),
            title_align="left",
            border_style=MUTED,
            padding=(0, 1),
        )


def _body(seen: DocumentView, *, full: bool) -> Iterator[RenderableType]:
    said = [one_line(line) for line in facts(seen)]
    yield Text("\n".join(said))
    yield ""
    if seen.document.chunks:
        yield from _tree(seen, None if full else TREE_LINES)
    else:
        parts = range(len(seen.document.parts))
        yield _table(_part_cells(seen, index) for index in parts)
    yield ""
    if seen.structure:
        yield legend(seen.structure)
        yield ""
    yield from _text(seen, full=full)


def _tree(seen: DocumentView, most: int | None) -> Iterator[RenderableType]:
    document = seen.document
    tree = branches(document)
    kept = nearest(tree, most)
    yield _table(_chunk_cells(seen, *each) for each in zip(guides(kept), kept, strict=True))
    if len(kept) < len(tree):
        yield Text(_hidden_chunks(document, kept), MUTED)


def _chunk_cells(seen: DocumentView, guide: str, branch: Branch) -> Cells:
    document, edge = seen.document, branch.edge
    chunk = document.chunks[branch.chunk]
    first, last = document.parts[chunk.first_part], document.parts[chunk.last_part - 1]
    word = f"{branch.word} " if branch.word else ""
    return {
        "chunk": Text.assemble((guide + word, MUTED), (one_line(chunk.name), "bold")),
        "what": what(chunk),
        "path": Text(one_line(path_of(document, chunk))),
        "hop": str(chunk.hop),
        "edge": Text(f"{edge.label} {edge.confidence:.2f}", LABEL_STYLES[edge.label])
        if edge
        else "",
        "bytes": f"{last.end - first.start:,}",
        **_token_cell(seen, chunk.first_part, chunk.last_part),
        "rank": str(first.rank) if first.elidable else "kept",
    }


def _part_cells(seen: DocumentView, index: int) -> Cells:
    part = seen.document.parts[index]
    text = seen.content[part.start : part.end].decode(errors="replace")
    return {
        "part": Text(f"■ {index}", colour(index)),
        "kind": part.kind,
        "start": f"{part.start:,}",
        "bytes": f"{part.end - part.start:,}",
        **_token_cell(seen, index, index + 1),
        "elidable": f"rank {part.rank}" if part.elidable else "no",
        "first line": Text(one_line(text.lstrip().partition("\n")[0][:FIRST_LINE])),
    }


def _token_cell(seen: DocumentView, first: int, last: int) -> Cells:
    tokens = seen.tokens(first, last)
    return {} if tokens is None else {"tokens": f"{tokens:,}"}


def _table(lines: Iterable[Cells]) -> Table:
    """Lines as a table; each on one line, numbers right; where there is little room, words are cut first."""
    listed = [*lines]
    table = plain_table(*(listed[0] if listed else ()))
    table.expand = True
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
        column.ratio = FLEXIBLE.get(str(column.header))
        column.justify = "right" if column.header in NUMBERS else "left"
    for line in listed:
        table.add_row(*line.values())
    return table


def _hidden_chunks(document: Document, kept: list[Branch]) -> str:
    shown = {branch.chunk for branch in kept}
    hops = sorted(chunk.hop for index, chunk in enumerate(document.chunks) if index not in shown)
    counted = ", ".join(f"{len([*group]):,} at hop {hop}" for hop, group in itertools.groupby(hops))
    return f"… {number(len(hops), 'more chunk')}: {counted} (--full)"


def _text(seen: DocumentView, *, full: bool) -> Iterator[Text]:
    """The target's text, or the document's where it has none; with `full` all of it."""
    if seen.document.family == CHAT_FAMILY:
        yield from cut_off(_turns(seen), None if full else TEXT_LINES)
        return
    parts = seen.document.parts
    first, last = (0, len(parts)) if full else target_parts(seen.document)
    if first == last:
        return
    cut = pieces(seen.content, parts[first].start, parts[last - 1].end, seen.structure)
    if seen.structure:
        lines: Iterable[Text] = painted(cut, seen.structure.chunks)
    else:
        lines = (Text(line) for piece in cut for line in visible(piece.text).splitlines())
    shown = itertools.dropwhile(lambda line: not line.plain.strip(), lines)
    yield from cut_off(shown, None if full else TEXT_LINES)


def _turns(seen: DocumentView) -> Iterator[Text]:
    """The text of a conversation, a bar in the colour of its turn beside each line."""
    for index, part in enumerate(seen.document.parts):
        for line in visible(seen.content[part.start : part.end].decode()).splitlines():
            yield Text.assemble(("▎", colour(index)), line)


def cut_off(lines: Iterable[Text], most: int | None) -> Iterator[Text]:
    """Yield at most so many lines, and the number of further ones."""
    left = iter(lines)
    yield from itertools.islice(left, most)
    more = sum(1 for _ in left)
    if more:
        yield Text(f"… {number(more, 'more line')} (--full)", MUTED)


STRIP_WIDTH = 96
PANEL_FRAME = 4
"""Columns of the lines around a panel."""
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


def strip(row: Row, width: int = STRIP_WIDTH) -> Text:
    """The row as a bar, a colour a document, padding dim; every document has at least one cell."""
    length = len(row.input_ids)
    drawn = Text()
    for index, (start, end) in enumerate(row.spans):
        cells = round(end * width / length) - round(start * width / length)
        drawn.append("█" * max(cells, 1), colour(index))
    drawn.append("░" * max(width - len(drawn), 0), MUTED)
    return drawn


def _row_panel(row: Row, origins: dict[str, Origin], tokenizer: Tokenizer, *, full: bool) -> Panel:
    table = _row_documents(row, origins)
    width = min(STRIP_WIDTH, out.options.max_width - PANEL_FRAME)
    text = _row_text(row, tokenizer, full=full)
    body = Group(Text(row_facts(row)), strip(row, width), table, "", *text)
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
