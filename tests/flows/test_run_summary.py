"""The end of a run in the terminal: where its report and weights are, and the one command to give next."""

from pathlib import Path

import pytest
from rich.console import Console

from curriculum.pipeline.execute import Scope
from curriculum.pipeline.gates import Verdict
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Artefact, Store
from flows.cli import run_summary
from tests.flows.stand_ins import finished, report

WHOLE = Scope()


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    return resolve_plan(RunConfig.of(specialist="templates.demo", workspace=tmp_path / "home"))


def _runs(plan: RunPlan, phase: str) -> list[Artefact]:
    said = report(phase=phase).model_copy(update={"checkpoint": "runs/weights"})
    return [finished(Store(plan.store.root), said)]


def _verdict(kind: str, phase: str) -> Verdict:
    return Verdict(kind=kind, phase=phase, why="")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phase", "scope", "gate", "left", "line"),
    [
        ("anneal", WHOLE, "open", (), "generate templates/demo/anneal --prompt 'int main() {'"),
        ("syntax", WHOLE, "waits", (), "approve templates.demo syntax"),
        ("syntax", WHOLE, "holds", (), "inspect templates/demo/syntax"),
        ("syntax", WHOLE, "cancelled", (), "run templates.demo"),
        ("syntax", Scope(phase="syntax"), "open", ("anneal",), "run templates.demo"),
        ("syntax", Scope(phase="syntax"), "open", (), "generate templates/demo/syntax"),
        ("structure", Scope(phase="structure"), "open", ("syntax",), "generate templates/demo"),
        ("anneal", Scope(phase="anneal"), "open", (), "generate templates/demo/anneal"),
    ],
)
def test_the_next_command_goes_by_the_gate_and_has_something_to_do(
    plan: RunPlan, phase: str, scope: Scope, gate: str, left: tuple[str, ...], line: str
) -> None:
    runs, behind = _runs(plan, phase), _verdict(gate, phase)
    said, effect = run_summary.next_command(plan, scope, runs, behind, left)
    assert said.startswith(f"curriculum {line}")
    assert effect


def test_the_end_names_the_report_the_weights_and_the_workspace_of_the_command(
    plan: RunPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=80, color_system=None)
    monkeypatch.setattr(run_summary, "out", console)
    (run,) = _runs(plan, "anneal")
    reports = plan.store.root / "reports"
    reports.mkdir()
    (reports / "templates@demo.html").touch()
    run_summary.print_summary(plan, WHOLE, [run], _verdict("open", "anneal"))
    lines = console.export_text().splitlines()
    assert any(line.split() == ["report", str(reports / "templates@demo.html")] for line in lines)
    assert any(
        line.split() == ["weights", str(plan.store.root / "runs" / "weights")] for line in lines
    )
    assert f"--home {plan.store.root}" in lines[-1]
