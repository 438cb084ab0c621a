"""A build's lines about indexes equal the counts of their manifests."""

from dataclasses import replace
from pathlib import Path

from rich.text import Text

from curriculum.inspection.build_tables import changed_lines, graph_warnings, index_lines
from curriculum.stages import Built
from curriculum.store import Artefact
from flows.cli.inspect.documents import examples_of
from schemas.manifest import Manifest
from schemas.reports import (
    CallsReport,
    ChangedLinesReport,
    DatabaseReport,
    DocumentsReport,
    IndexReport,
    UnitProblem,
)

CLEAN = IndexReport(
    database=DatabaseReport(
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
    calls=CallsReport(inside=1, outside=1, dependent=0, unknown=0),
)
DAMAGED = CLEAN.model_copy(
    update={
        "indexed": 37,
        "partial": 1,
        "timed_out": 1,
        "problems": (
            UnitProblem(path="db/a.cc", outcome="partial", reason="no such header"),
            UnitProblem(path="db/b.cc", outcome="timed out", reason="60 seconds"),
        ),
    }
)


def documents(report: DocumentsReport) -> Artefact:
    manifest = built(CLEAN).selection.manifest.model_copy(
        update={
            "stage": "documents",
            "labels": {"repository": "leveldb", "family": "v4_context_graph"},
            "report": report.dump(),
        }
    )
    return Artefact(path=Path("documents"), manifest=manifest)


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
        report=report.dump(),
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
        fixed={"anchor": index},
    )


def test_a_build_says_which_files_count_by_a_further_entry() -> None:
    (warning,) = graph_warnings(
        built(CLEAN.model_copy(update={"replaced": ("db/a.cc", "db/b.cc")}))
    )
    assert "2 files of leveldb" in warning
    assert "db/a.cc" in warning


def test_an_index_says_what_became_of_its_units() -> None:
    (line,) = index_lines(built(DAMAGED))
    assert [*line.values()] == ["leveldb", 41, 39, 37, 1, 0, 1, 0, 854]


def test_units_that_are_not_indexed_are_a_warning() -> None:
    assert [*graph_warnings(built(CLEAN))] == []
    (warning,) = graph_warnings(built(DAMAGED))
    assert warning.startswith("2 of 39 units of leveldb ")
    assert warning.endswith("db/a.cc first, no such header")


def test_a_build_says_which_share_of_changed_lines_no_function_has() -> None:
    report = DocumentsReport(
        documents=3,
        changed_lines=ChangedLinesReport(lines=200, outside_functions=50, outside_symbols=1),
    )
    (line,) = changed_lines(replace(built(CLEAN), documents=(documents(report), documents(report))))
    assert line.startswith("leveldb: ")
    assert ": 25" in line
    assert [*changed_lines(built(CLEAN))] == []


def test_inspect_lists_changed_lines_that_no_symbol_has() -> None:
    report = DocumentsReport(
        changed_lines=ChangedLinesReport(
            lines=200, outside_functions=50, outside_symbols=1, examples=("01:a.c:7: lost(1);",)
        )
    )
    (shown,) = examples_of(documents(report))
    assert isinstance(shown, Text)
    assert "01:a.c:7: lost(1);" in shown.plain
    assert [*examples_of(documents(DocumentsReport()))] == []
