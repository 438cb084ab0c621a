"""Tokenizers in the terminal: their control tokens, and the lengths of their tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.formats import Line
from curriculum.inspection.line_selection import InspectOptions
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from flows.cli.console import MUTED, table
from flows.cli.inspect.artefacts import InspectedArtefact
from flows.cli.inspect.text import TONES, bar
from schemas.visible import visible

SIZES = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 1 << 30))
"""Ranges of token lengths in bytes."""
LONGEST = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlToken:
    """Control token and its role."""

    id: int
    text: str
    role: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerView(InspectedArtefact[object]):
    """Tokenizer with its control tokens."""

    controls: tuple[ControlToken, ...]


def tokenizer_view(_: Store, artefact: Artefact, options: InspectOptions) -> TokenizerView:
    """Return the view of a tokenizer, with its control tokens in the order of their ids."""
    read = load_tokenizer(artefact)
    roles = {token: role for role, token in read.ids_of.items()}
    controls = (
        ControlToken(id=token, text=read.decode([token]), role=str(roles.get(token, "")))
        for token in np.flatnonzero(read.special).tolist()
    )
    return TokenizerView(path=artefact.path, manifest=artefact.manifest, controls=tuple(controls))


def tokenizer_panels(
    _: Store, artefact: Artefact, view: TokenizerView, options: InspectOptions
) -> Iterator[RenderableType]:
    """Yield the control tokens, a table of the lengths of all tokens, and the longest tokens."""
    read = load_tokenizer(artefact)
    yield Text(
        f"{read.vocab_size:,} ids · {read.document_tokens.replace('_', ' and ')} around each document · "
        f"encodes on {read.engine}{f': {read.engine_reason}' if read.engine_reason else ''}"
    )
    yield ""
    heads = {"text": "control token", "role": "for"}
    yield table(view.controls, ("text", "id", "role"), heads=heads)
    yield ""
    yield table(_sizes(read))
    yield ""
    yield _longest(read, None if options.full else LONGEST)


def _sizes(read: Tokenizer) -> Iterator[Line]:
    text = read.token_bytes[~read.special]
    for first, last in SIZES:
        some = int(((text >= first) & (text <= last)).sum())
        said = f"{first}" if first == last else f"{first} to {last}" if last < 1 << 20 else "more"
        yield {"bytes": said, "ids": some, "": bar(some / max(len(text), 1)).plain}


def _longest(read: Tokenizer, most: int | None) -> Text:
    ranked = np.argsort(-read.token_bytes, kind="stable").tolist()
    drawn = Text("longest  ", MUTED)
    for token in ranked[:most]:
        if read.token_bytes[token]:
            drawn.append(f" {_visible(read.decode([token]))} ", TONES[1])
            drawn.append(f" {token}  ", MUTED)
    return drawn


def _visible(text: str) -> str:
    """Replace white space by symbols, so that white space at the end of a token is visible."""
    if len(text) > 1 and set(text) == {" "}:
        return f"{len(text)} spaces"
    return visible(text).replace(" ", "·").replace("\t", "→").replace("\n", "↵")
