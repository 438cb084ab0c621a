"""A document in the making: text is added from top to bottom, and offsets count themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from curriculum.graph.outline import Outline
from schemas.change import Blob, FileChange
from schemas.document import (
    SPAN_KINDS,
    Document,
    Part,
    PartKind,
    Provenance,
    Span,
    SpanKind,
)

GENERATED = -1
Range = tuple[int, int]
"""Bytes `[start, end)`."""


@dataclass(kw_only=True, slots=True)
class DocumentBuilder:
    """Parts, spans and provenance of one document; `size` is the number of bytes so far."""

    size: int = 0
    texts: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    provenance: list[Provenance] = field(default_factory=list)

    def head(self, text: str, *, is_documentation: bool) -> None:
        """Add the header, which ends with a blank line."""
        self.generate("header", text)
        if is_documentation:
            self.mark("documentation", [(0, self.size - len("\n\n"))])

    def generate(self, kind: PartKind, text: str, *, rank: int | None = None) -> None:
        """Add text that stands in no file, as one part; it ends with a line end."""
        self.add(kind, text, source=GENERATED, rank=rank)

    def add(self, kind: PartKind, text: str, *, source: int, rank: int | None = None) -> None:
        """Add text as one part; without a rank it has to stay."""
        size = len(text.encode())
        self.texts.append(text)
        self.parts.append(
            Part(
                kind=kind,
                start=self.size,
                end=self.size + size,
                rank=rank or 0,
                elidable=rank is not None,
                source=source,
            )
        )
        self.size += size

    def file(self, blob: Blob, outline: Outline, source: int, ranks: Sequence[int | None]) -> None:
        """Add a whole file, an item a part; an item without a rank has to stay.

        A source's parts tile its range in order, so each part's bytes in the blob follow.
        """
        offset = self.size
        self.texts.append(blob.text)
        self.parts.extend(
            Part(
                kind="code",
                start=offset + item.start,
                end=offset + item.end,
                rank=rank or 0,
                elidable=rank is not None,
                source=source,
            )
            for item, rank in zip(outline.items, ranks, strict=True)
        )
        self.mark("documentation", outline.documentation, offset=offset)
        self.mark("declaration", outline.declarations, offset=offset)
        self.mark("body", outline.bodies, offset=offset)
        self.mark("statement", outline.statements, offset=offset)
        self.mark("arguments", outline.arguments, offset=offset)
        self.size += int(outline.starts[-1])

    def mark(self, kind: SpanKind, ranges: Iterable[Range], *, offset: int = 0) -> None:
        """Add spans; the ranges count from `offset`, are sorted and don't overlap."""
        self.spans.extend(
            Span(kind=kind, start=start + offset, end=end + offset) for start, end in ranges
        )

    def cite(self, change: FileChange, path: str, blob: Blob, span: Range) -> int:
        """Add a source, the bytes `span` of a blob; its index."""
        self.provenance.append(
            Provenance(
                repository=change.repository,
                commit=change.commit,
                path=path,
                blob=blob.blob_id,
                start=span[0],
                end=span[1],
                lineage=change.lineage,
            )
        )
        return len(self.provenance) - 1

    def document(self, family: str, change: FileChange) -> Document:
        """The document as it stands; spans are sorted by kind, then by start."""
        return Document(
            text="".join(self.texts),
            family=family,
            language=change.language,
            licence=change.licence,
            timestamp=change.timestamp,
            parts=tuple(self.parts),
            spans=in_order(self.spans),
            provenance=tuple(self.provenance),
            lineage=change.lineage,
        )


def in_order(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans as documents have them: by kind, then as the text goes."""
    return tuple(sorted(spans, key=lambda span: (SPAN_KINDS.index(span.kind), span.start)))
