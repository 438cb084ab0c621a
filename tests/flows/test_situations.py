"""Answers of status, --dry-run and --explain in a table of workspace situations."""

import io
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from curriculum.pipeline import gates
from curriculum.pipeline.attempts import Attempt
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.execute import Scope
from curriculum.pipeline.forecast import forecast
from curriculum.pipeline.phase_job import job_of
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.references import checkpoint_of
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status import PhaseStatus, StatusInputs, _machine
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Artefact, Store
from curriculum.store.owners import launcher_record, this_process
from curriculum.train.launch.gpu_slots import Slots
from curriculum.train.run_directory import (
    HEARTBEAT,
    JOB,
    REPORT,
    STATE,
    last_ordinal,
    read_job,
    read_report,
    run_recipe,
)
from flows.cli import carried_out, console, phases
from schemas.errors import DietError
from schemas.job import Heartbeat, Job
from schemas.json_text import now
from schemas.manifest import MANIFEST_NAME
from tests.factories import training

DIET = "templates.demo"
LONG_AGO = "2001-01-01T00:00:00.000000+00:00"
PHASES = ("syntax", "file_graph", "repository_graph", "structure", "anneal")


@dataclass
class Place:
    """A workspace as the demo left it, and what can happen to it."""

    home: Path
    stack: ExitStack
    seed: int | None = None
    """Seed of the command line, in place of the diet's."""

    @property
    def order(self) -> RunConfig:
        return RunConfig.of(specialist=DIET, workspace=self.home, seed=self.seed)

    @property
    def plan(self) -> RunPlan:
        return resolve_plan(self.order, dry=True)

    def run(self, phase: str) -> Artefact:
        plan = self.plan
        found = plan.current("runs", next(each for each in plan.phases if each.name == phase))
        assert found is not None
        return found

    def remove(self, *phases: str) -> None:
        """Let these phases have no run, as if they had never begun."""
        for phase in phases:
            shutil.rmtree(self.run(phase).path.parent)
            (self.home / "current" / f"{self.plan.mark_of('runs', phase)}.txt").unlink()

    def diet(self, before: str, after: str) -> None:
        """Change the first such words of the diet, in the workspace's own copy of it."""
        file = self.home / "diets" / f"{DIET}.yaml"
        text = file.read_text()
        assert before in text
        _write(file, text.replace(before, after, 1))

    def begin(self, phase: str) -> Path:
        """An attempt at a phase that isn't finished, beside the finished one; the clock was set back."""
        done = self.run(phase).path
        return self._open(done.with_name("attempt=2"), Attempt.at(done).job)

    def begin_due(self, phase: str) -> Path:
        """The attempt that the diet of now asks for, not finished; the clock was set back."""
        job = self._due(resolve_plan(self.order), phase)
        return self._open(self.home / run_recipe(job).directory / "attempt=1", job)

    def _open(self, path: Path, job: Job) -> Path:
        own = {
            "attempt": int(path.name.partition("=")[2]),
            "begun": LONG_AGO,
            "ordinal": last_ordinal(Store(self.home)) + 1,
        }
        path.mkdir(parents=True)
        (path / JOB).write_text(job.model_copy(update=own).model_dump_json())
        return path

    def _due(self, plan: RunPlan, phase: str) -> Job:
        """The job of a phase as its diet asks for it now."""
        resolved, done = plan.phase(phase), self.run(phase)
        built = build_phase(plan, phase, Context())
        # The mixture must be there: what is trained as it was keeps it.
        mixture = mix_phase(plan, phase, built, Context())
        assert not mixture.planned
        before = plan.before(resolved)
        previous = plan.current("runs", before[-1]) if before else None
        return job_of(plan, resolved, built, mixture, previous, _machine(done))

    def train(self, phase: str, *, stopped: str = "budget", other: bool = False) -> None:
        """A finished run of a phase as its diet asks for it now; with `other` weights than before."""
        done, plan = self.run(phase), self.plan
        store = Store(self.home)
        job = self._due(plan, phase)
        recipe = run_recipe(job)
        folder = store.root / recipe.directory
        number = len([*folder.glob("attempt=*")]) + 1
        path = folder / f"attempt={number}"
        shutil.copytree(done.path, path, copy_function=os.link)
        (path / MANIFEST_NAME).unlink()
        report = read_report(done.path)
        step = Path(report.checkpoint).name
        if other:
            weights = path / "checkpoints" / step / "model.safetensors"
            weights.unlink()
            weights.write_bytes(b"other weights")
        report = report.model_copy(
            update={
                "attempt": number,
                "stopped": stopped,
                "checkpoint": (path / "checkpoints" / step).relative_to(store.root).as_posix(),
            }
        )
        _write(path / REPORT, report.model_dump_json())
        own = {"attempt": number, "begun": LONG_AGO, "ordinal": last_ordinal(store) + 1}
        _write(path / JOB, job.model_copy(update=own).model_dump_json())
        content = f"checkpoints/{step}/"
        closed = store.publish_run(path, recipe, report.model_dump(mode="json"), content=content)
        store.mark(plan.mark_of("runs", phase), [closed])


def _write(file: Path, text: str) -> None:
    """Replace a file: it may be one with the demo's own."""
    file.unlink(missing_ok=True)
    file.write_text(text)


@pytest.fixture
def place(demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A copy of the demo's workspace; files are the same until they are replaced."""
    monkeypatch.delenv("CURRICULUM_GPU_PRICE", raising=False)
    home = tmp_path / "workspace"
    ignored = shutil.ignore_patterns("prefect", ".locks", ".drafts", "slots")
    shutil.copytree(demo_home, home, ignore=ignored, copy_function=os.link)
    for name in ("current", "approvals"):
        if (home / name).is_dir():
            shutil.rmtree(home / name)
            (home / name).mkdir()
    for file in (demo_home / "current").glob("*.txt"):
        shutil.copy(file, home / "current")
    with ExitStack() as stack:
        yield Place(home=home, stack=stack)


def nothing(place: Place) -> None:
    """Leave the demo unchanged."""


def never_begun(place: Place) -> None:
    place.remove(*PHASES)


def only_the_first(place: Place) -> None:
    place.remove(*PHASES[1:])


def the_second_removed(place: Place) -> None:
    place.remove("file_graph")


def trains(place: Place) -> None:
    run = place.begin("structure")
    place.stack.enter_context(training(run))
    beat = Heartbeat(
        step=3, steps=10, valid_tokens=9, tokens_per_second=1500.0, val_bpb=1.5, at=now()
    )
    (run / HEARTBEAT).write_text(beat.model_dump_json())


def begins_to_train(place: Place) -> None:
    run = place.begin("structure")
    place.stack.enter_context(training(run))


def an_edited_diet_trains(place: Place) -> None:
    a_late_share_was_changed(place)
    place.stack.enter_context(training(place.begin_due("structure")))


def an_edited_diet_was_edited_back(place: Place) -> None:
    an_edited_diet_trains(place)
    place.diet("row_length: 512, share: 0.4}", "row_length: 512, share: 0.5}")
    place.diet("row_length: 1024, share: 0.6}", "row_length: 1024, share: 0.5}")


def another_seed_was_cancelled(place: Place) -> None:
    place.seed = 5
    place.begin_due("syntax")
    place.seed = None


def another_process_has_the_pid(place: Place) -> None:
    run = place.begin("structure")
    left = this_process().model_dump_json()
    (run / STATE).write_text(left)
    launcher = launcher_record(place.home, read_job(run / JOB).run_key)
    launcher.parent.mkdir(exist_ok=True)
    launcher.write_text(left)


def another_machine_fell_silent(place: Place) -> None:
    run = place.begin("structure")
    away = this_process().model_copy(update={"host": "elsewhere", "at": LONG_AGO})
    (run / STATE).write_text(away.model_dump_json())


def stopped_with_a_checkpoint(place: Place) -> None:
    run, done = place.begin("structure"), place.run("structure").path
    newest = checkpoint_of(place.home, str(done))
    shutil.copytree(newest, run / "checkpoints" / "step=4", copy_function=os.link)


def failed(place: Place) -> None:
    run, done = place.begin("structure"), place.run("structure").path
    report = read_report(done).model_copy(update={"stopped": "failed", "reason": "loss is nan"})
    (run / REPORT).write_text(report.model_dump_json())


def cancelled(place: Place) -> None:
    run, done = place.begin("structure"), place.run("structure").path
    report = read_report(done).model_copy(update={"stopped": "cancelled", "reason": "told to"})
    (run / REPORT).write_text(report.model_dump_json())


def waits_for_a_slot(place: Place) -> None:
    run, said = place.begin("structure"), threading.Event()
    slots = Slots(place.home / "slots", 1)

    def wait() -> None:
        with slots.hold(str(run), lambda _: said.set()):
            pass

    thread = threading.Thread(target=wait)
    # Left in the other order: the slot is let go, the one that waits has it and ends.
    place.stack.callback(thread.join)
    place.stack.enter_context(slots.hold(str(place.run("syntax").path), lambda _: None))
    thread.start()
    assert said.wait(120)


def trained_anew_with_other_weights(place: Place) -> None:
    place.train("file_graph", other=True)


def trained_anew_with_the_same_weights(place: Place) -> None:
    place.train("file_graph")


def gate_not_met(place: Place) -> None:
    gate = "advance_when: {min_tokens: 1}\n    on_budget: hold\n    require: [leakcheck]"
    place.diet("require: [leakcheck]", gate)
    place.train("syntax")
    place.remove(*PHASES[1:])


def unapproved(place: Place) -> None:
    place.diet("require: [leakcheck]", "require: [leakcheck, approval]")
    place.train("syntax")
    place.remove(*PHASES[1:])


def approved(place: Place) -> None:
    unapproved(place)
    gates.write_approval(Store(place.home), place.run("syntax"), who="me")


def another_attempt_was_approved(place: Place) -> None:
    approved(place)
    place.train("syntax", other=True)


def a_share_was_changed(place: Place) -> None:
    place.diet("share: 0.6}", "share: 0.7}")
    place.diet("share: 0.2}", "share: 0.1}")


def a_late_share_was_changed(place: Place) -> None:
    place.diet("row_length: 512, share: 0.5}", "row_length: 512, share: 0.4}")
    place.diet("row_length: 1024, share: 0.5}", "row_length: 1024, share: 0.6}")


def another_model(place: Place) -> None:
    place.diet("model: tiny", "model: attention-tiny")


def another_corpus_rule(place: Place) -> None:
    file = place.home / "corpora" / "sample.yaml"
    _write(file, file.read_text().replace("val_fraction: 0.25", "val_fraction: 0.2"))


def the_diet_is_broken(place: Place) -> None:
    place.diet("portion: 0.4", "portion: much")


def ordered_with_another_seed(place: Place) -> None:
    place.seed = 5
    place.train("syntax")
    place.remove(*PHASES[1:])


@dataclass(frozen=True, kw_only=True)
class Situation:
    """An event and the expected answers."""

    arrange: Callable[[Place], None]
    states: str
    """States of the five phases, in order."""
    phase: str = ""
    why: str = ""
    """A part of what is said of that phase."""
    trains: str = ""
    """The phases that a dry run would train, in order; `broken` where it refuses."""
    explained: str = "Nothing to do"
    """A part of what --explain says."""


DONE = "done done done done done"
TABLE = (
    Situation(arrange=nothing, states=DONE),
    Situation(
        arrange=only_the_first,
        states="done missing waiting waiting waiting",
        phase="file_graph",
        why="comes next: curriculum run templates.demo",
        trains="file_graph repository_graph structure anneal",
        explained="runs: 4 artefacts",
    ),
    Situation(
        arrange=only_the_first,
        states="done missing waiting waiting waiting",
        phase="structure",
        why="for file_graph, which is missing",
        trains="file_graph repository_graph structure anneal",
        explained="first version",
    ),
    Situation(
        arrange=never_begun,
        states="missing waiting waiting waiting waiting",
        phase="syntax",
        why="comes next",
        trains="syntax file_graph repository_graph structure anneal",
        explained="runs: 5 artefacts",
    ),
    Situation(
        arrange=the_second_removed,
        states="done missing stale stale stale",
        phase="repository_graph",
        why="it starts from file_graph, which is missing",
        trains="file_graph repository_graph structure anneal",
        explained="phase-file_graph  first version",
    ),
    Situation(
        arrange=trains,
        states=DONE,
        phase="structure",
        why="step 3 of 10, 1.5k tokens/s, val_bpb 1.500; process",
    ),
    Situation(
        arrange=begins_to_train,
        states=DONE,
        phase="structure",
        why="starting; process",
    ),
    Situation(
        arrange=an_edited_diet_trains,
        states="done done done running stale",
        phase="anneal",
        why="it starts from structure, which is running",
        trains="structure anneal",
        explained="phase-anneal",
    ),
    Situation(
        arrange=an_edited_diet_was_edited_back,
        states=DONE,
        phase="structure",
        why=" is running: starting; process",
    ),
    Situation(
        arrange=another_seed_was_cancelled,
        states=DONE,
        phase="syntax",
        why=" was interrupted: stopped before a checkpoint",
    ),
    Situation(
        arrange=another_process_has_the_pid,
        states=DONE,
        phase="structure",
        why="stopped before a checkpoint; it starts again",
    ),
    Situation(
        arrange=another_machine_fell_silent,
        states=DONE,
        phase="structure",
        why=" steps; attempt 2 was interrupted: stopped before a checkpoint",
    ),
    Situation(
        arrange=stopped_with_a_checkpoint,
        states=DONE,
        phase="structure",
        why="stopped at step 4 of",
    ),
    Situation(
        arrange=failed,
        states=DONE,
        phase="structure",
        why="loss is nan",
    ),
    Situation(
        arrange=cancelled,
        states=DONE,
        phase="structure",
        why="cancelled before a checkpoint",
    ),
    Situation(
        arrange=waits_for_a_slot,
        states=DONE,
        phase="structure",
        why="for a GPU slot; held by process",
    ),
    Situation(
        arrange=trained_anew_with_other_weights,
        states="done done stale stale stale",
        phase="repository_graph",
        why="input previous was rebuilt",
        trains="repository_graph structure anneal",
        explained="input previous",
    ),
    Situation(arrange=trained_anew_with_the_same_weights, states=DONE),
    Situation(
        arrange=gate_not_met,
        states="holds waiting waiting waiting waiting",
        phase="syntax",
        why="its budget ended before its gate opened",
        trains="file_graph repository_graph structure anneal",
    ),
    Situation(
        arrange=unapproved,
        states="waiting waiting waiting waiting waiting",
        phase="syntax",
        why="curriculum approve templates.demo syntax",
        trains="file_graph repository_graph structure anneal",
    ),
    Situation(
        arrange=approved,
        states="done missing waiting waiting waiting",
        trains="file_graph repository_graph structure anneal",
        explained="runs: 4 artefacts",
    ),
    Situation(
        arrange=another_attempt_was_approved,
        states="waiting waiting waiting waiting waiting",
        phase="syntax",
        why="waits for approval",
        trains="file_graph repository_graph structure anneal",
    ),
    Situation(
        arrange=a_share_was_changed,
        states="stale stale stale stale stale",
        phase="syntax",
        why="servings.0.share: 0.6 → 0.7 (and 1 more)",
        trains="syntax file_graph repository_graph structure anneal",
        explained="servings.0.share: 0.6 → 0.7",
    ),
    Situation(
        arrange=a_late_share_was_changed,
        states="done done done stale stale",
        phase="anneal",
        why="it starts from structure, which is stale",
        trains="structure anneal",
        explained="servings.0.share: 0.5 → 0.4",
    ),
    Situation(
        arrange=another_model,
        states="stale stale stale stale stale",
        phase="syntax",
        why="model.blocks",
        trains="syntax file_graph repository_graph structure anneal",
        explained="model.blocks",
    ),
    Situation(
        arrange=another_corpus_rule,
        states="stale stale stale stale stale",
        phase="syntax",
        why="val_fraction: 0.25 → 0.2",
        trains="syntax file_graph repository_graph structure anneal",
        explained="val_fraction: 0.25 → 0.2",
    ),
    Situation(
        arrange=the_diet_is_broken,
        states=DONE,
        phase="syntax",
        why="can't be compared with its diet",
        trains="broken",
    ),
)


@pytest.mark.parametrize("situation", TABLE, ids=lambda each: f"{each.arrange.__name__}")
def test_what_is_said_of_a_situation_is_so(
    place: Place, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    situation.arrange(place)
    found = [*StatusInputs.read(Store(place.home, dry=True), Resources()).phase_statuses()]
    assert [each.phase for each in found] == [*PHASES]
    assert " ".join(each.state for each in found) == situation.states, _states_text(found)
    assert situation.why in {each.phase: each for each in found}[situation.phase or "syntax"].why
    if situation.trains == "broken":
        with pytest.raises(DietError, match="much"):
            assert place.plan
        return
    ahead = forecast(place.plan, Scope(gates=False), Context())
    assert [each.phase for each in ahead.phases if each.tokens] == situation.trains.split()
    said = Console(record=True, width=400, file=io.StringIO())
    for module in (carried_out, console):
        monkeypatch.setattr(module, "out", said)
    phases.make(place.order, Scope(retrain=True), dry=True)
    assert situation.explained in said.export_text()


def _states_text(found: list[PhaseStatus]) -> str:
    return "\n".join(f"{each.phase} {each.state}: {each.why}" for each in found)
