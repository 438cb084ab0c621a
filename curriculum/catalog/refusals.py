"""Errors for queries that DuckDB refuses, with hints that list the right names."""

import difflib
import re
from collections.abc import Iterator, Sequence

from curriculum.catalog.views import macros, view_names
from schemas.errors import CatalogError

_MISSING = re.compile(r"(Table Function|Table|Function) with name (\S+) does not exist")
_COLUMN = re.compile(r"column \"(\w+)\" not found|does not have a column named \"(\w+)\"")
_ALIAS = re.compile(r"Column \"(\w+)\" referenced that exists in the SELECT clause")
_READ = re.compile(r"\b(?:FROM|JOIN)\s+((?:[\w.\"]+(?:\s+(?:AS\s+)?\w+)?\s*,\s*)*[\w.\"]+)", re.I)
_WORD = re.compile(r"\w+")
_OURS = "Invalid Input Error: there is no "
"""Beginning of our macros' errors for unknown names. These errors list the known names themselves."""
_SYNTAX = "Parser Error"
_DOCUMENTS, _ROWS = ("documents",), ("rows", "row_documents", "pieces")
_STEPS = ("steps", "mixture_rows")
ELSEWHERE = (
    ("corpus split domain", _DOCUMENTS, "documents JOIN selection USING (document_id, family)"),
    ("corpus", _ROWS, "row_documents JOIN selection USING (document_id)"),
    ("blob", _DOCUMENTS, "documents JOIN document_sources USING (document_id)"),
    (
        "path commit blob repository licence",
        _ROWS,
        "row_documents JOIN document_sources USING (document_id)",
    ),
    ("commit repository licence path", _STEPS, "lineage"),
)
"""Columns that users expect in views that lack them, as (columns, views, what to read instead)."""
MAX_CANDIDATES = 5
"""Maximum number of candidates in a hint. DuckDB lists a function once for each of its argument types."""


def refusal(name: str, sql: str, message: str, *, with_line: bool = False) -> CatalogError:
    """Return the error for a query that DuckDB refused with the error `message`.

    The error's hint lists DuckDB's candidates, and either the views that the query reads or views with
    similar names. With `with_line` the error's value ends with the line at which DuckDB found the mistake.
    """
    text, _, rest = message.partition("\n\n")
    line = rest.partition("\n\n")[0]
    first, *candidates = (line.strip() for line in text.strip().splitlines())
    shown = f"\n{line}" if with_line and line.startswith("LINE") else ""
    cures = (
        sentence if sentence.endswith(("?", ".")) else f"{sentence}."
        for sentence in _cures(sql, first, candidates)
    )
    cure = " ".join(cures).removesuffix(".")
    return CatalogError(name, f"{first}{shown}", cause="DuckDB refuses it", cure=cure)


def _cures(sql: str, first: str, candidates: Sequence[str]) -> Iterator[str]:
    """Yield hints: names that the query probably means, and queries that list the right names."""
    missing = _MISSING.search(first)
    meant = _close_matches(missing[2], called="Function" in missing[1]) if missing else []
    if source := _other_view(sql, first):
        yield source
    elif meant:
        yield f"Did you mean {meant[0]}?"
    elif candidates:
        more = len(candidates) - MAX_CANDIDATES
        yield ", ".join(candidates[:MAX_CANDIDATES]).replace(":,", ":")
        yield from [f"There are {more} more"] if more > 0 else []
    elif alias := _ALIAS.search(first):
        yield f"Nothing that it reads has a column {alias[1]}, and the answer's own name can't be used there"
    if first.startswith(_OURS):
        yield "Name one of those" if ", only " in first else "Train one: curriculum run"
    elif first.startswith(_SYNTAX):
        yield "A question is one SELECT, such as SELECT * FROM runs"
    elif read := [] if missing else [*_views_of(sql)]:
        whose = "lists its columns" if len(read) == 1 else "list their columns"
        yield f"{' and '.join(f'DESCRIBE {view_name}' for view_name in read)} {whose}"
    elif not (meant or candidates) or (missing and missing[1] == "Table" and not meant):
        yield "SHOW TABLES lists the views"


def _other_view(sql: str, first: str) -> str:
    """Return a hint that names a view with the missing column, or "" if no such view is known."""
    lacking = _COLUMN.search(first)
    name, read = (lacking[1] or lacking[2]) if lacking else "", [*_views_of(sql)]
    for columns, views, source in ELSEWHERE:
        if name in columns.split() and not {*views}.isdisjoint(read):
            return f"FROM {source} has {name}"
    return ""


def _close_matches(name: str, *, called: bool) -> list[str]:
    """Return the view whose name is most similar to `name`, in a list that is empty if there is none.

    With `called`, return a macro instead, as a call.
    """
    calls = {macro.name: f"{macro.name}({', '.join(macro.columns)})" for macro in macros()}
    known = calls if called else {view_name: f'"{view_name}"' for view_name in view_names()}
    near = difflib.get_close_matches(name.strip('"').lower(), known, n=1)
    return [known[match] for match in near]


def _views_of(sql: str) -> Iterator[str]:
    """Yield the views and tables of the catalog that a query reads, in its order."""
    words = (word for listed in _READ.findall(sql) for word in _WORD.findall(listed.lower()))
    yield from dict.fromkeys(word for word in words if word in view_names())
