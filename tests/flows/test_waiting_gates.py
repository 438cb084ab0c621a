"""A run's result at a gate stays visible until the gate opens."""

from dataclasses import replace
from pathlib import Path

import pytest

from curriculum.pipeline import gates
from curriculum.pipeline.gates import held_words, verdict
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from schemas.diet import AdvanceWhen, StopsImproving
from schemas.phase_status import ClosedGate
from tests import factories
from tests.flows.stand_ins import finished, report


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    """The demo's course in a workspace; its first phase asks for an approval."""
    plan = resolve_plan(RunConfig.of(specialist="templates.demo", workspace=tmp_path), dry=True)
    first = replace(plan.phases[0], require=("approval",))
    return replace(plan, phases=(first, *plan.phases[1:]))


def _noted(home: Path) -> list[ClosedGate]:
    files = (home / gates.FOLDER).glob("*")
    return [ClosedGate.model_validate_json(file.read_text()) for file in files]


def test_a_run_that_waits_is_noted_until_somebody_approved_it(
    plan: RunPlan, tmp_path: Path
) -> None:
    run = finished(plan.store, report())
    for _ in range(2):
        gates.record_gate(plan, run, verdict(plan, "syntax", run))
    (said,) = _noted(tmp_path)
    assert (said.kind, said.specialist, said.branch, said.phase) == (
        *("waits", "templates", "demo", "syntax"),
    )
    assert said.cure == "curriculum approve templates.demo syntax"
    assert "9 tokens" in said.why
    assert tmp_path / said.run == run.path
    assert said.content == run.content
    gates.write_approval(plan.store, run, who="ada")
    gates.record_gate(plan, run, verdict(plan, "syntax", run))
    assert _noted(tmp_path) == []


def test_a_gate_that_holds_says_what_it_lacks_until_it_is_loosened(
    plan: RunPlan, tmp_path: Path
) -> None:
    rule = AdvanceWhen(min_tokens=20)
    first = replace(plan.phases[0], require=(), advance_when=rule, on_budget="hold")
    strict = replace(plan, phases=(first, *plan.phases[1:]))
    run = finished(plan.store, report())
    gates.record_gate(strict, run, verdict(strict, "syntax", run))
    (said,) = _noted(tmp_path)
    assert (said.kind, said.cure) == ("holds", "curriculum run templates.demo")
    assert "(why; 9 tokens of the 20 " in said.why
    assert "on_budget: advance" in said.why
    loose = replace(plan, phases=(replace(first, on_budget="advance"), *plan.phases[1:]))
    gates.record_gate(loose, run, verdict(loose, "syntax", run))
    assert _noted(tmp_path) == []


@pytest.mark.parametrize(
    ("bits", "lacks"),
    [
        ((3.0, 2.5, 2.25), "val_bpb fell by 0.7500 over 2 evaluations, and not by less than 0.5"),
        ((3.0, 2.5), "2 evaluations of the 3 that it looks back on"),
        ((3.0, 2.9, 2.8), "9 tokens of the 20 that it asks for"),
    ],
)
def test_what_a_gate_lacks_is_told_in_figures(
    plan: RunPlan, bits: tuple[float, ...], lacks: str
) -> None:
    figures = tuple(
        factories.figure(value, step=step, scored_bytes=1) for step, value in enumerate(bits)
    )
    rule = AdvanceWhen(
        min_tokens=20, val_bpb=StopsImproving(stops_improving_by=0.5, over_evaluations=2)
    )
    phase = replace(plan.phases[0], advance_when=rule)
    said = held_words(phase, report().model_copy(update={"history": figures}))
    assert f"(why; {lacks})" in said
