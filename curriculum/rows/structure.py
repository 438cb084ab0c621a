"""Rule 5 of the packed row: structure columns, where they are stored, fit the row's documents."""

import numpy as np

from curriculum.rows.columns import Columns
from curriculum.rows.faults import Place, Rule
from curriculum.rows.layout import Layout
from curriculum.rows.ragged import Int64s
from schemas.structure import LARGEST_LEVEL, STRUCTURE_CODES, STRUCTURE_TOKENS

_LARGEST = {
    "structure_ids": max(STRUCTURE_CODES.values()),
    "dep_levels": LARGEST_LEVEL,
    "ast_depth": LARGEST_LEVEL,
    "sibling_index": LARGEST_LEVEL,
    "ast_node_type": 255,
}
assert tuple(_LARGEST) == STRUCTURE_TOKENS


def structure(columns: Columns, layout: Layout, place: Place) -> None:
    """Codes are in range; chunks lie in one document, sorted and disjoint; edges join chunks of one."""
    for name, largest in _LARGEST.items():
        if columns.has(name):
            found = columns.tokens(name)
            place.wrong_tokens(
                Rule.STRUCTURE,
                found > largest,
                f"{name} is at most {largest}",
                lambda i, t, name=name, found=found: f"{name} is {found[i, t]} at token {t}",  # type: ignore[misc]
            )
    if columns.has("chunk_boundaries"):
        _chunks(columns, layout, place)
        for name in filter(columns.has, ("call_edges", "type_edges")):
            _edges(columns, name, place)


def _chunks(columns: Columns, layout: Layout, place: Place) -> None:
    chunk, edges = columns.fields("chunk_boundaries"), columns.offsets("chunk_boundaries")
    row, number = _rows(edges)
    before = np.where(number == 0, 0, np.roll(chunk["end"], 1))
    named = (chunk["doc"] >= 0) & (chunk["doc"] < layout.num_docs[row])
    document = layout.first_document[row] + np.where(named, chunk["doc"], 0)
    first, after = layout.start[document], layout.start[document] + layout.lengths[document]
    wrong = (chunk["start"] < before) | (chunk["start"] >= chunk["end"]) | ~named
    wrong |= (chunk["start"] < first) | (chunk["end"] > after)
    wrong |= ~np.isin(chunk["kind"], list(STRUCTURE_CODES.values()))
    wrong |= (chunk["dep_level"] < 0) | (chunk["dep_level"] > LARGEST_LEVEL)
    bad = np.bincount(row[wrong], minlength=len(columns)) > 0

    def describe(i: int) -> str:
        number = int(wrong[edges[i] : edges[i + 1]].argmax())
        value = {name: int(values[edges[i] + number]) for name, values in chunk.items()}
        return f"chunk {number} is {value}"

    cause = "chunks are sorted, disjoint, each inside its document, their codes in range"
    place.wrong(Rule.STRUCTURE, bad, cause, describe)


def _edges(columns: Columns, name: str, place: Place) -> None:
    edge, edges = columns.fields(name), columns.offsets(name)
    row, _ = _rows(edges)
    chunks = columns.offsets("chunk_boundaries")
    document = columns.fields("chunk_boundaries")["doc"]
    count = np.diff(chunks)[row]
    ends = (edge["source"], edge["target"])
    inside = np.logical_and.reduce([(end >= 0) & (end < count) for end in ends])
    wrong = ~inside
    source, target = (document[chunks[row[inside]] + end[inside]] for end in ends)
    wrong[inside] = source != target
    bad = np.bincount(row[wrong], minlength=len(columns)) > 0

    def describe(i: int) -> str:
        number = int(wrong[edges[i] : edges[i + 1]].argmax())
        at = edges[i] + number
        return f"{name} {number} joins chunks {ends[0][at]} and {ends[1][at]}"

    place.wrong(Rule.STRUCTURE, bad, "an edge joins two chunks of one document", describe)


def _rows(edges: Int64s) -> tuple[Int64s, Int64s]:
    """The row of each item, and its number there: edges [0 2 3] -> [0 0 1], [0 1 0]."""
    row = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    return row, np.arange(len(row)) - edges[row]
