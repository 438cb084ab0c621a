"""Connections to DuckDB: what they spill lies where no other user reads or plants anything."""

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
    """Return a connection to a database in memory, with settings beside those of every connection.

    DuckDB by itself spills into `.tmp` of the current folder, which may be another user's. Here a connection
    that `may_spill` has a folder of its own, which goes with it; any other keeps all in memory.
    """
    folder = tempfile.mkdtemp(prefix="curriculum-query-") if may_spill else ""
    connection = duckdb.connect(config={**_CONFIG, "temp_directory": folder, **config})
    if may_spill:
        weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)
    return connection
