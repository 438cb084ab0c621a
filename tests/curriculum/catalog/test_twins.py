"""Artefacts with the same key in several folders stay distinct: attempts, and equal specialists."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from curriculum.catalog import open_catalog
from curriculum.store import Store, garbage
from curriculum.store.marks import marks_text, read_mark
from tests.sealing import sealed

PHASE = "specialist-templates/branch-demo/phase-syntax"
TWIN = "specialist-twin/branch-demo/phase-syntax"


def _link(source: str, target: str) -> str:
    os.link(source, target)
    return target


def _edit(file: Path, changes: Mapping[str, Any]) -> None:
    content = json.loads(file.read_text())
    for name, value in changes.items():
        content[name] = {**content[name], **value} if isinstance(value, dict) else value
    file.unlink()
    file.write_text(sealed(content))


def _of_another(run: Path, changes: Mapping[str, Any]) -> None:
    """Job and report say something else, and the manifest how long they are."""
    for name in ("job.json", "report.json"):
        _edit(run / name, changes)
    files = json.loads((run / "manifest.json").read_text())["files"]
    for each in files:
        each["num_bytes"] = (run / each["name"]).stat().st_size
    _edit(run / "manifest.json", {"files": files, "report": changes})


@pytest.fixture(scope="module")
def home(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, where syntax was tried twice and another specialist has the same first phase."""
    home = tmp_path_factory.mktemp("twins") / "workspace"
    shutil.copytree(
        demo_home,
        home,
        copy_function=_link,
        ignore=shutil.ignore_patterns("catalog*", "prefect", "slots"),
    )
    (plan,) = (home / "mixtures" / PHASE).iterdir()
    (run,) = (home / "runs" / PHASE).iterdir()
    for stage, source in (("mixtures", plan), ("runs", run)):
        other = home / stage / TWIN / source.name
        shutil.copytree(source, other, copy_function=_link)
        parts = [each for each in other.rglob("manifest.json") if "checkpoints" not in each.parts]
        for manifest in parts:
            _edit(manifest, {"labels": {"specialist": "twin"}})
        (home / "current" / f"{stage}+twin@demo+syntax.txt").write_text(
            marks_text([str(parts[0].parent.relative_to(home))])
        )
    twin = home / "runs" / TWIN / run.name / "attempt=1"
    _of_another(twin, {"specialist": "twin"})
    again = run / "attempt=2"
    shutil.copytree(run / "attempt=1", again, copy_function=_link)
    _of_another(again, {"attempt": 2})
    (mark,) = (home / "current").glob("runs+templates*syntax.txt")
    paths = [each.replace("attempt=1", "attempt=2") for each in read_mark(mark)]
    mark.unlink()
    mark.write_text(marks_text(paths))
    return home


@pytest.fixture(scope="module")
def catalog(home: Path) -> duckdb.DuckDBPyConnection:
    return open_catalog(home)


def _one(catalog: duckdb.DuckDBPyConnection, sql: str) -> Any:
    found = catalog.execute(sql).fetchone()
    assert found
    return found[0] if len(found) == 1 else found


def test_each_phase_of_each_specialist_has_one_line(catalog: duckdb.DuckDBPyConnection) -> None:
    found = catalog.execute(
        "SELECT specialist, attempt FROM status WHERE phase = 'syntax' ORDER BY ALL"
    ).fetchall()
    assert found == [("templates/demo", 2), ("twin/demo", 1)]
    assert _one(catalog, "SELECT count(*) FROM status") == 6


def test_a_phase_that_lies_with_another_specialist_is_of_whom_the_marks_say(
    home: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(home, workspace, copy_function=_link)
    for stage in ("mixtures", "runs"):
        (mark,) = (workspace / "current").glob(f"{stage}+twin@*.txt")
        lines = [line.replace(TWIN, PHASE) for line in read_mark(mark)]
        mark.unlink()
        mark.write_text(marks_text(lines))
        shutil.rmtree(workspace / stage / "specialist-twin")
    catalog = open_catalog(workspace)
    found = catalog.execute(
        "SELECT specialist, phase, steps, starts_with(run, $1) FROM status "
        "WHERE specialist <> 'templates/demo'",
        [f"runs/{PHASE}"],
    ).fetchall()
    ours = "SELECT steps FROM status WHERE specialist = 'templates/demo' AND phase = 'syntax'"
    assert found == [("twin/demo", "syntax", _one(catalog, ours), True)]
    assert _one(catalog, "SELECT count(*) FROM consumed('twin/demo/syntax', 3)") > 0
    assert _one(
        catalog, "SELECT sum(realised_share) FROM planned_vs_realised('twin/demo', 'syntax')"
    ) == pytest.approx(1)


def test_a_metric_and_a_planned_row_stand_once(catalog: duckdb.DuckDBPyConnection) -> None:
    for view, number in (("metrics", "(run, step)"), ("mixture_rows", "(mixture, position)")):
        lines, distinct = _one(
            catalog,
            f"SELECT count(*), count(DISTINCT {number}) FROM {view} WHERE phase = 'syntax'",
        )
        assert lines == distinct > 40


def test_a_step_read_its_rows_once_whoever_is_alike(catalog: duckdb.DuckDBPyConnection) -> None:
    for run in ("templates/demo/syntax", "twin/demo/syntax"):
        rows, lines = _one(
            catalog,
            "SELECT count(DISTINCT position), count(DISTINCT (position, doc)) "
            f"FROM consumed('{run}', 3)",
        )
        whole = _one(
            catalog,
            "SELECT sum(tokens) FROM (SELECT DISTINCT position, doc, tokens, run "
            f"FROM consumed('{run}', 3))",
        )
        valid = _one(
            catalog,
            "SELECT sum(valid_tokens) FROM (SELECT DISTINCT position, valid_tokens "
            f"FROM consumed('{run}', 3))",
        )
        assert 0 < rows <= lines
        assert whole == valid


def test_each_run_goes_on_from_the_one_attempt_that_it_read(
    catalog: duckdb.DuckDBPyConnection,
) -> None:
    found = catalog.execute(
        "SELECT phase, before, back FROM ancestry WHERE run LIKE '%phase-anneal%' ORDER BY back DESC"
    ).fetchall()
    assert next(phase for phase, _, _ in found) == "syntax"
    assert len(found) == 5
    assert found[0][1].endswith("attempt=1")
    assert PHASE in found[0][1]


def test_planned_shares_sum_to_one_for_each(catalog: duckdb.DuckDBPyConnection) -> None:
    for specialist in ("templates", "twin"):
        planned, realised = _one(
            catalog,
            "SELECT sum(planned_share), sum(realised_share) "
            f"FROM planned_vs_realised('{specialist}/demo', 'syntax')",
        )
        assert planned == pytest.approx(1)
        assert realised == pytest.approx(1)


def test_gc_keeps_what_each_mark_names(home: Path) -> None:
    store = Store(home, dry=True)
    dead = {each.path for each in garbage(store)}
    (run,) = (home / "runs" / PHASE).iterdir()
    (twin,) = (home / "runs" / TWIN).iterdir()
    assert not dead & {run / "attempt=2", twin / "attempt=1"}
    # What the next phase read has the contents of all three here.
    assert run / "attempt=1" not in dead
