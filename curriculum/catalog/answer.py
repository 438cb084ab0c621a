"""One question and its answer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from curriculum.catalog.connection import connect, relations
from curriculum.catalog.views import quoted
from schemas.errors import CurriculumError


class CatalogError(CurriculumError):
    """A question that the catalog can't answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a question gave: column names, and rows of plain Python values."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def query(root: Path, sql: str) -> Answer:
    """The answer to one SELECT (or SHOW, DESCRIBE) that can read the workspace and write nothing.

    Raises:
        CatalogError: for anything else than one SELECT, or one that DuckDB refuses.
    """
    connection = connect(root)
    connection.execute(f"SET allowed_directories = [{quoted(f'{root.absolute()}/')}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    try:
        statements = connection.extract_statements(sql)
        if [statement.type.name for statement in statements] != ["SELECT"]:
            raise CatalogError(
                sql, cause="a question is exactly one SELECT", cure=_names(connection)
            )
        # A COPY hidden in a WITH is a SELECT too; below top level DuckDB refuses it.
        asked = connection.execute(
            f"SELECT * FROM (\n{statements[0].query.rstrip().rstrip(';')}\n)"
        )
        columns = tuple(str(column[0]) for column in asked.description or ())
        return Answer(columns=columns, rows=asked.fetchall())
    except duckdb.Error as refused:
        message, _, hint = str(refused).partition("\n")
        cure = _near(hint) or f"{_names(connection)}; DESCRIBE one to see its columns"
        raise CatalogError(sql, message, cause="DuckDB refuses it", cure=cure) from None
    finally:
        connection.close()


def _near(hint: str) -> str:
    return next((line.strip() for line in hint.splitlines() if "Did you mean" in line), "")


def _names(connection: duckdb.DuckDBPyConnection) -> str:
    return f"Views: {', '.join(each.name for each in relations(connection))}"
