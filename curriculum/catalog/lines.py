"""Rows of catalog answers as frozen values."""

from typing import TypeVar

import duckdb
from pydantic import TypeAdapter

Answered = TypeVar("Answered")


def lines(
    connection: duckdb.DuckDBPyConnection, line: type[Answered], sql: str, *values: object
) -> list[Answered]:
    """Run a query and return its rows as values of the dataclass `line`.

    The dataclass has a field for each column. A field can be a struct or a list.

    Raises:
        ValidationError: if a column has another type, or the answer lacks a column.
    """
    answer = connection.execute(sql, values)
    columns = [column[0] for column in answer.description or ()]
    adapter = TypeAdapter(line)
    return [
        adapter.validate_python(dict(zip(columns, cells, strict=True)))
        for cells in answer.fetchall()
    ]
