"""`curriculum query` and `shell`: a question of any origin, an answer in any form."""

import json
import re
import subprocess
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from curriculum.store import Recipe, Store
from flows.cli import app
from flows.cli import query as asking
from flows.cli.app import AnswerFormat
from flows.cli.output_files import drafted
from flows.cli.query import query
from schemas.errors import CurriculumError

VALUES = """
    SELECT n, 'name ' || n AS name, n / 4 AS share, n % 2 = 0 AS even, [n, n + 1] AS list,
           {'a': n} AS structure, CASE WHEN n = 1 THEN NULL ELSE n END AS sometimes
    FROM range(3) t(n) ORDER BY n
"""
TYPES = {"share": "DOUBLE", "list": "BIGINT[]", "structure": "STRUCT(a BIGINT)"}
"""Columns of VALUES whose types a reader of CSV doesn't see."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace of one artefact."""
    store = Store(tmp_path / "home")
    recipe = Recipe(stage="indexes", labels=(("repository", "fmt"),), revision=1)
    made = store.produce([recipe], lambda drafts: (drafts[0].path / "a.txt").touch())
    store.mark("it", made)
    return store.root


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Console:
    """Return a console that records output without colours, 140 columns wide."""
    console = Console(record=True, width=140, color_system=None)
    monkeypatch.setattr(asking, "out", console)
    monkeypatch.setattr(asking, "err", console)
    return console


def test_numbers_in_an_answer_stand_right_and_a_wide_answer_leaves_columns_out(
    home: Path, printed: Console
) -> None:
    query(home, "SELECT 'a' AS name, 12 AS n UNION SELECT 'b', 1234 ORDER BY n")
    assert printed.export_text().splitlines()[:3] == ["name      n", "a        12", "b     1,234"]
    wide = ", ".join(f"'{'x' * 30}' AS text{index}" for index in range(20))
    query(home, f"SELECT 1 AS n, {wide}")
    lines = printed.export_text().splitlines()
    assert lines[0].split()[:2] == ["n", "text0"]
    assert "140 columns" in "".join(lines)
    assert "text15 and 4 more" in "".join(lines)


def test_a_long_answer_is_cut_and_says_so(home: Path, printed: Console) -> None:
    query(home, "SELECT * FROM range(10000)")
    said = printed.export_text()
    assert len(said.splitlines()) < 60
    assert "10,000 rows; 9,960 more (--json)" in said


def test_an_answer_of_no_lines_has_its_columns(home: Path, printed: Console) -> None:
    query(home, "SELECT specialist, phase FROM runs")
    assert printed.export_text().splitlines()[0].split() == ["specialist", "phase"]


def test_control_characters_of_an_answer_are_shown_and_never_sent(
    home: Path, printed: Console
) -> None:
    query(home, "SELECT chr(27) || '[31mred' AS text")
    assert r"\x1b[31mred" in printed.export_text()


def test_a_cell_of_several_lines_is_shown_in_one(
    home: Path, printed: Console, tmp_path: Path
) -> None:
    asked = "SELECT 'a' || chr(10) || 'Trusted: b' AS text, 1 AS n"
    query(home, asked)
    assert r"a\nTrusted: b" in printed.export_text()
    file = tmp_path / "answer.txt"
    query(home, asked, form=AnswerFormat.TABLE, file=file)
    _, line = file.read_text().splitlines()
    assert line.split() == [r"a\nTrusted:", "b", "1"]
    query(home, asked, form=AnswerFormat.JSONL, file=file)
    assert json.loads(file.read_text())["text"] == "a\nTrusted: b"


def test_every_form_holds_the_same_answer(home: Path, tmp_path: Path) -> None:
    files = {
        form: tmp_path / f"answer.{form}" for form in AnswerFormat if form is not AnswerFormat.TABLE
    }
    for form, file in files.items():
        query(home, VALUES, form=form, file=file)
    lines = json.loads(files[AnswerFormat.JSON].read_text())
    assert [line["n"] for line in lines] == [0, 1, 2]
    assert lines[1] == {
        "n": 1,
        "name": "name 1",
        "share": 0.25,
        "even": False,
        "list": [1, 2],
        "structure": {"a": 1},
        "sometimes": None,
    }
    jsonl = [json.loads(line) for line in files[AnswerFormat.JSONL].read_text().splitlines()]
    assert jsonl == lines
    assert pq.read_table(files[AnswerFormat.PARQUET]).to_pylist() == lines
    in_csv = duckdb.read_csv(str(files[AnswerFormat.CSV]), dtype=TYPES)
    assert [dict(zip(in_csv.columns, row, strict=True)) for row in in_csv.fetchall()] == lines
    assert sorted(tmp_path.iterdir()) == sorted([home, *files.values()]), "no draft is left"


def test_an_answer_without_lines_is_an_empty_list_in_json(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    query(home, "FROM runs", form=AnswerFormat.JSON)
    assert json.loads(capfdbinary.readouterr().out) == []


def test_numbers_that_are_none_are_null_in_json(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    asked = """
        SELECT 'nan'::DOUBLE AS a, ['-inf'::FLOAT, 1.5] AS b, MAP {'NaN': 'nan'::DOUBLE} AS c,
               {'d': 'inf'::DOUBLE} AS d, 'Infinity, NaN "' AS e
    """
    query(home, asked, form=AnswerFormat.JSONL)
    assert json.loads(capfdbinary.readouterr().out, parse_constant=pytest.fail) == {
        "a": None,
        "b": [None, 1.5],
        "c": {"NaN": None},
        "d": {"d": None},
        "e": 'Infinity, NaN "',
    }


BY_TYPE = {
    "boolean": "true",
    "bigint": "-9223372036854775808",
    "ubigint": "18446744073709551615::UBIGINT",
    "hugeint": "170141183460469231731687303715884105727::HUGEINT",
    "uhugeint": "340282366920938463463374607431768211455::UHUGEINT",
    "float": "0.1::FLOAT",
    "double": "0.1::DOUBLE + 0.2::DOUBLE",
    "wide decimal": "'123456789012345678901234567890123456.78'::DECIMAL(38, 2)",
    "decimal with zeros": "1.10::DECIMAL(10, 2)",
    "decimals in a list": "['123456789012345678901234567890123456.78'::DECIMAL(38, 2)]",
    "sum": "(SELECT sum(range) FROM range(3))",
    "text": "'a, \"b\"' || chr(10) || 'c'",
    "comment": "'# a'",
    "empty text": "''",
    "null": "NULL::VARCHAR",
    "text and null in a list": "['', NULL, 'NULL']",
    "blob": "'\\xAA\\x00a'::BLOB",
    "blobs in a list": "['\\xAA'::BLOB]",
    "bits": "'0101'::BIT",
    "uuid": "'00000000-0000-0000-0000-00000000000a'::UUID",
    "enum": "'b'::ENUM('a', 'b')",
    "json": "'{\"a\": [1, null]}'::JSON",
    "date": "DATE '20000-01-01'",
    "dates in a list": "[DATE '2020-01-02']",
    "timestamp": "TIMESTAMP '2020-01-02 03:04:05.678901'",
    "timestamp in ns": "'2020-01-02 03:04:05.123456789'::TIMESTAMP_NS",
    "timestamp with zone": "TIMESTAMPTZ '2020-01-02 03:04:05+02'",
    "infinite timestamp": "'infinity'::TIMESTAMP",
    "time": "TIME '01:02:03.5'",
    "interval": "INTERVAL '3 days 4 seconds'",
    "list of lists": "[[1], [], NULL]",
    "structure": "{'a': 1, 'b': {'c': ''}}",
    "map": "MAP {'a': 1.5, 'b': NULL}",
    "map by number": "MAP {1: 2}",
    "union": "union_value(a := 'b')",
}
"""An expression for each type of DuckDB's, and for values that writers often get wrong."""


@pytest.mark.parametrize("name", BY_TYPE)
def test_a_value_of_each_type_is_written_as_duckdbs_own_writers_do(
    home: Path, tmp_path: Path, name: str
) -> None:
    asked = f'SELECT {BY_TYPE[name]} AS a, 1 AS "#b, c" UNION ALL SELECT NULL, 2'
    for form, how in (
        (AnswerFormat.CSV, "csv"),
        (AnswerFormat.JSONL, "json"),
        (AnswerFormat.JSON, "json, ARRAY true"),
    ):
        ours, own = tmp_path / f"ours.{form}", tmp_path / f"own.{form}"
        query(home, asked, form=form, file=ours)
        duckdb.execute(f"COPY ({asked}) TO '{own}' (FORMAT {how})")
        if form is AnswerFormat.JSON:
            assert json.loads(ours.read_text()) == json.loads(own.read_text())
        else:
            assert ours.read_bytes() == own.read_bytes()


@pytest.mark.parametrize("name", BY_TYPE)
def test_a_value_of_each_type_is_read_from_csv_as_it_was(
    home: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "answer.csv"
    query(home, f"SELECT {BY_TYPE[name]} AS a, 1 AS b", form=AnswerFormat.CSV, file=file)
    connection = duckdb.connect()
    kind = connection.execute(f"SELECT {BY_TYPE[name]}").description[0][1]
    read = f"read_csv('{file}', all_varchar = true, allow_quoted_nulls = false)"
    asked = f"SELECT CAST(a AS {kind}) IS NOT DISTINCT FROM {BY_TYPE[name]} FROM {read}"
    assert connection.execute(asked).fetchall() == [(True,)]


@pytest.mark.parametrize("name", BY_TYPE)
def test_a_value_of_each_type_can_be_printed_and_written_as_parquet(
    home: Path, tmp_path: Path, name: str
) -> None:
    files = [tmp_path / "answer.parquet", tmp_path / "answer.txt"]
    for form, file in zip((AnswerFormat.PARQUET, AnswerFormat.TABLE), files, strict=True):
        query(home, f"SELECT {BY_TYPE[name]} AS a", form=form, file=file)
    assert pq.read_table(files[0]).num_rows == 1
    shown = files[1].read_text()
    assert not re.search(r"Decimal\(|datetime|UUID\(|(^|\[)b'", shown, re.MULTILINE)


def test_names_that_come_twice_are_told_apart_in_json(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    query(home, "SELECT 1 AS a, 2 AS a", form=AnswerFormat.JSONL)
    assert json.loads(capfdbinary.readouterr().out) == {"a": 1, "a_1": 2}


def test_a_question_that_fails_midway_leaves_no_file(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "answer.csv"
    wrong = "SELECT CASE WHEN range = 500000 THEN 'x' ELSE '1' END::INT FROM range(1000000)"
    with pytest.raises(CurriculumError, match="Could not convert"), drafted(file) as draft:
        query(home, wrong, form=AnswerFormat.CSV, file=draft)
    assert [*tmp_path.iterdir()] == [home]


@pytest.mark.parametrize(
    "words",
    [
        ["SELECT 1 AS one"],
        ["-f", "question.sql"],
        ["-"],
        ["-f", "-"],
        ["SELECT 1 AS one", "--format", "jsonl"],
    ],
    ids=["text", "file", "pipe", "pipe as file", "format"],
)
def test_a_question_comes_from_anywhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "-- How many?\nSELECT 1 AS one; -- one; no more\n"
    Path("question.sql").write_text(text)
    done = CliRunner().invoke(app, ["query", "--home", str(home), "--json", *words], input=text)
    assert (done.exit_code, done.stdout) == (0, '{"one":1}\n'), done.output


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ([], "curriculum query -f query.sql"),
        (["SELECT 1", "-f", "q.sql"], "either a SQL text or --file"),
        (["-f", "none.sql"], "Give a SQL file"),
        (["SELECT 1", "--out", "answer.txt"], "Use the extension .csv"),
        (["SELECT 1; SELECT 2"], "exactly one SELECT"),
        (["FROM rowz"], 'Did you mean "rows"'),
        (["selec 1"], "such as SELECT * FROM runs"),
        (["SELECT famly FROM runs"], "DESCRIBE runs lists its columns"),
    ],
)
def test_a_wrong_question_is_a_line_with_a_cure(home: Path, words: list[str], cure: str) -> None:
    done = CliRunner().invoke(app, ["query", "--home", str(home), *words])
    assert done.exit_code == 2
    assert cure in done.stderr
    assert done.stdout == ""


def test_the_shell_is_duckdbs_with_the_views(curriculum: str, home: Path) -> None:
    asked = "SELECT stage, repository FROM artefacts"
    words = [curriculum, "shell", "--home", str(home), "--", "-csv", "-noheader", "-c", asked]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "indexes,fmt\n"


def test_the_shell_of_no_workspace_says_how_to_begin(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["shell", "--home", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert "curriculum demo" in done.stderr
    assert [*tmp_path.iterdir()] == []
