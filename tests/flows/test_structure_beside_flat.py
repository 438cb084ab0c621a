"""Rows with structure in a phase of flat ones: one plan, one job, one set of weights."""

import json
from pathlib import Path

import pytest

from curriculum.catalog import query
from curriculum.inspection.runs import report_of
from curriculum.pipeline.context import Context
from curriculum.pipeline.phase_training import train_phase
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Artefact
from schemas.job import Figure, Report

pytestmark = pytest.mark.system
DIET = """
specialist: enricher
phases_file: phases.demo
corpus: sample
vocab_size: 700
model: tiny
token_budget: 40K
phases:
  - phase: syntax
    portion: 0.6
    servings:
      - {family: v2_simple, share: 0.5}
      - {family: v6_enriched, base: v2_simple, row_length: 512, share: 0.3}
      - {family: v6_enriched, base: v3_simple, row_length: 1024, share: 0.2}
    max_repetition: 20
  - phase: file_graph
    portion: 0.4
    servings:
      - {family: v2_simple, row_length: 512, share: 1}
    max_repetition: 20
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunPlan, dict[str, Artefact]]:
    """Both phases of the diet, one after the other."""
    folder = tmp_path_factory.mktemp("enricher")
    file = folder / "enricher.yaml"
    file.write_text(DIET)
    plan = resolve_plan(
        RunConfig.of(
            specialist=str(file),
            workspace=folder / "home",
            versions_per_path=1,
            max_commits=20,
            workers=1,
        )
    )
    runs = {}
    for phase in ("syntax", "file_graph"):
        built = build_phase(plan, phase, Context())
        mixture = mix_phase(plan, phase, built, Context())
        runs[phase] = train_phase(plan, phase, built, mixture, retrain=False, context=Context())
    return plan, runs


def checkpoint_of(plan: RunPlan, run: Artefact) -> Path:
    return plan.store.root / report_of(run).checkpoint


def figures(report: Report, when: str) -> dict[tuple[str, str, str], Figure]:
    listed = report.before if when == "before" else report.after
    return {(each.phase, each.family, each.domain): each for each in listed}


def test_both_kinds_of_rows_and_two_lengths_stand_in_one_plan(
    trained: tuple[RunPlan, dict[str, Artefact]],
) -> None:
    plan, _ = trained
    sql = """
        SELECT DISTINCT rows.family, mixture_rows.row_length
        FROM mixture_rows JOIN rows USING (rows_key, pack_id)
        WHERE mixture_rows.phase = 'syntax'
    """
    found = {tuple(row) for row in query(plan.store.root, sql).rows}
    assert found == {("v2_simple", 512), ("v6_enriched", 512), ("v6_enriched", 1024)}


def test_one_set_of_weights_comes_of_them_and_reads_structure(
    trained: tuple[RunPlan, dict[str, Artefact]],
) -> None:
    plan, runs = trained
    (weights,) = checkpoint_of(plan, runs["syntax"]).glob("model.safetensors")
    assert weights.stat().st_size > 0
    spec = json.loads((checkpoint_of(plan, runs["syntax"]) / "model.json").read_text())
    assert spec["structure"] is True


def test_val_bpb_falls_and_the_next_phase_begins_where_it_ended(
    trained: tuple[RunPlan, dict[str, Artefact]],
) -> None:
    _, runs = trained
    first, second = (report_of(runs[phase]) for phase in ("syntax", "file_graph"))
    mean = ("syntax", "*", "*")
    assert figures(first, "after")[mean].val_bpb < figures(first, "before")[mean].val_bpb
    ended, begun = figures(first, "after")[mean], figures(second, "before")[mean]
    assert begun.val_bpb == ended.val_bpb
