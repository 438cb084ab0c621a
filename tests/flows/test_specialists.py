"""The eight diets on a few commits of the sample, through every phase that they list, in short rows."""

from pathlib import Path
from typing import Any

import pytest

from curriculum.catalog import query
from curriculum.mixing.diet_files import DIETS
from curriculum.mixing.mix import report_of
from curriculum.pipeline.context import Context
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Artefact
from schemas.mixture import BLOCK_SLOTS

SPECIALISTS = sorted(file.stem for file in DIETS.glob("*.yaml") if "." not in file.stem)
pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
SHORT = {
    "65536": "2048",
    "16384": "1024",
    "4096": "512",
    "corpus: cpp": "corpus: sample\nphases_file: phases.demo\nvocab_size: 1024",
    "model: 60m": "model: tiny",
    "llvm*|binaryen|spirv-tools|wabt": "llvm*|lattice",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace for all eight: they share documents, graphs and tokens."""
    return tmp_path_factory.mktemp("specialists") / "workspace"


def planned(name: str, home: Path, folder: Path, **more: Any) -> RunPlan:
    """The plan of a diet on a few commits of each repository."""
    given: dict[str, Any] = {
        "token_budget": "70K", "max_commits": 12, "max_repetition": 9.0, "versions_per_path": 1, "workers": 1,
    }  # fmt: skip
    if name == "compilers":
        # It reads one repository of the sample, of whose newest commits v5 shows all.
        given |= {"max_commits": 40, "versions_per_path": 8}
    specialist = in_short_rows(name, folder)
    return resolve_plan(RunConfig.of(specialist=specialist, workspace=home, **(given | more)))


def in_short_rows(name: str, folder: Path) -> str:
    """The path of a diet whose rows are an eighth as long, or less."""
    text = (DIETS / f"{name}.yaml").read_text()
    for long, short in SHORT.items():
        text = text.replace(long, short)
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return str(file)


def mixed(plan: RunPlan, phase: str) -> Artefact:
    return mix_phase(plan, phase, build_phase(plan, phase, Context()), Context())


@pytest.mark.parametrize("name", SPECIALISTS)
def test_a_diet_mixes_through_every_phase_that_it_lists(
    name: str, home: Path, tmp_path: Path
) -> None:
    plan = planned(name, home, tmp_path)
    assert [each.name for each in plan.phases][-2:] == ["fine_tune", "anneal"]
    for phase in plan.phases:
        report = report_of(mixed(plan, phase.name))
        assert report.steps >= 1
        assert phase.tokens - report.tokens_per_step < report.tokens <= phase.tokens
        largest = 3 * phase.slot_length / report.tokens
        for serving in phase.servings:
            strata = [each for each in report.strata if each.serving == serving.index]
            realised = sum(each.tokens for each in strata) / report.tokens
            assert realised == pytest.approx(serving.share, abs=max(0.01, largest)), serving.title
            assert all(each.repetition <= phase.max_repetition + 1 for each in strata)


def test_testing_sees_tests_as_many_times_as_often_as_it_asks(home: Path, tmp_path: Path) -> None:
    plan = planned("testing", home, tmp_path, token_budget="30M", max_repetition=1000.0)
    mixture = mixed(plan, "syntax")
    assert report_of(mixture).slots > 8 * BLOCK_SLOTS
    sql = f"""
        WITH there AS (
            SELECT rows_key, domain = 'testing' AS tests, sum(valid_token_count) AS tokens
            FROM rows GROUP BY ALL
        ), seen AS (
            SELECT rows_key, domain = 'testing' AS tests, sum(valid_tokens) AS tokens
            FROM mixture_rows JOIN rows USING (rows_key, pack_id)
            WHERE mixture_key = '{mixture.key}' AND serving = 0 GROUP BY ALL
        )
        SELECT tests, seen.tokens / there.tokens FROM seen JOIN there USING (rows_key, tests)
    """
    times = dict(query(home, sql).rows)
    assert times[True] / times[False] == pytest.approx(4, rel=0.01)


def test_compilers_takes_its_graphs_from_the_repository_that_it_names(
    home: Path, tmp_path: Path
) -> None:
    plan = planned("compilers", home, tmp_path, token_budget="300K", max_repetition=100.0)
    mixture = mixed(plan, "file_graph")
    sql = f"""
        WITH documents_of AS (
            SELECT serving, unnest(document_ids) AS document_id
            FROM mixture_rows JOIN rows USING (rows_key, pack_id)
            WHERE mixture_key = '{mixture.key}'
        )
        SELECT serving, list(DISTINCT repository ORDER BY repository)
        FROM documents_of JOIN documents USING (document_id) GROUP BY ALL
    """
    found = dict(query(home, sql).rows)
    asked = {each.index: [*each.repositories] for each in plan.phase("file_graph").servings}
    assert found[0] == asked[0] == ["lattice"]
    assert found[1] == asked[1] == ["lattice"]
    assert found[2] == ["arena", "lattice", "ringlog"]
