"""SQL page: tables to ask about, questions to begin with, and an answer as a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from curriculum.catalog import CatalogError, macros, open_catalog, relations
from curriculum.catalog.sandbox import Limits, Reply, ask
from curriculum.inspection.formats import integer, number
from dashboards import charts, html
from dashboards.questions import PAGES, TURNS, recipes

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
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Outcome of a question."""

    sql: str
    reply: Reply | None
    shown: Markup
    """The answer, or a sentence about why there is none."""


def outcome(
    home: Path, sql: str, *, session: str = "", show: Callable[[Markup], None] = lambda _: None
) -> Outcome:
    """Ask in a process that can write nothing, when it is the question's turn.

    Until there is an answer `show` gets how many questions come before this one.
    """
    given_up = PAGES.given_up(session)
    try:
        with TURNS.turn(lambda before: show(waiting(before)), given_up):
            show(html.part(TEMPLATE, "progress", "Asking …"))
            reply = ask(home, sql, LIMITS, given_up)
    except CatalogError as refused:
        return Outcome(sql=sql, reply=None, shown=refusal(refused))
    return Outcome(sql=sql, reply=reply, shown=answer(reply))


def waiting(before: int) -> Markup:
    """The place of a question that waits; it is the first of its server where others hold all turns."""
    words = number(before, "question") if before else "other questions"
    return html.part(TEMPLATE, "progress", f"{words} before this one.", "waits")


def answer(reply: Reply) -> Markup:
    """The rows as a table, with how many there are and what was left out."""
    is_number = [
        kind.removeprefix("U").startswith(_NUMBERS) and "[" not in kind for kind in reply.types
    ]
    rows = reply.rows
    return html.part(
        TEMPLATE,
        "answer",
        reply,
        is_number,
        rows[:MAX_ROWS],
        _summary(reply, len(rows)),
        bool(reply.truncated),
        _value,
    )


def _value(value: Any) -> str:
    """A value as people read it; a long text unfolds.

    >>> [str(_value(value)) for value in (1234567, 0.91234567, None, True, [1])]
    ['1,234,567', '0.9123', '<i class="null">null</i>', 'true', '[1]']
    """
    if value is None:
        return charts.element("i", "null", class_="null")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    text = str(value)
    if len(text) <= MAX_LINE:
        return text
    return charts.element("div", text[:MAX_TEXT], title=f"{integer(len(text))} characters")


def _summary(reply: Reply, count: int) -> str:
    rows = number(count, "row") if count else "No rows"
    took = f"in {reply.seconds:.2f} s"
    if not reply.truncated:
        drawn = f"; the first {MAX_ROWS} are shown" if count > MAX_ROWS else ""
        return f"{rows} {took}{drawn}."
    limit = number(LIMITS.rows, "row") if reply.truncated == "rows" else f"{LIMITS.bytes >> 20} MiB"
    return f"The first {rows.lower()} {took}: an answer here ends after {limit}."


def refusal(refused: CatalogError) -> Markup:
    """Return why there is no answer, and how to get one."""
    message, _, where = str(refused.value or "").partition("\nLINE ")
    cause = f"{refused.cause[:1].upper()}{refused.cause[1:]}. {message}".strip()
    return html.part(TEMPLATE, "refusal", cause, where and f"LINE {where}", refused.cure)


def sidebar(home: Path) -> Markup:
    """Return the questions, the views with their columns, and the macros."""
    catalog = open_catalog(home)
    views, calls = relations(catalog), macros(catalog)
    catalog.close()
    questions = []
    for recipe in recipes():
        asked, _, meaning = recipe.words.partition("? ")
        questions.append((asked.removesuffix("?"), meaning, recipe.sql))
    return html.part(TEMPLATE, "sidebar", questions, views, calls)


def editor(control: Markup) -> Markup:
    """The panel with the editor of the question."""
    return html.part(TEMPLATE, "editor", control)


def card(shown: Markup, downloads: Sequence[Markup]) -> Markup:
    """The panel of an answer, with its downloads."""
    return html.part(TEMPLATE, "card", shown, downloads)
