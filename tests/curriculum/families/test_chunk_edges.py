from curriculum.families.v6_enriched import (
    CALL_KINDS,
    TYPE_KINDS,
    Link,
    dep_levels,
    edges_of,
    main_chunk,
    renamed,
)
from curriculum.graph.structure import CodeChunk
from schemas.document import EDGE_KINDS, Chunk
from schemas.structure import LABEL_CODES, LARGEST_LEVEL, STRUCTURE_CODES, StructureEdge

BODY, CLASS, COMMENT = (STRUCTURE_CODES[name] for name in ("func_body", "class_decl", "comment"))


def test_a_pair_of_chunks_has_one_edge_with_its_best_label() -> None:
    links = [
        Link(2, 1, "constructs", "dependent"),
        Link(2, 1, "calls", "overridden"),
        Link(2, 0, "calls", "syntactic"),
        Link(1, 0, "uses", "resolved"),
        Link(2, 1, "calls", "syntactic"),
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
    assert found == [min(100 - i, LARGEST_LEVEL) for i in range(100)]


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
    names = [each.name for each in renamed(FOUND, 1, asked)]
    assert names == ["", "lattice::Matrix", "lattice::Matrix::at", ""]


def test_a_name_that_the_piece_doesn_t_tell_is_given_to_its_first_code() -> None:
    asked = chunk("lattice::Table", "class")
    assert main_chunk(FOUND, asked) == 1
    names = [each.name for each in renamed(FOUND, 1, asked)]
    assert names == ["", "lattice::Table", "Matrix::at", ""]


def test_a_function_that_the_piece_names_otherwise_is_its_first_body() -> None:
    asked = chunk("lattice::operator*")
    assert main_chunk(FOUND, asked) == 2
    names = [each.name for each in renamed(FOUND, 2, asked)]
    assert names == ["", "Matrix", "lattice::operator*", ""]


def test_the_path_of_a_file_names_no_chunk() -> None:
    asked = chunk("src/matrix.hpp", "file")
    assert renamed(FOUND, main_chunk(FOUND, asked), asked) == FOUND


def test_a_piece_without_code_shows_nothing() -> None:
    assert main_chunk(FOUND[:1], chunk("f")) == -1
    assert renamed(FOUND[:1], -1, chunk("f")) == FOUND[:1]
