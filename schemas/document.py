"""Documents: texts within which tokens may attend to each other.

A document doesn't depend on a tokenizer or a row length. All offsets are byte offsets in its UTF-8 text,
half-open. Columns are never null unless marked as nullable.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

SCHEMA_VERSION = "1.2"
"""Version (major.minor) of every artefact. Readers accept their own major version with any minor, and
refuse all others."""
DATA = "data"
"""Folder that contains only the Parquet files of documents and rows, so that other tools can read it."""
PARQUET_ENDINGS = (".parquet", ".pq")
"""Suffixes of Parquet files. `.pq` is used for files that a glob like `*.parquet` must not match."""
PARTS = f"{DATA}/part-"
"""Prefix of the names of the Parquet files in this folder."""


def required(name: str, kind: pa.DataType) -> "pa.Field[pa.DataType]":
    """Return a column that is never null."""
    return pa.field(name, kind, nullable=False)


def list_of(kind: pa.DataType) -> pa.DataType:
    """Return a list type whose items are never null."""
    return pa.list_(required("item", kind))


PartKind = Literal["header", "changes", "code", "context", "target", "system", "user", "assistant"]
SpanKind = Literal[
    "documentation", "body", "repeated", "statement", "arguments", "declaration", "unscored"
]
PART_KINDS: tuple[PartKind, ...] = get_args(PartKind)
SPAN_KINDS: tuple[SpanKind, ...] = get_args(SpanKind)
UNSCORED_KINDS: tuple[SpanKind, ...] = ("repeated", "unscored")
"""Kinds of spans whose tokens are never targets. A token is in a span if one of its bytes is.

All kinds of spans:

documentation  a comment block above a declaration
body           a function's body, with its braces
repeated       text that already occurs in the previous document
statement      a statement directly in a function's body
arguments      text between the parentheses of a call
unscored       read but never a target: an assistant's turn that is context, and generated lines about the
origin of the text (repository, commit, date, path)
declaration    the declaration below a documentation: a function without its body, else the whole
declaration; never one that contains other declarations
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
"""Kinds of edges between definitions. The source of an edge is the definition whose text contains the
reference.

calls       a function calls another function
constructs  a function creates an object of a class
overrides   a method overrides a base method
inherits    a class has a base class
uses        a type is used by name
member      a method or member belongs to a class
includes    a file includes another file
links       a build target links another target
compiles    a build target compiles a file
"""
EdgeLabel = Literal["resolved", "overridden", "dependent", "syntactic"]
EDGE_LABELS: tuple[EdgeLabel, ...] = get_args(EdgeLabel)
"""Methods by which edges are found.

resolved    by a compiler frontend
overridden  by a compiler frontend, through a virtual function
dependent   a candidate, because the callee depends on a template parameter
syntactic   by names, scopes and arity in the syntax tree
"""
ChunkForm = Literal["whole", "signature", "skeleton"]
CHUNK_FORMS: tuple[ChunkForm, ...] = get_args(ChunkForm)
"""Forms of a chunk: the full definition; only the text before a function's body; or a class or file without
the bodies in it.
"""

LeftOutReason = Literal["no_room", "doubtful", "unrelated"]
LEFT_OUT_REASONS: tuple[LeftOutReason, ...] = get_args(LeftOutReason)
"""Reasons why a context leaves out the definition that would come next.

no_room    the document is full, or the definition is too long for it
doubtful   the corpus doesn't follow edges of this confidence
unrelated  the path to the definition doesn't relate it to the target
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A span of a document's bytes. The parts cover the whole text, and start at line starts.

    Parts that may be dropped have a `rank`. Those with the highest rank are dropped first; neighbours of the
    same rank are dropped together. `source` is an index into the document's provenance, or -1 for generated
    text.
    """

    kind: PartKind
    start: int
    end: int
    rank: int = 0
    elidable: bool = False
    source: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A span of a document's bytes that objectives use. Spans of one kind are sorted and don't overlap."""

    kind: SpanKind
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Origin of a piece of text. `start` and `end` are byte offsets in the UTF-8 text of the blob."""

    repository: str
    commit: str
    path: str
    blob: str
    start: int
    end: int
    lineage: str
    """`repository:path` with the first path of the file. A path alone doesn't identify a file."""
    licence: str | None = None
    """SPDX expression in the file's header, else in the nearest licence file, else in the corpus file."""
    licence_evidence: str | None = None
    """Source of the licence: `header`, for example `file: third_party/LICENSE`, or `corpus`; None without a
    licence.
    """
    holder: str | None = None
    """Copyright holder in the file's header, or else in its licence file, without years and `Inc.`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """One definition in a context document: its parts are `[first_part, last_part)`, the path line first.

    `hop` is the number of edges between the target and the chunk; it is 0 for a chunk of the target. `via` is
    the index of the edge through which the search reached the chunk, -1 for the target. All parts of a chunk
    have the same rank.
    """

    first_part: int
    last_part: int
    name: str
    """Qualified name in the notation of the language; for a file, its path."""
    symbol: str
    """function, class, enum, alias, macro, variable, target or file."""
    form: ChunkForm
    hop: int
    via: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """An edge between two chunks, given by their indices. Edges are sorted by (source, target, kind)."""

    source: int
    target: int
    kind: EdgeKind
    label: EdgeLabel
    confidence: float
    """Probability in (0, 1]: 1 if a frontend resolved the edge, lower if there are several candidates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """A definition that a context document leaves out, although it would have come next."""

    name: str
    """Qualified name in the notation of the language; for a file, its path."""
    path: str
    kind: EdgeKind
    """Kind of the edge that leads to the definition from the document."""
    outward: bool
    """True if the edge points to the definition, which is called, named or derived from in the document."""
    confidence: float
    hop: int
    reason: LeftOutReason


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document of a family. Its id is a digest of its family and text, so equal texts are one document."""

    text: str
    family: str
    language: str
    licence: str | None
    """Licences of all its sources, joined by AND; None if no licence is known."""
    timestamp: int
    """Unix time of the commit in seconds."""
    parts: tuple[Part, ...]
    spans: tuple[Span, ...]
    provenance: tuple[Provenance, ...]
    lineage: str
    """`repository:path`, where the path is the file's first path, before renames. If there are several
    files, it is the largest file of the target.
    """
    chunks: tuple[Chunk, ...] = ()
    """Chunks of a context document in the order of the text. The chunks of the target come last."""
    edges: tuple[Edge, ...] = ()
    """All known edges between the chunks of a context document."""
    left_out: tuple[LeftOut, ...] = ()
    """A few definitions that the context left out although they would have come next, nearest first."""

    @property
    def document_id(self) -> str:
        """First 32 hex digits of sha256(family, 0, text)."""
        return document_id(self.family, self.text)

    @property
    def content_id(self) -> str:
        """First 32 hex digits of the sha256 of the files and changes, without generated lines."""
        data = self.text.encode()
        built = hashlib.sha256()
        for part in self.parts:
            if part.source >= 0 or part.kind == "changes":
                built.update(data[part.start : part.end])
        return built.hexdigest()[:32]


def document_id(family: str, text: str) -> str:
    """Return the id of a text in a family: the first 32 hex digits of sha256(family, 0, text)."""
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
"""documents/…/data/part-*.parquet: one row per document, in the order of the history."""

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
"""selections/…/kept.parquet: a selection before domains are assigned, sorted like selection.parquet."""

SELECTION_SCHEMA = pa.schema(
    [
        *KEPT_SCHEMA,
        required("domain", pa.string()),
        required("domain_rule", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/selection.parquet, sorted by the unique key (family, repository, document_id)."""

Side = Literal["train", "val", "unseen", "later"]
"""Split of a document.

train   training set
val     validation set: held-out files with all their versions
unseen  files of repositories that are held out as a whole
later   commits after the corpus's date, in files of the training set"""

SIDES_SCHEMA = pa.schema(
    [
        required("lineage", pa.string()),
        required("split", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/sides.parquet, sorted by lineage: the split of every file that documents contain, including
files that only occur as context. The split `later` doesn't occur, because it applies to documents, not to
files.
"""

FILE_HISTORIES_SCHEMA = pa.schema(
    [
        required("lineage", pa.string()),
        required("born", pa.int64()),
        required("blobs", list_of(pa.int64())),
        required("since", list_of(pa.int64())),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""documents/family=v2_simple/…/file_histories.parquet, sorted by lineage: one row for every file that is
read. It has the Unix time of the file's first commit, the first 15 hex digits of all blobs that the file
ever had (including those that aren't read), and the time at which each blob first occurred. The table is
empty for a plain folder.
"""

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
"""selections/…/signatures.parquet, in document order: MinHash signatures of the oldest and the newest version
of each file, with 125 slots of 16 bits, and the number of shingles in the version.
"""

LEFT_OUT_FILES_SCHEMA = pa.schema(
    [
        required("lineage", pa.string()),
        required("reason", pa.string()),
        required("evidence", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""selections/…/left_out_files.parquet, sorted by lineage: files of which no document is kept. `evidence` is
the kept file for near_duplicate, and the corpus with its file for other_corpus.
"""

TOKEN_PARTS_SCHEMA = pa.schema(
    [
        required("document", pa.int64()),
        required("part", pa.int32()),
        required("token_start", pa.int64()),
        required("token_end", pa.int64()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""tokens/…/parts.parquet: `document` is the number of the row in the documents artefact. Ranges are offsets
into tokens.bin, without BOS and EOS.
"""
