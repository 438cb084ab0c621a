"""A workspace is read by its own name, whatever that name would match as a pattern."""

import csv
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from curriculum.catalog import CatalogError, open_catalog, query
from curriculum.catalog.answer import matching
from curriculum.catalog.page_query import ask
from tests.curriculum.catalog.branched import write_branched
from tests.flows.tiny_workspace import TinyWorkspace

CLIENT = Path(sys.executable).with_name("duckdb")
PATTERNS = [
    *(("w*s", "wXs"), ("w?s", "wXs"), ("w[abc]s", "was"), ("**", "deep"), ("[!a]", "b")),
    *(
        ("{a,b}", "a"),
        ("~", None),
        ("$HOME", None),
        ('it\'s "two\nlines"', None),
        ("größe 数", None),
    ),
    *(("back\\slash", None), ("50%20#", None), ("a=b", None), ("w[", None)),
]
"""Names of workspaces, each with that of a neighbour which it matches as a pattern."""
COUNTS = """
    SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM rows),
           (SELECT count(*) FROM steps), (SELECT count(*) FROM artefacts)
"""
OWN = (4, 4, 6, 15)


def _beside(folder: Path, name: str, neighbour: str | None) -> TinyWorkspace:
    """The workspace of a name, beside another one of the same."""
    if neighbour:
        write_branched(folder / neighbour)
    return write_branched(folder / name)


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
    assert matching(larder.one.shards(), "num_docs = 2") == [[0], []]
    done = subprocess.run(
        [CLIENT, "-init", "catalog.sql", "-csv", "-noheader", "-c", COUNTS],
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert list(csv.reader(done.stdout.splitlines())) == [[str(count) for count in OWN]]


def test_a_path_that_duckdb_has_no_pattern_for_is_refused_in_words(tmp_path: Path) -> None:
    home = write_branched(tmp_path / "w*\\s").home
    with pytest.raises(CatalogError, match="backslash"):
        query(home, COUNTS)
