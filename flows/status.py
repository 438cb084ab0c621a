"""`curriculum status`: what the workspace holds, how far each specialist is, and what is stale."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import filelock
from rich.text import Text

from curriculum.diets.load import diet_names, load_diet, load_phases
from curriculum.diets.resolve import ResolvedPhase, missing, resolve
from curriculum.store import Artefact, Store, garbage
from flows.lines import Line, change, count, report_of
from flows.show import out, table
from schemas.job import Job
from schemas.manifest import MANIFEST_NAME

Way = tuple[str, str]
"""A specialist and its branch; a branch may be empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """How a phase stands: done, earlier, stale, running, interrupted, missing or waiting."""

    specialist: str
    phase: str
    attempt: str = ""
    state: str
    val_bpb: str = ""
    anchor: str = ""
    why: str
    key: str = ""
    path: str = ""


def status(home: Path, *, as_json: bool) -> None:
    """Print artefacts by stage, then the phases with what is stale."""
    store = Store(home, dry=True)
    artefacts = list(store.artefacts())
    runs = list(_phases(store, artefacts))
    stages = list(_stages(artefacts, len(garbage(store))))
    if as_json:
        listed = [asdict(run) for run in runs]
        out.print_json(json.dumps({"home": str(home), "stages": stages, "phases": listed}))
        return
    out.print(Text(str(store.root), "bold"))
    if not artefacts and not runs:
        out.print("Nothing here yet. Begin with: curriculum demo")
        return
    out.print(table(stages))
    if runs:
        out.print()
        out.print(table(_line(run) for run in runs))


def _line(run: Run) -> Line:
    shown = {**asdict(run), "key": run.key[:12]}
    del shown["path"]
    return shown


def _stages(artefacts: list[Artefact], dead: int) -> Iterator[Line]:
    for stage in dict.fromkeys(each.manifest.stage for each in artefacts):
        ours = [each for each in artefacts if each.manifest.stage == stage]
        size = sum(record.num_bytes for each in ours for record in each.manifest.files)
        newest = max(each.manifest.created for each in ours)
        yield {
            "stage": stage,
            "artefacts": len(ours),
            "size": f"{count(size)}B",
            "newest": newest[:16].replace("T", " "),
        }
    if dead:
        yield {"stage": "unused", "artefacts": dead, "size": "", "newest": "curriculum gc"}


def _phases(store: Store, artefacts: list[Artefact]) -> Iterator[Run]:
    """Closed runs in the order in which they ended, then open ones, then what isn't there yet."""
    closed = [each for each in artefacts if each.manifest.stage == "runs"]
    closed.sort(key=lambda run: run.manifest.created)
    current = {run.path: run for run in closed if run.path in _marked(store)}
    for run in closed:
        yield _closed(store, run, {each.path: each for each in closed}, current)
    for file in sorted((store.root / "runs").rglob("job.json")):
        if not (file.parent / MANIFEST_NAME).is_file():
            yield _open(store, file)
    yield from _not_there(list(current.values()))


def _marked(store: Store) -> set[Path]:
    files = (store.root / "current").glob("runs-*.txt")
    return {store.root / line for file in files for line in file.read_text().splitlines()}


def _closed(
    store: Store, run: Artefact, closed: Mapping[Path, Artefact], current: Mapping[Path, Artefact]
) -> Run:
    report = report_of(run)
    state, why = ("done", report.reason) if run.path in current else ("earlier", "")
    contents = {each.content for each in current.values()}
    for record in run.manifest.inputs:
        before = next((each for each in closed.values() if each.content == record.content), None)
        if state == "done" and before is not None and record.content not in contents:
            state, why = "stale", f"goes on from an earlier run of {report_of(before).phase}"
    return Run(
        specialist=_name(_way(run)),
        phase=report.phase,
        attempt=str(report.attempt),
        state=state,
        val_bpb=change(report, "phase"),
        anchor=change(report, "anchor"),
        why=why,
        key=run.key,
        path=run.path.relative_to(store.root).as_posix(),
    )


def _open(store: Store, file: Path) -> Run:
    job = Job.model_validate_json(file.read_text())
    running = _held(store.root / ".locks" / f"{job.run_key}-{job.attempt}.train.lock")
    return Run(
        specialist=_name((job.specialist, job.branch or "")),
        phase=job.phase,
        attempt=str(job.attempt),
        state="running" if running else "interrupted",
        why="" if running else "the same command goes on from its last checkpoint",
        key=job.run_key,
        path=file.parent.relative_to(store.root).as_posix(),
    )


def _held(lock: Path) -> bool:
    if not lock.is_file():
        return False
    try:
        with filelock.FileLock(lock, timeout=0):
            return False
    except filelock.Timeout:
        return True


def _not_there(current: list[Artefact]) -> Iterator[Run]:
    """Of each specialist that has begun, the phases of its diet that have no run."""
    done = {(_way(run), run.manifest.labels["phase"]) for run in current}
    begun = {way for way, _ in done}
    for name in diet_names():
        diet = load_diet(name)
        way = (diet.specialist, diet.branch or "")
        if way in begun:
            phases = resolve(diet, load_phases(diet.phases_file))
            yield from _ahead(way, [each for each in phases if (way, each.name) not in done])


def _ahead(way: Way, phases: list[ResolvedPhase]) -> Iterator[Run]:
    first = True
    for phase in phases:
        reasons = missing(phase)
        state = "missing" if reasons or first else "waiting"
        why = f"{reasons[0].value}; {reasons[0].cause}" if reasons else "comes next"
        first = first and bool(reasons)
        yield Run(
            specialist=_name(way),
            phase=phase.name,
            state=state,
            why=why if state == "missing" else "for the phase before it",
        )


def _way(run: Artefact) -> Way:
    return run.manifest.labels["specialist"], run.manifest.labels.get("branch", "")


def _name(way: Way) -> str:
    specialist, branch = way
    return f"{specialist} ({branch})" if branch else specialist
