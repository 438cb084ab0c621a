"""Answers as text: JSON and CSV in DuckDB's format, and values as a table on a page shows them.

The query's own connection formats the text by casts. DuckDB's COPY isn't available, since this connection
can't write files.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

import duckdb
import pyarrow as pa

from curriculum.catalog.connections import connected
from curriculum.catalog.page_query_process import portable, quoted_name

AnswerForm = Literal["arrow", "cells", "text", "json"]
"""Form in which an answer's values are returned.

arrow   types that Arrow and Parquet have
cells   numbers and booleans unchanged, all other values as text
text    every column as text
json    one column with one JSON object per row
"""
_PLAIN = re.compile(r"(U?(TINY|SMALL|BIG)INT|U?INTEGER|HUGEINT|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN)")
"""Numeric and boolean types of DuckDB whose values Arrow can represent."""
_QUOTED_IN_CSV = re.compile(r'[,"#\r\n]')
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
"""A string in a JSON line, or a number that JSON can't represent."""


def in_form(relation: duckdb.DuckDBPyRelation, form: AnswerForm) -> duckdb.DuckDBPyRelation:
    """Convert a relation's values to the form `form`; the rows keep their order."""
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
    """Return the rows of an Arrow table whose values have the form `form`."""
    with connected(python_enable_replacements="false") as connection:
        return in_form(connection.from_arrow(table), form).fetchall()


def csv_line(cells: Sequence[str | None]) -> str:
    r"""Return a line of a CSV file. A null becomes an empty cell, and an empty text becomes a pair of quotes.

    >>> csv_line(["", None, "x,y", '6" long'])
    '"",,"x,y","6"" long"\n'
    """
    return f"{','.join(map(_csv_cell, cells))}\n"


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if _QUOTED_IN_CSV.search(text) or not text else text


def standard_json(line: str) -> str:
    """Replace NaN and Infinity by null. DuckDB writes them, and JSON doesn't have them.

    >>> standard_json('{"NaN":[NaN,-Infinity,1.5]}')
    '{"NaN":[null,null,1.5]}'
    """
    if "NaN" not in line and "Infinity" not in line:
        return line
    return _JSON_TOKEN.sub(lambda found: found[0] if found[0][0] == '"' else "null", line)
