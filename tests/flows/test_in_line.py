"""Several specialists at once, on one server with one slot to train in."""

from datetime import datetime
from itertools import pairwise

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun

from tests.flows.serving import Served, furnish, serving, wait_until

SPECIALISTS = ("testing", "templates", "algorithms")
DIET = """\
specialist: {specialist}
branch: queue
why: one short phase
phases_file: short
corpus: small
model: tiny
tokenizer: corpus
vocab_size: 512
token_budget: 12K
seed: {seed}
phases:
  - phase: first
    portion: 1.0
    servings: [{{family: v3_simple, share: 1.0}}]
"""


def start(client: SyncPrefectClient, diet: str) -> FlowRun:
    run = client.read_deployment_by_name("run/run")
    return client.create_flow_run_from_deployment(
        run.id, parameters={"specialist": diet, "phase": "all"}
    )


def trainings(served: Served) -> list[FlowRun]:
    with served.client() as client:
        return client.read_flow_runs(flow_filter=FlowFilter(name=FlowFilterName(any_=["train"])))


def moments(run: FlowRun) -> tuple[datetime, datetime, datetime]:
    """Return the times at which a run was requested, started and ended."""
    assert run.created
    assert run.start_time
    assert run.end_time
    return run.created, run.start_time, run.end_time


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_three_specialists_train_one_at_a_time_in_order_of_arrival(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("homes") / "home"
    # With one seed it would be one run, which serves all three.
    diets = {
        f"{each}_queue": DIET.format(specialist=each, seed=seed)
        for seed, each in enumerate(SPECIALISTS)
    }
    furnish(home, tmp_path_factory.mktemp("samples"), **diets)
    with serving(home) as served:
        with served.client() as client:
            runs = [start(client, diet) for diet in diets]
        wait_until(
            lambda: all(served.run(each.id).state_name == "Completed" for each in runs),
            seconds=1200,
            words=lambda: [served.run(each.id) for each in runs],
        )
        trained = trainings(served)
    assert sorted(each.parameters["specialist"] for each in trained) == sorted(diets)
    times = sorted(map(moments, trained))
    assert len({arrived for arrived, _, _ in times}) == len(SPECIALISTS)
    for (_, _, ended), (_, began, _) in pairwise(times):
        assert ended <= began, "in order of arrival, one at a time"
    reports = [*home.glob("runs/specialist-*/branch-queue/phase-first/*/attempt=1/report.json")]
    assert len(reports) == len(SPECIALISTS)
    rows = [*home.glob("rows/family-v3_simple/*/*/*/split-train/*/manifest.json")]
    assert len(rows) == 1, "what is alike was built once"
