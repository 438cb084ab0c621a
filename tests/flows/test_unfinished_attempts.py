"""An attempt that isn't finished replaces no finished one, whoever reads; attempts are ordered by number."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from curriculum.pipeline.attempts import Attempt, checkpoints
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.execute import Scope
from curriculum.pipeline.forecast import forecast
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.references import checkpoint_of, find, run_of
from curriculum.pipeline.resume import newest_run, resume_point
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Store
from curriculum.train.run_directory import JOB, REPORT, last_ordinal, read_report
from dashboards import overview_panels, run_panels
from dashboards.questions import question
from dashboards.report import index
from flows.cli import app
from schemas.manifest import MANIFEST_NAME
from schemas.specialist import SpecialistRef

DIET, PHASE = "templates.demo", "file_graph"
RUN = f"templates/demo/{PHASE}"
LONG_AGO = "2001-01-01T00:00:00.000000+00:00"
STATE = re.compile(r'<tr data-phase="([^"]*)">.*?<span class="state is-([a-z]+)', re.DOTALL)
Situation = Callable[[Path], Path]


def curriculum(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def begin(home: Path, **changes: object) -> Path:
    """A second attempt at a phase, with its first checkpoint; the clock was set back before it began."""
    done = run_of(Store(home, dry=True), RUN, name="it")
    path = done.path.with_name("attempt=2")
    step, first = min(checkpoints(done.path))
    shutil.copytree(first, path / "checkpoints" / f"step={step}", copy_function=os.link)
    own = {"attempt": 2, "begun": LONG_AGO, "ordinal": last_ordinal(Store(home)) + 1, **changes}
    (path / JOB).write_text(done.job.model_copy(update=own).model_dump_json())
    return path


def ended(home: Path, path: Path, stopped: str) -> Path:
    report = read_report(run_of(Store(home, dry=True), RUN, name="it").path)
    said = {"attempt": 2, "stopped": stopped, "reason": "told so", "after": (), "steps": 1}
    (path / REPORT).write_text(report.model_copy(update=said).model_dump_json())
    return path


def cancelled(home: Path) -> Path:
    return ended(home, begin(home), "cancelled")


def failed(home: Path) -> Path:
    return ended(home, begin(home), "failed")


def of_other_options(home: Path) -> Path:
    """Begun with another seed, and so under another key."""
    path = begin(home, run_key="f" * 64, overrides={"diet": DIET, "seed": "5"})
    other = path.parent.with_name("f" * 12) / "attempt=1"
    other.parent.mkdir()
    shutil.move(path, other)
    return ended(home, other, "cancelled")


SITUATIONS: tuple[Situation, ...] = (cancelled, failed, of_other_options)


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    return copy_of(demo_home, tmp_path / "workspace")


@pytest.fixture(scope="module")
def answers(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return each reader's answer about the finished specialist."""
    return read(copy_of(demo_home, tmp_path_factory.mktemp("finished") / "workspace"))


def copy_of(demo_home: Path, home: Path) -> Path:
    ignored = shutil.ignore_patterns("prefect", ".locks", "slots", "catalog*", "current", "reports")
    shutil.copytree(demo_home, home, ignore=ignored, copy_function=os.link)
    shutil.copytree(demo_home / "current", home / "current")
    return home


def of_status(home: Path) -> object:
    phases = json.loads(curriculum("status", "--json", "--home", str(home)))["phases"]
    told = ("phase", "state", "attempt", "key", "path", "val_bpb", "anchor")
    return [[phase[name] for name in told] for phase in phases]


def of_overview(home: Path) -> object:
    snapshot, old = overview_panels.snapshot(home, Resources())
    assert old == ""
    lines = snapshot.ask(question("panels/standing"), overview_panels.PhaseLine)
    totals = overview_panels.totals(snapshot)
    told = [(line.phase, line.state, line.steps, line.tokens, line.after) for line in lines]
    asked = snapshot.ask(question("panels/attention"), overview_panels.AttentionLine)
    wanting = [line for line in asked if line.kind in ("stale", "failed", "interrupted", "next")]
    return told, totals.done, totals.phases, totals.tokens, wanting


def of_reports(home: Path) -> object:
    return [(entry.name, entry.phases, entry.state) for entry in index.entries(home, Resources())]


def of_report(home: Path) -> object:
    curriculum("report", DIET, "--home", str(home))
    return STATE.findall((home / "reports" / "templates@demo.html").read_text())


def of_forecast(home: Path) -> object:
    plan = resolve_plan(RunConfig.of(specialist=DIET, workspace=home), dry=True)
    return [
        (phase.phase, phase.steps, phase.note)
        for phase in forecast(plan, Scope(), Context()).phases
    ]


def of_gains(home: Path) -> object:
    snapshot, _ = overview_panels.snapshot(home, Resources())
    return [(gain.phase, gain.before, gain.after) for gain in run_panels.gains(snapshot)]


def of_compare(home: Path) -> object:
    words = ("compare", "templates/demo", "templates/demo", "--json", "--home", str(home))
    groups = json.loads(curriculum(*words))["groups"]
    return [(group["phase"], [run["path"] for run in group["runs"]]) for group in groups]


def of_references(home: Path) -> object:
    """Resolve the references of export, sample, inspect, lineage and --continue."""
    store = Store(home, dry=True)
    key = run_of(store, RUN, name="it").job.run_key[:12]
    names = ("templates/demo", "templates", RUN, f"templates.demo/{PHASE}", key)
    return (
        [checkpoint_of(home, name) for name in names],
        [run_of(store, name, name="it").path for name in names],
        [find(store, name).artefacts[0].path for name in names],
        resume_point(store, RUN, None).checkpoint,
    )


def of_lineage(home: Path) -> object:
    return json.loads(curriculum("lineage", RUN, "--step", "1", "--json", "--home", str(home)))


def of_diff(home: Path) -> object:
    words = ("diff", f"templates/demo/{PHASE}", "templates/demo/syntax", "--home", str(home))
    return curriculum(*words)


SQL = {
    "status": "SELECT phase, state, steps, attempt, run FROM status ORDER BY ALL",
    "run_named": f"FROM run_named('{RUN}')",
    "consumed": f"SELECT count(*) FROM consumed('{RUN}', 1)",
    "planned": f"SELECT stratum, realised_tokens FROM planned_vs_realised('templates/demo', '{PHASE}')",
    "stale": "SELECT phase FROM status WHERE state = 'stale'",
    "gates": "FROM gates",
}


def of_sql(home: Path) -> object:
    words = ("--format", "json", "--home", str(home))
    return {name: json.loads(curriculum("query", asked, *words)) for name, asked in SQL.items()}


READERS = (
    of_status,
    of_overview,
    of_reports,
    of_report,
    of_forecast,
    of_gains,
    of_compare,
    of_references,
    of_lineage,
    of_diff,
    of_sql,
)


def read(home: Path) -> dict[str, str]:
    return {reader.__name__: repr(reader(home)).replace(str(home), "HOME") for reader in READERS}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__)
def test_every_reader_keeps_to_the_finished_run(
    home: Path, situation: Situation, answers: dict[str, str]
) -> None:
    path = situation(home)
    assert read(home) == answers
    begun = Attempt.at(path)
    (phase,) = (
        phase
        for phase in json.loads(curriculum("status", "--json", "--home", str(home)))["phases"]
        if phase["phase"] == PHASE
    )
    assert phase["unfinished"]["path"] == path.relative_to(home).as_posix()
    assert f"attempt {begun.job.attempt} " in phase["why"]


def test_a_new_attempt_is_resumed_where_it_is_asked_for_and_only_there(home: Path) -> None:
    step, _ = min(checkpoints(cancelled(home)))
    plan = resolve_plan(RunConfig.of(specialist=DIET, workspace=home), dry=True)
    again = forecast(plan, Scope(phase=PHASE, retrain=True), Context()).phases[0]
    assert again.note.startswith(f"resumes at step {step} of ")
    later = forecast(plan, Scope(phase="repository_graph", retrain=True), Context()).phases[0]
    assert later.note.startswith("a new attempt")


def test_of_two_finished_attempts_a_key_means_the_higher(home: Path) -> None:
    run = run_of(Store(home, dry=True), RUN, name="it")
    again = run.path.with_name("attempt=10")
    shutil.copytree(run.path, again, copy_function=os.link)
    for number in ("attempt=2", "attempt=9"):
        shutil.copytree(run.path, run.path.with_name(number), copy_function=os.link)
        (run.path.with_name(number) / MANIFEST_NAME).unlink()
    store = Store(home, dry=True)
    (found,) = find(store, run.job.run_key[:12]).artefacts
    assert found.path == again
    assert run_of(store, str(run.path.parent), name="it").path == again


def test_the_attempt_that_began_last_is_the_one_of_the_highest_number_whatever_its_clock_said(
    home: Path,
) -> None:
    ref = SpecialistRef("templates", "demo")
    assert newest_run(Store(home, dry=True), ref, {"seed": "9"}).job.phase == "anneal"
    path = cancelled(home)
    assert newest_run(Store(home, dry=True), ref, {"seed": "9"}).path == path
    listed = json.loads(curriculum("ls", "runs", "--json", "--home", str(home)))["runs"]
    assert (listed[-1]["name"], listed[-1]["attempt"]) == (RUN, 2)
