"""Invariants of structures, checked against their documents."""

from collections.abc import Sequence
from itertools import pairwise

from curriculum.families.v6_enriched import dep_levels
from schemas.document import Document
from schemas.errors import SchemaError
from schemas.structure import (
    LABEL_CODES,
    MAX_LEVEL,
    RUN_COLUMNS,
    STRUCTURE_CODES,
    Structure,
    StructureEdge,
)

_LARGEST = {
    "structure_ids": max(STRUCTURE_CODES.values()),
    "ast_depth": MAX_LEVEL,
    "sibling_index": MAX_LEVEL,
    "ast_node_type": 255,
}
assert tuple(_LARGEST) == RUN_COLUMNS


def check_structure(document: Document, structure: Structure) -> None:
    """Pass if a structure is sound and fits its document, which may be of any family.

    1. Runs tile the bytes of the text, none is empty, and neighbours differ.
    2. Codes are in range. structure_ids are 0 everywhere or nowhere; where they are, nothing else is
       known. Depth, sibling and type of a byte are 0 together.
    3. Chunks lie in the text, aren't empty, are sorted and disjoint, and have a kind.
    4. Edges join chunks, are sorted by (source, target), each pair once, and have a label.
    5. dep_levels are those of the edges.

    Raises:
        SchemaError: with the first thing that is wrong.
    """
    size = len(document.text.encode())
    _check_runs(document, structure, size)
    _check_codes(document, structure)
    _check_chunks(document, structure, size)
    for name, edges in (("call", structure.call_edges), ("type", structure.type_edges)):
        _check_edges(document, name, edges, len(structure.chunks))
    wanted = dep_levels(
        [(chunk.kind, chunk.name) for chunk in structure.chunks],
        [*structure.call_edges, *structure.type_edges],
    )
    for number, (chunk, level) in enumerate(zip(structure.chunks, wanted, strict=True)):
        if chunk.dep_level != level:
            found = f"dep_level {chunk.dep_level} of chunk {number}"
            raise _wrong(document, found, f"its edges make it {level}")


def _check_runs(document: Document, structure: Structure, size: int) -> None:
    ends = structure.ends
    if (ends[-1] if ends else 0) != size:
        raise _wrong(document, f"runs of {ends[-1] if ends else 0} bytes", f"they tile {size}")
    for before, after in pairwise((0, *ends)):
        if before >= after:
            raise _wrong(document, f"run end {after} after {before}", "no run is empty")
    columns = [getattr(structure, name) for name in RUN_COLUMNS]
    for name, column in zip(RUN_COLUMNS, columns, strict=True):
        if len(column) != len(ends):
            raise _wrong(document, f"{len(column)} {name}", f"there are {len(ends)} runs")
    for number, (left, right) in enumerate(pairwise(zip(*columns, strict=True))):
        if left == right:
            raise _wrong(document, f"run {number + 1}", "it differs from the run before it")


def _check_codes(document: Document, structure: Structure) -> None:
    for name, largest in _LARGEST.items():
        for number, value in enumerate(getattr(structure, name)):
            if not 0 <= value <= largest:
                raise _wrong(document, f"{name} {value} of run {number}", f"0 … {largest}")
    known = set(structure.structure_ids)
    if 0 in known and (len(known) > 1 or structure.chunks or any(structure.ast_node_type)):
        raise _wrong(document, "structure_ids 0", "it says that the document has no structure")
    levels = zip(structure.ast_depth, structure.sibling_index, structure.ast_node_type, strict=True)
    for number, values in enumerate(levels):
        if any(values) and not all(values):
            raise _wrong(document, f"run {number} {values}", "what has no node has none of them")


def _check_chunks(document: Document, structure: Structure, size: int) -> None:
    end = 0
    for number, chunk in enumerate(structure.chunks):
        if not end <= chunk.start < chunk.end <= size:
            place = f"chunk {number} [{chunk.start}, {chunk.end})"
            raise _wrong(document, place, f"it lies in [{end}, {size})")
        if not 0 < chunk.kind <= _LARGEST["structure_ids"]:
            raise _wrong(document, f"kind {chunk.kind} of chunk {number}", "it has a category")
        end = chunk.end


def _check_edges(
    document: Document, name: str, edges: Sequence[StructureEdge], chunks: int
) -> None:
    for edge in edges:
        place = f"{name} edge {edge.source} → {edge.target}"
        if not (0 <= edge.source < chunks and 0 <= edge.target < chunks):
            raise _wrong(document, place, f"there are {chunks} chunks")
        if edge.label not in LABEL_CODES.values():
            raise _wrong(document, f"label {edge.label} of {place}", "it is not a label")
    for left, right in pairwise((edge.source, edge.target) for edge in edges):
        if left >= right:
            raise _wrong(document, f"{name} edge {right} after {left}", "edges are sorted")


def _wrong(document: Document, value: str, cause: str) -> SchemaError:
    return SchemaError(
        f"structure of document {document.document_id} ({document.family})",
        value,
        cause=cause,
        cure="Mend the producer of v6_enriched",
    )
