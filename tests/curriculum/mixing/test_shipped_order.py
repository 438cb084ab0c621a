"""Phase transitions of the shipped diets."""

from pathlib import Path

from curriculum.mixing.diet_files import diet_names, load_diet
from curriculum.mixing.resolve import structure_faults
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig

SPECIALISTS = [name for name in diet_names() if "." not in name]


def test_templates_converges_on_the_file_graph_before_it_is_served_structure() -> None:
    diet = load_diet("templates")
    phases = {phase.phase: phase for phase in diet.phases}
    names = list(phases)
    graph = phases["file_graph"]
    assert graph.advance_when is not None
    assert graph.advance_when.val_bpb is not None
    assert graph.on_budget == "hold"
    until = diet.phases[: names.index("file_graph") + 1]
    served = {serving.family for phase in until for serving in phase.servings}
    assert "v6_enriched" not in served
    assert names.index("file_graph") + 1 == names.index("structure")
    assert names.index("structure") < names.index("repository_graph")


def test_every_specialist_leaves_the_file_graph_by_a_gate_and_only_templates_holds_there() -> None:
    holds = set()
    for name in SPECIALISTS:
        phases = {phase.phase: phase for phase in load_diet(name).phases}
        rule = phases["file_graph"].advance_when
        assert rule is not None, name
        assert rule.val_bpb is not None, name
        holds |= {(name, each.phase) for each in phases.values() if each.on_budget == "hold"}
    assert len(SPECIALISTS) == 8
    assert holds == {("templates", "file_graph")}


def test_no_shipped_diet_serves_structure_before_a_phase_of_graphs_has_a_gate(
    tmp_path: Path,
) -> None:
    for name in diet_names():
        plan = resolve_plan(RunConfig.of(specialist=name, workspace=tmp_path), dry=True)
        assert [*structure_faults(plan.phases)] == [], name


def test_no_demo_waits_for_a_person() -> None:
    demos = [name for name in diet_names() if "." in name]
    assert demos
    assert {each.on_budget for name in demos for each in load_diet(name).phases} == {"advance"}
