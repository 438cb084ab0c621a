"""Notifications of a run and their wording; none is sent twice."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import pytest

from curriculum.pipeline import notifications
from curriculum.pipeline.execute import Scope, Step, execute
from curriculum.pipeline.gates import Verdict
from curriculum.pipeline.notifiers import EventSource
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Artefact, Store
from curriculum.store.artefact import Recipe
from flows.settings.contexts import context_of
from schemas.errors import JobError, JobKilledError, JobMemoryError, NotFiniteError
from schemas.job import Report, Stopped
from schemas.progress import Event
from tests import factories

Result = TypeVar("Result")


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    """The demo's course in a workspace of its own."""
    return resolve_plan(RunConfig.of(specialist="templates.demo", workspace=tmp_path / "lab"))


def _report(phase: str, stopped: Stopped = "budget") -> Report:
    return factories.run_report(
        phase=phase, stopped=stopped, tokens_per_second=4.0, seconds=3.0, checkpoint="x"
    )


def _run(plan: RunPlan, phase: str, stopped: Stopped = "budget", seed: int = 0) -> Artefact:
    recipe = Recipe(
        stage="runs",
        labels=(("specialist", "templates"), ("branch", "demo"), ("phase", phase)),
        revision=seed,
    )

    def make(drafts: object) -> None:
        for draft in drafts:  # type: ignore[attr-defined]
            (draft.path / "report.json").write_text(_report(phase, stopped).model_dump_json())
            draft.report.update(_report(phase, stopped).model_dump(mode="json"))

    return Store(plan.store.root).produce([recipe], make)[0]


def test_a_gate_that_waits_is_told_once_for_each_run(
    plan: RunPlan, sent_events: Callable[[], list[Event]]
) -> None:
    run, gate = _run(plan, "syntax"), Verdict(kind="waits", phase="syntax", why="approve it")
    for _ in range(3):
        notifications.at_gate(plan, run, gate, context_of())
    (event,) = sent_events()
    assert (event.event, event.text, event.phase) == ("gate_waiting", "approve it", "syntax")
    assert (event.specialist, event.branch, event.workspace) == ("templates", "demo", "lab")
    assert event.run == run.path.relative_to(plan.store.root).as_posix()
    notifications.at_gate(plan, _run(plan, "syntax", seed=1), gate, context_of())
    assert len(sent_events()) == 2, "other weights wait for an approval of their own"


def test_a_gate_that_wasnt_met_is_told_and_an_open_one_isnt(
    plan: RunPlan, sent_events: Callable[[], list[Event]]
) -> None:
    run = _run(plan, "syntax")
    notifications.at_gate(plan, run, Verdict(kind="open", phase="syntax"), context_of())
    notifications.at_gate(
        plan, run, Verdict(kind="cancelled", phase="syntax", why="stopped"), context_of()
    )
    assert sent_events() == []
    notifications.at_gate(
        plan, run, Verdict(kind="holds", phase="syntax", why="raise the budget"), context_of()
    )
    assert [each.event for each in sent_events()] == ["gate_not_met"]


def test_what_couldnt_be_sent_is_told_the_next_time(
    plan: RunPlan, sent_events: Callable[[], list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, gate = _run(plan, "syntax"), Verdict(kind="waits", phase="syntax", why="approve it")
    with monkeypatch.context() as broken:
        broken.setenv("CURRICULUM_NOTIFY", "false")
        said: list[str] = []
        notifications.at_gate(plan, run, gate, context_of(warn=said.append))
        assert len(said) == 1
    with monkeypatch.context() as silent:
        silent.delenv("CURRICULUM_NOTIFY")
        notifications.at_gate(plan, run, gate, context_of())
    notifications.at_gate(plan, run, gate, context_of())
    assert len(sent_events()) == 1


def test_a_curriculum_is_done_when_its_last_phase_is(
    plan: RunPlan, sent_events: Callable[[], list[Event]]
) -> None:
    runs = [_run(plan, each.name) for each in plan.phases]
    notifications.at_end(plan, runs[0], context_of())
    assert sent_events() == []
    for _ in range(2):
        notifications.at_end(plan, runs[-1], context_of())
    (event,) = sent_events()
    assert (event.event, event.phase) == ("done", "anneal")
    assert event.text.startswith("templates/demo ")
    assert "9 tokens" in event.text


def test_a_last_phase_whose_gate_is_closed_isnt_done(
    plan: RunPlan, sent_events: Callable[[], list[Event]]
) -> None:
    phases = (*plan.phases[:-1], replace(plan.phases[-1], require=("approval",)))
    run = _run(plan, "anneal")

    def perform(step: Step[Result], /) -> Result:
        return cast("Result", run if step.verb == "train" else None)

    scope = Scope(phase="anneal")
    assert [*execute(replace(plan, phases=phases), perform, scope, context_of())]
    assert [event.event for event in sent_events()] == ["gate_waiting"]
    assert [*execute(plan, perform, scope, context_of())]
    assert [event.event for event in sent_events()] == ["gate_waiting", "done"]


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (NotFiniteError, "not_finite"),
        (JobMemoryError, "out_of_memory"),
        (JobKilledError, "crashed"),
    ],
)
def test_how_a_job_ended_is_told_by_its_kind_and_the_error_goes_on(
    plan: RunPlan, sent_events: Callable[[], list[Event]], kind: type[JobError], event: str
) -> None:
    run = plan.store.root / "runs" / "attempt=1"
    lines = ("step 3", "something broke")
    failed = kind(str(run), "exit code 1", cause="training ended", cure="Try again", lines=lines)
    with pytest.raises(kind), notifications.training(plan, "syntax", context_of()):
        raise failed
    (sent,) = sent_events()
    assert (sent.event, sent.phase, sent.run) == (event, "syntax", "runs/attempt=1")
    assert sent.text.startswith("syntax of templates/demo ")
    assert "exit code 1. " in sent.text
    assert sent.text.endswith(": something broke. Try again.")


def test_any_other_end_of_training_is_a_crash_and_a_refusal_is_none(
    plan: RunPlan, sent_events: Callable[[], list[Event]]
) -> None:
    run = plan.store.root / "runs" / "attempt=1"
    run.mkdir(parents=True)
    refused = JobError(
        str(run), "process 7 on x", cause="this process is training the run now", cure="Wait"
    )
    with pytest.raises(JobError), notifications.training(plan, "syntax", context_of()):
        raise refused
    assert sent_events() == [], "who asked sees it"
    (run / "report.json").write_text(_report("syntax", "failed").model_dump_json())
    with pytest.raises(JobError), notifications.training(plan, "syntax", context_of()):
        raise JobError(str(run), "exit code 1", cause="training ended", cure="Mend it")
    assert [each.event for each in sent_events()] == ["crashed"]


def test_a_stall_is_told_and_said(plan: RunPlan, sent_events: Callable[[], list[Event]]) -> None:
    said: list[str] = []
    notifications.stalled(plan, "syntax", context_of(warn=said.append))("no step for 12 min")
    assert said == ["no step for 12 min"]
    (event,) = sent_events()
    assert (event.event, event.text) == (
        "stalled",
        "syntax of templates/demo: no step for 12 min",
    )


def test_a_flow_run_that_broke_down_is_told_once(
    sent_events: Callable[[], list[Event]], tmp_path: Path
) -> None:
    whose, words = EventSource(home=tmp_path, specialist="x"), "its process was killed"
    for _ in range(2):
        assert notifications.broken_down(
            whose, "run x all", words, mark="run-state", context=context_of()
        )
    (event,) = sent_events()
    assert event.event == "crashed"
    assert event.text.startswith("run x all ")
    assert event.text.endswith(f": {words}")
    assert notifications.broken_down(
        whose, "run x all", words, mark="run-its next state", context=context_of()
    )
    assert len(sent_events()) == 2


def test_what_keeps_no_mark_stops_no_run(
    plan: RunPlan, sent_events: Callable[[], list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, gate = _run(plan, "syntax"), Verdict(kind="waits", phase="syntax", why="approve it")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "touch", full)
    said: list[str] = []
    notifications.at_gate(plan, run, gate, context_of(warn=said.append))
    assert len(sent_events()) == 1
    assert "again" in said[0]
