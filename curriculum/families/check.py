"""What every document keeps, checked."""

from collections.abc import Sequence
from itertools import pairwise

from curriculum.families.check_context import wrong_with_context
from schemas.document import PART_KINDS, SPAN_KINDS, Document
from schemas.errors import SchemaError
from schemas.families import CHAT_FAMILY, reads_commits


def check_document(document: Document) -> None:
    """Pass if parts tile the text at line starts and spans, sources and offsets are sound.

    1. Parts tile the bytes of the text, none is empty, and each but the first begins after a line end.
    2. Spans lie in the text and aren't empty; those of one kind are sorted and disjoint.
    3. A part's source is -1 or indexes the provenance; where parts name a source, they are as long as its
       range. One line end more is allowed in context documents, for a file that lacks its last. What a
       conversation comes from is JSON, which is longer by its escapes and names.
    4. A document of the families of graphs keeps the rules of check_context.wrong_with_context.

    Raises:
        SchemaError: with the first thing that is wrong.
    """
    data = document.text.encode()
    _check_parts(document, data)
    for kind in SPAN_KINDS:
        _check_spans(document, kind, len(data))
    _check_sources(document)
    if document.chunks or reads_commits(document.family):
        for value, rule in wrong_with_context(document):
            raise _wrong(document, value, rule)
    kinds = {span.kind for span in document.spans}
    if not kinds <= set(SPAN_KINDS):
        raise _wrong(document, f"span kinds {sorted(kinds)}", f"known are {', '.join(SPAN_KINDS)}")


def _check_parts(document: Document, data: bytes) -> None:
    borders = [0, *(part.end for part in document.parts)]
    if [part.start for part in document.parts] != borders[:-1] or borders[-1] != len(data):
        raise _wrong(document, f"parts of {borders[-1]} bytes", f"they tile {len(data)} bytes")
    for part in document.parts:
        if part.kind not in PART_KINDS:
            raise _wrong(document, f"part kind {part.kind!r}", f"known are {', '.join(PART_KINDS)}")
        if part.start == part.end:
            raise _wrong(document, f"part at {part.start}", "a part is not empty")
        if part.start and data[part.start - 1] != ord("\n"):
            raise _wrong(document, f"part at {part.start}", "a part begins at a line start")


def _check_spans(document: Document, kind: str, size: int) -> None:
    spans = [span for span in document.spans if span.kind == kind]
    for span in spans:
        if not 0 <= span.start < span.end <= size:
            raise _wrong(document, f"{kind} [{span.start}, {span.end})", f"it lies in [0, {size})")
    for span, later in pairwise(spans):
        if later.start < span.end:
            raise _wrong(document, f"{kind} at {later.start}", "spans are sorted and disjoint")


def _check_sources(document: Document) -> None:
    sizes = [0] * len(document.provenance)
    for part in document.parts:
        if not -1 <= part.source < len(sizes):
            raise _wrong(document, f"source {part.source}", f"there are {len(sizes)}")
        if part.source >= 0:
            sizes[part.source] += part.end - part.start
    if document.family != CHAT_FAMILY:
        _check_sizes(document, sizes)


def _check_sizes(document: Document, sizes: Sequence[int]) -> None:
    spare = 1 if document.chunks else 0
    for source, size in zip(document.provenance, sizes, strict=True):
        if size and not 0 <= size - (source.end - source.start) <= spare:
            raise _wrong(document, f"{size} bytes of {source.path}", "parts tile their source")


def _wrong(document: Document, value: str, cause: str) -> SchemaError:
    return SchemaError(
        f"document {document.document_id} ({document.family})",
        value,
        cause=cause,
        cure="Mend the family that made it",
    )
