"""Answers as text: JSON and CSV as DuckDB writes them, and values as a table shows them.

The question's own connection makes the text, by casts: it can write no file, so that DuckDB's COPY isn't
available there.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

import duckdb
import pyarrow as pa

from curriculum.catalog.connections import connected
from curriculum.catalog.page_query_process import portable, quoted_name

AnswerForm = Literal["arrow", "cells", "text", "json"]
"""arrow: types that Arrow and Parquet have; cells: numbers and booleans as they are, all else as text;
text: each column as text; json: one column, a JSON object a row."""
_PLAIN = re.compile(r"(U?(TINY|SMALL|BIG)INT|U?INTEGER|HUGEINT|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN)")
"""DuckDB's types of numbers and booleans whose values Arrow has, too."""
_QUOTED_IN_CSV = re.compile(r'[,"#\r\n]')
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
"""A text of a JSON line, or a number that JSON doesn't have."""


def in_form(relation: duckdb.DuckDBPyRelation, form: AnswerForm) -> duckdb.DuckDBPyRelation:
    """Return the rows of a relation in a form; their order stays."""
    names = [quoted_name(name) for name in relation.columns]
    if form == "json":
        fields = ", ".join(f"{name} := #{at}" for at, name in enumerate(names, 1))
        return relation.project(f"CAST(to_json(struct_pack({fields})) AS VARCHAR) AS line")
    return relation.project(
        ", ".join(
            _column(str(kind), name, at, form)
            for at, (kind, name) in enumerate(zip(relation.types, relation.columns, strict=True), 1)
        )
    )


def _column(kind: str, name: str, number: int, form: AnswerForm) -> str:
    if form == "arrow":
        return portable(kind, name, number)
    cast = f"CAST(#{number} AS VARCHAR) AS {quoted_name(name)}"
    return f"#{number}" if form == "cells" and _PLAIN.fullmatch(kind) else cast


def rows_of(table: pa.Table, form: AnswerForm) -> list[tuple[Any, ...]]:
    """Return the rows of an Arrow table in a form."""
    with connected(python_enable_replacements="false") as connection:
        return in_form(connection.from_arrow(table), form).fetchall()


def csv_line(cells: Sequence[str | None]) -> str:
    r"""Return a line of a CSV file; null is empty, and an empty text a pair of quotes.

    >>> csv_line(["", None, "x,y", '6" long'])
    '"",,"x,y","6"" long"\n'
    """
    return f"{','.join(map(_csv_cell, cells))}\n"


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if _QUOTED_IN_CSV.search(text) or not text else text


def standard_json(line: str) -> str:
    """Return a JSON text of DuckDB's with null in place of NaN and Infinity, which JSON doesn't have.

    >>> standard_json('{"NaN":[NaN,-Infinity,1.5]}')
    '{"NaN":[null,null,1.5]}'
    """
    if "NaN" not in line and "Infinity" not in line:
        return line
    return _JSON_TOKEN.sub(lambda found: found[0] if found[0][0] == '"' else "null", line)
