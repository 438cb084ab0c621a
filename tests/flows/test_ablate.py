"""Ablations as flow runs: each arm and seed is a task in the gpu pool, and a retry reuses finished runs.

Fake steps replace the pipeline's: their runs have no measurements, so the outcome is fake, too.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import yaml
from prefect import flow, runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterId,
)
from prefect.client.schemas.objects import State
from prefect.deployments.runner import RunnerDeployment
from prefect.states import Cancelling, Scheduled

from curriculum.ablations import ablate as judging
from curriculum.ablations.evidence import Trained
from curriculum.inspection.formats import Line
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact, Store
from flows import ablate as flow_module
from flows import artifacts, dispatch
from flows.ablate import ablate
from flows.settings import trust
from flows.train import train
from schemas.errors import CurriculumError, DietError, StoreError
from tests.flows.stand_ins import FakeSteps, finished, report
from tests.flows.test_dispatch import Workers

pytestmark = pytest.mark.usefixtures("prefect_server")
DIET = {
    "specialist": "small",
    "corpus": "sample",
    "phases_file": "phases.demo",
    "vocab_size": 800,
    "model": "tiny",
    "token_budget": 24_000,
    "tokens_per_step": 1024,
    "phases": [
        {"phase": "syntax", "portion": 1.0, "servings": [{"family": "v2_simple", "share": 1.0}]}
    ],
}
ABLATION = {
    "name": "masks",
    "diet": "./diet.yaml",
    "arms": {"unmasked": {"study": {"document_mask": "off"}}},
    "seeds": [1, 2],
    "claims": [{"claim": "masks | help", "arm": "unmasked", "direction": "higher"}],
}
ARMS = [f"{arm} seed {seed}" for seed in (1, 2) for arm in ("base", "null", "control", "unmasked")]


@dataclass
class FakeArmSteps(FakeSteps):
    """Fake steps with one run per arm."""

    runs: dict[tuple[str | None, str], Artefact] = field(default_factory=dict)

    def train(
        self,
        plan: RunPlan,
        phase: str,
        built: object,
        mixture: object,
        context: Context,
        *,
        retrain: bool,
    ) -> Artefact:
        arm = (plan.diet.branch, phase)
        if arm not in self.runs:
            if self.failures:
                raise self.failures.pop()
            self.opened.append(f"train {plan.diet.branch} {phase}")
            said = report(phase=phase, attempt=len(self.runs) + 1)
            self.runs[arm] = finished(plan.store, said)
        return self.runs[arm]

    def trained(self, plan: RunPlan, phase: str, resources: Resources) -> Artefact | None:
        return self.runs.get((plan.diet.branch, phase))


@pytest.fixture
def fake_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeArmSteps:
    """Return fake steps for the flow, in a workspace with an ablation."""
    fake_steps = FakeArmSteps()
    fake_steps.stand_in(monkeypatch, tmp_path)
    outcome = SimpleNamespace(spec=SimpleNamespace(name="masks"), arms=())
    monkeypatch.setattr(Trained, "from_runs", lambda *_: None)
    monkeypatch.setattr(judging, "judge", lambda *_: outcome)
    monkeypatch.setattr(judging, "outcome_report", lambda *_: None)
    monkeypatch.setattr(judging, "publish", lambda *_: None)
    monkeypatch.setattr(flow_module, "write_ablation", lambda *_: None)
    monkeypatch.setattr(flow_module, "outcome_warnings", lambda _: ["there are | no verdicts"])
    lines = [{"claim": "masks | <b>help", "verdict": "none", "difference": "+0.0388"}]
    monkeypatch.setattr(flow_module, "claim_lines", lambda _: lines)
    folder = tmp_path / "ablations"
    folder.mkdir()
    (folder / "diet.yaml").write_text(yaml.safe_dump(DIET))
    (folder / "masks.yaml").write_text(yaml.safe_dump(ABLATION))
    return fake_steps


@pytest.fixture(scope="module")
def deployed(prefect_server: None) -> None:
    """Deployments of both flows."""
    for each in (ablate, train):
        RunnerDeployment.from_flow(each, name=each.name).apply()


@pytest.fixture
def workers(
    monkeypatch: pytest.MonkeyPatch, deployed: None, fake_steps: FakeArmSteps
) -> Iterator[Workers]:
    """Whoever works in both pools."""
    monkeypatch.setattr(dispatch, "POLL_S", 0.2)
    monkeypatch.setattr(dispatch.dispatch_task, "retry_delay_seconds", 0)
    with get_client(sync_client=True) as client:
        workers = Workers(client, fake_steps)
        monkeypatch.setattr(dispatch, "run_deployment", workers.in_line)
        yield workers


def tasks_of(workers: Workers, run: UUID) -> list[str]:
    """The names of a flow run's tasks, of arms alone, in their order."""
    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[run]))
    found = workers.client.read_task_runs(flow_run_filter=wanted)
    begun = sorted(found, key=lambda each: str(each.start_time))
    return [each.name for each in begun if " seed " in each.name]


def artifacts_of(run: UUID) -> ArtifactFilter:
    return ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))


def test_each_arm_and_seed_is_a_task_and_trains_in_a_flow_run_of_its_own(workers: Workers) -> None:
    asked = workers.ask(ablate, file="ablations/masks.yaml")
    with workers.gpu(lambda each: workers.work(train, each)):
        ended = workers.work(ablate, asked)
    assert ended.state_name == "Completed", ended.state
    assert ended.name == "ablate masks"
    assert "ablation:masks" in ended.tags
    assert tasks_of(workers, asked) == ARMS
    children = workers.children(asked)
    assert [each.name for each in children] == [
        f"train masks-{arm.replace(' seed ', '-')} syntax" for arm in ARMS
    ]
    assert {each.state_name for each in children} == {"Completed"}
    found = workers.client.read_artifacts(artifact_filter=artifacts_of(asked))
    assert [each.key for each in found if each.type == "markdown"] == ["ablation-masks"]


def test_its_artifact_is_a_table_with_notes_and_a_link() -> None:
    @flow(name="shows")
    def shows() -> str:
        lines: list[Line] = [
            {"claim": "masks | <b>help", "verdict": "none", "difference": "+0.0388"}
        ]
        link = ("Ablations page", "http://127.0.0.1:4201/ablations/")
        notes = ["there are | no verdicts"]
        artifacts.show_table_and_link("ablation-masks", lines, notes=notes, link=link)
        return str(runtime.flow_run.id)

    run = shows()
    with get_client(sync_client=True) as client:
        (shown,) = client.read_artifacts(artifact_filter=artifacts_of(UUID(run)))
    assert (shown.type, shown.key) == ("markdown", "ablation-masks")
    notes, table, link = str(shown.data).split("\n\n")
    assert notes == r"there are \| no verdicts"
    assert table.splitlines() == [
        "| claim | verdict | difference |",
        "| --- | --- | --- |",
        r"| masks \| \<b\>help | none | \+0.0388 |",
    ]
    assert link == "[Ablations page](http://127.0.0.1:4201/ablations/)"


def test_a_retry_trains_the_arms_that_are_missing_by_the_diets_it_began_with(
    workers: Workers, fake_steps: FakeArmSteps, tmp_path: Path
) -> None:
    fake_steps.failures = [DietError("x", cause="the disk is full", cure="Free some")]
    asked = workers.ask(ablate, file="ablations/masks.yaml")
    with workers.gpu(lambda each: workers.work(train, each)):
        assert workers.work(ablate, asked).state_name == "Failed"
        assert fake_steps.runs == {}
        diet = tmp_path / "ablations" / "diet.yaml"
        diet.write_text(yaml.safe_dump(DIET | {"model": "small"}))
        failed: State[Any] = Scheduled(name="AwaitingRetry")
        workers.client.set_flow_run_state(asked, failed, force=True)
        assert workers.work(ablate, asked).state_name == "Completed"
    trained = [each for each in fake_steps.opened if each.startswith("train")]
    assert len(trained) == len(fake_steps.runs) == len(ARMS)
    snapshots = {file.name for file in (tmp_path / "configs").glob(f"{asked}-*.json")}
    assert snapshots == {f"{asked}-{arm.replace(' seed ', '-')}.json" for arm in ARMS}
    assert all('"model": "tiny"' in (tmp_path / "configs" / name).read_text() for name in snapshots)


def test_who_cancels_an_ablation_cancels_its_training(
    workers: Workers, fake_steps: FakeArmSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = workers.ask(ablate, file="ablations/masks.yaml")

    class Stopped(BaseException):
        """Stands for the signal that ends a process."""

    def cancelled(child: UUID, _: object) -> object:
        workers.client.set_flow_run_state(asked, Cancelling(), force=True)
        raise Stopped

    monkeypatch.setattr(dispatch, "_await_end", cancelled)
    with contextlib.suppress(Stopped):
        workers.work(ablate, asked)
    (child,) = workers.children(asked)
    assert child.state_name in ("Cancelling", "Cancelled")


@pytest.mark.parametrize(
    ("content", "fault"),
    [("name: [", DietError), ("name: a\nwhy: b\n", DietError), (None, DietError)],
)
def test_a_file_that_is_no_ablation_fails_the_run_before_anything_is_trained(
    fake_steps: FakeArmSteps, tmp_path: Path, content: str | None, fault: type[CurriculumError]
) -> None:
    file = tmp_path / "ablations" / "odd.yaml"
    if content is not None:
        file.write_text(content)
    state: State[Any] = ablate(file=str(file), return_state=True)
    assert state.is_failed()
    with pytest.raises(fault):
        state.result()
    assert fake_steps.opened == []


def test_an_ablation_of_a_workspace_that_is_not_trusted_is_refused(
    fake_steps: FakeArmSteps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CURRICULUM_TRUST")
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))
    own, received = tmp_path / "own", tmp_path / "received"
    trust.make_trusted(own)
    monkeypatch.setenv("CURRICULUM_HOME", str(own))
    Store(received).open()
    (received / "ablations").mkdir()
    for name in ("diet.yaml", "masks.yaml"):
        text = (tmp_path / "ablations" / name).read_text()
        (received / "ablations" / name).write_text(text)
    link = tmp_path / "link.yaml"
    link.symlink_to(received / "ablations" / "masks.yaml")
    for file in (received / "ablations" / "masks.yaml", link):
        state: State[Any] = ablate(file=str(file), return_state=True)
        with pytest.raises(StoreError, match="curriculum trust"):
            state.result()
    assert fake_steps.opened == []
