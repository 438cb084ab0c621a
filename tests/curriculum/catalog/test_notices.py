"""An answer over a damaged workspace says so, and so does one to a question about a name of nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from curriculum.catalog import notices, query
from curriculum.catalog.page_query import Reply, ask
from curriculum.sandbox import landlock
from curriculum.store import Store
from dashboards import sql_panels
from flows.cli import app
from tests.curriculum.catalog.branched import write_branched
from tests.flows.tiny_workspace import TinyWorkspace, mixture

SYNTAX = "specialist-templates/branch-wide/phase-syntax"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("branched") / "home"
    write_branched(home)
    return home


@pytest.fixture
def home(written: Path, tmp_path: Path) -> Path:
    """A workspace to damage."""
    return Path(shutil.copytree(written, tmp_path / "home"))


def _one(home: Path, pattern: str) -> Path:
    return next(iter(sorted(home.glob(pattern))))


def _asked(home: Path, sql: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["query", sql, "--home", str(home), *words])


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _turn(file: Path, text: str) -> None:
    content = file.read_text()
    assert text in content
    file.write_text(content.replace(text, text.swapcase(), 1))


def _without_footer(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8] + bytes(8))


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a manifest that is cut": (f"mixtures/{SYNTAX}/*/manifest.json", _cut),
    "a manifest with another letter": (
        f"mixtures/{SYNTAX}/*/manifest.json",
        lambda file: _turn(file, "templates"),
    ),
    "a manifest that is gone": ("rows/**/manifest.json", Path.unlink),
    "a report that is cut": (f"runs/{SYNTAX}/**/report.json", _cut),
    "a job with another letter": (
        f"runs/{SYNTAX}/**/job.json",
        lambda file: _turn(file, "templates"),
    ),
    "a file that is cut": ("documents/**/part-*.parquet", _cut),
    "a file without its footer": ("rows/**/part-*.parquet", _without_footer),
    "a file that is gone": (f"mixtures/{SYNTAX}/**/plan.parquet", Path.unlink),
    "a status that is cut": ("current/status.parquet", lambda file: file.write_bytes(b"PAR1")),
    "a gate that is no JSON": ("gates/a.json", lambda file: file.write_text("{")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_every_answer_over_a_damaged_workspace_says_so_and_strict_refuses(
    home: Path, name: str
) -> None:
    pattern, damage = DAMAGE[name]
    if "*" not in pattern:
        (home / pattern).parent.mkdir(exist_ok=True)
        (home / pattern).touch()
    damage(_one(home, pattern))
    for sql in ("SELECT 1 AS one", "SELECT count(*) AS one FROM rows"):
        done = _asked(home, sql, "--json")
        assert done.exit_code == 0
        (line,) = done.stderr.splitlines()
        row, last = map(json.loads, done.stdout.splitlines())
        assert row.keys() == {"one"}
        assert last == {"notices": [line]}
        assert pattern.split("/")[0] in line, line
        assert len(json.loads(_asked(home, sql, "--format", "json").stdout)) == 2
        for form in ("table", "csv"):
            assert line in _asked(home, sql, "--format", form).stderr
        refused = _asked(home, sql, "--strict", "--json")
        assert (refused.exit_code, refused.stdout) == (2, "")
    assert query(home, "SELECT 1").notices == (line,)


def test_an_answer_over_a_whole_workspace_says_nothing(home: Path) -> None:
    done = _asked(home, "SELECT 1 AS one", "--json", "--strict")
    assert (done.exit_code, done.stdout, done.stderr) == (0, '{"one":1}\n', "")


def test_what_an_answer_lacks_is_said_beside_lineage_and_an_error_too(home: Path) -> None:
    _cut(_one(home, "documents/**/part-*.parquet"))
    damaged = "part-00000.parquet"
    words = ["templates/syntax", "--step", "1", "--home", str(home)]
    done = CliRunner().invoke(app, ["lineage", *words, "--json"])
    assert done.exit_code == 0, done.output
    assert damaged in done.stderr
    assert json.loads(done.stdout)["notices"]
    done = _asked(home, "FROM consumed('templates/wider/syntax', 1)")
    assert done.exit_code == 2
    assert damaged in done.stderr


NAMES = {
    "SELECT * FROM runs WHERE specialist = 'template'": ["template"],
    "SELECT * FROM runs r WHERE r.specialist IN ('templates/wider', 'fmt')": ["templates/wider"],
    "SELECT * FROM status WHERE \"specialist\" IS NOT DISTINCT FROM 'wide'": ["wide"],
    "SELECT * FROM steps WHERE specialist='a' OR specialist != 'it''s'": ["a", "it's"],
    "SELECT * FROM runs WHERE specialist = 'templates/wide' AND phase = 'syntax'": [],
    "SELECT * FROM mixtures WHERE specialist = 'fmt'": [],
    "FROM runs r WHERE 'wide' = r.specialist OR 'it''s' <> specialist": ["wide", "it's"],
    "SELECT specialist FROM runs": [],
    "SELECT * FROM runs WHERE specialist LIKE 'template%'": [],
    "SELECT * FROM runs WHERE specialist NOT LIKE 'nobody/%'": ["nobody/%"],
    "SELECT * FROM runs WHERE specialist = 'templates' || '/' || 'wid'": ["templates/wid"],
    "FROM rows WHERE pack_id IN (SELECT pack_id FROM steps WHERE specialist = 'fmz')": ["fmz"],
    "FROM runs WHERE specialist = (SELECT 'template')": ["template"],
    "FROM runs WHERE specialist IN (SELECT 'template')": ["template"],
    "FROM runs WHERE specialist IN (VALUES ('fmt'), ('fmz'))": ["fmz"],
    "WITH q AS (FROM runs WHERE specialist = CAST('x' AS TEXT)) FROM q": ["x"],
    "SELECT 'specialist = ''x''' AS said -- specialist = 'y'": [],
}


@pytest.mark.parametrize("sql", NAMES)
def test_a_name_of_which_there_is_nothing_is_said_with_those_that_there_are(
    written: Path, sql: str
) -> None:
    said = notices(written, sql)
    assert len(said) == len(NAMES[sql])
    for notice, name in zip(said, NAMES[sql], strict=True):
        assert f"'{name}'" in notice
        assert "templates/wide" in notice
    done = _asked(written, sql, "--json")
    assert tuple(done.stderr.splitlines()) == said
    assert (_asked(written, sql, "--strict").exit_code == 2) == bool(said)


OTHER_NAMES = {
    "SELECT count(*) FROM runs WHERE phase = 'sintax'": ("phase", "sintax"),
    "FROM figures WHERE family IN ('*', 'v2_simple') AND phase = 'syntax'": None,
    "FROM rows WHERE family = 'v9_simple'": ("family", "v9_simple"),
    "FROM rows WHERE split = 'test'": ("split", "test"),
    "FROM metrics WHERE run = 'templates/syntax'": ("run", "templates/syntax"),
    "FROM metrics WHERE run LIKE 'runs/specialist-templates/%'": None,
    "FROM documents WHERE repository ILIKE 'ALPH_'": None,
    "FROM documents WHERE repository = 'gamma'": ("repository", "gamma"),
    "FROM document_sources WHERE path = 'src/nothing.h'": None,
}


@pytest.mark.parametrize("sql", OTHER_NAMES)
def test_a_name_in_any_column_of_names_is_one_that_is_there_or_is_said(
    written: Path, sql: str
) -> None:
    said = notices(written, sql)
    expected = OTHER_NAMES[sql]
    if expected is None:
        assert said == ()
    else:
        (notice,) = said
        assert f"{expected[0]} '{expected[1]}'" in notice


@pytest.mark.parametrize("name", ["report.json", "job.json"])
def test_a_file_of_a_run_that_is_damaged_after_it_was_read_is_said(home: Path, name: str) -> None:
    assert query(home, "FROM runs").notices == ()
    file = _one(home, f"runs/{SYNTAX}/**/{name}")
    sound = file.read_bytes()
    _turn(file, "templates")
    (notice,) = query(home, "FROM runs").notices
    assert file.relative_to(home).as_posix() in notice
    file.write_bytes(sound)
    assert query(home, "FROM runs").notices == ()


def test_data_of_a_build_that_did_not_end_is_said_by_questions_that_read_it(home: Path) -> None:
    assert notices(home, "FROM documents") == ()
    for mark in (home / "current").glob("*.txt"):
        mark.unlink()
    answer = query(home, "SELECT count(*) FROM documents")
    assert answer.rows == [(0,)]
    (notice,) = answer.notices
    assert "documents" in notice
    kinds = [each.split()[2] for each in notices(home, "FROM lineage")]
    assert kinds == ["documents", "rows", "plan"]
    assert notices(home, "SELECT 1") == ()


@pytest.mark.parametrize("asked", ["templates", "templates_wide"])
def test_the_name_that_a_branch_begins_with_is_none_of_its_own(tmp_path: Path, asked: str) -> None:
    larder = TinyWorkspace(tmp_path)
    plan = mixture(
        tmp_path, "syntax", [(larder.one, 0, 0, 7)], specialist="templates", branch="wide"
    )
    Store(tmp_path).mark("mixtures+templates@wide+syntax", [plan])
    sql = f"SELECT count(*) FROM mixtures WHERE specialist = '{asked}'"
    (said,) = notices(tmp_path, sql)
    assert f"'{asked}'" in said
    assert "templates/wide" in said
    assert notices(tmp_path, sql.replace(asked, "templates/wide")) == ()


@pytest.mark.skipif(not landlock(), reason="needs Landlock")
def test_the_answer_of_a_page_has_the_notices_too(home: Path) -> None:
    sql = "SELECT count(*) FROM runs WHERE specialist = 'template'"
    _cut(_one(home, f"mixtures/{SYNTAX}/*/manifest.json"))
    assert ask(home, sql).notices == notices(home, sql)
    assert len(notices(home, sql)) == 2


def test_a_page_draws_the_notices_of_an_answer() -> None:
    table = pa.table({"a": [1]})
    reply = Reply(
        columns=("a",),
        types=("BIGINT",),
        table=table,
        truncated="",
        seconds=0.1,
        landlock=1,
        notices=("<b> is lacking", "Another"),
    )
    shown = sql_panels.answer(reply)
    assert shown.count('role="alert"') == 2
    assert "&lt;b&gt; is lacking" in shown
