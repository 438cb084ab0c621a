"""DuckDB connections whose temporary files are private to this user."""

import shutil
import tempfile
import weakref

import duckdb

Setting = str | bool | int | float | list[str]
_CONFIG: dict[str, Setting] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def connected(*, may_spill: bool = False, **config: Setting) -> duckdb.DuckDBPyConnection:
    """Return a connection to an in-memory database, with default settings and those in `config`.

    By default DuckDB spills into `.tmp` of the current folder, which may belong to another user. With
    `may_spill` the connection spills into a private temporary folder that is removed with the connection.
    Without it the connection keeps all data in memory.
    """
    folder = tempfile.mkdtemp(prefix="curriculum-query-") if may_spill else ""
    connection = duckdb.connect(config={**_CONFIG, "temp_directory": folder, **config})
    if may_spill:
        weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)
    return connection
