"""catalog.sql answers as the catalog of this process does, in any client, wherever the workspace lies."""

import csv
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.catalog import macros, open_catalog, publish, query, relations
from curriculum.catalog.snapshot import take
from curriculum.catalog.views import SCHEMAS, connect, needed, sql_type, statements, text_of
from curriculum.store import Recipe, StagingDirectory, Store
from schemas.document import PARTS
from schemas.stages import STAGES, DataTable

CLIENT = Path(sys.executable).with_name("duckdb")


def _lines(kind: DataTable, number: int) -> pa.Table:
    """So many lines of a kind of data; lists are empty."""
    blank = {field.name: _blank(field.type) for field in kind.schema}
    return pa.Table.from_pylist([blank] * number, schema=kind.schema)


def _blank(kind: pa.DataType) -> object:
    if pa.types.is_nested(kind):
        return []
    return "k" if _is_text(kind) else pa.types.is_boolean(kind) or 1


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two artefacts of every kind of data; its name needs quoting."""
    store = Store(tmp_path_factory.mktemp("it's") / "a home")
    made = []
    for stage, kind in ((one, table) for one in STAGES.values() for table in one.tables):
        name = kind.prefix.rstrip(".-/")
        file = f"{name}/1.parquet" if kind.prefix.endswith("/") else f"{name}.parquet"
        file = f"{PARTS}00000.parquet" if kind.prefix == PARTS else file
        for number in (1, 2):
            recipe = Recipe(
                stage=stage.name,
                labels=(("corpus", f"{kind.name}-{number}"),),
                revision=1,
                config={"kind": kind.name, "number": number},
            )

            def fill(
                drafts: list[StagingDirectory],
                kind: DataTable = kind,
                number: int = number,
                file: str = file,
            ) -> None:
                (drafts[0].path / file).parent.mkdir(exist_ok=True)
                pq.write_table(_lines(kind, number), drafts[0].path / file)

            made += store.produce([recipe], fill)  # type: ignore[arg-type]
    store.mark("everything", made)
    return store.root


def _names(home: Path) -> list[str]:
    return [each.name for each in relations(open_catalog(home))]


def _counts(home: Path) -> str:
    """The number of lines of every view and table, as one question."""
    return " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS lines FROM {name}" for name in _names(home)
    )


def _in_client(home: Path, sql: str) -> list[list[str]]:
    """The answer of DuckDB's command line, started in the workspace."""
    assert CLIENT.is_file()
    done = subprocess.run(
        [CLIENT, "-init", "catalog.sql", "-csv", "-noheader", "-c", sql],
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Error" not in done.stderr
    return [*csv.reader(done.stdout.splitlines())]


def test_every_kind_of_data_has_lines_here(home: Path) -> None:
    counted = dict(query(home, _counts(home)).rows)
    for view in ("documents", "selection", "rows", "mixture_rows", "left_out", "metrics"):
        assert counted[view] == 3, view


def test_the_command_line_of_duckdb_answers_as_this_process(home: Path) -> None:
    open_catalog(home)
    asked = _counts(home)
    here = [[str(value) for value in row] for row in query(home, asked).rows]
    assert here == _in_client(home, asked)


def test_the_two_are_of_different_versions_and_both_are_supported(home: Path) -> None:
    ((there,),) = _in_client(home, "SELECT version()")
    assert there.startswith("v1.5")
    assert duckdb.__version__.startswith(("1.5", "2."))


def test_a_workspace_that_was_moved_still_answers(home: Path, tmp_path: Path) -> None:
    publish(home)
    moved = tmp_path / "elsewhere"
    shutil.copytree(home, moved)
    assert _in_client(moved, _counts(home)) == _in_client(home, _counts(home))
    assert str(home) not in (moved / "catalog.sql").read_text()


def test_the_script_is_written_when_something_is_published_and_only_then(home: Path) -> None:
    file = publish(home)
    assert file == home / "catalog.sql"
    before = file.stat().st_mtime_ns
    publish(home)
    open_catalog(home)
    assert file.stat().st_mtime_ns == before
    file.unlink()
    open_catalog(home)
    assert file.is_file()


def test_a_cursor_of_a_catalog_has_its_views(home: Path) -> None:
    cursor = open_catalog(home).cursor()
    assert cursor.execute("SELECT count(*) FROM documents").fetchone() == (3,)


# Only what a question names


def test_every_statement_of_the_files_is_known_by_its_name() -> None:
    texts = [text_of(subject) for subject in ("tables", "views", "lineage", "mixing", "names")]
    made = sum(text.count("\nCREATE ") for text in texts)
    assert made > 40
    assert len([each for each in statements() if each.makes]) >= made


def test_each_view_alone_answers_as_among_all(home: Path) -> None:
    whole = open_catalog(home)
    for name in _names(home):
        answer = query(home, f"FROM {name}")
        found = whole.execute(f"FROM {name}")
        assert answer.columns == tuple(column[0] for column in found.description or ()), name
        assert len(answer.rows) == len(found.fetchall()), name


def _calls(home: Path) -> list[str]:
    """Each view and table, and each macro with nothing as its parameters, as what FROM takes."""
    called = [
        f"{each.name}({', '.join(['NULL'] * len(each.columns))})"
        for each in macros()
        if each.name != "is_way"
    ]
    assert "consumers(NULL)" in called
    return [*_names(home), *called]


def test_what_a_name_rests_on_is_made_with_it_at_once(home: Path) -> None:
    for call in _calls(home):
        with closing(connect(take(home), f"FROM {call}")) as alone:
            assert alone.execute(f"DESCRIBE FROM {call}").fetchall(), call


def test_a_question_makes_little_and_one_about_the_catalog_all() -> None:
    assert {each.name for each in needed("SELECT count(*) FROM Artefacts")} == {"artefacts"}
    runs = {each.name for each in needed("FROM runs")}
    assert runs == {"runs", "attempts", "artefacts", "places", "marks"}
    assert {each.name for each in needed("FROM documents")} == {"documents", "artefacts", "data"}
    assert len(needed("SHOW TABLES")) == len(statements())
    assert len(needed("SELECT view_name FROM duckdb_views()")) == len(statements())


def test_a_name_that_is_not_spelt_out_is_found_all_the_same(home: Path) -> None:
    asked = "SELECT count(*) FROM query_table('docu' || 'ments')"
    assert query(home, asked).rows == [(3,)]


def test_types_are_duckdbs_own() -> None:
    """The text of a type is what DuckDB makes of the same Arrow type."""
    connection = duckdb.connect()
    assert SCHEMAS
    for name, schema in SCHEMAS.items():
        connection.register("given", schema.empty_table())
        columns = ", ".join(f'NULL::{sql_type(each.type)} AS "{each.name}"' for each in schema)
        ours = connection.execute(f"DESCRIBE SELECT {columns}").fetchall()
        theirs = connection.execute("DESCRIBE given").fetchall()
        assert [line[:2] for line in ours] == [line[:2] for line in theirs], name
        connection.unregister("given")
