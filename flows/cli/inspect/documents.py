"""Documents in the terminal: the commits and files from which they were made, and their text."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from curriculum.inspection.context_tree import (
    TreeChunk,
    branches,
    guides,
    nearest,
    path_of,
    target_parts,
)
from curriculum.inspection.document_view import DocumentView, facts, what
from curriculum.inspection.formats import number, percent
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.structure_text import pieces
from curriculum.store import Artefact, Store
from flows.cli.console import ACCENT, MUTED, colour, plain_table
from flows.cli.inspect.artefacts import InspectedArtefact
from flows.cli.inspect.text import coloured_lines, cut_off, legend, panel
from schemas.errors import StoreError
from schemas.families import CHAT_FAMILY
from schemas.reports import DocumentsReport
from schemas.visible import one_line, visible

TEXT_LINES = 24
TREE_LINES = 24
LABEL_STYLES = {"resolved": ACCENT, "overridden": ACCENT, "dependent": "yellow", "syntactic": MUTED}
NUMBERS = {"hop", "bytes", "tokens", "rank", "start"}
"""Headings of the columns that are aligned right."""
FLEXIBLE = {"chunk": 5, "what": 2, "path": 3, "first line": 1}
"""Columns that share the width which the others leave, in these proportions."""
FIRST_LINE = 80
Cells = dict[str, Text | str]
"""Cells of a table line by column; columns without a known value are missing."""


def require_some(artefact: Artefact, chosen: Sequence[DocumentView]) -> Sequence[DocumentView]:
    """Return the documents `chosen`; raise if there are none.

    Raises:
        StoreError: if the artefact has no documents.
    """
    if chosen:
        return chosen
    raise StoreError(
        str(artefact.path),
        cause="the artefact has no documents",
        cure="--json prints its manifest, whose report lists the excluded documents",
    )


def document_panels(
    _: Store, artefact: Artefact, view: InspectedArtefact[DocumentView], options: InspectOptions
) -> Iterator[RenderableType]:
    """Yield one panel per document, then examples of changed lines that the syntax trees don't cover."""
    for document in require_some(artefact, view.lines):
        yield panel(document.document_id, Group(*_body(document, full=options.full)))
    yield from examples_of(artefact)


def examples_of(artefact: Artefact) -> Iterator[RenderableType]:
    """Yield the longest runs of changed lines that belong to no function, class or other symbol."""
    changed = artefact.reported(DocumentsReport).changed_lines
    if changed.examples:
        listed = "\n".join(f"  {one_line(example)}" for example in changed.examples)
        share = percent(changed.outside_symbols / changed.lines)
        yield Text(
            f"Changed lines outside of any known symbol: {share}. Longest runs:\n{listed}", MUTED
        )


def _body(document: DocumentView, *, full: bool) -> Iterator[RenderableType]:
    yield Text("\n".join(map(one_line, facts(document))))
    yield ""
    if document.chunks:
        yield from _tree(document, None if full else TREE_LINES)
    else:
        yield _table(_part_cells(document, index) for index in range(len(document.parts)))
    yield ""
    if document.structure:
        yield legend(document.structure)
        yield ""
    yield from _text(document, full=full)


def _tree(document: DocumentView, most: int | None) -> Iterator[RenderableType]:
    tree = branches(document)
    kept = nearest(tree, most)
    yield _table(_chunk_cells(document, *branch) for branch in zip(guides(kept), kept, strict=True))
    if len(kept) < len(tree):
        shown = {branch.chunk for branch in kept}
        hops = [chunk.hop for index, chunk in enumerate(document.chunks) if index not in shown]
        by_hop = ((hop, len([*same])) for hop, same in itertools.groupby(sorted(hops)))
        counted = ", ".join(f"{chunks:,} at hop {hop}" for hop, chunks in by_hop)
        yield Text(f"… {number(len(hops), 'more chunk')}: {counted} (--full)", MUTED)


def _chunk_cells(document: DocumentView, guide: str, branch: TreeChunk) -> Cells:
    chunk, edge = document.chunks[branch.chunk], branch.edge
    first, last = document.parts[chunk.first_part], document.parts[chunk.last_part - 1]
    word = f"{branch.word} " if branch.word else ""
    how = Text(f"{edge.label} {edge.confidence:.2f}", LABEL_STYLES[edge.label]) if edge else ""
    return {
        "chunk": Text.assemble((guide + word, MUTED), (one_line(chunk.name), "bold")),
        "what": what(chunk),
        "path": Text(one_line(path_of(document, chunk))),
        "hop": str(chunk.hop),
        "edge": how,
        "bytes": f"{last.end - first.start:,}",
        **_token_cell(document, chunk.first_part, chunk.last_part),
        "rank": str(first.rank) if first.elidable else "kept",
    }


def _part_cells(document: DocumentView, index: int) -> Cells:
    part = document.parts[index]
    text = document.content[part.start : part.end].decode(errors="replace")
    return {
        "part": Text(f"■ {index}", colour(index)),
        "kind": part.kind,
        "start": f"{part.start:,}",
        "bytes": f"{part.end - part.start:,}",
        **_token_cell(document, index, index + 1),
        "elidable": f"rank {part.rank}" if part.elidable else "no",
        "first line": Text(one_line(text.lstrip().partition("\n")[0][:FIRST_LINE])),
    }


def _token_cell(document: DocumentView, first: int, last: int) -> Cells:
    tokens = document.tokens(first, last)
    return {} if tokens is None else {"tokens": f"{tokens:,}"}


def _table(lines: Iterable[Cells]) -> Table:
    """Return lines as a table that isn't wrapped: if the terminal is narrow, cells are cut off.

    Numbers are aligned right. The columns in FLEXIBLE are cut off first.
    """
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


def _text(document: DocumentView, *, full: bool) -> Iterator[Text]:
    """Yield the text of a document's target; with `full`, yield the whole text of the document."""
    parts, structure = document.parts, document.structure
    first, last = (0, len(parts)) if full else target_parts(document)
    lines: Iterable[Text]
    if document.family == CHAT_FAMILY:
        lines = _turns(document)
    elif first == last:
        return
    else:
        cut = pieces(document.content, parts[first].start, parts[last - 1].end, structure)
        if structure:
            lines = coloured_lines(cut, structure.chunks)
        else:
            lines = (Text(line) for piece in cut for line in visible(piece.text).splitlines())
        lines = itertools.dropwhile(lambda line: not line.plain.strip(), lines)
    yield from cut_off(lines, None if full else TEXT_LINES)


def _turns(document: DocumentView) -> Iterator[Text]:
    """Yield the text of a conversation; the bar before each line has the colour of its turn."""
    for index, part in enumerate(document.parts):
        for line in visible(document.content[part.start : part.end].decode()).splitlines():
            yield Text.assemble(("▎", colour(index)), line)
