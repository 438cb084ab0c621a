"""Runs of a server as their logs and names tell them: progress of training, and Cancel."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.states import Cancelling

from curriculum.train.checkpoint import newest
from tests.flows.serving import Served, furnish, serving, wait_until

DIET = """\
specialist: testing
branch: cancelled
phases_file: short
corpus: small
model: tiny
tokenizer: corpus
vocab_size: 512
token_budget: 40M
phases: [{phase: first, portion: 1.0, max_repetition: 100000, servings: [{family: v3_simple, share: 1.0}]}]
"""
NAME = "Longer than the last"
STEPS = re.compile(r"\b[1-9][\d,]* of [\d,]+ steps")


def lines(served: Served, run: UUID) -> list[str]:
    with served.client() as client:
        wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run]))
        return [each.message for each in client.read_logs(wanted)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    home = tmp_path / "home"
    furnish(home, tmp_path / "samples", ours=DIET)
    with serving(home) as served:
        yield served


@pytest.mark.system
def test_a_run_logs_its_training_and_a_cancel_names_the_checkpoint(served: Served) -> None:
    with served.client() as client:
        deployment = client.read_deployment_by_name("run/run")
        asked = client.create_flow_run_from_deployment(
            deployment.id, parameters={"specialist": "ours"}, name=NAME
        )
    parent = asked.id
    wait_until(
        lambda: any(map(STEPS.search, lines(served, parent))),
        words=lambda: "\n".join(lines(served, parent)),
    )
    with served.client() as client:
        (child,) = (each for each in client.read_flow_runs() if each.parent_task_run_id)
        client.set_flow_run_state(parent, Cancelling())
    for run in (child.id, parent):
        served.await_state(run, "Cancelled")
        log = "\n".join(lines(served, run))
        assert "Crash detected" not in log
        assert "Running()" not in log
    assert served.run(parent).name == NAME
    assert served.run(child.id).name == "train ours first"
    (folder,) = served.home.glob("runs/**/checkpoints")
    checkpoint = newest(folder)
    assert checkpoint is not None
    assert checkpoint.relative_to(served.home).as_posix() in "\n".join(lines(served, child.id))
