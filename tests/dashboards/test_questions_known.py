"""Questions that a page asks by itself: those that its server offers or has answered, and no others."""

from pathlib import Path

import pytest

from dashboards import overview_panels, questions, sql_panels
from dashboards.questions import KnownQuestions, WorkspaceView, question, recipes

OTHERS = "SELECT count(*) FROM range(10_000_000_000) a, range(10_000_000_000) b"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> KnownQuestions:
    """Questions of a server that has just been started."""
    made = KnownQuestions()
    for module in (questions, sql_panels):
        monkeypatch.setattr(module, "KNOWN", made)
    return made


def test_the_usual_question_is_asked_where_a_link_brings_none() -> None:
    assert sql_panels.first_question(" \n") == (sql_panels.FIRST, True)


def test_a_question_of_others_is_not_asked_by_itself() -> None:
    assert sql_panels.first_question(f"\n{OTHERS}\n") == (OTHERS, False)


def test_what_the_sidebar_and_panels_offer_is_asked(home: Path) -> None:
    asked = question("panels/totals")
    assert sql_panels.first_question(asked.sql)[1] is False
    overview_panels.totals(WorkspaceView(home))
    assert sql_panels.first_question(asked.sql)[1] is True
    sql_panels.sidebar(home)
    for each in recipes():
        assert sql_panels.first_question(each.sql)[1] is True
    assert sql_panels.first_question("SELECT *\nFROM rows\nLIMIT 20")[1] is True
    assert sql_panels.first_question("SELECT *\nFROM rows\nLIMIT 21")[1] is False


def test_what_was_asked_once_is_known_and_the_oldest_is_forgotten() -> None:
    known = KnownQuestions(most=2)
    for sql in ("SELECT 1", "SELECT 2", "SELECT 1 ", "SELECT 3"):
        known.add(sql)
    assert ["SELECT 1" in known, "SELECT 2" in known, "SELECT 3" in known] == [True, False, True]
