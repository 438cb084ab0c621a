"""An index of a repository at one commit, made by libclang over a compilation database.

Only making an index needs libclang (the extra `clang`), and only its workers load it; reading one doesn't.

    missing() -> REVISION, versions() and read_database().fingerprint() for the key
    index_tree() -> Snapshot.open()
"""

from curriculum.graph.clang.clang_index import (
    REVISION,
    configure,
    index_tree,
    missing,
    paths_of,
    versions,
)
from curriculum.graph.clang.database import Database, read_database
from curriculum.graph.clang.graph_snapshot import GraphSnapshot

__all__ = [
    "REVISION",
    "Database",
    "GraphSnapshot",
    "configure",
    "index_tree",
    "missing",
    "paths_of",
    "read_database",
    "versions",
]
