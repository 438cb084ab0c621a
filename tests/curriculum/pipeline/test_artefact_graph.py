"""The graph of artefacts: built, stale and planned as the diet of today and the workspace have it."""

import shutil
from pathlib import Path

import pytest

from curriculum.pipeline import Pipeline
from curriculum.pipeline.artefact_graph import CORPUS, ArtefactGraph, NodeState, artefact_graph
from curriculum.pipeline.context import Resources
from curriculum.pipeline.references import with_keys
from curriculum.pipeline.run_config import CorpusConfig
from curriculum.store import Store
from schemas.errors import CurriculumError
from schemas.specialist import SpecialistRef
from tests.curriculum.pipeline.tiny_diet import NAME, edit, write_tiny_diet


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose first phase is mixed; some seconds of a core."""
    home = tmp_path_factory.mktemp("graph") / "home"
    write_tiny_diet(home)
    Pipeline(home).mix(NAME, phase="syntax", corpus=CorpusConfig(workers=1))
    return home


@pytest.fixture
def home(mixed: Path, tmp_path: Path) -> Path:
    """A copy of it, to edit."""
    return Path(shutil.copytree(mixed, tmp_path / "home"))


def _graph(home: Path) -> ArtefactGraph:
    return artefact_graph(home, SpecialistRef(NAME), Resources())


def _states(graph: ArtefactGraph) -> dict[str, NodeState]:
    return {each.name: each.state for each in graph.nodes}


def test_what_is_there_is_built_and_what_a_run_would_make_is_planned(home: Path) -> None:
    graph = _graph(home)
    assert graph.phases == ("syntax", "file_graph")
    assert _states(graph) == {
        "corpus": "built",
        "syntax/documents/v2_simple": "built",
        "syntax/documents/v3_simple": "built",
        "syntax/rows/0 v2_simple": "built",
        "syntax/rows/1 v3_simple": "built",
        "syntax/mixture": "built",
        "syntax/run": "planned",
        "file_graph/documents/v2_simple": "built",
        "file_graph/rows/0 v2_simple": "planned",
        "file_graph/mixture": "planned",
        "file_graph/run": "planned",
    }
    planned = next(each for each in graph.nodes if each.name == "file_graph/mixture")
    assert planned.why == "curriculum run tiny --phase file_graph"
    assert planned.artefacts == ()


def test_nodes_lead_from_the_corpus_to_the_last_run(home: Path) -> None:
    graph = _graph(home)
    made_of = {each.name: each.made_of for each in graph.nodes}
    assert made_of[CORPUS] == ()
    assert made_of["syntax/documents/v3_simple"] == (CORPUS,)
    assert made_of["syntax/rows/1 v3_simple"] == ("syntax/documents/v3_simple",)
    assert made_of["syntax/mixture"] == ("syntax/rows/0 v2_simple", "syntax/rows/1 v3_simple")
    assert made_of["file_graph/run"] == ("file_graph/mixture", "syntax/run")
    seen: set[str] = set()
    for each in graph.nodes:
        assert {*each.made_of} <= seen, "each comes after what it is made of"
        seen.add(each.name)


def test_another_share_makes_the_mixture_stale_and_says_which(home: Path) -> None:
    edit(
        home,
        "diets/tiny.yaml",
        "{family: v2_simple, share: 0.6}",
        "{family: v2_simple, share: 0.7}",
    )
    edit(
        home,
        "diets/tiny.yaml",
        "{family: v3_simple, share: 0.4}",
        "{family: v3_simple, share: 0.3}",
    )
    states, graph = _states(_graph(home)), _graph(home)
    assert [name for name, state in states.items() if state == "stale"] == ["syntax/mixture"]
    mixture = next(each for each in graph.nodes if each.state == "stale")
    assert "0.6 → 0.7" in mixture.why
    assert len(mixture.artefacts) == 1, "the version that is there"
    assert not mixture.artefacts[0].planned


def test_fewer_commits_make_all_that_is_made_of_them_stale(home: Path) -> None:
    edit(home, "corpora/small.yaml", "max_commits: 6", "max_commits: 5")
    states = _states(_graph(home))
    assert {name for name, state in states.items() if state == "stale"} == {
        "corpus",
        "syntax/documents/v2_simple",
        "syntax/documents/v3_simple",
        "syntax/rows/0 v2_simple",
        "syntax/rows/1 v3_simple",
        "syntax/mixture",
    }
    assert states["file_graph/documents/v2_simple"] == "planned", "no build of that phase left any"


def test_a_diet_that_is_wrong_by_now_is_an_error_that_names_it(home: Path) -> None:
    edit(home, "diets/tiny.yaml", "portion: 0.5", "portion: half")
    with pytest.raises(CurriculumError, match="portion"):
        _graph(home)


def test_the_keys_of_a_node_lead_to_its_artefacts_and_to_no_others(home: Path) -> None:
    store = Store(home, dry=True)
    for each in _graph(home).nodes:
        assert [found.path for found in with_keys(store, each.keys)] == sorted(
            artefact.path for artefact in each.artefacts
        )
    assert with_keys(store, ["0" * 12]) == []
