"""A workspace is read by its own name, whatever that name would match as a pattern."""

from contextlib import closing
from pathlib import Path

import pytest

from curriculum.catalog import open_catalog, query
from curriculum.catalog.condition import matching
from curriculum.catalog.confined import ask
from tests.curriculum.catalog.branched import write_branched
from tests.flows.larder import Larder

PATTERNS = [("w*s", "wXs"), ("w?s", "wXs"), ("w[abc]s", "was"), ("**", "deep"), ("[!a]", "b")]
"""Names of workspaces, each with that of a neighbour which it matches as a pattern."""
COUNTS = """
    SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM rows),
           (SELECT count(*) FROM steps), (SELECT count(*) FROM artefacts)
"""
OWN = (4, 4, 6, 15)


def _beside(folder: Path, name: str, neighbour: str | None) -> Larder:
    """The workspace of a name, beside another one of the same."""
    if neighbour:
        write_branched(folder / neighbour)
    return write_branched(folder / name)


WRONG = "DuckDB expands a pattern in the workspace's path"


@pytest.mark.xfail(strict=True, reason=WRONG)
@pytest.mark.parametrize(("name", "neighbour"), PATTERNS)
def test_a_workspace_with_a_pattern_as_its_name_reads_nothing_of_its_neighbours(
    name: str, neighbour: str, tmp_path: Path
) -> None:
    larder = _beside(tmp_path, name, neighbour)
    home = larder.home
    with closing(open_catalog(home)) as catalog:
        assert catalog.execute(COUNTS).fetchall() == [OWN]
        files = catalog.execute("SELECT file FROM files WHERE file LIKE '%.parquet'").fetchall()
        assert all((home / file).is_file() for (file,) in files)
    assert query(home, COUNTS).rows == [OWN]
    assert ask(home, COUNTS).rows == [OWN]
    assert matching(larder.one.files(), "num_docs = 2") == [[0], []]
