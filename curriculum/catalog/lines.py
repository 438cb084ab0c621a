"""Rows of catalog answers as frozen values."""

from typing import TypeVar

import duckdb
from pydantic import TypeAdapter

Answered = TypeVar("Answered")


def lines(
    connection: duckdb.DuckDBPyConnection, line: type[Answered], sql: str, *values: object
) -> list[Answered]:
    """Return the rows of an answer as values of a dataclass whose fields are columns, structs or lists.

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
