"""The document: the unit of meaning, a text that a token may attend within.

A document knows neither tokenizer nor row length. All offsets are bytes of its UTF-8 text, half-open.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from schemas.arrow import list_of, required

SCHEMA_VERSION = "1.0"
"""major.minor of every artefact; a reader takes its own major with any minor and refuses the rest."""

Family = Literal[
    "v2_simple",
    "v2_doxygen",
    "v3_simple",
    "v3_doxygen",
    "v4_context_graph",
    "v5_clang_graph",
    "v6_enriched",
]
FAMILIES: tuple[str, ...] = get_args(Family)
BUILDABLE_FAMILIES: tuple[str, ...] = FAMILIES[:4]
"""The families whose producers exist; the others are named in phases and diets, and said to be missing."""

PartKind = Literal["header", "changes", "code", "context", "target"]
SpanKind = Literal["documentation", "body", "repeated"]
PART_KINDS: tuple[PartKind, ...] = ("header", "changes", "code", "context", "target")
SPAN_KINDS: tuple[SpanKind, ...] = ("documentation", "body", "repeated")


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A span of a document's bytes; parts tile the text and their borders are line starts.

    `rank` orders what may be left out: among elidable parts the highest rank goes first.
    `source` indexes the document's provenance; -1 says that the text was generated.
    """

    kind: PartKind
    start: int
    end: int
    rank: int = 0
    elidable: bool = False
    source: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A span of a document's bytes that objectives read; spans of one kind are sorted and disjoint."""

    kind: SpanKind
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Where bytes came from: `start`, `end` are byte offsets in the blob, as UTF-8 text."""

    repository: str
    commit: str
    path: str
    blob: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of one family; its id is a digest of family and text, so equal text is one document."""

    text: str
    family: str
    language: str
    licence: str | None
    timestamp: int
    """Seconds since 1970, UTC, of the commit."""
    parts: tuple[Part, ...]
    spans: tuple[Span, ...]
    provenance: tuple[Provenance, ...]
    lineage: str
    """`repository:path` with the path that the file had first, through renames."""

    @property
    def document_id(self) -> str:
        """32 hex digits of sha256(family, 0, text)."""
        return document_id(self.family, self.text)


def document_id(family: str, text: str) -> str:
    """The id of a text in a family: 32 hex digits of sha256(family, 0, text)."""
    return hashlib.sha256(family.encode() + b"\0" + text.encode()).hexdigest()[:32]


PART_TYPE = pa.struct(
    [
        required("kind", pa.string()),
        required("start", pa.int32()),
        required("end", pa.int32()),
        required("rank", pa.int32()),
        required("elidable", pa.bool_()),
        required("source", pa.int32()),
    ]
)
SPAN_TYPE = pa.struct(
    [required("kind", pa.string()), required("start", pa.int32()), required("end", pa.int32())]
)
PROVENANCE_TYPE = pa.struct(
    [
        required("repository", pa.string()),
        required("commit", pa.string()),
        required("path", pa.string()),
        required("blob", pa.string()),
        required("start", pa.int32()),
        required("end", pa.int32()),
    ]
)
DOCUMENT_SCHEMA = pa.schema(
    [
        required("document_id", pa.string()),
        required("text", pa.large_string()),
        required("family", pa.string()),
        required("language", pa.string()),
        pa.field("licence", pa.string()),
        required("timestamp", pa.int64()),
        required("num_bytes", pa.int32()),
        required("parts", list_of(PART_TYPE)),
        required("spans", list_of(SPAN_TYPE)),
        required("provenance", list_of(PROVENANCE_TYPE)),
        required("lineage", pa.string()),
        pa.field("base_document_id", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""documents/…/part-*.parquet: one row a document, ordered as the history was read."""

SELECTION_SCHEMA = pa.schema(
    [
        required("document_id", pa.string()),
        required("family", pa.string()),
        required("repository", pa.string()),
        required("keep", pa.bool_()),
        pa.field("reason", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("evidence", pa.string()),
        required("lineage", pa.string()),
        required("split", pa.string()),
        required("domain", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/selection.parquet, sorted by (family, repository, document_id), which is unique."""

TOKEN_PARTS_SCHEMA = pa.schema(
    [
        required("document", pa.int64()),
        required("part", pa.int32()),
        required("token_start", pa.int64()),
        required("token_end", pa.int64()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""tokens/…/parts.parquet: `document` is the row number in the documents artefact; ranges are offsets
into tokens.bin and leave out BOS and EOS."""
