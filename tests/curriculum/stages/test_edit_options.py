"""Options of edits enter the keys of the families that show edits, and of no others."""

from pathlib import Path

import pytest

from curriculum.corpus.load import load_corpus
from curriculum.corpus.sources import Sources
from curriculum.stages.documents import Documents, repositories
from curriculum.stages.graphs import Graphs, GraphTask
from schemas.corpus import CorpusSpec
from schemas.families import FAMILIES

FULL_FILE, CHANGES = {"full_file": "all"}, {"changes": "all"}


def keys(corpus: CorpusSpec, cache: Path) -> dict[str, str]:
    """The key of the documents of each family."""
    repository = repositories(corpus, Sources(cache=cache))[0]
    graphs = Graphs(families=("v4_context_graph",))
    recipes = [
        *Documents().recipes(repository),
        *graphs.recipes(GraphTask(repository=repository, index=None)),
    ]
    return {dict(recipe.labels)["family"]: recipe.key for recipe in recipes}


@pytest.mark.parametrize("option", [FULL_FILE, CHANGES, FULL_FILE | CHANGES])
def test_an_option_changes_the_keys_of_families_of_edits_alone(
    tmp_path: Path, option: dict[str, str]
) -> None:
    usual = load_corpus("sample")
    one, other = keys(usual, tmp_path), keys(usual.model_copy(update=option), tmp_path)
    changed = {family for family in one if one[family] != other[family]}
    edits = {family for family in one if FAMILIES[family].edits_only}
    assert changed == (edits if "changes" in option else {"v3_simple", "v3_doxygen"})
    assert {"v2_simple", "v4_context_graph"} < one.keys()


def test_the_default_is_in_no_key() -> None:
    usual = load_corpus("sample")
    assert usual.edit_settings().not_usual() == {}
    assert usual.model_copy(update=FULL_FILE).edit_settings().not_usual() == FULL_FILE
