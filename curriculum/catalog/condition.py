"""Lines of some Parquet files for which a condition holds: the WHERE of a question that has no view."""

from collections.abc import Sequence
from pathlib import Path

import duckdb

from curriculum.catalog.sql_text import CatalogError, pattern, quoted

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "4GiB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""The files may be somebody else's: some kilobytes of Parquet can unpack to gigabytes."""


def matching(files: Sequence[Path], condition: str) -> list[list[int]]:
    """Return the numbers of the rows of each file for which a condition on its columns holds, ascending.

    Nothing but these files can be read, and none written.

    Raises:
        CatalogError: for what is no condition, or names columns that aren't there.
    """
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
    connection = duckdb.connect(config=_CONFIG)
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


def _columns(connection: duckdb.DuckDBPyConnection, read: str) -> str:
    """The columns that there are: what the condition can name."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()
    names = [str(each[0]) for each in described]
    return f"Columns: {', '.join(names[:-2])}"
