"""Whatever a page is asked, nothing is written, nothing else is read, and it ends."""

import datetime
import decimal
import doctest
import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.catalog import CatalogError, open_catalog, page_query, page_query_process
from curriculum.catalog.page_query import Limits, ask
from curriculum.catalog.refusals import ELSEWHERE, refusal
from curriculum.catalog.snapshot import take
from curriculum.catalog.views import script
from curriculum.sandbox import landlock
from curriculum.store import Recipe, StagingDirectory, Store
from schemas.document import DOCUMENT_SCHEMA
from tests.factories import shard_path

pytestmark = pytest.mark.skipif(
    not landlock(),
    reason="needs Landlock: Linux 5.13 or newer with it in /sys/kernel/security/lsm",
)

GATE = duckdb.connect()
ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range < b.range"
Tree = dict[str, tuple[int, int, int]]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a workspace, its neighbour, and somebody's notes."""
    ground = tmp_path_factory.mktemp("ground")
    store = Store(ground / "it's home")
    documents = pa.Table.from_pylist(
        [{"document_id": f"d{number}", "num_bytes": number} for number in range(3)],
        schema=pa.schema([DOCUMENT_SCHEMA.field(name) for name in ("document_id", "num_bytes")]),
    )

    def fill(drafts: list[StagingDirectory]) -> None:
        pq.write_table(documents, shard_path(drafts[0].path))

    labels = (("family", "v2_simple"), ("repository", "fmt"))
    made = store.produce([Recipe(stage="documents", labels=labels, revision=1)], fill)  # type: ignore[arg-type]
    store.mark("everything", made)
    (ground / "it's home_evil").mkdir()
    (ground / "it's home_evil" / "x.parquet").write_bytes(made[0].shards()[0].read_bytes())
    (ground / "notes.txt").write_text("secret")
    (store.root / "job.json").write_text('{"key": "secret"}')
    (store.root / "documents" / "out.txt").symlink_to(ground / "notes.txt")
    (store.root / "documents" / "out").symlink_to(ground)
    take(store.root)
    return ground


@pytest.fixture
def home(ground: Path) -> Iterator[Path]:
    """The workspace, which is afterwards as it was before, and so is all around it."""
    before = _tree(ground)
    yield ground / "it's home"
    assert _tree(ground) == before


def _tree(folder: Path) -> Tree:
    return {
        str(file): (file.lstat().st_size, file.lstat().st_mtime_ns, file.lstat().st_mode)
        for file in sorted(folder.rglob("*"))
    }


def _refusal(home: Path, sql: str, limits: Limits | None = None) -> CatalogError:
    with pytest.raises(CatalogError) as caught:
        ask(home, sql, limits)
    return caught.value


def test_a_question_is_answered_with_names_types_values_and_how_it_was_confined(home: Path) -> None:
    reply = ask(
        home,
        "-- of each\nSELECT repository, sum(num_bytes) AS bytes FROM documents GROUP BY ALL; -- !",
    )
    assert (reply.columns, reply.types) == (("repository", "bytes"), ("VARCHAR", "HUGEINT"))
    assert reply.rows == [("fmt", 3)]
    assert reply.truncated == ""
    assert reply.landlock == landlock() > 0
    assert 0 < reply.seconds < 60


def test_views_can_be_listed_and_described(home: Path) -> None:
    assert ("documents",) in ask(home, "SHOW TABLES").rows
    assert "num_bytes" in {row[0] for row in ask(home, "DESCRIBE documents").rows}
    assert ask(home, "FROM documents SELECT count(*)").rows == [(3,)]


VALUES = {
    "1::UHUGEINT": "1",
    "sum(2)": 2,
    "1.50::DECIMAL(9, 2)": decimal.Decimal("1.50"),
    "INTERVAL 1 DAY": "1 day",
    "'0101'::BIT": "0101",
    "DATE '2026-11-21'": datetime.date(2026, 11, 21),
    "[1, NULL]": [1, None],
    "{'a': 1}": {"a": 1},
    "NULL": None,
    "'\xe9'": "é",
    "uuid()::VARCHAR = ''": False,
}


def test_values_of_all_kinds_come_as_python_has_them_or_as_text(home: Path) -> None:
    reply = ask(home, f"SELECT {', '.join(VALUES)}")
    assert reply.rows == [tuple(VALUES.values())]
    far = ask(home, 'SELECT TIMESTAMP \'290000-01-01\' AS then, 1 AS "a ""b", 2 AS then')
    assert len(far.columns) == 3
    assert isinstance(far.rows[0][0], str)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("[DATE '290000-01-01', NULL]", "[290000-01-01, NULL]"),
        ("[TIMESTAMP '290000-01-01']", "['290000-01-01 00:00:00']"),
        ("{'a': DATE '290000-01-01'}", "{'a': 290000-01-01}"),
        ("MAP {1: DATE '290000-01-01'}", "{1=290000-01-01}"),
        ("[DATE '2026-11-21']", [datetime.date(2026, 11, 21)]),
    ],
)
def test_what_python_has_no_value_for_is_text_within_lists_too(
    home: Path, value: str, shown: object
) -> None:
    assert ask(home, f"SELECT {value} AS x, 1 AS y").rows == [(shown, 1)]


def test_order_is_kept_through_the_wrapping(home: Path) -> None:
    sql = "SELECT hash(range) AS h FROM range(200000) ORDER BY h DESC"
    hashes = [row[0] for row in ask(home, sql, Limits(rows=5000)).rows]
    assert len(hashes) == 5000
    assert hashes == sorted(hashes, reverse=True)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("COPY (SELECT 1) TO 'x.csv'", "COPY"),
        ("SELECT 1; COPY (SELECT 1) TO 'x.csv'", "SELECT, COPY"),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO 'x.csv'", "EXPLAIN"),
        ("EXPORT DATABASE 'x'", "EXPORT"),
        ("ATTACH 'x.duckdb'", "ATTACH"),
        ("CREATE TABLE t AS SELECT 1", "CREATE"),
        ("INSERT INTO t SELECT 1", "INSERT"),
        ("INSTALL httpfs", "LOAD"),
        ("LOAD httpfs", "LOAD"),
        ("SET temp_directory = 'x'", "SET"),
        ("RESET allowed_paths", "SET"),
        ("SET VARIABLE x = 1", "SET"),
        ("PRAGMA enable_profiling = 'json'", ""),
        ("CALL enable_logging('QueryLog', storage = 'file')", "CALL"),
        ("PREPARE p AS COPY (SELECT 1) TO 'x.csv'", "PREPARE"),
        ("EXECUTE p", "EXECUTE"),
        ("CHECKPOINT", ""),
        ("PIVOT t ON a", "MULTI"),
        ("BEGIN", "TRANSACTION"),
        (" -- nothing", "nothing"),
        ("", "nothing"),
    ],
)
def test_only_one_select_passes_the_gate(sql: str, what: str) -> None:
    with pytest.raises(page_query_process.RefusedError) as refused:
        page_query_process.gated(GATE, sql)
    assert refused.value.kind == "gate"
    assert what in str(refused.value)


@given(
    st.lists(
        st.sampled_from(["SELECT ';'", "'é;'", ";", " ", "\n", "-- ;\n", "/* ; */"]), max_size=6
    )
)
def test_the_gate_cuts_no_more_than_the_end(parts: list[str]) -> None:
    sql = f"SELECT 1 AS a {''.join(parts)}"
    try:
        kept = page_query_process.gated(GATE, sql)
    except (page_query_process.RefusedError, duckdb.Error):
        return
    assert sql.startswith(kept)
    whole = GATE.execute(sql).fetchall()
    assert GATE.execute(f"SELECT * FROM (\n{kept}\n)").fetchall() == whole


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{data}' (FORMAT parquet, USE_TMP_FILE false)",
        "WITH t AS (COPY (SELECT 1) TO 'x.csv') SELECT 1",
        "SELECT * FROM (WITH t AS (COPY (SELECT 1) TO 'x.csv') SELECT 1)",
        "SELECT 1) LIMIT 1; COPY (SELECT 1) TO 'x.csv'; SELECT * FROM (SELECT 1",
        "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_path = 'x')",
        "SELECT * FROM query('COPY (SELECT 1) TO ''x.csv''')",
    ],
)
def test_no_way_to_write_is_open(home: Path, sql: str) -> None:
    data = next((home / "documents").rglob("part-*.parquet"))
    refused = _refusal(home, sql.replace("{data}", str(data)))
    assert refused.value
    assert refused.cure


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_text('job.json')",
        "SELECT * FROM read_json('{home}/job.json')",
        "SELECT * FROM read_blob('{manifest}')",
        "SELECT * FROM '../notes.txt'",
        "SELECT * FROM read_text('documents/out.txt')",
        "SELECT * FROM read_text('documents/out/notes.txt')",
        "SELECT * FROM read_parquet('{home}_evil/x.parquet')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM glob('**')",
        "SELECT * FROM read_parquet('http://127.0.0.1:1/x.parquet')",
        "SELECT getenv('HOME')",
        "SELECT * FROM wish",
        "SELECT * FROM duckdb_extensions()",
    ],
)
def test_nothing_but_the_data_of_the_snapshot_can_be_read(home: Path, sql: str) -> None:
    manifest = next((home / "documents").rglob("manifest.json"))
    refused = _refusal(home, sql.replace("{home}", str(home)).replace("{manifest}", str(manifest)))
    assert " Error: " in str(refused.value)
    assert "secret" not in str(refused)


def test_duckdb_by_itself_reads_writes_and_goes_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of what is refused here."""
    monkeypatch.chdir(home)
    with duckdb.connect() as plain:
        for file in ("job.json", "../notes.txt", "documents/out.txt", "documents/out/notes.txt"):
            read = plain.execute(f"SELECT content FROM read_text('{file}')").fetchone()
            assert "secret" in str(read)
        plain.execute(f"COPY (SELECT 1) TO '{tmp_path}/x.csv'")
        assert (tmp_path / "x.csv").is_file()
    code = f"import duckdb; duckdb.execute({ENDLESS!r}).fetchall()"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", code], timeout=3, check=False)


def test_a_refusal_keeps_the_candidates_and_the_line_that_is_pointed_at(home: Path) -> None:
    refused = _refusal(home, "SELECT num_byte\nFROM documents")
    assert '"num_bytes"' in refused.cure
    assert "DESCRIBE documents" in refused.cure
    refused = _refusal(home, "SELECT 1\nFORM documents x")
    assert "\nLINE 2: FORM documents" in str(refused.value)


def test_an_answers_own_name_in_place_of_a_column_is_said_to_be_no_column(home: Path) -> None:
    cure = _refusal(home, "SELECT family, sum(tokens) AS tokens FROM documents GROUP BY 1").cure
    assert "tokens, and the answer's own name" in cure
    assert "DESCRIBE documents" in cure


@pytest.mark.parametrize(("columns", "views", "source"), ELSEWHERE)
def test_a_column_that_another_view_has_is_refused_with_what_to_read_for_it(
    home: Path, tmp_path: Path, columns: str, views: tuple[str, ...], source: str
) -> None:
    named = columns.split()
    with closing(open_catalog(shutil.copytree(home, tmp_path / "home", symlinks=True))) as catalog:
        for column, view in itertools.product(named, views):
            sql = f"SELECT x.{column} FROM {view} AS x"
            with pytest.raises(duckdb.Error) as refused:
                catalog.execute(sql)
            cure = refusal("question", sql, str(refused.value)).cure
            assert f"FROM {source} has {column}" in cure
    assert _refusal(home, sql).cure == cure
    assert ask(home, f"SELECT {', '.join(named)} FROM {source}").columns == tuple(named)


def test_settings_tell_nothing_but_where_the_data_lies(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    rows = ask(home, "SELECT name, value::VARCHAR FROM duckdb_settings()").rows
    told = " ".join(f"{name}={value}" for name, value in rows)
    assert "part-00000.parquet" in told
    for secret in ("hunter2", f"{Path.home()}/", sys.prefix):
        assert secret not in told.replace(str(home.parent), "")


def test_what_is_endless_ends_in_time(home: Path) -> None:
    refused = _refusal(home, ENDLESS, Limits(seconds=0.5))
    assert "0.5 s" in refused.cause
    assert "curriculum query" in refused.cure


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(range) FROM range(10000000000)",
        "SELECT len(repeat('x', 4000000000::BIGINT))",
        "SELECT count(DISTINCT hash(range)) FROM range(1000000000)",
    ],
)
def test_what_is_huge_ends_with_its_memory(home: Path, sql: str) -> None:
    refused = _refusal(home, sql, Limits(memory=64 << 20, seconds=60))
    assert "0.0625 GiB" in refused.cause


def test_rows_beyond_the_limit_are_left_out_and_that_is_told(home: Path) -> None:
    assert ask(home, "FROM range(10)", Limits(rows=10)).truncated == ""
    cut = ask(home, "FROM range(11)", Limits(rows=10))
    assert (cut.truncated, len(cut.rows)) == ("rows", 10)
    endless = "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT x FROM t"
    assert ask(home, endless, Limits(rows=3)).rows == [(1,), (2,), (3,)]


def test_bytes_beyond_the_limit_are_left_out_and_that_is_told(home: Path) -> None:
    cut = ask(home, "SELECT repeat('x', 1000000) FROM range(100)", Limits(bytes=5_500_000))
    assert (cut.truncated, len(cut.rows)) == ("bytes", 5)
    nothing = ask(home, "SELECT repeat('x', 1000000)", Limits(bytes=1000))
    assert (nothing.truncated, nothing.rows) == ("bytes", [])


@given(
    widths=st.lists(st.integers(0, 400), max_size=40),
    rows=st.integers(0, 50),
    most=st.integers(0, 6000),
    batch=st.integers(1, 16),
)
def test_what_is_written_is_a_prefix_and_whole_unless_told_otherwise(
    widths: list[int], rows: int, most: int, batch: int
) -> None:
    texts = ["x" * width for width in widths]
    batches = pa.table({"a": pa.array(texts, pa.string())}).to_batches(max_chunksize=batch)
    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.string())]), batches)
    body, truncated = page_query_process.written(reader, rows, most)
    kept = pa.ipc.open_stream(body).read_all()["a"].to_pylist()
    assert kept == texts[: len(kept)]
    assert len(kept) <= rows
    if not truncated:
        assert kept == texts
    if truncated == "rows":
        assert (len(kept), len(texts) > rows) == (rows, True)
    if truncated == "bytes":
        assert sum(widths) + 5000 > most


def test_what_goes_wrong_midway_is_told_like_what_goes_wrong_at_once(home: Path) -> None:
    late = "SELECT CASE WHEN range = 5000 THEN 'x' ELSE '1' END::INTEGER FROM range(9000)"
    found = str(_refusal(home, f"-- late\n{late}").value)
    assert found.startswith("Conversion Error: ")
    assert "\nLINE 2: SELECT CASE" in found
    wide = "SELECT repeat('x', CASE WHEN range < 5000 THEN 1 ELSE 1500000000 END) FROM range(6000)"
    assert "GiB" in _refusal(home, wide, Limits(memory=64 << 20)).cause


def test_sentences_name_what_is_wrong_and_where(home: Path) -> None:
    assert "LINE 2: FORM documents" in str(_refusal(home, "SELECT 1\nFORM documents"))
    assert '"documents"' in _refusal(home, "SELECT * FROM documentz").cure
    assert _refusal(home, "SELECT 1; SELECT 2").value == "SELECT, SELECT"
    assert "\n" not in str(_refusal(home, "SELECT foo FROM documents").cause)


def test_depth_and_length_of_a_question_harm_nobody(home: Path) -> None:
    deep = f"SELECT {'(' * 20_000}1{')' * 20_000}"
    assert "depth" in str(_refusal(home, deep).value)
    assert ask(home, f"SELECT {'1, ' * 500}1 -- {'x' * 200_000}").columns[0] == "1"


def test_an_empty_workspace_and_none_at_all_have_the_same_views(tmp_path: Path) -> None:
    assert ask(tmp_path, "SELECT count(*) FROM documents").rows == [(0,)]
    assert ask(tmp_path / "none", "SELECT count(*) FROM artefacts").rows == [(0,)]


def test_several_questions_are_answered_at_once(home: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        replies = pool.map(lambda number: ask(home, f"SELECT {number}"), range(2))
        assert [reply.rows for reply in replies] == [[(0,)], [(1,)]]


def test_text_that_is_no_text_is_refused_or_answered(home: Path) -> None:
    assert ask(home, "SELECT '\ud800'").rows == [("?",)]
    assert " Error: " in str(_refusal(home, "SELECT 1 \0 FROM").value)


def test_the_kernel_stops_what_duckdb_would_let_through(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before external access is off, DuckDB opens whatever it is asked to."""
    data = next((home / "documents").rglob("part-*.parquet"))
    for more in (
        "COPY (SELECT 1) TO 'x.csv'",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        f"COPY (SELECT 1) TO '{str(data).replace(chr(39), chr(39) * 2)}' (USE_TMP_FILE false)",
        "CREATE TABLE t AS FROM read_text('/etc/passwd')",
        "CREATE TABLE t AS FROM read_text('job.json')",
        "ATTACH 'x.duckdb'; CREATE TABLE x.t AS SELECT 1; CHECKPOINT x",
    ):
        monkeypatch.setattr(
            page_query, "script", lambda *a, more=more, **k: f"{script(*a, **k)};\n{more}"
        )
        refused = _refusal(home, "SELECT 1")
        assert "Permission denied" in str(refused), more


def test_without_landlock_nothing_is_asked_and_the_cure_is_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = tmp_path / "page_query_process.py"
    off = "from curriculum import sandbox\nsandbox.landlock = lambda: 0\n"
    without.write_text(off + Path(page_query_process.__file__).read_text())
    monkeypatch.setattr(page_query, "_SCRIPT", without)
    refused = _refusal(home, "SELECT 1")
    assert refused.name == "Landlock"
    assert "curriculum query" in refused.cure


def test_a_process_that_dies_is_told_as_a_sentence(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "page_query_process.py"
    monkeypatch.setattr(page_query, "_SCRIPT", dying)
    dying.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert "SIGSEGV" in _refusal(home, "SELECT 1").cause
    dying.write_text("raise SystemExit(3)\n")
    assert "code 3" in _refusal(home, "SELECT 1").cause


def test_a_module_that_lies_in_the_workspace_is_never_run(home: Path, tmp_path: Path) -> None:
    there = tmp_path / "home"
    shutil.copytree(home, there, symlinks=True)
    for name in ("duckdb", "pyarrow", "json", "sitecustomize"):
        (there / f"{name}.py").write_text("raise SystemExit(9)\n")
    assert ask(there, "SELECT count(*) FROM documents").rows == [(3,)]


def test_examples_hold() -> None:
    done = doctest.testmod(page_query_process)
    assert (done.failed, done.attempted > 0) == (0, True)
