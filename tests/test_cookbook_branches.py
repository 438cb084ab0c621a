"""A question of the cookbook about specialists says of which of them each line is."""

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from curriculum.catalog import open_catalog
from dashboards.questions import Question, recipes
from tests.curriculum.catalog.branched import write_branched

OVER_ALL = {"before_a_spike", "who_saw_the_commit"}
"""Questions that find one step or commit among those of all specialists."""
ABOUT_SPECIALISTS = [
    recipe for recipe in recipes() if "specialist, " in recipe.sql and recipe.name not in OVER_ALL
]
BRANCHES = {"templates": None, "templates/wide": "wide"}


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, duckdb.DuckDBPyConnection]:
    """A workspace with both branches, and one with each alone."""
    folder = tmp_path_factory.mktemp("branches")
    opened = {}
    alone = {name: (branch,) for name, branch in BRANCHES.items()}
    for name, branches in {"both": tuple(BRANCHES.values()), **alone}.items():
        home: Path = folder / name
        write_branched(home, branches)
        opened[name] = open_catalog(home)
    return opened


def _lines_of(catalog: duckdb.DuckDBPyConnection, recipe: Question, specialist: str) -> list[str]:
    # The runs of this workspace have two steps.
    answer = catalog.execute(recipe.sql.replace("syntax', 3)", "syntax', 1)"))
    at = [column[0] for column in answer.description or ()].index("specialist")
    return sorted(str(line) for line in answer.fetchall() if line[at] == specialist)


@pytest.mark.parametrize("recipe", ABOUT_SPECIALISTS, ids=lambda each: str(each.name))
def test_the_lines_of_a_specialist_are_those_where_it_is_alone(
    recipe: Question, catalogs: Mapping[str, duckdb.DuckDBPyConnection]
) -> None:
    for specialist in BRANCHES:
        alone = _lines_of(catalogs[specialist], recipe, specialist)
        assert _lines_of(catalogs["both"], recipe, specialist) == alone
