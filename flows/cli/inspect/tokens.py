"""Tokenized documents in the terminal."""

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.text import Text

from curriculum.inspection.document_view import DocumentView, document_of
from curriculum.inspection.formats import Line, count, number, percent
from curriculum.inspection.line_selection import InspectOptions, chosen_lines, documents_of
from curriculum.inspection.lineage import tokenizer_of
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import TokenStore
from flows.cli.console import ACCENT, MUTED, table
from flows.cli.inspect.artefacts import InspectedArtefact
from flows.cli.inspect.text import TONES, bar, cut_off, panel
from schemas.reports import TokensReport
from schemas.visible import one_line, visible

MAX_IDS = 400
TEXT_LINES = 24
BORDERS = (0, *(4**power for power in range(3, 10)), 1 << 40)
"""Borders of the ranges of document lengths, in tokens, for the histogram."""


def token_documents(
    store: Store, artefact: Artefact, options: InspectOptions
) -> list[DocumentView]:
    """Return the documents of a tokens artefact that match the filter; none if the documents were removed."""
    documents, tokens = documents_of(store, artefact), TokenStore.open(artefact.path)
    if documents is None:
        return []
    chosen = itertools.islice(chosen_lines(store, documents, options), options.rows)
    return [document_of(documents, line, number, tokens) for number, line in chosen]


def token_panels(
    store: Store,
    artefact: Artefact,
    view: InspectedArtefact[DocumentView],
    options: InspectOptions,
) -> Iterator[RenderableType]:
    """Yield a table of the documents' lengths in tokens, then the matching documents split into tokens."""
    opened = TokenStore.open(artefact.path)
    read = tokenizer_of(store, artefact)
    if len(opened):
        yield table(_lengths(np.diff(opened.offsets), artefact.reported(TokensReport).num_bytes))
    if documents_of(store, artefact) is None:
        yield Text("The documents of these tokens were removed.", MUTED)
    for document in view.lines:
        at, origin = document.number, document.origin
        ids = opened.ids[opened.offsets[at] : opened.offsets[at + 1]].tolist()
        where = f"{origin.repository} {origin.commit[:10]} {origin.path}" if origin else ""
        facts = f"{number(len(ids), 'token')} · {len(document.content) / max(len(ids), 1):.2f} bytes each"
        text = _cut(read, ids, full=options.full)
        yield panel(document.document_id, Group(Text(one_line(where)), Text(facts), "", *text))


def _lengths(lengths: npt.NDArray[np.int64], num_bytes: int | None) -> Iterator[Line]:
    """Yield a histogram of the lengths: the number of documents in each range of token counts.

    The borders of the ranges are powers of four.
    """
    whole = int(lengths.sum())
    for first, last in itertools.pairwise(BORDERS):
        inside = lengths[(lengths > first) & (lengths <= last)]
        if len(inside):
            yield {
                "tokens": f"to {last:,}" if last < BORDERS[-1] else "more",
                "documents": len(inside),
                "": bar(len(inside) / len(lengths)).plain,
                "of all tokens": percent(int(inside.sum()) / max(whole, 1)),
            }
    ratio = f"{num_bytes / whole:.2f} bytes each" if num_bytes is not None and whole else ""
    every: Line = {"tokens": "all", "documents": len(lengths), "": f"{count(whole)} tokens"}
    yield {**every, "of all tokens": ratio}


def _cut(read: Tokenizer, ids: list[int], *, full: bool) -> Iterator[Text]:
    """Yield a text in which each token has its own background; control tokens have the accent colour."""
    special, drawn = read.special, Text()
    for at, token in enumerate(ids if full else ids[:MAX_IDS]):
        text = visible(read.decode([token]))
        if special[token]:
            drawn.append(text, ACCENT)
            continue
        # The background of a line end would extend to the border.
        body = text.rstrip("\n")
        drawn.append(body, TONES[at % 2])
        drawn.append("\n" * (len(text) - len(body)))
    lines = drawn.split("\n")
    for line in lines:
        line.expand_tabs(4)
    yield from cut_off(lines, None if full else TEXT_LINES)
    if not full and len(ids) > MAX_IDS:
        yield Text(f"… {len(ids) - MAX_IDS:,} more tokens (--full)", MUTED)
