"""Documents of an artefact as values, shared by the terminal, JSON output and pages."""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from pydantic import TypeAdapter, ValidationError

from curriculum.inspection.context_tree import edge_words, left_out_words
from curriculum.inspection.formats import number
from curriculum.inspection.line_selection import InspectOptions, Line, chosen_lines
from curriculum.store import Artefact, Store
from curriculum.tokens.token_store import TokenStore
from schemas.document import Chunk, Document, Provenance
from schemas.errors import StoreError
from schemas.structure import RUN_COLUMNS, Structure

_EDGES = ("call_edges", "type_edges")


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentView(Document):
    """A document of an artefact: the columns of its row, the number of its row, and its token counts."""

    document_id: str = field()
    content_id: str = field()
    num_bytes: int
    number: int
    """Row number in the artefact."""
    part_tokens: tuple[int, ...] | None = None
    """Number of tokens in each part; None if the workspace doesn't have the document's tokens."""
    base_document_id: str | None = None
    structure: Structure | None = None

    @property
    def content(self) -> bytes:
        """Text in UTF-8. All offsets refer to it."""
        return self.text.encode()

    @property
    def origin(self) -> Provenance | None:
        """Provenance of the target's largest file.

        This is the first entry of the document's lineage, or else the last entry of all.
        """
        own = (source for source in self.provenance if source.lineage == self.lineage)
        return next(own, self.provenance[-1] if self.provenance else None)

    def tokens(self, first_part: int, last_part: int) -> int | None:
        """Return the number of tokens in the parts [first_part, last_part)."""
        return None if self.part_tokens is None else sum(self.part_tokens[first_part:last_part])


@functools.cache
def _adapter() -> TypeAdapter[DocumentView]:
    return TypeAdapter(DocumentView)


def documents(store: Store, artefact: Artefact, options: InspectOptions) -> list[DocumentView]:
    """Return the first `options.rows` selected documents."""
    tokens = tokens_of(store, artefact)
    found = islice(chosen_lines(store, artefact, options), options.rows)
    return [document_of(artefact, line, number, tokens) for number, line in found]


def tokens_of(store: Store, artefact: Artefact) -> TokenStore | None:
    """Return the tokens of an artefact's documents; the newest if several tokenizers encoded them.

    A v6 artefact has the same parts as its base, row by row, so it uses the tokens of its base.
    """
    keys = {artefact.key, *(record.key for record in artefact.manifest.inputs)}
    made = [
        tokens
        for tokens in store.artefacts("tokens")
        if any(
            record.name == "documents" and record.key in keys for record in tokens.manifest.inputs
        )
    ]
    newest = max(made, key=lambda tokens: tokens.manifest.created, default=None)
    return TokenStore.open(newest.path) if newest else None


def document_of(
    artefact: Artefact, line: Line, number: int, tokens: TokenStore | None
) -> DocumentView:
    """Return the document in the row `line`, whose number is `number`.

    Raises:
        StoreError: if the row isn't a document.
    """
    structure = None
    if "run_ends" in line:
        structure = {name: line[f"run_{name}"] for name in ("ends", *RUN_COLUMNS)}
        structure |= {"chunks": line["structure_chunks"], **{name: line[name] for name in _EDGES}}
    beside = {
        "number": number,
        "part_tokens": _part_tokens(tokens, number),
        "structure": structure,
    }
    try:
        return _adapter().validate_python({**line, **beside})
    except ValidationError as wrong:
        raise StoreError(
            str(artefact.path),
            f"line {number}",
            cause=f"it is no document: {wrong.errors()[0]['msg']}",
            cure="Build the documents again",
        ) from None


def _part_tokens(tokens: TokenStore | None, number: int) -> tuple[int, ...] | None:
    if tokens is None or number >= len(tokens):
        return None
    ranges = tokens.part_ranges(number)
    return tuple((ranges[:, 1] - ranges[:, 0]).tolist())


_SUBJECT = re.compile(r"Subject: +(.+)|^\S* ?=== TARGET: (.+) ===$", re.MULTILINE)


def subject_of(document: Document) -> str:
    """Return the subject line of the commit from a document's generated header, or ""."""
    content = document.text.encode()
    headers = (part for part in document.parts if part.kind == "header")
    for part in headers:
        found = _SUBJECT.search(content[part.start : part.end].decode(errors="replace"))
        if found:
            return found[1] or found[2]
    return ""


def facts(document: DocumentView) -> Iterator[str]:
    """Yield short lines of text with facts about a document."""
    if origin := document.origin:
        path = "" if document.chunks else origin.path
        yield " ".join(filter(None, (origin.repository, origin.commit[:10], path)))
    if subject := subject_of(document):
        yield subject
    yield " · ".join(_sizes(document))
    if document.edges:
        yield edge_words(document.edges)
    if document.left_out:
        yield f"next, left out: {left_out_words(document.left_out)}"
    if document.base_document_id:
        yield f"made of {document.base_document_id}"


def _sizes(document: DocumentView) -> Iterator[str]:
    yield f"{len(document.content):,} bytes"
    tokens = document.tokens(0, len(document.parts))
    if tokens is not None:
        yield number(tokens, "token")
    yield number(len(document.parts), "part")
    if document.chunks:
        yield number(len(document.chunks), "chunk")
        yield number(len(document.edges), "edge")
    if structure := document.structure:
        edges = len(structure.call_edges), len(structure.type_edges)
        yield number(len(structure.chunks), "structure chunk")
        yield f"{number(edges[0], 'call edge')}, {number(edges[1], 'type edge')}"
    if document.language:
        yield document.language
    yield document.licence or "no licence"


def what(chunk: Chunk) -> str:
    """Return the kind of a chunk: `function`, or `function, signature` if the chunk isn't whole."""
    return chunk.symbol if chunk.form == "whole" else f"{chunk.symbol}, {chunk.form}"
