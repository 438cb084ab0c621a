from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from curriculum.families.v6_enriched import enrich
from schemas.document import Part
from schemas.errors import SchemaError
from schemas.structure import LABEL_CODES, STRUCTURE_CODES, Structure, StructureEdge
from tests import factories
from tests.curriculum.families.check_structure import check_structure

CODE = "int leaf() { return 1; }\nint top() { return leaf(); }\nstruct A { int a; };\n"
DOCUMENT = factories.document(
    CODE,
    parts=(Part(kind="code", start=0, end=len(CODE), source=0),),
    provenance=(factories.provenance(repository="sample", end=len(CODE)),),
    lineage="sample:a.cc",
)


@pytest.fixture(scope="module")
def structure() -> Structure:
    found = enrich(DOCUMENT)
    assert len(found.chunks) == 3
    assert len(found.call_edges) == 1
    return found


def test_what_enrich_makes_passes(structure: Structure) -> None:
    check_structure(DOCUMENT, structure)


def chunk(structure: Structure, number: int, **fields: Any) -> Structure:
    chunks = list(structure.chunks)
    chunks[number] = replace(chunks[number], **fields)
    return replace(structure, chunks=tuple(chunks))


def edge(source: int, target: int, label: int = LABEL_CODES["syntactic"]) -> StructureEdge:
    return StructureEdge(source=source, target=target, label=label)


MUTATIONS: dict[str, Callable[[Any], Structure]] = {
    "runs end early": lambda s: replace(s, ends=(*s.ends[:-1], s.ends[-1] - 1)),
    "an empty run": lambda s: replace(s, ends=(s.ends[0], s.ends[0], *s.ends[2:])),
    "a column too short": lambda s: replace(s, ast_depth=s.ast_depth[:-1]),
    "a run twice": lambda s: replace(
        s,
        ends=(1, *s.ends),
        **{
            name: (getattr(s, name)[0], *getattr(s, name))
            for name in ("structure_ids", "ast_depth", "sibling_index", "ast_node_type")
        },
    ),
    "a category too large": lambda s: replace(s, structure_ids=(10, *s.structure_ids[1:])),
    "a depth too large": lambda s: replace(s, ast_depth=(65, *s.ast_depth[1:])),
    "no category": lambda s: replace(s, structure_ids=(0, *s.structure_ids[1:])),
    "a depth without a node": lambda s: replace(s, ast_node_type=(0, *s.ast_node_type[1:])),
    "a chunk beyond the text": lambda s: chunk(s, 2, end=len(CODE) + 1),
    "an empty chunk": lambda s: chunk(s, 1, end=s.chunks[1].start),
    "chunks that overlap": lambda s: chunk(s, 1, start=s.chunks[0].end - 1),
    "a chunk of no kind": lambda s: chunk(s, 1, kind=STRUCTURE_CODES["none"]),
    "a wrong level": lambda s: chunk(s, 0, dep_level=2),
    "an edge to nowhere": lambda s: replace(s, call_edges=(edge(1, 3),)),
    "an edge from nowhere": lambda s: replace(s, type_edges=(edge(-1, 0),)),
    "an edge twice": lambda s: replace(s, call_edges=s.call_edges * 2),
    "an edge that changes a level": lambda s: replace(s, type_edges=(edge(0, 2),)),
    "edges out of order": lambda s: replace(s, call_edges=(edge(1, 2), *s.call_edges)),
    "an edge without a label": lambda s: replace(s, call_edges=(edge(1, 0, 0),)),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_wrong_is_found(name: str, structure: Structure) -> None:
    with pytest.raises(SchemaError, match="v6_enriched"):
        check_structure(DOCUMENT, MUTATIONS[name](structure))


def test_a_structure_of_another_document_is_found(structure: Structure) -> None:
    with pytest.raises(SchemaError, match="tile"):
        check_structure(replace(DOCUMENT, text=CODE + "int b;\n"), structure)
