"""What makes a short command slow isn't imported: the seconds themselves are benchmarks/startup.py's."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.tiny_workspace import Larder, figure, job, run

ASKED = """
import sys
from flows.cli import app
if __name__ == "__main__":
    try:
        app(sys.argv[2:])
    except SystemExit as ended:
        assert not ended.code, ended.code
    slow = {*sys.argv[1].split(",")} & {*sys.modules}
    assert not slow, slow
"""
SLOW = {"pandas", "pyarrow.dataset", "torch", "prefect", "marimo", "sqlalchemy"}
"""Each takes more than a tenth of a second; pyarrow.dataset imports pandas, where that is installed."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with plans and a run."""
    made = tmp_path_factory.mktemp("startup")
    larder = Larder(made)
    run(made, job(larder.syntax, made, run_key="1" * 64), [figure(2.0, 0.1)])
    return made


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["query", "SELECT 1"], {"polars", "pyarrow.compute", "tree_sitter", "urllib.request"}),
        (["query", "SELECT * FROM runs"], {"polars", "tree_sitter"}),
        (["query", "SHOW TABLES"], {"polars", "tree_sitter"}),
        (["status"], {"duckdb"}),
        (["ls"], {"duckdb", "tree_sitter"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_short_command_imports_nothing_that_takes_long(
    home: Path, words: list[str], more: set[str]
) -> None:
    command = [sys.executable, "-c", ASKED, ",".join(SLOW | more), *words, "--home", str(home)]
    # The first of them reads every manifest, and keeps what it read for the next.
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
