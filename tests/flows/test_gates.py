"""The gates between phases: what the report, the diet and people's approvals mean for what comes next."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from curriculum.pipeline import gates
from curriculum.pipeline.gates import Kind, verdict
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Store
from schemas.diet import AdvanceWhen
from schemas.errors import JobError, StoreError
from schemas.job import Stopped
from tests.flows.stand_ins import finished, report


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty workspace."""
    return Store(tmp_path)


def _plan(store: Store, *, on_budget: Literal["advance", "hold"] = "advance") -> RunPlan:
    plan = resolve_plan(RunConfig.of(specialist="templates.demo", workspace=store.root), dry=True)
    first = replace(plan.phases[0], advance_when=AdvanceWhen(min_tokens=1), on_budget=on_budget)
    return replace(plan, phases=(first, *plan.phases[1:]))


def _asking(store: Store) -> RunPlan:
    plan = _plan(store)
    first = replace(plan.phases[0], require=("leakcheck", "approval"))
    return replace(plan, phases=(first, *plan.phases[1:]))


@pytest.mark.parametrize(
    ("stopped", "on_budget", "kind"),
    [
        ("gate", "hold", "open"),
        ("gate", "advance", "open"),
        ("budget", "advance", "open"),
        ("budget", "hold", "holds"),
        ("cancelled", "advance", "cancelled"),
    ],
)
def test_the_report_decides(
    store: Store, stopped: Stopped, on_budget: Literal["advance", "hold"], kind: Kind
) -> None:
    gate = verdict(
        _plan(store, on_budget=on_budget), "syntax", finished(store, report(stopped=stopped))
    )
    assert gate.kind == kind
    assert gate.is_open is (kind == "open") is (gate.why == "")


def test_a_failure_is_an_error_that_names_the_run(store: Store) -> None:
    failed = finished(store, report(stopped="failed"))
    with pytest.raises(JobError, match=str(failed.path)):
        verdict(_plan(store), "syntax", failed)


def test_a_phase_that_requires_approval_waits_and_says_how_to_give_it(store: Store) -> None:
    run = finished(store, report())
    gate = verdict(_asking(store), "syntax", run)
    assert gate.kind == "waits"
    assert gate.why.endswith("curriculum approve templates.demo syntax")
    gates.write_approval(store, run, who="ada", comment="looks right")
    assert verdict(_asking(store), "syntax", run).is_open


def test_a_gate_that_was_not_met_is_not_opened_by_an_approval(store: Store) -> None:
    run = finished(store, report())
    gates.write_approval(store, run, who="ada")
    assert verdict(_plan(store, on_budget="hold"), "syntax", run).kind == "holds"


def test_an_approval_holds_for_its_attempt_only(store: Store) -> None:
    first = finished(store, report(), weights="first")
    gates.write_approval(store, first, who="ada")
    second = finished(store, report(attempt=2), weights="second")
    assert first.key == second.key
    assert gates.find_approval(store, second) is None
    gates.write_approval(store, second, who="grace")
    found = [gates.find_approval(store, each) for each in (first, second)]
    assert [each.who for each in found if each] == ["ada", "grace"]


def test_an_approval_does_not_hold_for_other_weights_at_its_place(store: Store) -> None:
    run = finished(store, report(), weights="first")
    gates.write_approval(store, run, who="ada")
    assert gates.find_approval(store, run) is not None
    other = finished(store, report(), weights="trained again after its directory was deleted")
    assert gates.approval_file(store, other) == gates.approval_file(store, run)
    assert gates.find_approval(store, other) is None


def test_an_approval_says_who_when_and_of_what(store: Store) -> None:
    run = finished(store, report())
    gates.write_approval(store, run, who="ada", comment="looks right")
    said = gates.read_approval(gates.approval_file(store, run))
    assert (said.who, said.comment) == ("ada", "looks right")
    assert (said.specialist, said.branch, said.phase) == ("templates", "demo", "syntax")
    assert said.when.endswith("+00:00")


def test_a_file_that_is_no_approval_is_named(store: Store) -> None:
    run = finished(store, report())
    file = gates.approval_file(store, run)
    file.parent.mkdir()
    file.write_text('{"who": "ada"}')
    with pytest.raises(StoreError, match=f"{file.name}.*approval"):
        verdict(_asking(store), "syntax", run)
