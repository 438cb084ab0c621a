"""A question of the cookbook about `templates` says of which of its branches each line is."""

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from curriculum.catalog import open_catalog
from dashboards.questions import Question, recipes
from tests.curriculum.catalog.branched import write_branched

ABOUT_TEMPLATES = [each for each in recipes() if "'templates" in each.sql]
BRANCHES = (None, "wide")


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, duckdb.DuckDBPyConnection]:
    """A workspace with both branches, and one with each alone."""
    folder = tmp_path_factory.mktemp("branches")
    opened = {}
    for name, branches in (("both", BRANCHES), ("None", (None,)), ("wide", ("wide",))):
        home: Path = folder / name
        write_branched(home, branches)
        opened[name] = open_catalog(home)
    return opened


def _lines_of(
    catalog: duckdb.DuckDBPyConnection, recipe: Question, branch: str | None
) -> list[str]:
    answer = catalog.execute(recipe.sql)
    at = [column[0] for column in answer.description or ()].index("branch")
    return sorted(str(line) for line in answer.fetchall() if line[at] == branch)


@pytest.mark.parametrize("recipe", ABOUT_TEMPLATES, ids=lambda each: str(each.name))
def test_the_lines_of_a_branch_are_those_where_it_is_alone(
    recipe: Question, catalogs: Mapping[str, duckdb.DuckDBPyConnection]
) -> None:
    for branch in BRANCHES:
        alone = _lines_of(catalogs[str(branch)], recipe, branch)
        assert _lines_of(catalogs["both"], recipe, branch) == alone
