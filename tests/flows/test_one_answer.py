"""One answer: commands, pages and views say the same of the same run, in every state that a run can have.

The workspace has a specialist of one phase for each situation. Each attempt has other tokens and figures, so
that no answer is right by chance.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from curriculum.pipeline.attempts import newest_checkpoint
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.phase_job import job_of
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status import _machine
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Artefact, Recipe, Store
from curriculum.train.run_directory import HEARTBEAT, JOB, REPORT, read_report, run_recipe
from dashboards import overview_panels, run_panels
from dashboards.questions import question
from dashboards.report import index
from schemas.job import Figure, Heartbeat, Job, Report
from schemas.json_text import now
from schemas.manifest import MANIFEST_NAME
from tests.factories import training
from tests.flows.cli_runner import curriculum

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]

PHASE = "syntax"
DIET = """
specialist: tiny
branch: {branch}
phases_file: phases.demo
corpus: small
vocab_size: 400
model: tiny
token_budget: 2K
tokens_per_step: 1024
{setting}
phases:
  - phase: syntax
    portion: 1
    servings: [{{family: v2_simple, share: 0.6}}, {{family: v3_simple, share: 0.4}}]
    max_repetition: 100
"""
Value = str | int | float | bool | None
Facts = dict[str, Value]
Answers = dict[str, Facts]
"""Facts of the run that stands for each specialist, by the name of the specialist."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """Attempts of a specialist, in the order in which they began."""

    attempts: tuple[str, ...]
    """finished, cancelled, failed or running."""
    stands: int
    """Place of the attempt that stands for the phase, from 1."""
    state: str
    """State of the phase."""
    study: bool = False
    edited: bool = False
    """True where the diet was edited between the attempts."""

    @property
    def used(self) -> int:
        """Place of the attempt that is in use: the last that is finished, if any is."""
        places = [at for at, kind in enumerate(self.attempts, 1) if kind == "finished"]
        return places[-1] if places else self.stands


SITUATIONS = {
    "done": Situation(attempts=("finished",), stands=1, state="done"),
    "active": Situation(attempts=("running",), stands=1, state="running"),
    "cancelled": Situation(attempts=("cancelled",), stands=1, state="interrupted"),
    "failed": Situation(attempts=("failed",), stands=1, state="failed"),
    "rerun": Situation(attempts=("finished", "cancelled"), stands=1, state="done"),
    "retried": Situation(attempts=("cancelled", "finished"), stands=2, state="done"),
    "edited": Situation(
        attempts=("finished", "cancelled"), stands=2, state="interrupted", edited=True
    ),
    "twice": Situation(attempts=("finished", "finished"), stands=2, state="done"),
    "study": Situation(attempts=("finished",), stands=1, state="done", study=True),
    "damaged": Situation(attempts=("finished",), stands=1, state="done"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """An attempt in the workspace, and what is true of it."""

    name: str
    path: str
    facts: Facts


@dataclass(kw_only=True)
class Builder:
    """A copy of a trained workspace, where attempts at other phases are laid down."""

    home: Path
    trained: Artefact
    stack: ExitStack
    made: list[Attempt] = field(default_factory=list)

    def lay(self, branch: str, situation: Situation) -> None:
        """Lay down the attempts of a branch; where its diet was edited, each by a diet of its own."""
        for place, kind in enumerate(situation.attempts, 1):
            if place == 1 or situation.edited:
                plan, job = self._due(branch, study=situation.study)
            number = 1 if situation.edited else place
            own = {"attempt": number, "ordinal": len(self.made) + 2}
            facts = self._attempt(plan, job.model_copy(update=own), kind)
            stands, in_use = place == situation.stands, place == situation.used
            facts |= {"attempt": number, "stands": stands, "in_use": in_use}
            facts |= {"study": situation.study, "kind": kind}
            facts |= {"state": situation.state if stands else kind}
            path = f"{run_recipe(job).directory}/attempt={number}"
            self.made.append(Attempt(name=f"tiny/{branch}", path=path, facts=facts))

    def _due(self, branch: str, *, study: bool) -> tuple[RunPlan, Job]:
        """Write a diet and mix its phase; the job that it leads to."""
        setting = "study: {document_mask: off}" if study else f"seed: {len(self.made) + 9}"
        file = self.home / "diets" / f"tiny.{branch}.yaml"
        file.write_text(DIET.format(branch=branch, setting=setting))
        plan = resolve_plan(RunConfig.of(specialist=f"tiny.{branch}", workspace=self.home))
        built = build_phase(plan, PHASE, Context())
        mixture = mix_phase(plan, PHASE, built, Context())
        return plan, job_of(plan, plan.phase(PHASE), built, mixture, None, _machine(self.trained))

    def _attempt(self, plan: RunPlan, job: Job, kind: str) -> Facts:
        """Lay down one attempt; the facts that follow from its kind."""
        recipe = run_recipe(job)
        path = self.home / recipe.directory / f"attempt={job.attempt}"
        shutil.copytree(self.trained.path, path, copy_function=os.link)
        for name in (MANIFEST_NAME, JOB, REPORT):
            (path / name).unlink()
        (path / JOB).write_text(job.model_dump_json())
        report = self._report(path, job)
        if kind == "finished":
            self._publish(plan, path, recipe, report)
            before, after = _mean(report.before), _mean(report.after)
            return _facts(report.steps, report.tokens.valid, before, after, report.stopped)
        if kind == "running":
            self.stack.enter_context(training(path))
            beat = _beat(report)
            (path / HEARTBEAT).write_text(beat.model_dump_json())
            return _facts(beat.step, beat.valid_tokens, None, beat.val_bpb, None)
        left = {"stopped": kind, "reason": f"it was {kind}", "after": ()}
        (path / REPORT).write_text(report.model_copy(update=left).model_dump_json())
        # Such an attempt counts as far as its newest checkpoint goes.
        saved = read_report(self.trained.path)
        return _facts(saved.steps, saved.tokens.valid, None, None, kind)

    def _publish(self, plan: RunPlan, path: Path, recipe: Recipe, report: Report) -> None:
        (path / REPORT).write_text(report.model_dump_json())
        store, content = Store(self.home), (self.home / report.checkpoint).relative_to(path)
        kept = report.model_dump(mode="json")
        run = store.publish_run(path, recipe, kept, content=f"{content}/")
        store.mark(plan.mark_of("runs", PHASE), [run])

    def _report(self, path: Path, job: Job) -> Report:
        """The trained run's report with tokens and figures of its own."""
        report, number = read_report(self.trained.path), len(self.made)
        checkpoint = newest_checkpoint(path)
        assert checkpoint is not None
        moved = {
            name: tuple(_moved(each, 0.25 * (number + 1)) for each in getattr(report, name))
            for name in ("before", "after", "history")
        }
        own = {
            "attempt": job.attempt,
            "study": job.study,
            "tokens": report.tokens.model_copy(update={"valid": 1000 + number}),
            "checkpoint": checkpoint.relative_to(self.home).as_posix(),
        }
        return report.model_copy(update=own | moved)


def _moved(figure: Figure, by: float) -> Figure:
    names = ("val_bpb", "low", "high")
    return figure.model_copy(update={name: getattr(figure, name) + by for name in names})


def _mean(figures: tuple[Figure, ...]) -> float:
    (found,) = (each for each in figures if (each.set, each.family) == ("phase", "*"))
    return found.val_bpb


def _beat(report: Report) -> Heartbeat:
    return Heartbeat(
        step=1,
        steps=report.steps,
        valid_tokens=report.tokens.valid,
        tokens_per_second=10.0,
        val_bpb=_mean(report.after),
        at=now(),
    )


def _facts(
    steps: int, tokens: int, before: float | None, after: float | None, stopped: str | None
) -> Facts:
    return {
        "steps": steps,
        "tokens": tokens,
        "before": _rounded(before),
        "after": _rounded(after),
        "stopped": stopped,
    }


def _rounded(bits: float | None) -> float | None:
    return None if bits is None else round(bits, 3)


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """The workspace, and the attempts in it."""

    home: Path
    attempts: tuple[Attempt, ...]

    def those(self, fact: str) -> dict[str, Attempt]:
        """The attempts of which a fact is true, by specialist."""
        return {each.name: each for each in self.attempts if each.facts[fact]}


@pytest.fixture(scope="module")
def workspace(trained_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace with a specialist in each situation; the report of one was changed later."""
    home = tmp_path_factory.mktemp("answers") / "home"
    shutil.copytree(trained_tiny, home, ignore=shutil.ignore_patterns("catalog*", "reports"))
    (trained,) = Store(home, dry=True).artefacts("runs")
    with ExitStack() as stack:
        builder = Builder(home=home, trained=trained, stack=stack)
        for branch, situation in SITUATIONS.items():
            builder.lay(branch, situation)
        made = Workspace(home=home, attempts=tuple(builder.made))
        report = home / made.those("in_use")["tiny/damaged"].path / REPORT
        text = report.read_text()
        assert '"steps":2,' in text
        report.write_text(text.replace('"steps":2,', '"steps":9,'))
        yield made


def said(home: Path, *words: str) -> str:
    done = curriculum(*words, home=home)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def asked(home: Path, sql: str) -> list[Mapping[str, Value]]:
    lines = map(json.loads, said(home, "query", sql, "--format", "jsonl").splitlines())
    return [line for line in lines if "notices" not in line]


def of_status(home: Path) -> Answers:
    phases = json.loads(said(home, "status", "--json"))["phases"]
    answers = {}
    for phase in phases:
        before, after = _change(phase["val_bpb"])
        answers[phase["specialist"]] = {
            **{name: phase[name] for name in ("state", "attempt", "path", "steps")},
            "tokens": phase["valid_tokens"],
            "before": before,
            "after": after,
            "study": "study: " in phase["why"],
        }
    return answers


def _change(text: str) -> tuple[float | None, float | None]:
    found = re.match(r"([\d.]+) → ([\d.]+)", text)
    return (float(found[1]), float(found[2])) if found else (None, None)


def of_status_table(home: Path) -> Answers:
    line = re.compile(rf"^(tiny\S*) +{PHASE} +([a-z]+) +(\d+) +([\d.]+ → [\d.]+)?", re.MULTILINE)
    answers = {}
    for name, state, attempt, change in line.findall(said(home, "status")):
        before, after = _change(change)
        answers[name] = Facts(state=state, attempt=int(attempt), before=before, after=after)
    return answers


def of_overview(home: Path) -> Answers:
    """The line of each specialist, and its cell as it is drawn."""
    snapshot, old = overview_panels.snapshot(home, Resources())
    assert old == ""
    drawn = str(overview_panels.specialists(snapshot))
    answers = {}
    for line in snapshot.ask(question("panels/standing"), overview_panels.PhaseLine):
        if line.phase != PHASE:
            continue
        row = drawn.partition(f"<th>{line.specialist}</th>")[2].partition("</tr>")[0]
        cell = re.search(r'class="state is-([a-z]+)">.*?<b>([\d.]+|–)</b>', row)
        assert cell is not None, row
        after = _rounded(line.after)
        assert cell[1] == line.state
        assert cell[2] == ("–" if after is None else f"{after:.3f}")
        answers[line.specialist] = Facts(
            state=line.state,
            steps=line.steps,
            tokens=line.tokens,
            before=_rounded(line.before),
            after=after,
            study=line.study is not None,
        )
    return answers


def of_reports(home: Path) -> Answers:
    return {entry.name: {"state": entry.look} for entry in index.entries(home, Resources())}


def of_report(home: Path) -> Answers:
    state = re.compile(rf'<tr data-phase="{PHASE}">.*?<span class="state is-([a-z]+)', re.DOTALL)
    answers = {}
    for file in map(Path, said(home, "report").split()):
        page = file.read_text()
        (found,) = state.findall(page)
        steps = re.search(r"\b(\d+) of 2 steps", page)
        answers[file.stem.replace("@", "/")] = Facts(
            state=found, steps=int(steps[1]) if steps else None
        )
    return answers


def of_gains(home: Path) -> Answers:
    """The page of compared runs: finished ones."""
    snapshot, _ = overview_panels.snapshot(home, Resources())
    return {
        gain.specialist: Facts(
            before=_rounded(gain.before),
            after=_rounded(gain.after),
            tokens=gain.tokens,
            study=gain.study is not None,
        )
        for gain in run_panels.gains(snapshot)
    }


def of_compare(home: Path) -> Answers:
    names = [f"tiny/{branch}/{PHASE}" for branch in SITUATIONS]
    (group,) = json.loads(said(home, "compare", *names, "--json"))["groups"]
    (figures,) = (
        each["figures"]
        for each in group["figures"]
        if (each["set"], each["phase"], each["family"]) == ("phase", PHASE, "*")
    )
    return {
        run["specialist"]: Facts(
            **{name: run[name] for name in ("attempt", "steps", "tokens", "stopped")},
            after=_rounded(figure["val_bpb"] if figure else run["val_bpb"]),
            study=bool(run["study"]),
            path=str(Path(run["path"]).relative_to(home)),
        )
        for run, figure in zip(group["runs"], figures, strict=True)
    }


def of_dry_run(home: Path) -> Answers:
    """The runs that are there, and the attempts that run or would be resumed."""
    answers = {}
    for branch in SITUATIONS:
        words = said(home, "run", f"tiny.{branch}", "--dry-run")
        is_there = "Nothing to train" in words
        is_running = " is running: " in words
        is_resumed = "resumes at step" in words
        assert is_there + is_running + is_resumed == 1, words
        answers[f"tiny/{branch}"] = Facts(
            trains="no" if is_there else "now" if is_running else "on"
        )
    return answers


def of_export(home: Path) -> Answers:
    answers = {}
    for branch, situation in SITUATIONS.items():
        if situation.study:
            continue
        folder = home.parent / "exported"
        done = curriculum("export", f"tiny/{branch}/{PHASE}", "--to", str(folder), home=home)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(folder)
        title = re.search(rf"(tiny/\w+)/{PHASE}, attempt (\d+), \w+, step=(\d+)", done.stderr)
        assert title is not None, done.stderr
        answers[title[1]] = Facts(attempt=int(title[2]))
    return answers


FIGURES = """
    round(phase_bpb_before, 3) AS before, round(phase_bpb_after, 3) AS after,
    steps::INTEGER AS steps, valid_tokens::INTEGER AS tokens, attempt::INTEGER AS attempt, stopped
"""


def of_status_view(home: Path) -> Answers:
    sql = (
        f"SELECT specialist, state, run AS path, study IS NOT NULL AS study, {FIGURES} FROM status"
    )
    lines = asked(home, f"{sql} WHERE phase = '{PHASE}'")
    return {str(line["specialist"]): {**line} for line in lines}


Reader = Callable[[Path], Answers]
EVERY = {"state", "attempt", "steps", "tokens", "before", "after", "stopped", "study", "path"}
READERS: dict[Reader, set[str]] = {
    of_status: {"state", "attempt", "steps", "tokens", "before", "study", "path"},
    of_status_table: {"state", "attempt", "before"},
    of_overview: {"state", "steps", "tokens", "before", "after", "study"},
    of_reports: {"state"},
    of_report: {"state", "steps"},
    of_gains: {"before", "after", "tokens", "study"},
    of_compare: {"attempt", "steps", "tokens", "after", "stopped", "study", "path"},
    of_dry_run: {"trains"},
    of_export: {"attempt"},
    of_status_view: EVERY,
}
"""Each reader, and the facts that it must give of every run that it shows."""
NAMED = {of_compare, of_export}
"""Readers of runs that are named: of those in use. Others show the attempts that stand for phases."""


def truth(workspace: Workspace, reader: Reader) -> Answers:
    """The facts that a reader must give, by specialist."""
    wanted = {}
    for name, attempt in workspace.those("in_use" if reader in NAMED else "stands").items():
        trains = {"done": "no", "running": "now"}.get(str(attempt.facts["state"]), "on")
        facts = {**attempt.facts, "path": attempt.path, "trains": trains}
        is_shown = facts["kind"] == "finished" or reader is not of_gains
        if is_shown and not (reader is of_export and facts["study"]):
            wanted[name] = {fact: facts[fact] for fact in READERS[reader]}
    return wanted


@pytest.mark.parametrize("reader", READERS, ids=lambda each: each.__name__)
def test_every_reader_says_the_same_of_the_run_that_stands(
    workspace: Workspace, reader: Reader
) -> None:
    answers, wanted = reader(workspace.home), truth(workspace, reader)
    assert len(wanted) >= 6
    given = {
        name: {fact: facts.get(fact, "nothing") for fact in READERS[reader]}
        for name, facts in answers.items()
        if name != "tiny"
    }
    assert given == wanted


def test_sql_says_the_same_of_every_attempt(workspace: Workspace) -> None:
    sql = f"SELECT path, specialist, state, current, study IS NOT NULL AS study, {FIGURES} FROM attempts"
    given = {str(line["path"]): line for line in asked(workspace.home, sql)}
    states = {"cancelled": "interrupted"}
    for attempt in workspace.attempts:
        facts = attempt.facts
        assert given[attempt.path] == {
            "path": attempt.path,
            "specialist": attempt.name,
            **{name: facts[name] for name in EVERY - {"state", "path"}},
            "state": states.get(str(facts["kind"]), facts["kind"]),
            "current": facts["in_use"],
        }
    assert len(given) == len(workspace.attempts) + 1
    runs = {line["path"] for line in asked(workspace.home, "SELECT path FROM runs")}
    assert runs == {path for path, line in given.items() if line["current"]}


def test_a_changed_report_is_named_and_changes_no_answer(workspace: Workspace) -> None:
    path = f"{workspace.those('in_use')['tiny/damaged'].path}/{REPORT}"
    assert [line["path"] for line in asked(workspace.home, "FROM problems")] == [path]
    checked = curriculum("check", "tiny/damaged/syntax", home=workspace.home)
    assert checked.returncode == 2
    assert path in checked.stderr.replace("\n", "")
