"""Documents in the terminal: what they are, what they are made of, their text."""

import itertools
import re
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from curriculum.store import Artefact, Store
from flows.lines import number
from flows.look.painted import legend, painted
from flows.look.pieces import pieces
from flows.look.read import Seen, documents
from flows.look.safe import safe
from flows.look.tree import (
    Branch,
    branches,
    edge_words,
    guides,
    nearest,
    path_of,
    target_parts,
)
from flows.look.wish import Wish
from flows.show import ACCENT, MUTED, colour, plain_table
from schemas.document import Chunk, Document
from schemas.errors import StoreError

TEXT_LINES = 24
TREE_LINES = 24
LABEL_STYLES = {"resolved": ACCENT, "overridden": ACCENT, "dependent": "yellow", "syntactic": MUTED}
_SUBJECT = re.compile(r"(?:Subject:|@brief) +(.+)")


def document_panels(store: Store, artefact: Artefact, wish: Wish) -> Iterator[RenderableType]:
    """A panel a document.

    Raises:
        StoreError: where the artefact has no documents.
    """
    empty = True
    for each in documents(store, artefact, wish):
        empty = False
        yield Panel(
            Group(*_body(each, full=wish.full)),
            title=each.document_id,
            title_align="left",
            border_style=MUTED,
            padding=(0, 1),
        )
    if empty:
        raise StoreError(
            str(artefact.path),
            cause="it holds no documents",
            cure="Its manifest's report says what was left out: --json prints it",
        )


def subject_of(document: Document) -> str:
    """The subject of the commit, where the generated header tells it."""
    header = document.parts[0] if document.parts else None
    if header is None or header.kind != "header":
        return ""
    found = _SUBJECT.search(document.text.encode()[: header.end].decode(errors="replace"))
    return found.group(1) if found else ""


def facts(seen: Seen) -> Iterator[str]:
    """What a document is, in a few lines of words."""
    document = seen.document
    origin = document.provenance[-1] if document.provenance else None
    if origin:
        path = "" if document.chunks else origin.path
        yield "  ".join(filter(None, (origin.repository, origin.commit[:10], path)))
    if subject := subject_of(document):
        yield subject
    known = seen.tokens(0, len(document.parts))
    yield " · ".join(_sizes(seen, known))
    if document.edges:
        yield edge_words(document.edges)
    if seen.base_document_id:
        yield f"made of {seen.base_document_id}"


def _sizes(seen: Seen, tokens: int | None) -> Iterator[str]:
    document = seen.document
    yield f"{len(seen.content):,} bytes"
    if tokens is not None:
        yield number(tokens, "token")
    yield number(len(document.parts), "part")
    if document.chunks:
        yield number(len(document.chunks), "chunk")
        yield number(len(document.edges), "edge")
    if seen.structure:
        edges = len(seen.structure.call_edges), len(seen.structure.type_edges)
        yield number(len(seen.structure.chunks), "structure chunk")
        yield f"{number(edges[0], 'call edge')}, {number(edges[1], 'type edge')}"
    yield document.language
    yield document.licence or "no licence"


def _body(seen: Seen, *, full: bool) -> Iterator[RenderableType]:
    said = [safe(line) for line in facts(seen)]
    yield Text("\n".join(said))
    yield ""
    if seen.document.chunks:
        yield from _tree(seen, None if full else TREE_LINES)
    else:
        yield _parts(seen)
    yield ""
    if seen.structure:
        yield legend(seen.structure)
        yield ""
    yield from _text(seen, full=full)


def _tree(seen: Seen, most: int | None) -> Iterator[RenderableType]:
    document = seen.document
    tree = branches(document)
    kept = nearest(tree, most)
    table = plain_table(
        *("chunk", "what", "path", "hop", "label", "confidence", "bytes", "tokens", "rank")
    )
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    for column in (*table.columns[5:], table.columns[3]):
        column.justify = "right"
    table.columns[0].ratio, table.columns[2].ratio = 3, 2
    for guide, branch in zip(guides(kept), kept, strict=True):
        _add_chunk(table, seen, guide, branch)
    yield table
    if len(kept) < len(tree):
        yield Text(_left_out(document, kept), MUTED)


def _add_chunk(table: Table, seen: Seen, guide: str, branch: Branch) -> None:
    chunk = seen.document.chunks[branch.chunk]
    first = seen.document.parts[chunk.first_part]
    last = seen.document.parts[chunk.last_part - 1]
    tokens = seen.tokens(chunk.first_part, chunk.last_part)
    word = f"{branch.word} " if branch.word else ""
    edge = branch.edge
    table.add_row(
        Text.assemble((guide, MUTED), (word, MUTED), (safe(chunk.name), "bold")),
        what(chunk),
        Text(safe(path_of(seen.document, chunk))),
        str(chunk.hop),
        Text(edge.label, LABEL_STYLES[edge.label]) if edge else "",
        f"{edge.confidence:.2f}" if edge else "",
        f"{last.end - first.start:,}",
        "" if tokens is None else f"{tokens:,}",
        str(first.rank) if first.elidable else "kept",
    )


def what(chunk: Chunk) -> str:
    """What a chunk is: `function`, or where it isn't whole, `function, signature`."""
    return chunk.symbol if chunk.form == "whole" else f"{chunk.symbol}, {chunk.form}"


def _left_out(document: Document, kept: list[Branch]) -> str:
    shown = {branch.chunk for branch in kept}
    hops = sorted(chunk.hop for index, chunk in enumerate(document.chunks) if index not in shown)
    counted = ", ".join(f"{len([*group]):,} at hop {hop}" for hop, group in itertools.groupby(hops))
    return f"… {number(len(hops), 'more chunk')}: {counted} (--full)"


def _parts(seen: Seen) -> Table:
    table = plain_table("part", "kind", "start", "bytes", "tokens", "elidable", "first line")
    for index, part in enumerate(seen.document.parts):
        text = seen.content[part.start : part.end].decode(errors="replace")
        tokens = seen.tokens(index, index + 1)
        table.add_row(
            Text(f"■ {index}", colour(index)),
            part.kind,
            f"{part.start:,}",
            f"{part.end - part.start:,}",
            "" if tokens is None else f"{tokens:,}",
            f"rank {part.rank}" if part.elidable else "no",
            Text(safe(text.lstrip().partition("\n")[0][:80])),
        )
    return table


def _text(seen: Seen, *, full: bool) -> Iterator[Text]:
    """The target's text, or the document's where it has none; with `full` all of it."""
    parts = seen.document.parts
    first, last = (0, len(parts)) if full else target_parts(seen.document)
    if first == last:
        return
    cut = pieces(seen.content, parts[first].start, parts[last - 1].end, seen.structure)
    if seen.structure:
        lines: Iterable[Text] = painted(cut, seen.structure.chunks)
    else:
        lines = (Text(line) for piece in cut for line in safe(piece.text).splitlines())
    yield from cut_off(lines, None if full else TEXT_LINES)


def cut_off(lines: Iterable[Text], most: int | None) -> Iterator[Text]:
    """At most so many lines, and how many more there are."""
    left = iter(lines)
    yield from itertools.islice(left, most)
    more = sum(1 for _ in left)
    if more:
        yield Text(f"… {number(more, 'more line')} (--full)", MUTED)
