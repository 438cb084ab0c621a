"""Status of each phase of a specialist, compared with its diet, its corpus and its gates of today."""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.corpus.sources import Sources
from curriculum.inspection.runs import report_of
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline import gates
from curriculum.pipeline.attempts import (
    Attempt,
    SlotQueue,
    SpecialistRef,
    attempt_state,
    attempts_in,
    current_artefacts,
    specialist_of,
)
from curriculum.pipeline.command_text import command
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.execute import (
    BuildStep,
    Perform,
    PhaseMixed,
    Scope,
    Step,
    execute,
    selected,
)
from curriculum.pipeline.forecast import why
from curriculum.pipeline.gates import verdict
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.recorded_config import course_of
from curriculum.pipeline.steps import build_phases, job_of
from curriculum.stages import Built
from curriculum.store import Artefact, Store
from curriculum.store.inside import WORKSPACE_NAME
from curriculum.train.launch.gpu_slots import Machine
from curriculum.train.recipe import finished, run_recipe
from curriculum.train.run_directory import replace_whole
from schemas import regular_files
from schemas.errors import CurriculumError
from schemas.job import Report
from schemas.manifest import MANIFEST_NAME
from schemas.progress import DIGEST, STATUS_NAME, STATUS_SCHEMA

Result = TypeVar("Result")
State = Literal[
    "done", "running", "stale", "missing", "waiting", "failed", "interrupted", "holds", "earlier"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseStatus:
    """A phase of a specialist, its newest attempt, and why it stands so."""

    way: SpecialistRef
    phase: str
    state: State
    why: str
    run: Path | None = None
    key: str = ""
    attempt: int | None = None
    report: Report | None = None
    """The report of a finished run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusInputs:
    """Everything that the status of a workspace is computed from, except the repositories' own history."""

    store: Store
    begun: Sequence[Attempt]
    current: Sequence[Artefact]
    """Finished runs that are marked as current."""
    line: SlotQueue
    plans: Mapping[SpecialistRef, RunPlan | CurriculumError]
    """Plan of each specialist that has begun, with its diet of today; or why there is none."""

    @staticmethod
    def of(store: Store, resources: Resources) -> "StatusInputs":
        """Read a workspace; nothing is made, cloned or fetched for it. `store` is a dry one."""
        assert store.dry
        begun = attempts_in(store)
        ways = {each.way: None for each in begun}
        ways |= {specialist_of(each): None for each in store.artefacts("mixtures")}
        plans = {
            way: _course(store, way, [each for each in begun if each.way == way])
            for way in sorted(ways, key=lambda way: (way[0], way[1] or ""))
        }
        return StatusInputs(
            store=store,
            begun=begun,
            current=current_artefacts(store, "runs"),
            line=SlotQueue.of(resources.slots_of(store.root)),
            plans=plans,
        )

    def phase_statuses(self) -> Iterator[PhaseStatus]:
        """Every phase of every specialist that has begun, in the order of its curriculum."""
        sources = Sources.of(self.store.root, clones="none")
        for way, resolved in self.plans.items():
            yield from self._look(way).phase_statuses(resolved, sources)

    def digest(self) -> str:
        """Digest the manifests, marks, approvals, open attempts and plans of the workspace."""
        store, hashed = self.store, hashlib.sha256()
        for each in store.artefacts():
            manifest = each.manifest
            hashed.update(repr((str(each.path), manifest.key, manifest.content)).encode())
        for pattern in ("current/*.txt", f"{gates.APPROVALS_FOLDER}/*.json"):
            for file in sorted(store.root.glob(pattern)):
                hashed.update(repr((file.name, regular_files.read(file))).encode())
        for begun in self.begun:
            if not (begun.path / MANIFEST_NAME).is_file():
                found = attempt_state(store, begun, self.line)
                hashed.update(repr((str(begun.path), found.state, found.why)).encode())
        for way, resolved in self.plans.items():
            said = str(resolved) if isinstance(resolved, CurriculumError) else _said(resolved)
            hashed.update(repr((way, said)).encode())
        return hashed.hexdigest()

    def _look(self, way: SpecialistRef) -> "_Look":
        begun = [each for each in self.begun if each.way == way]
        runs = [run for run in self.current if specialist_of(run) == way]
        return _Look.at(self.store, way, begun, runs, self.line)


def workspace_statuses(store: Store, resources: Resources) -> Iterator[PhaseStatus]:
    """Every phase of every specialist that has begun, in the order of its curriculum.

    Nothing is made, cloned or fetched for it. `store` is a dry one.
    """
    return StatusInputs.of(store, resources).phase_statuses()


def _course(
    store: Store, way: SpecialistRef, begun: Sequence[Attempt]
) -> RunPlan | CurriculumError:
    try:
        return course_of(store, way, begun)
    except CurriculumError as wrong:
        return wrong


def _said(plan: RunPlan) -> str:
    """Return the values that a plan is resolved from, in the same words in every process."""
    corpus = plan.corpus.model_dump_json()
    specs = [(name, spec.model_dump_json()) for name, spec in plan.specs.items()]
    file = Path(plan.corpus.domains)
    domains = regular_files.read(file, follow_links=True) if file.is_file() else file
    own = (plan.diet.model_dump_json(), corpus, domains, specs, sorted(plan.imported.items()))
    return repr((plan.config.model_dump_json(), plan.overrides, *own))


def phase_statuses(plan: RunPlan, resources: Resources) -> tuple[PhaseStatus, ...]:
    """Compare every phase of a plan with the config it was begun with rather than with its diet of today.

    Raises:
        CurriculumError: where its corpus can't be looked at.
    """
    store, way = Store(plan.store.root, dry=True), (plan.diet.specialist, plan.diet.branch)
    mine = [each for each in attempts_in(store) if (each.job.specialist, each.job.branch) == way]
    runs = [run for run in current_artefacts(store, "runs") if specialist_of(run) == way]
    look = _Look.at(store, way, mine, runs, SlotQueue.of(resources.slots_of(store.root)))
    dry = replace(plan, store=store, planned={})
    sources = Sources.of(store.root, clones="none")
    return tuple(look.phases(dry, _Walk.through(dry, sources)))


def earlier(store: Store) -> Iterator[PhaseStatus]:
    """Finished runs that others have taken the place of, in the order in which they ended."""
    current = {run.path for run in current_artefacts(store, "runs")}
    runs = sorted(store.artefacts("runs"), key=lambda run: run.manifest.created)
    for run in runs:
        if run.path not in current:
            yield _finished(specialist_of(run), run, "earlier", "")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """Runs and attempts of one specialist."""

    store: Store
    way: SpecialistRef
    current: Mapping[str, Artefact]
    """Finished runs by phase."""
    open: Mapping[str, Attempt]
    """The newest attempt by phase, where it isn't finished and nothing finished is newer."""
    line: SlotQueue
    found: dict[str, PhaseStatus] = field(default_factory=dict)
    """So far, by phase."""

    @staticmethod
    def at(
        store: Store,
        way: SpecialistRef,
        begun: Sequence[Attempt],
        current: Sequence[Artefact],
        line: SlotQueue,
    ) -> "_Look":
        by_phase = {run.manifest.labels["phase"]: run for run in current}
        newest: dict[str, Attempt] = {}
        for each in sorted(begun, key=lambda each: (each.job.begun, each.job.attempt)):
            newest[each.job.phase] = each
        return _Look(
            store=store,
            way=way,
            current=by_phase,
            open={name: each for name, each in newest.items() if _is_open(each, by_phase)},
            line=line,
        )

    def phase_statuses(
        self, resolved: RunPlan | CurriculumError, sources: Sources
    ) -> Iterator[PhaseStatus]:
        """The phases of its diet; of a diet that can't be read what is known without it."""
        if isinstance(resolved, CurriculumError):
            yield from self._without_diet(resolved)
            return
        try:
            walk = _Walk.through(resolved, sources)
        except CurriculumError as wrong:
            yield from self._without_diet(wrong)
            return
        yield from self.phases(resolved, walk)

    def phases(self, plan: RunPlan, walk: "_Walk") -> Iterator[PhaseStatus]:
        """Yield the status of the phases of a plan."""
        for phase in plan.phases:
            standing = self._phase(plan, phase, walk)
            self.found[phase.name] = standing
            yield standing

    def _phase(self, plan: RunPlan, phase: ResolvedPhase, walk: "_Walk") -> PhaseStatus:
        if phase.name in self.open:
            return self._open(self.open[phase.name])
        run = self.current.get(phase.name)
        if run is None:
            return self._not_there(plan, phase)
        stale = walk.stale(phase, run, [self.found[each.name] for each in plan.before(phase)])
        if stale is not None:
            return _finished(self.way, run, "stale", stale)
        gate = verdict(plan, phase.name, run)
        if gate.is_open:
            return _finished(self.way, run, "done", report_of(run).reason)
        return _finished(self.way, run, "holds" if gate.kind == "holds" else "waiting", gate.why)

    def _open(self, begun: Attempt) -> PhaseStatus:
        found = attempt_state(self.store, begun, self.line)
        return PhaseStatus(
            way=self.way,
            phase=begun.job.phase,
            state=found.state,
            why=found.why,
            run=begun.path,
            key=begun.job.run_key,
            attempt=begun.job.attempt,
        )

    def _not_there(self, plan: RunPlan, phase: ResolvedPhase) -> PhaseStatus:
        ahead = [self.found[each.name] for each in plan.before(phase)]
        held = next((each for each in ahead if each.state != "done"), None)
        state: State = "missing" if held is None else "waiting"
        if held is not None:
            why = f"for {held.phase}, which {_verb(held.state)}"
        else:
            why = f"comes next: {command('run', plan.config)}"
        return PhaseStatus(way=self.way, phase=phase.name, state=state, why=why)

    def _without_diet(self, wrong: CurriculumError) -> Iterator[PhaseStatus]:
        unsure = f"can't be held against its diet: {wrong}"
        for begun in self.open.values():
            yield self._open(begun)
        for name, run in self.current.items():
            if name not in self.open:
                yield _finished(self.way, run, "done", unsure)
        if not self.open and not self.current:
            yield PhaseStatus(way=self.way, phase="", state="missing", why=unsure)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Walk:
    """The artefacts to which a plan leads now, without making them."""

    plan: RunPlan
    built: Built
    mixtures: Mapping[str, Artefact]
    """Mixtures by phase."""

    @staticmethod
    def through(plan: RunPlan, sources: Sources) -> "_Walk":
        """Plan all phases; rows of all of them come from one pass over the corpus."""
        scope = Scope(until="mix", resume=False)
        built = build_phases(plan, selected(plan, scope), Context(sources=sources))
        mixtures = {
            event.phase: event.mixture
            for event in execute(plan, _planned(built), scope, Context())
            if isinstance(event, PhaseMixed)
        }
        return _Walk(plan=plan, built=built, mixtures=mixtures)

    def stale(
        self, phase: ResolvedPhase, run: Artefact, before: Sequence[PhaseStatus]
    ) -> str | None:
        """Explain why the current run of a phase isn't the one that the plan leads to; None where it is."""
        plan = self.plan
        mixture = self.mixtures[phase.name]
        last = None if plan.goes_on_in(phase) else next(iter(before[-1:]), None)
        if last is not None and (last.report is None or last.state == "stale"):
            return f"it goes on from {last.phase}, which {_verb(last.state)}"
        if mixture.planned:
            made_of = (each.recipe for each in reversed(plan.store.steps))
            return why(plan.store, next(each for each in made_of if each.key == mixture.key))
        previous = None if last is None else plan.current("runs", plan.phase(last.phase))
        job = job_of(plan, phase, self.built, mixture, previous, _machine(run))
        there = finished(plan.store, job)
        if there is None:
            return why(plan.store, run_recipe(job))
        if there.path == run.path:
            return None
        return f"its diet leads to another finished run now, {there.path.parent.name}"


def _planned(built: Built) -> Perform:
    """Return the Perform of a dry plan whose rows of all phases are planned already."""

    def perform(step: Step[Result], /) -> Result:
        if isinstance(step, BuildStep):
            return cast("Result", built)
        return step.run(Context())

    return perform


def _machine(run: Artefact) -> Machine:
    """The one that a run was made on: where it is looked at doesn't make it stale."""
    job = Attempt.at(run.path).job
    return Machine(device=job.device, backend=job.backend, threads=job.threads)


def _finished(way: SpecialistRef, run: Artefact, state: State, why: str) -> PhaseStatus:
    report = report_of(run)
    return PhaseStatus(
        way=way,
        phase=report.phase,
        state=state,
        why=why,
        run=run.path,
        key=run.key,
        attempt=report.attempt,
        report=report,
    )


def _is_open(begun: Attempt, current: Mapping[str, Artefact]) -> bool:
    """Return True for an attempt that isn't finished and began after the phase's finished run had ended."""
    if (begun.path / MANIFEST_NAME).is_file():
        return False
    run = current.get(begun.job.phase)
    return run is None or begun.job.begun > run.manifest.created


def _verb(state: State) -> str:
    """A state in a subordinate clause.

    >>> _verb("running"), _verb("failed"), _verb("stale")
    ('is running', 'failed', 'is stale')
    """
    plain = {
        "failed": "failed",
        "holds": "holds",
        "waiting": "waits",
        "interrupted": "was interrupted",
    }
    return plain.get(state, f"is {state}")


FOLDER = "current"


def write_status(survey: StatusInputs, standings: Iterable[PhaseStatus]) -> None:
    """Write the standings of a survey to current/status.parquet, with its digest.

    catalog.sql is written anew where it doesn't read that file yet. Nothing is written into a folder that
    isn't a workspace.

    Raises:
        OSError: where the workspace can't be written.
    """
    store = survey.store
    folder = store.root / FOLDER
    if not (store.root / WORKSPACE_NAME).is_file():
        return
    table = _table(store, standings, survey.digest())
    folder.mkdir(exist_ok=True)
    replace_whole(folder / STATUS_NAME, functools.partial(pq.write_table, table))
    script = store.root / "catalog.sql"
    if regular_files.status(script) is None or STATUS_NAME not in script.read_text("utf-8"):
        # Most calls ask nothing of DuckDB.
        from curriculum import catalog

        catalog.publish(store.root)


def current_status(home: Path, resources: Resources) -> pa.Table | None:
    """Compute the status of a workspace, in memory; None where that in current/ has the digest of now.

    Raises:
        CurriculumError: for an artefact that isn't what its manifest says.
    """
    survey = StatusInputs.of(Store(home, dry=True), resources)
    digest = survey.digest()
    if digest == _written(home):
        return None
    return _table(survey.store, survey.phase_statuses(), digest)


def _written(home: Path) -> str:
    """The digest of the status that is written; empty where there is none that can be read."""
    try:
        said = parquet.read_schema(home / FOLDER / STATUS_NAME).metadata or {}
    except (OSError, CurriculumError, pa.ArrowException):
        return ""  # It is computed anew; the catalog names the fault.
    return said.get(DIGEST, b"").decode(errors="replace")


def _table(store: Store, standings: Iterable[PhaseStatus], digest: str) -> pa.Table:
    lines = [
        {
            "specialist": each.way[0],
            "branch": each.way[1],
            "phase": each.phase,
            "state": each.state,
            "why": each.why,
            "key": each.key or None,
            "attempt": None if each.attempt is None else str(each.attempt),
            "path": each.run.relative_to(store.root).as_posix() if each.run else None,
        }
        for each in standings
    ]
    # Arrow would import pandas for a list of values, where that is installed.
    table = pl.DataFrame(lines, schema=dict.fromkeys(STATUS_SCHEMA.names, pl.String)).to_arrow()
    return table.cast(STATUS_SCHEMA).replace_schema_metadata({DIGEST: digest})


def record_status(home: Path, resources: Resources, warn: Callable[[str], None]) -> None:
    """Write the status of a workspace; a failure is a warning, since no run is stopped by it."""
    try:
        survey = StatusInputs.of(Store(home, dry=True), resources)
        write_status(survey, survey.phase_statuses())
    except (CurriculumError, OSError) as failed:
        warn(f"the status of {home} isn't written: {failed}")
