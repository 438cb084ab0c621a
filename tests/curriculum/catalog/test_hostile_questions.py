"""Questions that look for a way out of their process, or for the machine's end: none finds one."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from curriculum.catalog import CatalogError
from curriculum.catalog.page_query import Limits, ask
from curriculum.sandbox import landlock

pytestmark = pytest.mark.skipif(not landlock(), reason="needs Landlock")

SMALL = Limits(seconds=5.0, memory=256 << 20, bytes=1 << 20)
SHORT = replace(SMALL, seconds=1.5)
"""For what computes until its limit."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of nothing, beside a file with a secret."""
    ground = tmp_path_factory.mktemp("ground")
    (ground / "secret.csv").write_text("a\nhunter2\n")
    (ground / "home").mkdir()
    return ground / "home"


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('../secret.csv')",
        "FROM read_csv('{ground}/secret.csv')",
        "FROM '{ground}/secret.csv'",
        "FROM sniff_csv('{ground}/secret.csv')",
        "FROM read_text('/proc/self/environ')",
        "FROM read_blob('/proc/self/maps')",
        "FROM parquet_metadata('{ground}/secret.csv')",
        "FROM parquet_schema('{ground}/secret.csv')",
        "FROM read_csv('file://{ground}/secret.csv')",
        "FROM read_parquet('s3://bucket/x.parquet')",
        "FROM read_csv('https://127.0.0.1:1/x.csv')",
        "FROM st_read('{ground}/secret.csv')",
        "FROM sqlite_scan('{ground}/secret.csv', 'a')",
        "FROM iceberg_scan('{ground}')",
        "FROM which_secret('s3://bucket', 's3')",
        "FROM glob('{ground}/*')",
        "FROM query('INSTALL httpfs')",
        "FROM query('ATTACH ''{ground}/x.duckdb''')",
        "FROM query_table('{ground}/secret.csv')",
    ],
)
def test_nothing_outside_is_read_and_nothing_is_loaded(home: Path, sql: str) -> None:
    found = ""
    try:
        found = str(ask(home, sql.replace("{ground}", str(home.parent)), SMALL).rows)
    except CatalogError as refused:
        found = str(refused).replace(sql, "")
    assert "hunter2" not in found
    assert found == "[]" or "refuses" in found
    assert sorted(each.name for each in home.parent.iterdir()) == ["home", "secret.csv"]


def test_there_is_neither_a_secret_nor_an_extension_from_elsewhere(home: Path) -> None:
    assert ask(home, "SELECT count(*) FROM duckdb_secrets()", SMALL).rows == [(0,)]
    settings = dict(ask(home, "SELECT name, value::VARCHAR FROM duckdb_settings()", SMALL).rows)
    for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
        assert settings[name] == "false"
    assert settings["enable_external_access"] == "false"
    assert settings["lock_configuration"] == "true"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM generate_series(1, 1000000000000)",
        "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t",
        "WITH RECURSIVE t AS (SELECT 'x' AS x UNION ALL SELECT x || x FROM t) SELECT max(len(x)) FROM t",
        "SELECT len(rpad('x', 2000000000, 'y'))",
        "SELECT string_agg(repeat('x', 1000000), '') FROM range(1000000)",
        "SELECT list_sort(range(3000000000))",
        "SELECT regexp_extract_all(repeat('ab', 400000000), '(a|b)')",
        "SELECT count(*) FROM (SELECT md5(range::VARCHAR) AS m FROM range(10000000000)) GROUP BY m",
        "SELECT row_number() OVER (ORDER BY random()) FROM range(10000000000)",
        f"SELECT {'repeat(' * 60}'x'{', 9)' * 60}",
    ],
)
def test_what_has_no_end_ends_within_its_limits(home: Path, sql: str) -> None:
    begin = time.monotonic()
    with pytest.raises(CatalogError, match=r"\d s\b|GiB| Error: "):
        ask(home, sql, SHORT)
    assert time.monotonic() - begin < 60


def test_a_pattern_that_blows_up_elsewhere_is_answered(home: Path) -> None:
    sql = "SELECT regexp_matches(repeat('a', 100000) || '!', '^(a+)+$')"
    assert ask(home, sql, SMALL).rows == [(False,)]


def test_an_answer_of_any_width_keeps_to_its_bytes(home: Path) -> None:
    wide = ", ".join(f"repeat('x', 100000) AS c{number}" for number in range(300))
    assert ask(home, f"SELECT {wide}", SMALL).truncated == "bytes"
