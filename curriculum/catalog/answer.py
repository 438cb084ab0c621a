"""Answers to questions in this process, and the rows of Parquet files for which a condition holds."""

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
    """Return the numbers of the rows of each file for which a condition on its columns holds, ascending.

    Nothing but these files can be read, and none written.

    Raises:
        CatalogError: for what is no condition, or names columns that aren't there.
        StoreError: naming a file whose columns in the condition aren't the published ones.
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
                cause="it is more than a condition",
                cure="Say what would stand behind WHERE, as num_docs > 3",
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
    """Return the columns of a file whose names stand in a condition; None where it may mean any."""
    if "*" in condition or "columns" in condition.lower():
        return None
    words = {word.lower() for word in re.findall(r"\w+", condition)}
    return [name for name in parquet.read_schema(file).names if name.lower() in words]


def _columns(connection: duckdb.DuckDBPyConnection, read: str) -> str:
    """The columns that there are: what the condition can name."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()
    names = [str(row[0]) for row in described]
    return f"Columns: {', '.join(names[:-2])}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Answer to a question: column names, and rows of plain Python values."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """An answer in batches, of any length in little memory; read while its question is open."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    notices: tuple[str, ...]


def query(root: Path, sql: str) -> Answer:
    """The answer to one SELECT (or SHOW, DESCRIBE) that can read the workspace and write nothing.

    Raises:
        CatalogError: for anything else than one SELECT, or one that DuckDB refuses.
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
    """Answer as `query` does, in Arrow batches of a form, while the block lasts.

    A `status` that was computed since replaces the one that is written.

    Raises:
        CatalogError: as `query` does; also while batches are read.
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
        # Arrow's streams carry DuckDB's refusals as errors of this kind.
        raise refusal(sql, sql, str(refused)) from None


@contextlib.contextmanager
def _resolve(
    root: Path, sql: str, status: pa.Table | None = None
) -> Iterator[tuple[duckdb.DuckDBPyRelation, tuple[str, ...]]]:
    """A question whose names are resolved, of which nothing has been computed yet; and its notices."""
    snapshot = take(root, status)
    publish(root, snapshot)
    with contextlib.ExitStack() as held:
        try:
            try:
                relation = _relation(held, snapshot, sql, asked=sql)
            except (duckdb.CatalogException, duckdb.BinderException):
                # A name that isn't spelt out, or a wrong one: try with all of the catalog.
                relation = _relation(held, snapshot, sql, asked=None)
        except duckdb.Error as refused:
            raise refusal(sql, sql, str(refused)) from None
        yield relation, notices_of(snapshot, sql)


def _relation(
    held: contextlib.ExitStack, snapshot: Snapshot, sql: str, *, asked: str | None
) -> duckdb.DuckDBPyRelation:
    """Resolve a question in a DuckDB that can read the workspace and nothing else."""
    connection = held.enter_context(contextlib.closing(connect(snapshot, asked)))
    home = f"{snapshot.home}/"
    # DuckDB looks up both the pattern that it is given and the path that it finds.
    allowed = ", ".join(map(quoted, dict.fromkeys((home, pattern(home)))))
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    inner = _one_select(connection, sql)
    # A COPY hidden in a WITH is a SELECT too; below top level DuckDB refuses it.
    return connection.sql(f"SELECT * FROM (\n{inner}\n)")


def _one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the one SELECT that a text holds, without its end.

    Raises:
        CatalogError: for anything else.
    """
    try:
        return gated(connection, sql)
    except RefusedError:
        cure = "Ask with SELECT, FROM, SHOW TABLES or DESCRIBE"
        raise CatalogError(sql, cause="a question is exactly one SELECT", cure=cure) from None
