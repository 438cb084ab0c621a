"""Checks of the rules for documents: parts, spans and sources, and chunks and edges of context documents."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter

from curriculum.graph.relation import Traversal, is_related, is_trusted
from schemas.corpus import USUAL_CONTEXT, ContextSettings
from schemas.document import (
    CHUNK_FORMS,
    EDGE_KINDS,
    EDGE_LABELS,
    PART_KINDS,
    SPAN_KINDS,
    Chunk,
    Document,
    Part,
    Provenance,
)
from schemas.errors import SchemaError
from schemas.families import CHAT_FAMILY, reads_commits

Wrong = tuple[str, str]
"""Value that breaks a rule, and the rule."""


def wrong_with_context(document: Document, settings: ContextSettings) -> Iterator[Wrong]:
    """Yield the violations of the rules for context documents.

    1. Chunks are in the order of the text and contain all parts except headers. A chunk shows one file, in
       order. The first chunk of a run (consecutive chunks of one file) begins with the path, and no other
       chunk does. A chunk may begin with file text only in the target, and only if it continues where the
       previous chunk ends.
    2. The target is last: its chunks have hop 0, are whole and may not be left out. All other chunks may be
       left out. Each of them has a rank of its own, which decreases towards the target, and an edge over
       which it was found. A path line has the rank of its run's last chunk.
    3. No line of a file is in two chunks.
    4. The text fits the budget.
    5. Edges are sorted, unique, between existing chunks, and of known kinds, labels and confidences.
    6. Edges over which context was found are trusted. Unless the context is filled, the context is related to
       the target.
    """
    size = len(document.text.encode())
    if size > settings.context_bytes:
        yield f"{size} bytes", f"the text exceeds the budget of {settings.context_bytes} bytes"
    yield from _wrong_order(document)
    data = document.text.encode()
    for run in _runs(document):
        for number, chunk in enumerate(run):
            before = run[number - 1] if number else None
            yield from _wrong_lead(document, data, chunk, before)
            yield from _wrong_chunk(document, chunk, None if number else run[-1])
    yield from _wrong_ranks(document)
    yield from _wrong_lines(document)
    yield from _wrong_edges(document)
    yield from _wrong_paths(document, settings)


def _wrong_order(document: Document) -> Iterator[Wrong]:
    chunks = document.chunks
    if not chunks or chunks[-1].hop:
        yield f"{len(chunks)} chunks", "the target must be last"
    held = [at for chunk in chunks for at in range(chunk.first_part, chunk.last_part)]
    others = [at for at, part in enumerate(document.parts) if part.kind != "header"]
    if held != others:
        yield (
            f"{len(held)} parts in chunks",
            f"chunks must contain all {len(others)} parts except headers, in order",
        )
    hops = [chunk.hop > 0 for chunk in chunks]
    if hops != sorted(hops, reverse=True):
        yield "a target before the context", "the target must be last"


def _runs(document: Document) -> Iterator[list[Chunk]]:
    """Yield the runs of a document: consecutive chunks of one file, in the context or in the target."""
    keys = [
        (chunk.hop > 0, [(source.path, source.blob) for source in _shown(document, chunk)][:1])
        for chunk in document.chunks
    ]
    for _, group in groupby(zip(keys, document.chunks, strict=True), itemgetter(0)):
        yield [chunk for _, chunk in group]


def _parts(document: Document, chunk: Chunk) -> tuple[Part, ...]:
    return document.parts[chunk.first_part : chunk.last_part]


def _shown(document: Document, chunk: Chunk) -> list[Provenance]:
    """Return the sources of a chunk's parts."""
    return [
        document.provenance[part.source] for part in _parts(document, chunk) if part.source >= 0
    ]


def _wrong_lead(
    document: Document, data: bytes, chunk: Chunk, before: Chunk | None
) -> Iterator[Wrong]:
    named = f"chunk {chunk.name!r} at part {chunk.first_part}"
    parts, shown = _parts(document, chunk), _shown(document, chunk)
    if not shown:
        yield named, "a chunk must show text of a file"
        return
    lead = data[parts[0].start : parts[0].end] if parts[0].source < 0 else b""
    if (b" File: " in lead) != (before is None):
        yield named, "only the first chunk of a run must begin with its path"
    elif before is not None and not lead:
        end = _shown(document, before)[-1].end
        if chunk.hop or shown[0].start != end:
            yield (
                named,
                "only a chunk that continues the previous chunk of the target may lack a line before it",
            )


def _wrong_chunk(document: Document, chunk: Chunk, last: Chunk | None) -> Iterator[Wrong]:
    """Yield the violations of a chunk.

    If the chunk begins with a path line, `last` is the last chunk of its run, which has the same rank; else
    None.
    """
    named = f"chunk {chunk.name!r} at part {chunk.first_part}"
    parts = _parts(document, chunk)
    ranks = [parts[-1].rank] * len(parts)
    if last is not None:
        ranks[0] = document.parts[last.last_part - 1].rank
    kind = "context" if chunk.hop else "target"
    wanted = [(kind, rank, chunk.hop > 0) for rank in ranks]
    if [(part.kind, part.rank, part.elidable) for part in parts] != wanted:
        yield (
            named,
            f"its parts must have the kind {kind} and one rank, and all or none may be left out",
        )
    shown = _shown(document, chunk)
    if len({(source.path, source.blob) for source in shown}) != 1:
        yield named, "a chunk must show one file"
    if any(later.start <= earlier.end for earlier, later in pairwise(shown)):
        yield named, "its ranges must be in the order of the file, with gaps between them"
    # A build target is whole even if its commands are in several places.
    is_cut = len(shown) > 1 and chunk.symbol != "target"
    if chunk.form not in CHUNK_FORMS or (chunk.form == "whole" and is_cut):
        yield named, f"the form {chunk.form} is unknown or doesn't allow gaps"
    if not chunk.hop and chunk.form != "whole":
        yield named, "a target must be whole"


def _wrong_ranks(document: Document) -> Iterator[Wrong]:
    context = [chunk for chunk in document.chunks if chunk.hop]
    ranks = [document.parts[chunk.last_part - 1].rank for chunk in context]
    if any(later >= rank for rank, later in pairwise(ranks)):
        yield (
            f"ranks {ranks[:8]}",
            "each chunk must have its own rank, and ranks must decrease towards the target",
        )
    for at, chunk in enumerate(document.chunks):
        if (chunk.via < 0) != (chunk.hop == 0) or chunk.via >= len(document.edges):
            yield (
                f"chunk {chunk.name!r} via {chunk.via}",
                "every chunk except targets must have the edge over which it was found",
            )
        elif chunk.hop:
            edge = document.edges[chunk.via]
            other = {edge.source: edge.target, edge.target: edge.source}.get(at)
            if other is None or document.chunks[other].hop != chunk.hop - 1:
                yield f"chunk {chunk.name!r}", "its edge must come from a chunk one hop nearer"


def _wrong_lines(document: Document) -> Iterator[Wrong]:
    ranges: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for source in document.provenance:
        ranges[source.path, source.blob].append((source.start, source.end))
    for (path, _), shown in ranges.items():
        for (_, end), (start, _) in pairwise(sorted(shown)):
            if start < end:
                yield f"byte {start} of {path}", "no line may be in two chunks"


def _wrong_edges(document: Document) -> Iterator[Wrong]:
    keys = [(edge.source, edge.target, edge.kind) for edge in document.edges]
    if any(later <= key for key, later in pairwise(keys)):
        yield f"{len(keys)} edges", "edges must be unique and sorted by source, target and kind"
    count = len(document.chunks)
    for edge in document.edges:
        if not (0 <= edge.source < count and 0 <= edge.target < count):
            yield f"edge {edge.source} to {edge.target}", f"the document has only {count} chunks"
        if edge.kind not in EDGE_KINDS or edge.label not in EDGE_LABELS:
            yield f"edge {edge.kind!r}, {edge.label!r}", "the schema has no such kind or label"
        if not 0 < edge.confidence <= 1:
            yield f"confidence {edge.confidence}", "a confidence must be in (0, 1]"


def _wrong_paths(document: Document, settings: ContextSettings) -> Iterator[Wrong]:
    ways: dict[int, Traversal] = {}
    for at in sorted(range(len(document.chunks)), key=lambda at: document.chunks[at].hop):
        chunk = document.chunks[at]
        if not (chunk.hop and 0 <= chunk.via < len(document.edges)):
            continue
        edge = document.edges[chunk.via]
        outward = edge.target == at
        ways[at] = edge.kind, outward
        before = ways.get(edge.source if outward else edge.target)
        if not is_trusted(edge.label, edge.confidence, settings.edges):
            yield (
                f"chunk {chunk.name!r}",
                f"its edge doesn't meet the setting edges: {settings.edges}",
            )
        if settings.context == "related" and not is_related(before, ways[at], chunk.hop):
            yield (
                f"chunk {chunk.name!r}",
                "with context: related, the chunk must be related to the target",
            )


def check_document(document: Document, settings: ContextSettings = USUAL_CONTEXT) -> None:
    """Raise an error unless a document obeys the rules below.

    1. Parts cover the bytes of the text without gaps. No part is empty, and all but the first begin
       after a line end.
    2. Spans lie in the text and aren't empty; spans of one kind are sorted and disjoint.
    3. A part's source is -1 or an index into the provenance. The parts of a source have the same total length
       as the range of the source. In documents with a target, one more line end is allowed, for a file
       without a final line end. Sources of conversations are exempt: they are JSON, which is longer by
       escapes and names.
    4. A document of the graph families satisfies the rules of wrong_with_context.

    Raises:
        SchemaError: for the first violation.
    """
    for value, cause in _wrong(document, settings):
        raise SchemaError(
            f"document {document.document_id} ({document.family})",
            value,
            cause=cause,
            cure="Fix the render function of this family",
        )


def _wrong(document: Document, settings: ContextSettings) -> Iterator[Wrong]:
    data = document.text.encode()
    yield from _wrong_parts(document, data)
    for kind in SPAN_KINDS:
        yield from _wrong_spans(document, kind, len(data))
    yield from _wrong_sources(document)
    if document.chunks or reads_commits(document.family):
        yield from wrong_with_context(document, settings)
    kinds = {span.kind for span in document.spans}
    if not kinds <= set(SPAN_KINDS):
        yield f"span kinds {sorted(kinds)}", f"known kinds are {', '.join(SPAN_KINDS)}"


def _wrong_parts(document: Document, data: bytes) -> Iterator[Wrong]:
    borders = [0, *(part.end for part in document.parts)]
    if [part.start for part in document.parts] != borders[:-1] or borders[-1] != len(data):
        yield f"parts of {borders[-1]} bytes", f"parts must tile the text of {len(data)} bytes"
    for part in document.parts:
        if part.kind not in PART_KINDS:
            yield f"part kind {part.kind!r}", f"known kinds are {', '.join(PART_KINDS)}"
        if part.start == part.end:
            yield f"part at {part.start}", "a part must not be empty"
        if part.start and data[part.start - 1] != ord("\n"):
            yield f"part at {part.start}", "a part must begin at a line start"


def _wrong_spans(document: Document, kind: str, size: int) -> Iterator[Wrong]:
    spans = [span for span in document.spans if span.kind == kind]
    for span in spans:
        if not 0 <= span.start < span.end <= size:
            yield (
                f"{kind} [{span.start}, {span.end})",
                f"a span must be non-empty and lie in [0, {size})",
            )
    for span, later in pairwise(spans):
        if later.start < span.end:
            yield f"{kind} at {later.start}", "spans of one kind must be sorted and disjoint"


def _wrong_sources(document: Document) -> Iterator[Wrong]:
    sizes = [0] * len(document.provenance)
    for part in document.parts:
        if not -1 <= part.source < len(sizes):
            yield f"source {part.source}", f"the document has only {len(sizes)} sources"
        if part.source >= 0:
            sizes[part.source] += part.end - part.start
    spare = int(any(part.kind == "target" for part in document.parts))
    for source, size in zip(document.provenance, sizes, strict=True):
        is_whole = 0 <= size - (source.end - source.start) <= spare
        if size and not is_whole and document.family != CHAT_FAMILY:
            yield f"{size} bytes of {source.path}", "parts must tile their source"
