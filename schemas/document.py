"""The document: the unit of meaning, a text that a token may attend within.

A document has neither tokenizer nor row length. All offsets are bytes of its UTF-8 text, half-open. Columns
are never null unless they say so: `required` and `list_of`.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

SCHEMA_VERSION = "1.2"
"""major.minor of every artefact; a reader takes its own major with any minor and refuses the rest."""
DATA = "data"
"""Folder of the Parquet files of documents and rows, and of nothing else: other tools read it as it is."""
PARQUET_ENDINGS = (".parquet", ".pq")
"""Endings of Parquet files; the second keeps a file out of what people read by a glob over rows."""
PARTS = f"{DATA}/part-"
"""Beginning of the names of these files."""


def required(name: str, kind: pa.DataType) -> "pa.Field[pa.DataType]":
    """A column that is never null."""
    return pa.field(name, kind, nullable=False)


def list_of(kind: pa.DataType) -> pa.DataType:
    """A list type whose items are never null."""
    return pa.list_(required("item", kind))


PartKind = Literal["header", "changes", "code", "context", "target", "system", "user", "assistant"]
SpanKind = Literal[
    "documentation", "body", "repeated", "statement", "arguments", "declaration", "unscored"
]
PART_KINDS: tuple[PartKind, ...] = get_args(PartKind)
SPAN_KINDS: tuple[SpanKind, ...] = get_args(SpanKind)
UNSCORED_KINDS: tuple[SpanKind, ...] = ("repeated", "unscored")
"""Kinds of spans that objectives read.

documentation  a comment block above a declaration     body       a function's, with its braces
repeated       stands in the document before           statement  right in a function's body
arguments      between the parentheses of a call
unscored       read, never a target: an assistant's turn that is context, generated lines that say where
               text comes from (repository, commit, date, path)
declaration    what a documentation stands above: a function up to its body, else to its end; one that
               holds others is left out

Tokens with a byte in a span of UNSCORED_KINDS are read and aren't targets.
"""

EdgeKind = Literal[
    "calls",
    "constructs",
    "overrides",
    "inherits",
    "uses",
    "member",
    "includes",
    "links",
    "compiles",
]
EDGE_KINDS: tuple[EdgeKind, ...] = get_args(EdgeKind)
"""Kinds of edges between definitions; an edge goes from the one whose text says so.

calls       a function calls another               constructs  a function makes an object of a class
overrides   a method overrides its base's          inherits    a class has a base
uses        a type is named                        member      a method or member belongs to a class
includes    a file includes another                links       a build target links another
compiles    a build target compiles a file
"""
EdgeLabel = Literal["resolved", "overridden", "dependent", "syntactic"]
EDGE_LABELS: tuple[EdgeLabel, ...] = get_args(EdgeLabel)
"""Sources of an edge.

resolved    by a compiler frontend                 overridden  by it, through a virtual function
dependent   it depends on a template parameter: a candidate, not a certainty
syntactic   by names, scopes and arity in the syntax tree
"""
ChunkForm = Literal["whole", "signature", "skeleton"]
CHUNK_FORMS: tuple[ChunkForm, ...] = get_args(ChunkForm)
"""A definition in full; what stands before a function's body; a class or file without bodies."""

LeftOutReason = Literal["no_room", "doubtful", "unrelated"]
LEFT_OUT_REASONS: tuple[LeftOutReason, ...] = get_args(LeftOutReason)
"""Reasons why a context doesn't show a definition that would have come next.

no_room    the document is full, or the definition too long for it
doubtful   the edge that leads to it is none that the corpus follows
unrelated  the way that leads to it is none that relates it to the target
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A span of a document's bytes; parts tile the text and their borders are line starts.

    `rank` orders what may be left out: among elidable parts the highest rank goes first, and neighbours
    of one rank go together.
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
    """Origin of bytes: `start`, `end` are byte offsets in the blob, as UTF-8 text."""

    repository: str
    commit: str
    path: str
    blob: str
    start: int
    end: int
    lineage: str
    """`repository:path` with the path that the file had first: a path alone doesn't say which file it was."""
    licence: str | None = None
    """SPDX expression: of the file's head, else of the nearest licence file, else of the corpus file."""
    licence_evidence: str | None = None
    """header, `file: third_party/LICENSE`, or corpus; None without a licence."""
    holder: str | None = None
    """Copyright holder that the file's head names, else its licence file; without years and `Inc.`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """One definition in a context document: the parts `[first_part, last_part)`, its path line first.

    `hop` counts edges from the target, 0 for a chunk of the target itself. `via` is the edge by which the
    search reached it, an index into the document's edges; -1 for the target. All its parts have one rank.
    """

    first_part: int
    last_part: int
    name: str
    """Qualified, as the language writes it; a path for a file."""
    symbol: str
    """function, class, enum, alias, macro, variable, target or file."""
    form: ChunkForm
    hop: int
    via: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """`source` says something about `target`: indices of chunks. Sorted by (source, target, kind)."""

    source: int
    target: int
    kind: EdgeKind
    label: EdgeLabel
    confidence: float
    """Probability in (0, 1]: 1 where a frontend resolved it; a candidate among n has less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A definition that a context document would have shown next."""

    name: str
    """Qualified, as the language writes it; a path for a file."""
    path: str
    kind: EdgeKind
    """The kind of the edge that leads to it."""
    outward: bool
    """True if it stands at the edge's end, so that it is what is called, named or derived from."""
    confidence: float
    hop: int
    reason: LeftOutReason


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of one family; its id is a digest of family and text, so equal text is one document."""

    text: str
    family: str
    language: str
    licence: str | None
    """The licences of all that it is made of, joined by AND; None where none is known."""
    timestamp: int
    """Seconds since 1970, UTC, of the commit."""
    parts: tuple[Part, ...]
    spans: tuple[Span, ...]
    provenance: tuple[Provenance, ...]
    lineage: str
    """`repository:path` with the path that the file had first, through renames; of the target's largest
    file, where there are several."""
    chunks: tuple[Chunk, ...] = ()
    """Chunks of a context document in the order of the text, the target's last."""
    edges: tuple[Edge, ...] = ()
    """Edges of a context document: all that are known between its chunks."""
    left_out: tuple[LeftOut, ...] = ()
    """Definitions that a context document would have shown next, the nearest first; a few."""

    @property
    def document_id(self) -> str:
        """32 hex digits of sha256(family, 0, text)."""
        return document_id(self.family, self.text)

    @property
    def content_id(self) -> str:
        """32 hex digits of sha256 of the source text: files and changes without generated lines."""
        data = self.text.encode()
        built = hashlib.sha256()
        for part in self.parts:
            if part.source >= 0 or part.kind == "changes":
                built.update(data[part.start : part.end])
        return built.hexdigest()[:32]


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
        required("lineage", pa.string()),
        pa.field("licence", pa.string()),
        pa.field("licence_evidence", pa.string()),
        pa.field("holder", pa.string()),
    ]
)
CHUNK_TYPE = pa.struct(
    [
        required("first_part", pa.int32()),
        required("last_part", pa.int32()),
        required("name", pa.string()),
        required("symbol", pa.string()),
        required("form", pa.string()),
        required("hop", pa.int32()),
        required("via", pa.int32()),
    ]
)
EDGE_TYPE = pa.struct(
    [
        required("source", pa.int32()),
        required("target", pa.int32()),
        required("kind", pa.string()),
        required("label", pa.string()),
        required("confidence", pa.float32()),
    ]
)
LEFT_OUT_TYPE = pa.struct(
    [
        required("name", pa.string()),
        required("path", pa.string()),
        required("kind", pa.string()),
        required("outward", pa.bool_()),
        required("confidence", pa.float32()),
        required("hop", pa.int32()),
        required("reason", pa.string()),
    ]
)
DOCUMENT_SCHEMA = pa.schema(
    [
        required("document_id", pa.string()),
        required("content_id", pa.string()),
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
        required("chunks", list_of(CHUNK_TYPE)),
        required("edges", list_of(EDGE_TYPE)),
        required("left_out", list_of(LEFT_OUT_TYPE)),
        pa.field("base_document_id", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""documents/…/data/part-*.parquet: one row a document, ordered as the history was read."""

KEPT_SCHEMA = pa.schema(
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
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/kept.parquet: a selection before domains are decided, sorted alike."""

SELECTION_SCHEMA = pa.schema(
    [
        *KEPT_SCHEMA,
        required("domain", pa.string()),
        required("domain_rule", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/selection.parquet, sorted by (family, repository, document_id), which is unique."""

Side = Literal["train", "val", "unseen", "later"]
"""Side of a document.

train   what is learnt
val     files that are held out, with all their versions
unseen  files of repositories that are held out whole
later   commits after the corpus' date, of files in train
"""

SIDES_SCHEMA = pa.schema(
    [
        required("lineage", pa.string()),
        required("split", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/sides.parquet, sorted by lineage: the side of every file that documents are made of,
those that only stand in others' context included; never later, which is a side of documents."""

FILE_HISTORIES_SCHEMA = pa.schema(
    [
        required("lineage", pa.string()),
        required("born", pa.int64()),
        required("blobs", list_of(pa.int64())),
        required("since", list_of(pa.int64())),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""documents/family=v2_simple/…/file_histories.parquet, sorted by lineage: of every file that is read, seconds
UTC of its first commit, the first 15 hex digits of the blobs that it ever had, read or not, and when it had
each first. Empty for a plain folder."""

SIGNATURE_BYTES = 250
SIGNATURES_SCHEMA = pa.schema(
    [
        required("lineage", pa.string()),
        required("document_id", pa.string()),
        required("shingles", pa.int32()),
        required("slots", pa.binary(SIGNATURE_BYTES)),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/signatures.parquet: MinHash signatures of the oldest and the newest version of each file, 125
slots of 16 bits, and the number of its shingles, in the order of the documents."""

LEFT_OUT_FILES_SCHEMA = pa.schema(
    [
        required("lineage", pa.string()),
        required("reason", pa.string()),
        required("evidence", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/left_out_files.parquet, sorted by lineage: files of which no document is kept. The evidence of
near_duplicate is the file that is kept instead, that of other_corpus the corpus and its file."""

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
