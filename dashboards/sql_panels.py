"""SQL page: tables to ask about, questions to begin with, and an answer as a table."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curriculum.catalog import CatalogError, Relation, macros, open_catalog, relations
from curriculum.catalog.sandbox import Limits, Reply, ask
from dashboards import frame
from dashboards.questions import PAGES, TURNS, Question, recipes

FIRST = """\
SELECT family, split, count(*) AS rows, sum(valid_token_count) AS tokens
FROM rows
GROUP BY ALL
ORDER BY ALL"""
"""Question that is asked first."""
MOST_SHOWN = 500
"""Rows that are drawn; a download has all of the answer."""
MOST_LINE, MOST_TEXT = 60, 400
"""Characters of a value that stand on one line, and those that are drawn at all."""
LIMITS = Limits()
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Outcome of a question."""

    sql: str
    reply: Reply | None
    shown: str
    """HTML of the answer, or a sentence about why there is none."""


def outcome(
    home: Path, sql: str, *, session: str = "", show: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Ask in a process that can write nothing, when it is the question's turn.

    Until there is an answer `show` gets, as HTML, how many questions come before this one.
    """
    given_up = PAGES.given_up(session)
    try:
        with TURNS.turn(lambda before: show(waiting(before)), given_up):
            show('<p class="count" role="status">Asking …</p>')
            reply = ask(home, sql, LIMITS, given_up)
    except CatalogError as refused:
        return Outcome(sql=sql, reply=None, shown=refusal(refused))
    return Outcome(sql=sql, reply=reply, shown=answer(reply))


def waiting(before: int) -> str:
    """The place of a question that waits; it is the first of its server where others hold all turns.

    >>> waiting(2)
    '<p class="count" id="waits" role="status">2 questions before this one.</p>'
    """
    words = "1 question" if before == 1 else f"{before or 'other'} questions"
    return f'<p class="count" id="waits" role="status">{words} before this one.</p>'


def answer(reply: Reply) -> str:
    """The rows as a table, with how many there are and what was left out."""
    rows = reply.rows
    numeric = [
        kind.removeprefix("U").startswith(_NUMBERS) and "[" not in kind for kind in reply.types
    ]
    heads = "".join(
        f'<th scope="col"{_side(right)}>{frame.text(name)}<small>{frame.text(kind.lower())}</small></th>'
        for name, kind, right in zip(reply.columns, reply.types, numeric, strict=True)
    )
    body = "".join(f"<tr>{_cells(row, numeric)}</tr>" for row in rows[:MOST_SHOWN])
    return (
        f'<p class="count" id="count" role="status">{_counted(reply, len(rows))}</p>'
        f'<div class="wide answer" tabindex="0"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _side(right: bool) -> str:
    return ' class="n"' if right else ""


def _cells(row: Sequence[Any], numeric: Sequence[bool]) -> str:
    return "".join(
        f"<td{_side(right)}>{_shown(value)}</td>" for value, right in zip(row, numeric, strict=True)
    )


def _shown(value: Any) -> str:
    """A value as people read it.

    >>> [_shown(value) for value in (1234567, 0.91234567, None, True, [1])]
    ['1,234,567', '0.9123', '<i class="null">null</i>', 'true', '[1]']
    """
    if value is None:
        return '<i class="null">null</i>'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    said = str(value)
    if len(said) <= MOST_LINE:
        return frame.text(said)
    return f'<div title="{len(said):,} characters">{frame.text(said[:MOST_TEXT])}</div>'


def _counted(reply: Reply, count: int) -> str:
    lines = {0: "No rows", 1: "1 row"}.get(count, f"{count:,} rows")
    took = f"in {reply.seconds:.2f} s"
    if not reply.truncated:
        drawn = f"; the first {MOST_SHOWN} are shown" if count > MOST_SHOWN else ""
        return f"{lines} {took}{drawn}."
    limit = f"{LIMITS.rows:,} rows" if reply.truncated == "rows" else f"{LIMITS.bytes >> 20} MiB"
    return (
        f"The first {lines.lower()} {took}: an answer here ends after {limit}. "
        "<code>curriculum query --out FILE</code> gives all of it."
    )


def refusal(refused: CatalogError) -> str:
    """Return why there is no answer, and how to get one."""
    said, _, where = str(refused.value or "").partition("\nLINE ")
    at = f"<pre>{frame.text(f'LINE {where}')}</pre>" if where else ""
    cause = f"{refused.cause[:1].upper()}{refused.cause[1:]}."
    return (
        f'<div class="refused" id="refused" role="alert"><p>{frame.text(f"{cause} {said}".strip())}</p>'
        f"{at}<p>{frame.text(refused.cure)}</p></div>"
    )


def sidebar(home: Path) -> str:
    """Return the questions, the views with their columns, and the macros."""
    catalog = open_catalog(home)
    views, calls = relations(catalog), macros(catalog)
    catalog.close()
    return (
        '<aside class="sidebar" id="sidebar">'
        f"{_group('questions', 'Questions', map(_example, recipes()))}"
        f"<div>{_group('views', 'Views', map(_view, views))}"
        f"{_group('macros', 'Macros', map(_macro, calls))}</div></aside>"
    )


def _group(name: str, title: str, parts: Iterable[str]) -> str:
    return f'<section id="{name}"><h2>{title}</h2>{"".join(parts)}</section>'


def _example(recipe: Question) -> str:
    asked, _, meaning = recipe.words.partition("? ")
    return (
        f'<a class="example" href="{frame.sql_link(recipe.sql)}" title="{frame.text(meaning)}">'
        f"{frame.text(asked.removesuffix('?'))}?</a>"
    )


def _view(view: Relation) -> str:
    columns = "".join(f"<li><code>{frame.text(name)}</code></li>" for name in view.columns)
    link = frame.sql_link(f"SELECT *\nFROM {view.name}\nLIMIT 20")
    rest = f'<ul>{columns}</ul><a href="{link}">Show twenty lines</a>'
    return _unfolds(view, view.name, rest)


def _macro(macro: Relation) -> str:
    return _unfolds(macro, f"{macro.name}({', '.join(macro.columns)})", "")


def _unfolds(one: Relation, written: str, rest: str) -> str:
    name, code = frame.text(one.name), frame.text(written)
    return (
        f'<details data-name="{name}"><summary><code>{code}</code></summary>'
        f"<p>{frame.text(one.meaning)}</p>{rest}</details>"
    )
