"""SQL page: tables to ask about, questions to begin with, and an answer as a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from markupsafe import Markup

from curriculum.catalog import CatalogError, macros, open_catalog, relations
from curriculum.catalog.page_query import Limits, Reply, ask
from curriculum.inspection.formats import duration, integer, number
from dashboards import answer_charts, html
from dashboards.charts.marks import element
from dashboards.questions import KNOWN, PAGES, TURNS, recipes

TEMPLATE = "sql.html"
FIRST = """\
SELECT family, split, count(*) AS rows, sum(valid_token_count) AS tokens
FROM rows
GROUP BY ALL
ORDER BY ALL"""
"""Question that is asked first."""
MAX_ROWS = 500
"""Rows that are drawn; a download has all of the answer."""
MAX_LINE, MAX_TEXT = 60, 400
"""Characters of a value that stand on one line, and those that are drawn at all."""
LIMITS = Limits()
KIND_NAMES = {
    "Bars": "bars",
    "Line": "line",
    "Scatter": "scatter",
    "No chart": answer_charts.NO_CHART,
}
"""Kinds of charts by the names that a page has for them."""
ONE_COLOUR = "one colour"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerOutcome:
    """Outcome of a question."""

    sql: str
    reply: Reply | None
    shown: Markup
    """The answer, or a sentence about why there is none."""


def outcome(
    home: Path, sql: str, *, session: str = "", show: Callable[[Markup], None] = lambda _: None
) -> AnswerOutcome:
    """Ask in a process that can write nothing, when it is the question's turn.

    Until there is an answer `show` gets how many questions come before this one.
    """
    given_up = PAGES.given_up(session)
    KNOWN.add(sql)
    try:
        with TURNS.turn(lambda before: show(waiting(before)), given_up):
            show(html.part(TEMPLATE, "progress", "Running the query …"))
            reply = ask(home, sql, LIMITS, given_up)
    except CatalogError as refused:
        return AnswerOutcome(sql=sql, reply=None, shown=refusal(refused))
    return AnswerOutcome(sql=sql, reply=reply, shown=answer(reply))


def first_question(given: str) -> tuple[str, bool]:
    """Return the question of an address, or the usual one, and whether the page asks it by itself.

    Anybody can write a link: a question that it brings is shown, and asked when its reader asks.
    """
    sql = given.strip() or FIRST
    return sql, sql == FIRST or sql in KNOWN


def not_asked() -> Markup:
    """The place of the answer to a question that came with a link."""
    return html.part(TEMPLATE, "not_asked")


def waiting(before: int) -> Markup:
    """The place of a question that waits; it is the first of its server where others hold all turns."""
    words = number(before, "query") if before else "other queries"
    return html.part(TEMPLATE, "progress", f"Waiting for {words}.", "waits")


def answer(reply: Reply) -> Markup:
    """The rows as a table, with how many there are and what was left out."""
    are_numbers = [answer_charts.is_number(kind) for kind in reply.types]
    return html.part(
        TEMPLATE,
        "answer",
        reply,
        are_numbers,
        reply.cells(MAX_ROWS),
        _summary(reply, len(reply.table)),
        bool(reply.truncated),
        _value,
    )


def _value(value: Any) -> str:
    """A value as people read it; a long text unfolds.

    >>> [str(_value(value)) for value in (1234567, 0.91234567, None, True, '[1]')]
    ['1,234,567', '0.9123', '<i class="null">null</i>', 'true', '[1]']
    """
    if value is None:
        return element("i", "null", class_="null")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    text = str(value)
    if len(text) <= MAX_LINE:
        return text
    return element("div", text[:MAX_TEXT], title=f"{integer(len(text))} characters")


def _summary(reply: Reply, count: int) -> str:
    rows = number(count, "row") if count else "No rows"
    took = f"in {duration(reply.seconds)}"
    if not reply.truncated:
        drawn = f"; the first {MAX_ROWS} are shown" if count > MAX_ROWS else ""
        return f"{rows} {took}{drawn}."
    limit = number(LIMITS.rows, "row") if reply.truncated == "rows" else f"{LIMITS.bytes >> 20} MiB"
    return f"The first {rows.lower()} {took}. Results on this page are limited to {limit}."


def refusal(refused: CatalogError) -> Markup:
    """Return why there is no answer, and how to get one."""
    message, _, where = str(refused.value or "").partition("\nLINE ")
    cause = f"{refused.cause[:1].upper()}{refused.cause[1:]}. {message}".strip()
    return html.part(TEMPLATE, "refusal", cause, where and f"LINE {where}", refused.cure)


def sidebar(home: Path) -> Markup:
    """Return the questions, the views with their columns, and the macros."""
    catalog = open_catalog(home)
    views, calls = relations(catalog), macros()
    catalog.close()
    questions = []
    for recipe in recipes():
        asked, _, meaning = recipe.words.partition("? ")
        questions.append((asked.removesuffix("?"), meaning, recipe.sql))
        KNOWN.add(recipe.sql)
    for view in views:
        KNOWN.add(lines_of(view.name))
    return html.part(TEMPLATE, "sidebar", questions, views, calls, lines_of)


def lines_of(view: str) -> str:
    """The question for the first lines of a view."""
    return f"SELECT *\nFROM {view}\nLIMIT 20"


def chart(reply: Reply, choice: answer_charts.ChartChoice, controls: Markup) -> Markup:
    """The panel of an answer's chart, with the controls of its kind and its columns."""
    if choice.kind == answer_charts.NO_CHART:
        return html.part(TEMPLATE, "chart", controls, "", ())
    made = answer_charts.draw(reply, choice)
    return html.part(TEMPLATE, "chart", controls, made.picture, made.notes)


def editor(control: Markup) -> Markup:
    """The panel with the editor of the question."""
    return html.part(TEMPLATE, "editor", control)


def card(shown: Markup, downloads: Sequence[Markup]) -> Markup:
    """The panel of an answer, with its downloads."""
    return html.part(TEMPLATE, "card", shown, downloads)
