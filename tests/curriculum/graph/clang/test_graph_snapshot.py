"""A snapshot comes back from its files as it was, and equal snapshots are equal bytes."""

from dataclasses import replace
from pathlib import Path

import pytest

from curriculum.graph.clang.graph_snapshot import (
    GraphSnapshot,
    IndexedClass,
    IndexedEdge,
    IndexedFunction,
    IndexedInclude,
    digest_of,
    write,
)
from curriculum.graph.facts import Range
from schemas.errors import CorpusError
from schemas.reports import CallsReport, DatabaseReport, EdgeCount, IndexReport, UnitProblem
from tests.error_fields import fields

FUNCTION = IndexedFunction(
    path="src/a.cpp",
    name="at",
    qualified="lattice::Matrix::at",
    kind="method",
    start=3,
    end=40,
    name_start=10,
    body=Range(20, 40),
    body_digest=digest_of(b"{ return 1; }"),
    digest=digest_of(b"at() { return 1; }"),
    parameters=("int", "const Höhe &"),
    min_arity=1,
    max_arity=2,
    is_template=True,
    is_virtual=False,
    is_partial=False,
    is_macro=False,
)
CLASS = IndexedClass(
    path="include/a.hpp",
    name="Matrix",
    qualified="lattice::Matrix",
    kind="class",
    start=0,
    end=90,
    name_start=6,
    digest=digest_of(b"class Matrix {}"),
    is_template=True,
    is_partial=True,
)
REPORT = IndexReport(
    database=DatabaseReport(
        entries=4,
        matched=2,
        duplicates=1,
        missing=1,
        not_understood=0,
        missing_response_files=0,
    ),
    replaced=("b.cc",),
    indexed=1,
    partial=0,
    failed=0,
    timed_out=1,
    crashed=0,
    problems=(UnitProblem(path="src/b.cpp", outcome="timed out", reason="no end after 60 s"),),
    functions=1,
    declarations=1,
    classes=1,
    includes=1,
    edges=(EdgeCount(kind="member", label="resolved", edges=1),),
    calls=CallsReport(inside=1, outside=2, dependent=3, unknown=4),
)
SNAPSHOT = GraphSnapshot(
    functions=(FUNCTION, replace(FUNCTION, body=None, body_digest="", digest="", name_start=50)),
    classes=(CLASS,),
    edges=(IndexedEdge(source=0, target=2, kind="member", label="resolved", candidates=1),),
    includes=(IndexedInclude("src/a.cpp", "include/a.hpp"),),
    report=REPORT,
)


def test_a_snapshot_comes_back_whole(tmp_path: Path) -> None:
    write(tmp_path, SNAPSHOT)
    assert GraphSnapshot.open(tmp_path) == SNAPSHOT
    assert SNAPSHOT.nodes[SNAPSHOT.edges[0].target] == CLASS


def test_an_empty_snapshot_comes_back(tmp_path: Path) -> None:
    empty = GraphSnapshot(functions=(), classes=(), edges=(), includes=(), report=REPORT)
    write(tmp_path, empty)
    assert GraphSnapshot.open(tmp_path) == empty


def test_equal_snapshots_are_equal_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        write(folder, SNAPSHOT)
    first, second = (
        {file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders
    )
    assert len(first) == 5
    assert first == second


@pytest.mark.parametrize("name", ["functions.parquet", "edges.parquet", "report.json"])
@pytest.mark.parametrize("damage", [None, b"", b"{}", b"PAR1"])
def test_a_damaged_snapshot_is_named(tmp_path: Path, name: str, damage: bytes | None) -> None:
    write(tmp_path, SNAPSHOT)
    (tmp_path / name).unlink()
    if damage is not None:
        (tmp_path / name).write_bytes(damage)
    with pytest.raises(CorpusError, check=fields(name=tmp_path)):
        GraphSnapshot.open(tmp_path)
