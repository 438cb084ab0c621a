"""Answers to queries that run in this process, and row numbers of Parquet rows that match a condition."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from curriculum import parquet
from curriculum.catalog.answer_text import AnswerForm, in_form
from curriculum.catalog.connections import connected
from curriculum.catalog.notices import notices_of
from curriculum.catalog.page_query_process import RefusedError, gated
from curriculum.catalog.parquet_files import pattern, quoted
from curriculum.catalog.refusals import refusal
from curriculum.catalog.snapshot import Snapshot, take
from curriculum.catalog.views import connect, publish
from curriculum.page_checksums import require_pages
from schemas.errors import CatalogError


def matching(files: Sequence[Path], condition: str) -> list[list[int]]:
    """For each file, return the ascending numbers of the rows that fulfil a condition on the file's columns.

    DuckDB can read only these files and can't write.

    Raises:
        CatalogError: if the text isn't one condition, or names unknown columns.
        StoreError: if the content of these columns isn't the published content; names the file.
    """
    for file in files:
        require_pages(file, _named_columns(file, condition))
    paths = [str(file) for file in files]
    patterns = [pattern(path) for path in paths]
    allowed = ", ".join(map(quoted, dict.fromkeys((*paths, *patterns))))
    options = (
        "filename = true, file_row_number = true, union_by_name = true, hive_partitioning = false"
    )
    read = f"read_parquet([{', '.join(map(quoted, patterns))}], {options})"
    sql = f"SELECT filename, file_row_number FROM {read} WHERE (\n{condition}\n)"
    found: dict[str, list[int]] = {str(file): [] for file in files}
    if not files:
        return []
    connection = connected()
    try:
        connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        statements = connection.extract_statements(sql)
        if [statement.type.name for statement in statements] != ["SELECT"]:
            raise CatalogError(
                "--where",
                condition,
                cause="it contains more than one condition",
                cure="Give only the expression after WHERE, for instance num_docs > 3",
            )
        for file, number in connection.execute(sql).fetchall():
            found[file].append(number)
        return [sorted(numbers) for numbers in found.values()]
    except duckdb.Error as refused:
        message = str(refused).partition("\n")[0]
        raise CatalogError(
            "--where", condition, cause=message, cure=_columns(connection, read)
        ) from None
    finally:
        connection.close()


def _named_columns(file: Path, condition: str) -> list[str] | None:
    """Return the columns of a file that a condition mentions, or None if it may mention any."""
    if "*" in condition or "columns" in condition.lower():
        return None
    words = {word.lower() for word in re.findall(r"\w+", condition)}
    return [name for name in parquet.read_schema(file).names if name.lower() in words]


def _columns(connection: duckdb.DuckDBPyConnection, read: str) -> str:
    """Return a hint that lists the columns that a condition can use."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()
    names = [str(row[0]) for row in described]
    return f"Columns: {', '.join(names[:-2])}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Answer to a query: column names, and rows of plain Python values."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """Answer in batches that are read while the query is open.

    Memory doesn't grow with the answer's length.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    notices: tuple[str, ...]


def query(root: Path, sql: str) -> Answer:
    """Run one SELECT (or SHOW, DESCRIBE) that can read the workspace and can't write anything.

    Raises:
        CatalogError: if the text isn't exactly one SELECT, or DuckDB refuses it.
    """
    with _resolve(root, sql) as (relation, notices):
        try:
            rows = relation.fetchall()
        except duckdb.Error as refused:
            raise refusal(sql, sql, str(refused)) from None
        return Answer(columns=tuple(relation.columns), rows=rows, notices=notices)


@contextlib.contextmanager
def stream(
    root: Path, sql: str, form: AnswerForm = "arrow", status: pa.Table | None = None
) -> Iterator[Stream]:
    """Run a query like `query`, and yield its answer as Arrow batches whose values have the form `form`.

    The table `status` replaces the stored one, if it is given.

    Raises:
        CatalogError: under the same conditions as `query`, also while batches are read.
    """
    with _resolve(root, sql, status) as (relation, notices):
        try:
            reader = pa.RecordBatchReader.from_stream(in_form(relation, form))
        except (duckdb.Error, OSError) as refused:
            raise refusal(sql, sql, str(refused)) from None
        yield Stream(schema=reader.schema, batches=_batches(sql, reader), notices=notices)


def _batches(sql: str, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except OSError as refused:
        # Arrow streams report DuckDB's errors as OSError.
        raise refusal(sql, sql, str(refused)) from None


@contextlib.contextmanager
def _resolve(
    root: Path, sql: str, status: pa.Table | None = None
) -> Iterator[tuple[duckdb.DuckDBPyRelation, tuple[str, ...]]]:
    """Look up the names in a query without running it; yield the query's relation and the notices."""
    snapshot = take(root, status)
    publish(root, snapshot)
    with contextlib.ExitStack() as held:
        try:
            try:
                relation = _relation(held, snapshot, sql, asked=sql)
            except (duckdb.CatalogException, duckdb.BinderException):
                # The query may build a name at run time, or misspell one. Retry with the whole catalog.
                relation = _relation(held, snapshot, sql, asked=None)
        except duckdb.Error as refused:
            raise refusal(sql, sql, str(refused)) from None
        yield relation, notices_of(snapshot, sql)


def _relation(
    held: contextlib.ExitStack, snapshot: Snapshot, sql: str, *, asked: str | None
) -> duckdb.DuckDBPyRelation:
    """Look up the names in a query, in a DuckDB that can read the workspace and nothing else.

    Only the views that `asked` needs are created, or all views if it is None.
    """
    connection = held.enter_context(contextlib.closing(connect(snapshot, asked)))
    home = f"{snapshot.home}/"
    # DuckDB checks both the glob that it is given and the path that it finds.
    allowed = ", ".join(map(quoted, dict.fromkeys((home, pattern(home)))))
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    inner = _one_select(connection, sql)
    # A COPY inside a WITH passes for a SELECT. DuckDB refuses it in a subquery.
    return connection.sql(f"SELECT * FROM (\n{inner}\n)")


def _one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the only SELECT of a text, without its final semicolon.

    Raises:
        CatalogError: if the text isn't exactly one SELECT.
    """
    try:
        return gated(connection, sql)
    except RefusedError:
        cure = "Ask with SELECT, FROM, SHOW TABLES or DESCRIBE"
        raise CatalogError(sql, cause="a question is exactly one SELECT", cure=cure) from None
