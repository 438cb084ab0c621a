"""A packed row as a sheet: its documents, their text as it is trained on, structure where it is stored."""

import itertools
from collections.abc import Iterator, Mapping

from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from dashboards.palette import DOCUMENT_COLOURS
from flows.lines import number
from flows.look.read import lines
from flows.look.row import Origin, Row, origins_of, row_of, row_pieces, tokenizer_of
from flows.look.rows import row_facts
from flows.look.sheet import (
    Bar,
    Node,
    Section,
    Sheet,
    stretches,
    structure_links,
    structure_node,
    worth_a_line,
)
from flows.look.wish import Wish


def row_sheets(store: Store, artefact: Artefact, wish: Wish) -> Iterator[Sheet]:
    """A sheet for each row that is wished."""
    tokenizer = tokenizer_of(store, artefact)
    for line in itertools.islice(lines(artefact, wish), wish.rows):
        row = row_of(line)
        yield row_sheet(row, origins_of(store, artefact, row), tokenizer)


def row_sheet(row: Row, origins: Mapping[str, Origin], tokenizer: Tokenizer) -> Sheet:
    """The sheet of a row; sizes and places are tokens."""
    nodes: list[Node] = []
    sections = []
    of_structure: dict[int, int] = {}
    shown = worth_a_line(row.chunks, row.call_edges, row.type_edges)
    for index, (start, end) in enumerate(row.spans):
        place = len(nodes)
        nodes.append(_node(row, index, origins))
        for place_in_row, chunk in enumerate(row.chunks):
            if start <= chunk.start < end and place_in_row in shown:
                of_structure[place_in_row] = len(nodes)
                nodes.append(structure_node(chunk, 1))
        cut = row_pieces(row, tokenizer, start, end)
        drawn = tuple(stretches(cut, row.chunks, of_structure))
        sections.append(Section(node=place, stretches=drawn))
    return Sheet(
        title=row.pack_id,
        facts=(row_facts(row), "Struck tokens are context only: no prediction of them counts."),
        nodes=tuple(nodes),
        sections=tuple(sections),
        links=tuple(structure_links(row.call_edges, row.type_edges, of_structure)),
        bars=tuple(_bar(row, index) for index in range(len(row.spans))),
    )


def _node(row: Row, index: int, origins: Mapping[str, Origin]) -> Node:
    start, end = row.spans[index]
    origin = origins[row.document_ids[index]]
    scored = sum(row.loss_mask[start:end])
    return Node(
        name=origin.path or row.document_ids[index],
        depth=0,
        word=str(index),
        size=number(end - start, "token"),
        note=f"{origin.repository} {origin.commit[:10]} · {scored:,} scored · from {start:,}",
        colour=_colour(index),
    )


def _bar(row: Row, index: int) -> Bar:
    start, end = row.spans[index]
    length = len(row.input_ids)
    return Bar(start=start / length, end=end / length, colour=_colour(index))


def _colour(index: int) -> str:
    return f"d{index % len(DOCUMENT_COLOURS)}"
