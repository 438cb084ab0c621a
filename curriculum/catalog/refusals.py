"""DuckDB's refusals of questions as errors: its message, its candidates, and the right names nearby."""

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
"""The beginning of what our macros say of a name that isn't there; they list those that are."""
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
"""Columns that are asked of views which lack them, those views, and what to read to have them."""
MAX_CANDIDATES = 5
"""Lines of candidates: of a function DuckDB lists one for each type of its arguments."""


def refusal(name: str, sql: str, message: str, *, with_line: bool = False) -> CatalogError:
    """Return the error of a question that DuckDB refused with a message.

    Its cure holds the candidates of DuckDB's message and names the views that the question reads, or those
    that are spelled like one that isn't there. Its value ends `with_line`, the one that DuckDB points at.
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
    """Yield what may have been meant, and the questions that list the right names."""
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
    """Return what to read for a column that the views of a question lack; "" where nothing is known."""
    lacking = _COLUMN.search(first)
    name, read = (lacking[1] or lacking[2]) if lacking else "", [*_views_of(sql)]
    for columns, views, source in ELSEWHERE:
        if name in columns.split() and not {*views}.isdisjoint(read):
            return f"FROM {source} has {name}"
    return ""


def _close_matches(name: str, *, called: bool) -> list[str]:
    """Return the view, or with `called` the macro as a call, whose name is spelled like another."""
    calls = {macro.name: f"{macro.name}({', '.join(macro.columns)})" for macro in macros()}
    known = calls if called else {view_name: f'"{view_name}"' for view_name in view_names()}
    near = difflib.get_close_matches(name.strip('"').lower(), known, n=1)
    return [known[match] for match in near]


def _views_of(sql: str) -> Iterator[str]:
    """The views and tables of the catalog that a question reads from, in its order."""
    words = (word for listed in _READ.findall(sql) for word in _WORD.findall(listed.lower()))
    yield from dict.fromkeys(word for word in words if word in view_names())
