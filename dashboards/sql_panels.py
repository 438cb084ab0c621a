"""Panels of the SQL page: the views and example questions, the editor, the result and its chart."""

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
"""Default query."""
MAX_ROWS = 500
"""Maximum number of rows in the table; downloads have all rows."""
MAX_LINE, MAX_TEXT = 60, 400
"""Maximum characters of a value on one line, and in total."""
LIMITS = Limits()
KIND_NAMES = {
    "Bars": "bars",
    "Line": "line",
    "Scatter": "scatter",
    "No chart": answer_charts.NO_CHART,
}
"""Kinds of charts by displayed name."""
ONE_COLOUR = "one colour"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerOutcome:
    """Result of a query, or its error."""

    sql: str
    reply: Reply | None
    shown: Markup
    """Table of rows, or the error."""


def outcome(
    home: Path, sql: str, *, session: str = "", show: Callable[[Markup], None] = lambda _: None
) -> AnswerOutcome:
    """Wait for a turn, then run a query in a process that can't write to the workspace.

    While the query waits, `show` is called with a panel that says how many queries are ahead.
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
    """Return the query that the page shows first, and whether the page runs it at once.

    `given` is the query in the address; without it, the default query is returned. Anybody can write a link,
    so a query that this server doesn't know is only shown until the reader runs it.
    """
    sql = given.strip() or FIRST
    return sql, sql == FIRST or sql in KNOWN


def not_asked() -> Markup:
    """Return the result panel for a query from a link that the reader hasn't run yet."""
    return html.part(TEMPLATE, "not_asked")


def waiting(before: int) -> Markup:
    """Return the result panel for a query that waits for `before` other queries.

    0 means that it waits only for queries of other servers.
    """
    words = number(before, "query") if before else "other queries"
    return html.part(TEMPLATE, "progress", f"Waiting for {words}.", "waits")


def answer(reply: Reply) -> Markup:
    """Return the rows of a result as a table, with their number and a note if rows were left out."""
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
    """Format a value; a long text is shortened and can be unfolded.

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
    """Return a panel with the error of a query and advice on how to fix it."""
    message, _, where = str(refused.value or "").partition("\nLINE ")
    cause = f"{refused.cause[:1].upper()}{refused.cause[1:]}. {message}".strip()
    return html.part(TEMPLATE, "refusal", cause, where and f"LINE {where}", refused.cure)


def sidebar(home: Path) -> Markup:
    """Return the sidebar: the example questions, the views with their columns, and the SQL macros."""
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
    """Return the query that shows the first rows of a view."""
    return f"SELECT *\nFROM {view}\nLIMIT 20"


def chart(reply: Reply, choice: answer_charts.ChartChoice, controls: Markup) -> Markup:
    """Return the panel with the chart of a result, and the controls that change the chart."""
    if choice.kind == answer_charts.NO_CHART:
        return html.part(TEMPLATE, "chart", controls, "", ())
    made = answer_charts.draw(reply, choice)
    return html.part(TEMPLATE, "chart", controls, made.picture, made.notes)


def editor(control: Markup) -> Markup:
    """Return the editor panel."""
    return html.part(TEMPLATE, "editor", control)


def card(shown: Markup, downloads: Sequence[Markup]) -> Markup:
    """Return the panel with the result of a query and its downloads."""
    return html.part(TEMPLATE, "card", shown, downloads)
