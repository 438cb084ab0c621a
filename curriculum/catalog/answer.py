"""One question and its answer."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from curriculum.catalog.connection import connect
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
    try:
        return _answer(root, sql, asked=sql)
    except (duckdb.CatalogException, duckdb.BinderException):
        pass  # A name that the question doesn't spell out, or a wrong one: all of the catalog tells.
    except duckdb.Error as refused:
        raise _refusal(sql, refused) from None
    try:
        return _answer(root, sql, asked=None)
    except duckdb.Error as refused:
        raise _refusal(sql, refused) from None


def _answer(root: Path, sql: str, *, asked: str | None) -> Answer:
    with contextlib.closing(connect(root, asked)) as connection:
        connection.execute(f"SET allowed_directories = [{quoted(f'{root.absolute()}/')}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        statements = connection.extract_statements(sql)
        if [statement.type.name for statement in statements] != ["SELECT"]:
            cure = "Ask with SELECT, FROM, SHOW TABLES or DESCRIBE"
            raise CatalogError(sql, cause="a question is exactly one SELECT", cure=cure)
        # A COPY hidden in a WITH is a SELECT too; below top level DuckDB refuses it.
        found = connection.execute(
            f"SELECT * FROM (\n{statements[0].query.rstrip().rstrip(';')}\n)"
        )
        columns = tuple(str(column[0]) for column in found.description or ())
        return Answer(columns=columns, rows=found.fetchall())


def _refusal(sql: str, refused: duckdb.Error) -> CatalogError:
    message, _, hint = str(refused).partition("\n")
    near = (line.strip() for line in hint.splitlines() if "Did you mean" in line)
    cure = next(near, "SHOW TABLES lists what there is; DESCRIBE rows tells its columns")
    return CatalogError(sql, message, cause="DuckDB refuses it", cure=cure)
