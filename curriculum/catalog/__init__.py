"""Questions to a workspace: DuckDB views over its published artefacts.

    open_catalog   views.py: sql/*.sql over exactly the files of a snapshot
    query          answer.py: one SELECT, one answer
    lines          lines.py: an answer as frozen values
    ask            page_query.py: a question of somebody whom nobody trusts, in a process that writes nothing

    notices        notices.py: what an answer lacks, and names of which there is nothing

    snapshot.py <- tables.py (what manifests and reports say), cache.py (what was read before),
    parquet_files.py (data files that DuckDB reads)

A catalog is a snapshot: its views read the files that the manifests listed when it was opened, so a
build that runs meanwhile can neither break nor change an answer. Token lists are scanned only where
a question names them.
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
    """An in-memory DuckDB with the views of a workspace, by default of $CURRICULUM_HOME.

    An empty workspace gives empty views with the right columns. What can't be read is named in the
    view `problems`; all others answer without it. The view `status` has the given table, by default that of
    current/status.parquet.
    """
    home = Path(root or os.environ.get("CURRICULUM_HOME", "workspace"))
    snapshot = take(home, status)
    if status is None:
        publish(home, snapshot)
    return connect(snapshot)
