"""`curriculum shell`: DuckDB's own command line over the workspace's views."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from curriculum import catalog
from schemas.errors import CurriculumError


def shell(home: Path, words: Sequence[str]) -> NoReturn:
    """Become DuckDB's command line, in the workspace, with its views; `words` go to it as they are.

    Raises:
        CurriculumError: where there is no workspace, no duckdb, or nothing can be written.
    """
    binary = _binary()
    script = catalog.publish(home)
    if script is None:
        there = (home / "workspace.json").is_file()
        raise CurriculumError(
            str(home),
            cause="its catalog.sql can't be written" if there else "there is no workspace",
            cure='Ask by curriculum query "FROM runs"' if there else "Build one: curriculum demo",
        )
    os.chdir(script.parent)
    sys.stdout.flush()
    os.execv(binary, [str(binary), "-init", script.name, *words])


def _binary() -> Path:
    """DuckDB's command line: the one installed with this Python, else the one on the path."""
    beside = Path(sys.executable).with_name("duckdb")
    found = beside if beside.is_file() else shutil.which("duckdb")
    if found is None:
        raise CurriculumError(
            "duckdb", cause="its command line isn't installed", cure="pip install duckdb-cli"
        )
    return Path(found)
