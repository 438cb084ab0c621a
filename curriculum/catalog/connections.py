"""DuckDB connections whose temporary files other users can't read."""

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
    """Connect to an in-memory database with our default settings and those in `config`.

    With `may_spill` the connection spills into a private temporary folder, which is removed with the
    connection. Without it all data stay in memory. DuckDB itself would spill into `.tmp` in the current
    folder, which may belong to another user.
    """
    folder = tempfile.mkdtemp(prefix="curriculum-query-") if may_spill else ""
    connection = duckdb.connect(config={**_CONFIG, "temp_directory": folder, **config})
    if may_spill:
        weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)
    return connection
