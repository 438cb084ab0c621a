"""Facts of a document in words: its origin, its sizes, the kinds of its chunks."""

import re
from collections.abc import Iterator

from curriculum.inspection.context_tree import edge_words
from curriculum.inspection.documents import DocumentView
from curriculum.inspection.formats import number
from schemas.document import Chunk, Document

_SUBJECT = re.compile(r"(?:Subject:|@brief) +(.+)|^\S* ?=== TARGET: (.+) ===$", re.MULTILINE)


def subject_of(document: Document) -> str:
    """The subject of the commit, where a generated header tells it."""
    content = document.text.encode()
    headers = (part for part in document.parts if part.kind == "header")
    for part in headers:
        found = _SUBJECT.search(content[part.start : part.end].decode(errors="replace"))
        if found:
            return found[1] or found[2]
    return ""


def facts(seen: DocumentView) -> Iterator[str]:
    """Yield the facts of a document, in a few lines of words."""
    document = seen.document
    origin = document.provenance[-1] if document.provenance else None
    if origin:
        path = "" if document.chunks else origin.path
        yield " ".join(filter(None, (origin.repository, origin.commit[:10], path)))
    if subject := subject_of(document):
        yield subject
    known = seen.tokens(0, len(document.parts))
    yield " · ".join(_sizes(seen, known))
    if document.edges:
        yield edge_words(document.edges)
    if seen.base_document_id:
        yield f"made of {seen.base_document_id}"


def _sizes(seen: DocumentView, tokens: int | None) -> Iterator[str]:
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
    if document.language:
        yield document.language
    yield document.licence or "no licence"


def what(chunk: Chunk) -> str:
    """Return the kind of a chunk: `function`, or where it isn't whole, `function, signature`."""
    return chunk.symbol if chunk.form == "whole" else f"{chunk.symbol}, {chunk.form}"
