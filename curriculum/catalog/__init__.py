"""DuckDB views over the published artefacts of a workspace.

    open_catalog   views.py: sql/*.sql over exactly the files of a snapshot
    query          answer.py: run one SELECT and return its rows
    lines          lines.py: the rows of an answer as frozen values
    ask            page_query.py: run an untrusted query in a process that can't write

    notices        notices.py: warnings about missing data and unknown names

    snapshot.py <- tables.py (contents of manifests and reports), cache.py (tables of earlier snapshots),
    parquet_files.py (data files that DuckDB reads)

A catalog is a snapshot: its views read the files that were listed in the manifests when the catalog was
opened. A build that runs at the same time can neither break nor change an answer. Lists of tokens are
read only if a query names them.
"""

import os
from pathlib import Path

import duckdb
import pyarrow as pa

from curriculum.catalog.answer import Answer, Stream, query, stream
from curriculum.catalog.lines import lines
from curriculum.catalog.notices import notices, notices_of
from curriculum.catalog.snapshot import take
from curriculum.catalog.views import SCRIPT_NAME, Relation, connect, macros, publish, relations
from schemas.errors import CatalogError

__all__ = [
    "SCRIPT_NAME",
    "Answer",
    "CatalogError",
    "Relation",
    "Stream",
    "connect",
    "lines",
    "macros",
    "notices",
    "notices_of",
    "open_catalog",
    "publish",
    "query",
    "relations",
    "stream",
    "take",
]


def open_catalog(
    root: Path | str | None = None, status: pa.Table | None = None
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB with the views of a workspace, by default the one in $CURRICULUM_HOME.

    In an empty workspace the views are empty and have the right columns. The view `problems` lists everything
    that can't be read; the other views leave it out. The view `status` reads the table `status`, by default
    the file current/status.parquet.
    """
    home = Path(root or os.environ.get("CURRICULUM_HOME", "workspace"))
    snapshot = take(home, status)
    if status is None:
        publish(home, snapshot)
    return connect(snapshot)
