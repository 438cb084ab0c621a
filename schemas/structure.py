"""Code structure of documents: fixed codes of chunks and syntax nodes, and the schemas that store them.

A v6_enriched document stores structure for its bytes (`Structure`), a packed row for its tokens (the columns
below). Without these columns, both are equal to the text and the rows of the base family.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from schemas.document import DOCUMENT_SCHEMA, SCHEMA_VERSION, list_of, required
from schemas.packed_row import Column

NO_NODE = 0
"""Code for no node, an ERROR node, or bytes that were blanked before parsing."""
OTHER = 1
"""Code for a node kind that isn't in the table."""
BUCKETS = 256


class Bucket(NamedTuple):
    """A row of the table of node types. `what` is node for named nodes, and token for literals."""

    number: int
    what: str
    name: str
    kinds: tuple[str, ...]


def _read() -> tuple[Bucket, ...]:
    text = Path(__file__).with_name("node_types.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return tuple(Bucket(int(row[0]), row[1], row[2], tuple(row[3:] or row[2:])) for row in rows)


TABLE: tuple[Bucket, ...] = _read()
"""Node types by number. Numbers after the last one are unused."""
BUCKET_NAMES: Mapping[int, str] = {bucket.number: bucket.name for bucket in TABLE}
NODE_TYPES: Mapping[str, int] = {
    kind: bucket.number for bucket in TABLE if bucket.what == "node" for kind in bucket.kinds
}
"""Bucket number of each named node."""
TOKEN_TYPES: Mapping[str, int] = {
    kind.replace(r"\n", "\n"): bucket.number
    for bucket in TABLE
    if bucket.what == "token"
    for kind in bucket.kinds
}
"""Bucket number of each anonymous token."""


def node_type(kind: str, *, is_named: bool) -> int:
    """Return the bucket number of a node type; OTHER if it isn't in the table.

    >>> node_type("ERROR", is_named=True), node_type("{", is_named=False)
    (0, 2)
    """
    return (NODE_TYPES if is_named else TOKEN_TYPES).get(kind, OTHER)


STRUCTURE_CODES = {
    "none": 0,
    "other": 1,
    "preamble": 2,
    "func_sig": 3,
    "func_body": 4,
    "class_decl": 5,
    "class_member": 6,
    "comment": 7,
    "typedef": 8,
    "namespace": 9,
}
"""Values of structure_ids. If all values are 0, a row has no structure."""

MAX_LEVEL = 64
"""Maximum of ast_depth, sibling_index and dep_levels. They are stored as value + 1, limited to 1…64."""

LABEL_CODES = {"resolved": 1, "overridden": 2, "dependent": 3, "syntactic": 4}
"""Codes of the labels in call_edges and type_edges, for each of schemas.document.EDGE_LABELS."""

RUN_COLUMNS = ("structure_ids", "ast_depth", "sibling_index", "ast_node_type")
"""Columns that a document stores with run-length encoding. dep_levels are derived from its chunks."""
STRUCTURE_TOKENS = ("structure_ids", "dep_levels", "ast_depth", "sibling_index", "ast_node_type")
"""Columns with T values per row."""
MAX_CODES = {
    "structure_ids": max(STRUCTURE_CODES.values()),
    "dep_levels": MAX_LEVEL,
    "ast_depth": MAX_LEVEL,
    "sibling_index": MAX_LEVEL,
    "ast_node_type": 255,
}
"""Largest code in each column with T values, in the order of the columns."""
assert tuple(MAX_CODES) == STRUCTURE_TOKENS

RELATION_CODES = {
    "none": 0,
    "calls": 1,
    "called_by": 2,
    "names_type": 3,
    "type_named_by": 4,
    "same_chunk": 5,
    "same_level": 6,
    "adjacent_level": 7,
    "preamble": 8,
}
"""Codes of relations from chunk q to chunk k, as a model with structure reads them. Models are trained on
these numbers.

A pair has one code, the first that applies: same_chunk; calls (q calls k), called_by; names_type (a type
edge leads from q to k), type_named_by; preamble (k is a preamble); same_level, adjacent_level (dep_levels
are equal, or differ by 1). Chunks of different documents have the relation none.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StructureChunk:
    """Bytes `[start, end)` of a document that form one unit. Chunks are sorted and don't overlap.

    The bytes of a method belong to the method's chunk. The chunk of a class has the bytes between its
    methods.
    """

    start: int
    end: int
    kind: int
    """Kind: a value of STRUCTURE_CODES."""
    name: str
    """Qualified name; "" for a chunk that has no name."""
    dep_level: int
    """1 + the distance from the leaves of the document's dependency graph, in 1…64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StructureEdge:
    """Edge between two chunks: `source` calls `target`, or names its type.

    Edges are sorted by (source, target).
    """

    source: int
    target: int
    label: int
    """Label: a value of LABEL_CODES."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Structure:
    """Structure of one document over the bytes of its text, as runs of bytes with equal structure.

    Run i covers the bytes from ends[i - 1] (0 for the first run) to ends[i]; the last run ends with the
    text. Neighbouring runs differ. Bytes that belong to no node have node type 0, depth 0 and sibling 0.
    """

    ends: tuple[int, ...]
    structure_ids: tuple[int, ...]
    ast_depth: tuple[int, ...]
    sibling_index: tuple[int, ...]
    ast_node_type: tuple[int, ...]
    chunks: tuple[StructureChunk, ...]
    call_edges: tuple[StructureEdge, ...]
    type_edges: tuple[StructureEdge, ...]


STRUCTURE_CHUNK_TYPE = pa.struct(
    [
        required("start", pa.int32()),
        required("end", pa.int32()),
        required("kind", pa.int32()),
        required("name", pa.string()),
        required("dep_level", pa.int32()),
    ]
)
STRUCTURE_EDGE_TYPE = pa.struct(
    [required(name, pa.int32()) for name in ("source", "target", "label")]
)
STRUCTURE_FIELDS = (
    required("run_ends", list_of(pa.int32())),
    *(required(f"run_{name}", list_of(pa.uint8())) for name in RUN_COLUMNS),
    required("structure_chunks", list_of(STRUCTURE_CHUNK_TYPE)),
    required("call_edges", list_of(STRUCTURE_EDGE_TYPE)),
    required("type_edges", list_of(STRUCTURE_EDGE_TYPE)),
)
ENRICHED_SCHEMA = pa.schema(
    [*DOCUMENT_SCHEMA, *STRUCTURE_FIELDS], metadata={"schema_version": SCHEMA_VERSION}
)
"""documents/family-v6_enriched/…: row i has the document in row i of the base family's artefact, and its
structure.
"""

ROW_CHUNK_TYPE = pa.struct(
    [required(name, pa.int32()) for name in ("start", "end", "kind", "dep_level", "doc")]
)
"""Type of chunk_boundaries: half-open ranges of tokens in a row, sorted, without overlap. Each is inside the
document `doc`.
"""
STRUCTURE_COLUMNS = (
    *(required(name, list_of(pa.uint8())) for name in STRUCTURE_TOKENS),
    required("chunk_boundaries", list_of(ROW_CHUNK_TYPE)),
    required("call_edges", list_of(STRUCTURE_EDGE_TYPE)),
    required("type_edges", list_of(STRUCTURE_EDGE_TYPE)),
)
"""Additional columns of v6_enriched rows; edges are indices into chunk_boundaries."""

STRUCTURE_MEANINGS: tuple[Column, ...] = (
    Column(
        name="structure_ids",
        need="stored",
        meaning=", ".join(f"{code} {name}" for name, code in STRUCTURE_CODES.items()),
    ),
    Column(
        name="dep_levels",
        need="stored",
        meaning="of the chunk around the token: steps from the leaves of its document's dependencies, + 1",
    ),
    Column(
        name="ast_depth", need="stored", meaning="depth of the smallest node around the token, + 1"
    ),
    Column(
        name="sibling_index", need="stored", meaning="which child of its parent that node is, + 1"
    ),
    Column(
        name="ast_node_type", need="stored", meaning="that node's kind, one of 256 pinned buckets"
    ),
    Column(
        name="chunk_boundaries",
        need="stored",
        meaning="functions, pieces of classes, type names …: row token offsets, sorted and disjoint",
    ),
    Column(
        name="call_edges",
        need="stored",
        meaning="chunk source calls chunk target; label "
        + ", ".join(f"{code} {name}" for name, code in LABEL_CODES.items()),
    ),
    Column(
        name="type_edges",
        need="stored",
        meaning="chunk source names, inherits from or belongs to target; labels as for calls",
    ),
)
"""Meanings of the columns. README's table is made from them."""
