"""Orders that a flow run keeps: what was read first holds, whatever becomes of the files since."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from curriculum.corpus.domains import load_domains
from curriculum.corpus.load import load_corpus
from curriculum.mixing.diet_files import DIETS, diet_names
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.recorded_config import first_plan, read_plan, snapshot_file, write_snapshot
from curriculum.pipeline.resume import RowExclusions
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Store
from schemas.errors import DietError, StoreError

RUN = "5b0c7a52-0000-0000-0000-000000000001"


def _same(one: RunPlan, other: RunPlan) -> bool:
    """But for the mapping of specs, which is read-only in one of them."""
    return (
        replace(one, specs={}, store=other.store) == replace(other, specs={})
        and dict(one.specs) == dict(other.specs)
        and list(one.specs) == list(other.specs)
    )


@pytest.mark.parametrize("diet", diet_names())
def test_what_is_read_back_is_what_was_laid_down(diet: str, tmp_path: Path) -> None:
    plan = resolve_plan(
        RunConfig.of(specialist=diet, workspace=tmp_path, token_budget="10M", max_commits=7)
    )
    write_snapshot(plan, RUN)
    assert _same(read_plan(Store(tmp_path), RUN), plan)


def test_rows_that_are_left_out_are_kept(tmp_path: Path) -> None:
    plan = resolve_plan(RunConfig.of(specialist="templates.demo", workspace=tmp_path))
    without = RowExclusions(packs=frozenset({"b", "a"}), repositories=frozenset({"fmt"}))
    write_snapshot(replace(plan, without=without), RUN)
    assert read_plan(Store(tmp_path), RUN).without == without


def test_a_diet_that_is_edited_changes_only_runs_that_begin_later(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (DIETS / "templates.demo.yaml").read_text()
    file.write_text(text)
    order = RunConfig.of(specialist=str(file), workspace=tmp_path / "home")
    first = first_plan(order, RUN)
    assert "token_budget: 400K" in text
    file.write_text(text.replace("token_budget: 400K", "token_budget: 900K"))
    assert first_plan(order, RUN).diet == first.diet
    assert first_plan(order, RUN[:-1] + "2").diet.token_budget == 900_000
    file.unlink()
    assert first_plan(order, RUN).diet == first.diet


def test_rules_of_domains_that_are_edited_change_only_runs_that_begin_later(
    tmp_path: Path,
) -> None:
    rules = tmp_path / "domains.yaml"
    shutil.copyfile(DIETS.parent / "domains.yaml", rules)
    said = load_corpus("sample").model_copy(update={"domains": str(rules)})
    corpus = tmp_path / "mine.yaml"
    corpus.write_text(said.model_dump_json(exclude_defaults=True))
    order = RunConfig.of(
        specialist="templates.demo", corpus=str(corpus), workspace=tmp_path / "home"
    )
    first = load_domains(first_plan(order, RUN).corpus.domains)
    rules.unlink()
    assert load_domains(first_plan(order, RUN).corpus.domains) == first


def test_an_order_moves_with_its_workspace(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write_snapshot(resolve_plan(RunConfig.of(specialist="templates.demo", workspace=before)), RUN)
    before.rename(after)
    plan = read_plan(Store(after), RUN)
    assert plan.config.workspace == plan.store.root == after


def test_a_mistake_lays_nothing_down(tmp_path: Path) -> None:
    with pytest.raises(DietError):
        first_plan(RunConfig.of(specialist="templtes", workspace=tmp_path / "home"), RUN)
    assert not (tmp_path / "home").exists()


def test_an_order_of_another_version_is_named(tmp_path: Path) -> None:
    file = snapshot_file(Store(tmp_path), RUN)
    file.parent.mkdir(parents=True)
    file.write_text('{"order": {}}')
    with pytest.raises(StoreError, match=f"{RUN}.*this version"):
        read_plan(Store(tmp_path), RUN)
