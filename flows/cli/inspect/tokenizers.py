"""Tokenizers, and documents as tokens, in the terminal."""

import itertools
from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from curriculum.inspection.documents import chosen_lines, seen
from curriculum.inspection.formats import count, number, percent
from curriculum.inspection.line_selection import InspectOptions, line_files
from curriculum.inspection.lineage import inputs, tokenizer_artefact
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.store import TokenStore
from flows.cli.console import ACCENT, MUTED, plain_table
from flows.cli.inspect.documents import cut_off
from flows.cli.inspect.text import bar
from schemas.reports import TokensReport
from schemas.visible import one_line, visible

SIZES = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 1 << 30))
"""Bytes of a token, first and last."""
LONGEST = 12
LONGEST_IDS = 400
TEXT_LINES = 24
TONES = ("", "on grey23")
"""Neighbouring tokens differ in their ground."""


def tokenizer(artefact: Artefact, options: InspectOptions) -> Iterator[RenderableType]:
    """A tokenizer: its control tokens, how long its tokens are, the longest of them."""
    read = load_tokenizer(artefact)
    yield Text(
        f"{read.vocab_size:,} ids · {read.document_tokens.replace('_', ' and ')} around each document · "
        f"encodes on {read.engine}{f': {read.engine_reason}' if read.engine_reason else ''}"
    )
    yield ""
    yield _controls(read)
    yield ""
    yield _sizes(read)
    yield ""
    yield _longest(read, None if options.full else LONGEST)


def controls(read: Tokenizer) -> list[dict[str, object]]:
    """The control tokens by id, and what each is for."""
    roles = {token: role for role, token in read.ids_of.items()}
    ids = np.flatnonzero(read.special).tolist()
    return [
        {"id": each, "text": read.decode([each]), "role": str(roles.get(each, ""))} for each in ids
    ]


def _controls(read: Tokenizer) -> Table:
    drawn = plain_table("control token", "id", "for")
    drawn.columns[1].justify = "right"
    for each in controls(read):
        drawn.add_row(Text(one_line(str(each["text"]))), f"{each['id']:,}", str(each["role"]))
    return drawn


def _sizes(read: Tokenizer) -> Table:
    drawn = plain_table("bytes", "ids", "")
    drawn.columns[1].justify = "right"
    text = read.token_bytes[~read.special]
    for first, last in SIZES:
        some = int(((text >= first) & (text <= last)).sum())
        said = f"{first}" if first == last else f"{first} to {last}" if last < 1 << 20 else "more"
        drawn.add_row(said, f"{some:,}", bar(some / max(len(text), 1)))
    return drawn


def _longest(read: Tokenizer, most: int | None) -> Text:
    ranked = np.argsort(-read.token_bytes, kind="stable").tolist()
    drawn = Text("longest  ", MUTED)
    for each in ranked[:most]:
        if read.token_bytes[each]:
            drawn.append(f" {_visible(read.decode([each]))} ", TONES[1])
            drawn.append(f" {each}  ", MUTED)
    return drawn


def _visible(text: str) -> str:
    """White space as signs, so that a token that ends in it can be told from one that doesn't."""
    if len(text) > 1 and set(text) == {" "}:
        return f"{len(text)} spaces"
    return visible(text).replace(" ", "·").replace("\t", "→").replace("\n", "↵")


def token_panels(
    store: Store, artefact: Artefact, options: InspectOptions
) -> Iterator[RenderableType]:
    """Yield the lengths of documents in tokens, and the chosen ones cut into theirs."""
    opened, read = (
        TokenStore.open(artefact.path),
        load_tokenizer(tokenizer_artefact(store, artefact)),
    )
    lengths = np.diff(opened.offsets)
    if len(lengths):
        yield _lengths(lengths, artefact)
    documents = documents_of(store, artefact)
    if documents is None:
        yield Text("The documents that they were made of are gone.", MUTED)
        return
    for at, line in itertools.islice(chosen_lines(store, documents, options), options.rows):
        document = seen(line, at, opened)
        ids = opened.ids[opened.offsets[at] : opened.offsets[at + 1]].tolist()
        origin = document.document.provenance[-1]
        facts = f"{number(len(ids), 'token')} · {len(document.content) / max(len(ids), 1):.2f} bytes each"
        yield Panel(
            Group(
                Text(one_line(f"{origin.repository} {origin.commit[:10]} {origin.path}")),
                Text(facts),
                "",
                *_cut(read, ids, full=options.full),
            ),
            title=Text(one_line(document.document_id)),
            title_align="left",
            border_style=MUTED,
            padding=(0, 1),
        )


def documents_of(store: Store, tokens: Artefact) -> Artefact | None:
    """The documents that tokens were made of; row by row the same."""
    own = {record.key for record in tokens.manifest.inputs if record.name == "documents"}
    found = [each for each in inputs(store, tokens, "documents") if each.key in own]
    return found[0] if found and line_files(found[0]) else None


def _lengths(lengths: np.ndarray[tuple[int], np.dtype[np.int64]], artefact: Artefact) -> Table:
    """Documents by their tokens, by powers of four."""
    num_bytes = artefact.reported(TokensReport).num_bytes
    whole = int(lengths.sum())
    drawn = plain_table("tokens", "documents", "", "of all tokens")
    for at in (1, 3):
        drawn.columns[at].justify = "right"
    borders = [0, *(4**power for power in range(3, 10))]
    for first, last in itertools.pairwise(borders):
        inside = lengths[(lengths > first) & (lengths <= last)]
        if len(inside):
            drawn.add_row(
                f"to {last:,}",
                f"{len(inside):,}",
                bar(len(inside) / len(lengths)),
                percent(int(inside.sum()) / max(whole, 1)),
            )
    over = lengths[lengths > borders[-1]]
    if len(over):
        drawn.add_row(
            "more", f"{len(over):,}", bar(len(over) / len(lengths)), percent(over.sum() / whole)
        )
    each = f"{num_bytes / whole:.2f} bytes each" if isinstance(num_bytes, int) and whole else ""
    drawn.add_row(Text("all", "bold"), f"{len(lengths):,}", f"{count(whole)} tokens", each)
    return drawn


def _cut(read: Tokenizer, ids: list[int], *, full: bool) -> Iterator[Text]:
    """The text, each token on a ground of its own; control tokens in the accent."""
    special, drawn = read.special, Text()
    for at, each in enumerate(ids if full else ids[:LONGEST_IDS]):
        text = visible(read.decode([each]))
        if special[each]:
            drawn.append(text, ACCENT)
            continue
        # The ground of a line's end would reach to the border.
        body = text.rstrip("\n")
        drawn.append(body, TONES[at % 2])
        drawn.append("\n" * (len(text) - len(body)))
    lines = drawn.split("\n")
    for one in lines:
        one.expand_tabs(4)
    yield from cut_off(lines, None if full else TEXT_LINES)
    if not full and len(ids) > LONGEST_IDS:
        yield Text(f"… {len(ids) - LONGEST_IDS:,} more tokens (--full)", MUTED)
