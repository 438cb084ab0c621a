import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum import parquet
from curriculum.families.document_writer import EnrichedWriter, documents_in
from curriculum.families.render import render
from curriculum.families.v6_enriched import (
    CALL_KINDS,
    TYPE_KINDS,
    ChunkRelation,
    dep_levels,
    edges_of,
    enrich,
    levels,
    main_chunk,
    qualify_chunks,
)
from curriculum.graph.structure import CodeChunk
from schemas.change import FileChange
from schemas.corpus import EditSettings
from schemas.document import (
    EDGE_KINDS,
    Chunk,
    Document,
    Edge,
    EdgeKind,
    EdgeLabel,
    Part,
    Provenance,
    document_id,
)
from schemas.families import families_of
from schemas.structure import (
    ENRICHED_SCHEMA,
    LABEL_CODES,
    MAX_LEVEL,
    RUN_COLUMNS,
    STRUCTURE_CODES,
    Structure,
    StructureEdge,
)
from tests import factories
from tests.curriculum.families.check_structure import check_structure
from tests.factories import read_documents, write_documents

MakeChange = Callable[..., FileChange]
NAMES = {code: name for name, code in STRUCTURE_CODES.items()}
BEFORE = """#include "shape.h"

namespace geo {

class Shape {
 public:
  virtual double area() const { return 0; }
  int id;
};

class Square : public Shape {
 public:
  double area() const override { return side(); }
  double side() const { return 2; }
};

int twice(int x) { return 2 * x; }

}  // namespace geo
"""
AFTER = BEFORE.replace("2 * x", "x + x")


def at(document: Document, structure: Structure, text: str) -> dict[str, int | str]:
    """Return the structure codes at the first byte of a text that occurs once in the document."""
    data = document.text.encode()
    assert data.count(text.encode()) == 1, text
    place = data.index(text.encode())
    run = next(number for number, end in enumerate(structure.ends) if end > place)
    values = {name: getattr(structure, name)[run] for name in RUN_COLUMNS}
    return values | {"category": NAMES[structure.structure_ids[run]]}


def named(structure: Structure, name: str) -> int:
    return next(number for number, chunk in enumerate(structure.chunks) if chunk.name == name)


@pytest.fixture(scope="module")
def file_documents(make_change: MakeChange) -> list[Document]:
    options = EditSettings(full_file="all")
    return list(render(make_change(BEFORE, AFTER), families_of("changes"), options).documents)


def test_related_lines_of_a_file_are_one_piece_with_their_gap_lines(
    make_change: MakeChange,
) -> None:
    before = "".join(f"int f{at}() {{\n  return g();\n}}\n\n" for at in range(9))
    change = make_change(before, before.replace("g()", "f1()", 1).replace("g()", "f2()", 1))
    (document,) = render(change, ["v3_simple"]).documents
    structure = enrich(document)
    check_structure(document, structure)
    bodies = [each.name for each in structure.chunks if each.kind == STRUCTURE_CODES["func_body"]]
    assert bodies[:3] == ["f0", "f1", "f2"]
    assert "// …\n" in document.text
    assert structure.call_edges


def test_every_family_of_files_gets_structure(file_documents: list[Document]) -> None:
    assert {document.family for document in file_documents} == set(families_of("changes"))
    for document in file_documents:
        structure = enrich(document)
        check_structure(document, structure)
        assert (
            at(document, structure, "File:" if "File:" in document.text else "@file")["category"]
            == "comment"
        )
        assert len(structure.chunks) > 6
        assert structure.type_edges


def test_changes_are_not_parsed(file_documents: list[Document]) -> None:
    document = next(each for each in file_documents if each.family == "v3_simple")
    structure = enrich(document)
    assert at(document, structure, "2 * x") == {
        "category": "other",
        "structure_ids": STRUCTURE_CODES["other"],
        "ast_depth": 0,
        "sibling_index": 0,
        "ast_node_type": 0,
    }
    (full,) = (
        part
        for part in document.parts
        if part.kind == "code" and "twice" in part_text(document, part)
    )
    assert min(chunk.start for chunk in structure.chunks) >= min(
        part.start for part in document.parts if part.kind == "code"
    )
    assert structure.chunks[named(structure, "geo::twice")].start >= full.start


def part_text(document: Document, part: Part) -> str:
    return document.text.encode()[part.start : part.end].decode()


def test_a_file_s_structure_doesn_t_depend_on_what_stands_above_it(
    file_documents: list[Document],
) -> None:
    """The same file under four headers."""
    tails = []
    for document in file_documents:
        if "2 * x; }" not in document.text.split("FULL FILE")[-1]:
            structure = enrich(document)
            offset = min(part.start for part in document.parts if part.kind == "code")
            runs = [end - offset for end in structure.ends if end > offset]
            values = [getattr(structure, name)[-len(runs) :] for name in RUN_COLUMNS]
            names = [
                (chunk.start - offset, chunk.name, chunk.dep_level) for chunk in structure.chunks
            ]
            tails.append((runs, values, names, structure.call_edges, structure.type_edges))
    assert len(tails) == 4
    assert all(tail == tails[0] for tail in tails)


def test_edges_within_a_file_are_what_its_syntax_tells(file_documents: list[Document]) -> None:
    structure = enrich(file_documents[0])
    calls = {(edge.source, edge.target): edge.label for edge in structure.call_edges}
    types = {(edge.source, edge.target) for edge in structure.type_edges}
    area, side = named(structure, "geo::Square::area"), named(structure, "geo::Square::side")
    square, shape = named(structure, "geo::Square"), named(structure, "geo::Shape")
    assert calls == {(area, side): LABEL_CODES["syntactic"]}
    assert {(square, shape), (area, square), (area, named(structure, "geo::Shape::area"))} <= types
    assert structure.chunks[shape].dep_level == 1
    assert structure.chunks[square].dep_level == 2
    assert structure.chunks[named(structure, "geo::twice")].dep_level == 1


def test_other_languages_have_no_structure(make_change: MakeChange) -> None:
    change = make_change(None, "add_library(a a.cc)\n", path="CMakeLists.txt", language="cmake")
    (document,) = render(change, ["v2_simple"]).documents
    structure = enrich(document)
    check_structure(document, structure)
    assert structure == Structure(
        ends=(len(document.text.encode()),),
        structure_ids=(0,),
        ast_depth=(0,),
        sibling_index=(0,),
        ast_node_type=(0,),
        chunks=(),
        call_edges=(),
        type_edges=(),
    )


def test_a_text_without_bytes_has_no_runs() -> None:
    document = context([])
    check_structure(document, enrich(document))
    assert enrich(document).ends == ()


Shown = tuple[str, str, list[str]]
"""A chunk: its qualified name, what it is, and its ranges; marks stand between two of them."""


def context(shown: list[Shown], *edges: tuple[int, int, EdgeKind, EdgeLabel]) -> Document:
    text = ""
    parts: list[Part] = []
    chunks: list[Chunk] = []
    provenance: list[Provenance] = []

    def add(more: str, source: int) -> None:
        nonlocal text
        start = len(text.encode())
        text += more
        kind = "target" if chunks and len(chunks) == len(shown) - 1 else "context"
        parts.append(Part(kind=kind, start=start, end=len(text.encode()), source=source))  # type: ignore[arg-type]

    for name, symbol, ranges in shown:
        first = len(parts)
        add("\n// File: a.cc\n", -1)
        for number, each in enumerate(ranges):
            if number:
                add("// …\n", -1)
            add(each, len(provenance))
            provenance.append(factories.provenance(repository="sample", end=len(each.encode())))
        chunks.append(
            Chunk(
                first_part=first,
                last_part=len(parts),
                name=name,
                symbol=symbol,
                form="whole",
                hop=0,
            )
        )
    return factories.document(
        text,
        family="v4_context_graph",
        licence="MIT",
        timestamp=1,
        parts=tuple(parts),
        provenance=tuple(provenance),
        lineage="sample:a.cc",
        chunks=tuple(chunks),
        edges=tuple(
            Edge(source=source, target=target, kind=kind, label=label, confidence=1.0)
            for source, target, kind, label in edges
        ),
    )


CONTEXT = context(
    [
        ("geo::Shape", "class", ["class Shape {\n", "  int id;\n", "};\n"]),
        (
            "geo::Shape::area",
            "function",
            ["/// the area\ndouble Shape::area() { return half(); }\n"],
        ),
        ("geo::half", "function", ["// why é\nint half() { return 1; }\n"]),
        ("geo::use", "function", ["void use(Shape& s) { s.area(); half(); use(s); }\n"]),
    ],
    (1, 0, "member", "resolved"),
    (1, 2, "calls", "resolved"),
    (3, 0, "uses", "syntactic"),
    (3, 1, "calls", "overridden"),
    (3, 1, "constructs", "resolved"),
    (3, 2, "calls", "dependent"),
    (3, 3, "calls", "syntactic"),
)


def test_edges_of_a_context_document_join_its_structure_chunks() -> None:
    structure = enrich(CONTEXT)
    check_structure(CONTEXT, structure)
    shape, area, half, use = (
        named(structure, name)
        for name in ("geo::Shape", "geo::Shape::area", "geo::half", "geo::use")
    )
    calls = [(edge.source, edge.target, edge.label) for edge in structure.call_edges]
    assert calls == [
        (area, half, LABEL_CODES["resolved"]),
        (use, area, LABEL_CODES["resolved"]),
        (use, half, LABEL_CODES["dependent"]),
        (use, use, LABEL_CODES["syntactic"]),
    ]
    types = [(edge.source, edge.target) for edge in structure.type_edges]
    assert types == [(area, shape), (use, shape)]
    levels = [structure.chunks[number].dep_level for number in (shape, area, half, use)]
    assert levels == [1, 2, 1, 2]


def test_chunks_of_a_context_document_have_the_names_that_the_graph_knows() -> None:
    structure = enrich(CONTEXT)
    names = [chunk.name for chunk in structure.chunks if NAMES[chunk.kind] != "comment"]
    assert names == ["geo::Shape", "geo::Shape::area", "geo::half", "geo::use"]
    data = CONTEXT.text.encode()
    shape = structure.chunks[0]
    assert data[shape.start : shape.end].decode() == "class Shape {\n// …\n  int id;\n// …\n};"


def test_a_chunk_that_can_t_be_parsed_leaves_its_edges_out() -> None:
    document = context(
        [("f", "function", ["\n"]), ("g", "function", ["void g() { f(); }\n"])],
        (1, 0, "calls", "resolved"),
    )
    structure = enrich(document)
    check_structure(document, structure)
    assert structure.call_edges == ()
    assert len(structure.chunks) == 1


def test_documents_and_structure_are_written_and_read_back(
    file_documents: list[Document], tmp_path: Path
) -> None:
    found = [*file_documents, CONTEXT]
    structures = [enrich(document) for document in found]
    with EnrichedWriter(tmp_path, rows_per_file=4) as writer:
        for document, structure in zip(found, structures, strict=True):
            writer.append(document, structure)
    assert writer.count == len(found)
    assert len(parquet.shards_of(tmp_path)) == -(-len(found) // 4)
    table = pa.Table.from_batches(read_documents(tmp_path))
    assert table.schema.equals(ENRICHED_SCHEMA)
    assert [row["text"] for row in table.to_pylist()] == [document.text for document in found]
    for row, document, structure in zip(table.to_pylist(), found, structures, strict=True):
        assert row["document_id"] == document_id("v6_enriched", document.text)
        assert row["base_document_id"] == document.document_id
        assert row["family"] == "v6_enriched"
        assert row["num_bytes"] == len(document.text.encode()) == structure.ends[-1]
        assert tuple(row["run_ends"]) == structure.ends
        for name in RUN_COLUMNS:
            assert tuple(row[f"run_{name}"]) == getattr(structure, name)
        for column, values in (
            ("structure_chunks", structure.chunks),
            ("call_edges", structure.call_edges),
            ("type_edges", structure.type_edges),
        ):
            assert row[column] == [
                {field: getattr(value, field) for field in value.__slots__} for value in values
            ]


def test_documents_come_back_as_they_were(file_documents: list[Document], tmp_path: Path) -> None:
    found = [*file_documents, CONTEXT]
    write_documents(found, tmp_path, rows_per_file=4)
    assert list(documents_in(tmp_path)) == found


def test_equal_documents_give_equal_files(file_documents: list[Document], tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with EnrichedWriter(tmp_path / name) as writer:
            for document in file_documents:
                writer.append(document, enrich(document))
        (file,) = parquet.shards_of(tmp_path / name)
        digests.append(hashlib.sha256(file.read_bytes()).hexdigest())
    assert digests[0] == digests[1]


def test_no_documents_give_one_file_of_the_schema(tmp_path: Path) -> None:
    EnrichedWriter(tmp_path).close()
    (file,) = parquet.shards_of(tmp_path)
    assert pq.read_schema(file).equals(ENRICHED_SCHEMA)
    assert list(documents_in(tmp_path)) == []


BODY, CLASS, COMMENT = (STRUCTURE_CODES[name] for name in ("func_body", "class_decl", "comment"))


def test_a_pair_of_chunks_has_one_edge_with_its_best_label() -> None:
    links = [
        ChunkRelation(2, 1, "constructs", "dependent"),
        ChunkRelation(2, 1, "calls", "overridden"),
        ChunkRelation(2, 0, "calls", "syntactic"),
        ChunkRelation(1, 0, "uses", "resolved"),
        ChunkRelation(2, 1, "calls", "syntactic"),
    ]
    assert edges_of(links, CALL_KINDS) == (
        StructureEdge(source=2, target=0, label=LABEL_CODES["syntactic"]),
        StructureEdge(source=2, target=1, label=LABEL_CODES["overridden"]),
    )
    assert edges_of(links, TYPE_KINDS) == (
        StructureEdge(source=1, target=0, label=LABEL_CODES["resolved"]),
    )


def test_every_kind_of_edge_between_code_is_a_call_or_about_types() -> None:
    assert CALL_KINDS.isdisjoint(TYPE_KINDS)
    assert set(EDGE_KINDS) - CALL_KINDS - TYPE_KINDS == {"includes", "links", "compiles"}


def test_levels_are_clamped() -> None:
    edges = [StructureEdge(source=i, target=i + 1, label=1) for i in range(99)]
    found = dep_levels([(BODY, "f")] * 100, edges)
    assert found == [min(100 - i, MAX_LEVEL) for i in range(100)]


def test_pieces_of_classes_without_a_name_stay_apart() -> None:
    edges = [StructureEdge(source=0, target=2, label=1)]
    assert dep_levels([(CLASS, ""), (CLASS, ""), (BODY, "f")], edges) == [2, 1, 1]


def chunk(name: str, symbol: str = "function") -> Chunk:
    return Chunk(first_part=0, last_part=2, name=name, symbol=symbol, form="whole", hop=1)


FOUND = (
    CodeChunk(0, 9, COMMENT, ""),
    CodeChunk(10, 20, CLASS, "Matrix"),
    CodeChunk(21, 30, BODY, "Matrix::at"),
    CodeChunk(31, 32, CLASS, ""),
)


def test_names_are_qualified_as_the_document_knows_them() -> None:
    asked = chunk("lattice::Matrix", "class")
    assert main_chunk(FOUND, asked) == 1
    names = [each.name for each in qualify_chunks(FOUND, 1, asked)]
    assert names == ["", "lattice::Matrix", "lattice::Matrix::at", ""]


def test_a_name_that_the_piece_doesn_t_tell_is_given_to_its_first_code() -> None:
    asked = chunk("lattice::Table", "class")
    assert main_chunk(FOUND, asked) == 1
    names = [each.name for each in qualify_chunks(FOUND, 1, asked)]
    assert names == ["", "lattice::Table", "Matrix::at", ""]


def test_a_function_that_the_piece_names_otherwise_is_its_first_body() -> None:
    asked = chunk("lattice::operator*")
    assert main_chunk(FOUND, asked) == 2
    names = [each.name for each in qualify_chunks(FOUND, 2, asked)]
    assert names == ["", "Matrix", "lattice::operator*", ""]


def test_the_path_of_a_file_names_no_chunk() -> None:
    asked = chunk("src/matrix.hpp", "file")
    assert qualify_chunks(FOUND, main_chunk(FOUND, asked), asked) == FOUND


def test_a_piece_without_code_shows_nothing() -> None:
    assert main_chunk(FOUND[:1], chunk("f")) == -1
    assert qualify_chunks(FOUND[:1], -1, chunk("f")) == FOUND[:1]


Graph = tuple[int, list[tuple[int, int]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 8))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node), max_size=16))


def slow_levels(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Compute levels by transitive closure: merge cycles, then search breadth first from the leaves."""
    reach = [[a == b or (a, b) in edges for b in range(count)] for a in range(count)]
    for middle in range(count):
        for a in range(count):
            for b in range(count):
                reach[a][b] |= reach[a][middle] and reach[middle][b]
    group = [
        frozenset(b for b in range(count) if reach[a][b] and reach[b][a]) for a in range(count)
    ]
    found: dict[frozenset[int], int] = {}
    level = 0
    while len(found) < len(set(group)):
        for each in set(group) - found.keys():
            out = {group[b] for a, b in edges if a in each} - {each}
            if not out if level == 0 else any(found.get(other) == level - 1 for other in out):
                found[each] = level
        level += 1
    return [found[each] for each in group]


@given(graphs())
def test_levels_are_the_shortest_ways_to_a_leaf(graph: Graph) -> None:
    assert levels(*graph) == slow_levels(*graph)


def test_functions_that_call_each_other_count_as_one() -> None:
    assert levels(5, [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4)]) == [2, 1, 1, 0, 0]


def test_of_two_ways_the_shorter_counts() -> None:
    assert levels(4, [(0, 1), (1, 2), (2, 3), (0, 3)]) == [1, 2, 1, 0]


def test_a_chain_of_any_length_has_levels() -> None:
    count = 100_000
    assert levels(count, ((i, i + 1) for i in range(count - 1))) == list(range(count))[::-1]
