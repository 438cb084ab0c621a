"""`curriculum query` and `shell`: a question of any origin, an answer in any form."""

import csv
import io
import json
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from curriculum.store import Recipe, Store
from flows.cli import app
from flows.cli import query as asking
from flows.cli.app import Form
from flows.cli.query import query
from schemas.errors import CurriculumError

VALUES = """
    SELECT n, 'name ' || n AS name, n / 4 AS share, n % 2 = 0 AS even, [n, n + 1] AS list,
           {'a': n} AS structure, CASE WHEN n = 1 THEN NULL ELSE n END AS sometimes
    FROM range(3) t(n) ORDER BY n
"""


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
    """What is printed, without colours, 140 columns wide."""
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
    assert "not shown at 140 columns" in "".join(lines)
    assert "text15 and 4 more" in "".join(lines)


def test_a_long_answer_is_cut_and_says_so(home: Path, printed: Console) -> None:
    query(home, "SELECT * FROM range(10000)")
    said = printed.export_text()
    assert len(said.splitlines()) < 60
    assert "10,000 rows; 9,960 more: --json shows all" in said


def test_an_answer_of_no_lines_has_its_columns(home: Path, printed: Console) -> None:
    query(home, "SELECT specialist, phase FROM runs")
    assert printed.export_text().splitlines()[0].split() == ["specialist", "phase"]


def test_control_characters_of_an_answer_are_shown_and_never_sent(
    home: Path, printed: Console
) -> None:
    query(home, "SELECT chr(27) || '[31mred' AS text")
    assert r"\x1b[31mred" in printed.export_text()


def test_every_form_holds_the_same_answer(home: Path, tmp_path: Path) -> None:
    files = {form: tmp_path / f"answer.{form}" for form in Form if form is not Form.TABLE}
    for form, file in files.items():
        query(home, VALUES, form=form, file=file)
    lines = json.loads(files[Form.JSON].read_text())
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
    jsonl = [json.loads(line) for line in files[Form.JSONL].read_text().splitlines()]
    assert jsonl == lines
    assert pq.read_table(files[Form.PARQUET]).to_pylist() == lines
    in_csv = [*csv.DictReader(io.StringIO(files[Form.CSV].read_text()))]
    assert [{name: _read(text) for name, text in line.items()} for line in in_csv] == lines
    assert sorted(tmp_path.iterdir()) == sorted([home, *files.values()]), "no draft is left"


def _read(text: str) -> object:
    """A cell of CSV as the value that it was."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def test_an_answer_without_lines_is_an_empty_list_in_json(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    query(home, "FROM runs", form=Form.JSON)
    assert json.loads(capfdbinary.readouterr().out) == []


def test_numbers_that_are_none_are_null_in_json(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    query(home, "SELECT 'nan'::DOUBLE AS a, [1e400::DOUBLE] AS b, 2::HUGEINT AS c", form=Form.JSONL)
    assert json.loads(capfdbinary.readouterr().out) == {"a": None, "b": [None], "c": 2}


def test_a_question_that_fails_midway_leaves_no_file(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "answer.csv"
    wrong = "SELECT CASE WHEN range = 500000 THEN 'x' ELSE '1' END::INT FROM range(1000000)"
    with pytest.raises(CurriculumError, match="Could not convert"):
        query(home, wrong, form=Form.CSV, file=file)
    assert [*tmp_path.iterdir()] == [home]


def test_a_folder_that_is_not_there_is_a_mistake_with_a_cure(home: Path, tmp_path: Path) -> None:
    with pytest.raises(CurriculumError, match="Create it first"):
        query(home, "FROM runs", form=Form.CSV, file=tmp_path / "none" / "answer.csv")


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
    assert (done.exit_code, done.stdout) == (0, '{"one": 1}\n'), done.output


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ([], "curriculum query -f question.sql"),
        (["SELECT 1", "-f", "q.sql"], "one of both"),
        (["-f", "none.sql"], "Name a file of SQL"),
        (["SELECT 1", "--out", "answer.txt"], "Let it end in .csv"),
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
