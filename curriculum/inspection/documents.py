"""Documents of an artefact as values, with their facts in words."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.inspection.context_tree import edge_words
from curriculum.inspection.formats import number
from curriculum.inspection.line_selection import InspectOptions, Mask, line_files, select_lines
from curriculum.store import Artefact, Store
from curriculum.tokens.store import TokenStore
from schemas.document import Chunk, Document, Edge, Part, Provenance, Span
from schemas.errors import StoreError
from schemas.structure import RUN_COLUMNS, Structure, StructureChunk, StructureEdge

Line = dict[str, Any]
"""A line of a Parquet file, as Arrow gives it."""

BATCH_LINES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentView:
    """A document of an artefact, and what is known beside it."""

    document: Document
    document_id: str
    number: int
    """Its row number in the artefact."""
    part_tokens: tuple[int, ...] | None
    """Tokens of each part, where the workspace has them."""
    base_document_id: str | None
    structure: Structure | None

    @property
    def content(self) -> bytes:
        """The text as UTF-8: what all offsets count in."""
        return self.document.text.encode()

    def tokens(self, first_part: int, last_part: int) -> int | None:
        """Tokens of the parts [first_part, last_part)."""
        return None if self.part_tokens is None else sum(self.part_tokens[first_part:last_part])


def lines(artefact: Artefact, options: InspectOptions) -> Iterator[Line]:
    """The lines that are wished: a row by its pack_id, a document by its id, else all in order."""
    for _, line in numbered_lines(artefact, options):
        yield line


def chosen_lines(
    store: Store, artefact: Artefact, options: InspectOptions
) -> Iterator[tuple[int, Line]]:
    """The lines that are wished, what else they must be included, each with its number in the artefact.

    Raises:
        StoreError: for what lines of this stage can't be chosen by.
    """
    yield from numbered_lines(artefact, options, select_lines(store, artefact, options.only))


def numbered_lines(
    artefact: Artefact, options: InspectOptions, masks: Sequence[Mask] | None = None
) -> Iterator[tuple[int, Line]]:
    """Lines by their id, or those of masks, one a file, each with its row number in the artefact."""
    name, value = (
        ("pack_id", options.pack_id) if options.pack_id else ("document_id", options.document)
    )
    first = 0
    for at, file in enumerate(line_files(artefact)):
        mask, inside = None if masks is None else masks[at], 0
        with parquet.File(file) as opened:
            for group in range(opened.num_row_groups):
                size = opened.metadata.row_group(group).num_rows
                mine = None if mask is None else mask[inside : inside + size]
                if value is not None:
                    for number, line in _line_in(opened, group, name, value, first + inside):
                        if mine is None or mine[number - first - inside]:
                            yield number, line
                elif mine is None or mine.any():
                    yield from _lines_in(opened, group, first + inside, mine)
                inside += size
        first += inside


def _lines_in(
    opened: pq.ParquetFile, group: int, first: int, mask: Mask | None
) -> Iterator[tuple[int, Line]]:
    """The lines of a row group, a few at a time: who looks at one doesn't decode all."""
    at = 0
    for batch in opened.iter_batches(BATCH_LINES, row_groups=[group]):
        size = len(batch)
        kept = np.arange(size) if mask is None else np.flatnonzero(mask[at : at + size])
        taken = batch.take(kept).to_pylist() if len(kept) else []
        yield from zip((kept + first + at).tolist(), taken, strict=True)
        at += size


def _line_in(
    opened: pq.ParquetFile, group: int, name: str, value: str, first: int
) -> Iterator[tuple[int, Line]]:
    names = opened.read_row_group(group, columns=[name])[name]
    at = pc.index(names, value).as_py()
    if at >= 0:
        yield first + at, opened.read_row_group(group).slice(at, 1).to_pylist()[0]


def documents(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[DocumentView]:
    """The documents that are wished, `wish.rows` at most.

    Raises:
        StoreError: where the artefact has none.
    """
    tokens = tokens_of(store, artefact)
    found = itertools.islice(chosen_lines(store, artefact, options), options.rows)
    first = next(found, None)
    if first is None:
        raise StoreError(
            str(artefact.path),
            cause="it holds no documents",
            cure="Its manifest's report says what was left out: --json prints it",
        )
    for at, line in itertools.chain([first], found):
        yield seen(line, at, tokens)


def document_lines(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[Line]:
    """The documents that are wished as they lie; `part_tokens` is added, None where nothing is known."""
    tokens = tokens_of(store, artefact)
    for at, line in itertools.islice(chosen_lines(store, artefact, options), options.rows):
        yield {**line, "part_tokens": _part_tokens(tokens, at)}


def tokens_of(store: Store, artefact: Artefact) -> TokenStore | None:
    """The tokens of the documents, the newest where several tokenizers made some.

    A v6 artefact has the parts of its base, row by row, so the base's tokens are as good.
    """
    keys = {artefact.key, *(each.key for each in artefact.manifest.inputs)}
    made = [
        each
        for each in store.artefacts("tokens")
        if any(record.name == "documents" and record.key in keys for record in each.manifest.inputs)
    ]
    newest = max(made, key=lambda each: each.manifest.created, default=None)
    return TokenStore.open(newest.path) if newest else None


def seen(line: Line, number: int, tokens: TokenStore | None) -> DocumentView:
    """A document from its line; columns that an older artefact lacks are empty."""
    own = {name: line[name] for name in ("text", "family", "language", "licence")}
    document = Document(
        **own,
        timestamp=line["timestamp"],
        parts=tuple(Part(**each) for each in line["parts"]),
        spans=tuple(Span(**each) for each in line["spans"]),
        provenance=tuple(Provenance(**{"lineage": "", **each}) for each in line["provenance"]),
        lineage=line.get("lineage", ""),
        chunks=tuple(Chunk(**each) for each in line.get("chunks") or ()),
        edges=tuple(Edge(**each) for each in line.get("edges") or ()),
    )
    return DocumentView(
        document=document,
        document_id=line["document_id"],
        number=number,
        part_tokens=_part_tokens(tokens, number),
        base_document_id=line.get("base_document_id"),
        structure=_structure(line),
    )


def _part_tokens(tokens: TokenStore | None, number: int) -> tuple[int, ...] | None:
    if tokens is None or number >= len(tokens):
        return None
    ranges = tokens.part_ranges(number)
    return tuple((ranges[:, 1] - ranges[:, 0]).tolist())


def _structure(line: Line) -> Structure | None:
    if "run_ends" not in line:
        return None
    runs = {name: tuple(line[f"run_{name}"]) for name in RUN_COLUMNS}
    return Structure(
        ends=tuple(line["run_ends"]),
        **runs,
        chunks=tuple(StructureChunk(**each) for each in line["structure_chunks"]),
        call_edges=tuple(StructureEdge(**each) for each in line["call_edges"]),
        type_edges=tuple(StructureEdge(**each) for each in line["type_edges"]),
    )


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
