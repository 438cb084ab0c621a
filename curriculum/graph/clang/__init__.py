"""Index of a repository at one commit, made by libclang from a compilation database.

Only building an index needs libclang (the extra `clang`), and only worker processes load it. An index can be
read without libclang. To build one:

    missing()                               check whether an index can be built
    REVISION, versions(), fingerprint()     compute the cache key
    index_tree()                            build the index
    GraphSnapshot.open()                    read the index
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
