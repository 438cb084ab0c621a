"""What a build says of indexes, from what their manifests count."""

from dataclasses import asdict, replace
from pathlib import Path

from pydantic_core import to_jsonable_python

from curriculum.graph.clang.snapshot import CallCount, DatabaseCount, IndexReport, UnitProblem
from curriculum.inspection.stage_tables import graph_warnings, index_lines
from curriculum.stages import Built
from curriculum.store import Artefact
from schemas.manifest import Manifest

CLEAN = IndexReport(
    database=DatabaseCount(
        entries=41,
        matched=39,
        duplicates=0,
        missing=2,
        not_understood=0,
        missing_response_files=0,
    ),
    replaced=(),
    indexed=39,
    partial=0,
    failed=0,
    timed_out=0,
    crashed=0,
    problems=(),
    functions=854,
    declarations=162,
    classes=163,
    includes=232,
    edges=(),
    calls=CallCount(inside=1, outside=1, dependent=0, unknown=0),
)
DAMAGED = replace(
    CLEAN,
    indexed=37,
    partial=1,
    timed_out=1,
    problems=(
        UnitProblem(path="db/a.cc", outcome="partial", reason="no such header"),
        UnitProblem(path="db/b.cc", outcome="timed out", reason="60 seconds"),
    ),
)


def built(report: IndexReport) -> Built:
    manifest = Manifest(
        stage="indexes",
        labels={"repository": "leveldb"},
        key="0" * 64,
        content="1" * 64,
        revision=1,
        config={},
        inputs=(),
        tools={},
        files=(),
        report=to_jsonable_python(asdict(report)),
        created="2026-01-01T00:00:00+00:00",
    )
    index = Artefact(path=Path("indexes"), manifest=manifest)
    return Built(
        indexes=(index,),
        documents=(),
        kept=(),
        selection=index,
        selections={},
        tokenizer=index,
        tokens=(),
        rows=(),
        anchor=index,
    )


def test_a_build_says_which_files_count_by_a_further_entry() -> None:
    (warning,) = graph_warnings(built(replace(CLEAN, replaced=("db/a.cc", "db/b.cc"))))
    assert "2 files of leveldb" in warning
    assert "db/a.cc" in warning


def test_an_index_says_what_became_of_its_units() -> None:
    (line,) = index_lines(built(DAMAGED))
    assert [*line.values()] == ["leveldb", 41, 39, 37, 1, 0, 1, 0, 854]


def test_units_that_are_not_indexed_are_a_warning() -> None:
    assert [*graph_warnings(built(CLEAN))] == []
    assert [*graph_warnings(built(DAMAGED))] == [
        "2 of 39 units of leveldb are not indexed, or in part: db/a.cc first, no such header"
    ]
