"""Structure: codes of what stands where in a document, and kinds of syntax nodes; all pinned for good.

A v6_enriched document carries it over bytes (`Structure`), a packed row over tokens (the columns below).
Without these columns both are the flat text and the flat rows of the base family.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from schemas.document import DOCUMENT_SCHEMA, SCHEMA_VERSION, list_of, required
from schemas.packed_row import Column

NO_NODE = 0
"""No node, an ERROR, or bytes that were blanked before parsing."""
OTHER = 1
"""A kind that the table doesn't have."""
BUCKETS = 256


class Bucket(NamedTuple):
    """One line of the table: a node has a name in its grammar, a token is a literal one."""

    number: int
    what: str
    name: str
    kinds: tuple[str, ...]


def _read() -> tuple[Bucket, ...]:
    text = Path(__file__).with_name("node_types.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return tuple(Bucket(int(row[0]), row[1], row[2], tuple(row[3:] or row[2:])) for row in rows)


TABLE: tuple[Bucket, ...] = _read()
"""Kinds by number; numbers from the last one's on are free."""
BUCKET_NAMES: Mapping[int, str] = {bucket.number: bucket.name for bucket in TABLE}
NODE_TYPES: Mapping[str, int] = {
    kind: bucket.number for bucket in TABLE if bucket.what == "node" for kind in bucket.kinds
}
"""The bucket of each named node."""
TOKEN_TYPES: Mapping[str, int] = {
    kind.replace(r"\n", "\n"): bucket.number
    for bucket in TABLE
    if bucket.what == "token"
    for kind in bucket.kinds
}
"""The bucket of each anonymous token."""


def node_type(kind: str, *, is_named: bool) -> int:
    """The bucket of a kind of node; OTHER if the table doesn't have it.

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
"""structure_ids; 0 everywhere says that a row has no structure."""

MAX_LEVEL = 64
"""ast_depth, sibling_index and dep_levels are stored as value + 1, clamped to 1…64."""

LABEL_CODES = {"resolved": 1, "overridden": 2, "dependent": 3, "syntactic": 4}
"""The label of call_edges and type_edges: schemas.document.EDGE_LABELS as numbers."""

RUN_COLUMNS = ("structure_ids", "ast_depth", "sibling_index", "ast_node_type")
"""Columns that a document stores as runs; dep_levels come from its chunks."""
STRUCTURE_TOKENS = ("structure_ids", "dep_levels", "ast_depth", "sibling_index", "ast_node_type")
"""Columns of T values in a row."""
MAX_CODES = {
    "structure_ids": max(STRUCTURE_CODES.values()),
    "dep_levels": MAX_LEVEL,
    "ast_depth": MAX_LEVEL,
    "sibling_index": MAX_LEVEL,
    "ast_node_type": 255,
}
"""Largest code of each column of T values, in their order."""
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
"""Relations of chunk q to chunk k, as a model with structure reads it; models are trained on these numbers.

One code a pair, the first that holds of: same_chunk; calls (q calls k), called_by; names_type (a type
edge goes from q to k), type_named_by; preamble (k is one); same_level, adjacent_level (dep_levels are
equal, or differ by 1). Chunks of different documents are none to one another.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StructureChunk:
    """Bytes `[start, end)` of a document that are one thing; sorted and disjoint.

    A method belongs to the method, not to its class: the class keeps what lies between its methods.
    """

    start: int
    end: int
    kind: int
    """A STRUCTURE_CODE."""
    name: str
    """Qualified; "" for what has none."""
    dep_level: int
    """Breadth-first depth from the leaves of the document's dependency graph, + 1, in 1…64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StructureEdge:
    """Chunk `source` calls, or names the type, `target`; sorted by (source, target)."""

    source: int
    target: int
    label: int
    """A LABEL_CODE."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Structure:
    """The structure of one document, over bytes of its text.

    Run i covers the bytes from ends[i - 1] (0 for the first) to ends[i]; the last ends with the text.
    Neighbouring runs differ. Bytes without a parsed node have node type 0, depth 0 and sibling 0.
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
"""documents/family-v6_enriched/…: row i is row i of the base family's artefact, and its structure."""

ROW_CHUNK_TYPE = pa.struct(
    [required(name, pa.int32()) for name in ("start", "end", "kind", "dep_level", "doc")]
)
"""chunk_boundaries of a row: token offsets, half-open, sorted, disjoint, each inside document `doc`."""
STRUCTURE_COLUMNS = (
    *(required(name, list_of(pa.uint8())) for name in STRUCTURE_TOKENS),
    required("chunk_boundaries", list_of(ROW_CHUNK_TYPE)),
    required("call_edges", list_of(STRUCTURE_EDGE_TYPE)),
    required("type_edges", list_of(STRUCTURE_EDGE_TYPE)),
)
"""Columns of rows of v6_enriched beside PACKED_ROW_SCHEMA; edges index chunk_boundaries."""

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
"""Meanings of the columns; README's table is made from these."""
