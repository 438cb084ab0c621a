"""Structure: what stands where in a document's code, as codes pinned for good.

A v6_enriched document carries it over bytes (`Structure`), a packed row over tokens (the columns below).
Without these columns both are the flat text and the flat rows of the base family.
"""

from dataclasses import dataclass

import pyarrow as pa

from schemas.arrow import list_of, required
from schemas.document import DOCUMENT_SCHEMA, SCHEMA_VERSION
from schemas.packed_row import Column

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

LARGEST_LEVEL = 64
"""ast_depth, sibling_index and dep_levels are stored as value + 1, clamped to 1…64."""

LABEL_CODES = {"resolved": 1, "overridden": 2, "dependent": 3, "syntactic": 4}
"""The label of call_edges and type_edges: schemas.document.EDGE_LABELS as numbers."""

RUN_COLUMNS = ("structure_ids", "ast_depth", "sibling_index", "ast_node_type")
"""Columns that a document stores as runs; dep_levels come from its chunks."""
STRUCTURE_TOKENS = ("structure_ids", "dep_levels", "ast_depth", "sibling_index", "ast_node_type")
"""Columns of T values in a row."""
LARGEST_CODES = {
    "structure_ids": max(STRUCTURE_CODES.values()),
    "dep_levels": LARGEST_LEVEL,
    "ast_depth": LARGEST_LEVEL,
    "sibling_index": LARGEST_LEVEL,
    "ast_node_type": 255,
}
"""Largest code of each column of T values, in their order."""
assert tuple(LARGEST_CODES) == STRUCTURE_TOKENS

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
"""documents/family=v6_enriched/…: row i is row i of the base family's artefact, and its structure."""

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
