"""`curriculum status` and `report`: show the state of each specialist."""

import contextlib
import os
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from curriculum.inspection.formats import Line, count
from curriculum.inspection.runs import change
from curriculum.mixing.diet_files import diet_names
from curriculum.pipeline.attempts import attempts_in, names_of, specialist_of
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.recorded_config import newest_plan
from curriculum.pipeline.references import named
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status import PhaseStatus, StatusInputs, replaced_runs
from curriculum.pipeline.status_table import write_status
from curriculum.store import Artefact, Store, garbage
from curriculum.store.inside import missing_workspace
from flows import settings
from flows.cli.console import MUTED, out, print_json, print_line, table, warn
from flows.settings.contexts import resources
from flows.settings.trust import shadow_words, shadows
from schemas.errors import CurriculumError, StoreError
from schemas.mistakes import nearest
from schemas.specialist import format_reference
from schemas.visible import one_line


def status(
    home: Path, specialist: str | None = None, *, as_json: bool, everything: bool = False
) -> None:
    """Print the artefacts by stage, then the state of each phase with its reason.

    With a `specialist`, which may also be one of its phases, print only phases. With `everything`, print
    replaced runs too. Also writes current/status.parquet, if the workspace is writable.

    Raises:
        StoreError: if the specialist has no mixtures and runs.
    """
    store = Store(home, dry=True)
    artefacts = list(store.artefacts())
    inputs = StatusInputs.read(store, resources())
    phases = [*inputs.phase_statuses()]
    with contextlib.suppress(
        OSError
    ):  # The workspace is read-only or full; the answer is the same.
        write_status(inputs, tuple(phases))
    if everything:
        phases = [*replaced_runs(store), *phases]
    if specialist is not None:
        phases = _phases_of(store, specialist, phases)
    stages = [*_stages(artefacts, len(garbage(store)))] if specialist is None else []
    listed = [_phase_line(store, phase) for phase in phases]
    if as_json:
        content = {"home": str(home), "stages": stages, "phases": listed}
        print_json({**content, "shadows": [*shadows(home)]})
        return
    out.print(Text(one_line(str(store.root)), "bold"))
    for line in shadow_words(home):
        warn(line)
    if not stages and not phases:
        missing = missing_workspace(home)
        empty = "The workspace is empty. Start with: curriculum demo"
        out.print(
            empty if missing is None else f"{missing}. Create a workspace: curriculum demo",
            soft_wrap=True,
        )
    if stages:
        out.print(table(stages))
    if any(stage["stage"] == "unused" for stage in stages):
        out.print(Text(UNUSED_NOTE, MUTED))
    if phases:
        out.print()
        cost = ("cost",) if any(line["cost"] for line in listed) else ()
        out.print(table(listed, (*SHOWN, *cost, "key", "why"), dropped_first=DROPPED_FIRST))


def _phases_of(store: Store, name: str, phases: Sequence[PhaseStatus]) -> list[PhaseStatus]:
    """Return the phases of the specialist `name`, or only one phase if `name` is SPECIALIST/PHASE."""
    refs = {phase.ref for phase in phases}
    meant = named(store.root, name, refs)
    found = [
        phase
        for phase in phases
        if meant is not None and phase.ref == meant.ref and meant.phase in (None, phase.phase)
    ]
    if not found:
        known = [
            *map(format_reference, refs),
            *(format_reference(phase.ref, phase.phase) for phase in phases),
        ]
        begin = f"Start with: curriculum run {name}" if name in diet_names(store.root) else ""
        raise StoreError(
            name,
            cause="no specialist with a mixture or run has this name",
            cure=begin or nearest(name, dict.fromkeys(sorted(known))),
        )
    return found


SHOWN = ("specialist", "phase", "state", "attempt", "val_bpb", "anchor")
DROPPED_FIRST = ("anchor", "attempt", "cost")
UNUSED_NOTE = (
    "unused: no current artefact depends on it (estimates and replaced artefacts, for example); "
    "`curriculum gc` lists unused artefacts and removes them after confirmation"
)


def _stages(artefacts: list[Artefact], dead: int) -> Iterator[Line]:
    for stage in dict.fromkeys(artefact.manifest.stage for artefact in artefacts):
        ours = [artefact for artefact in artefacts if artefact.manifest.stage == stage]
        size = sum(record.num_bytes for artefact in ours for record in artefact.manifest.files)
        newest = max(artefact.manifest.created for artefact in ours)
        yield {
            "stage": stage,
            "artefacts": len(ours),
            "size": f"{count(size)}B",
            "newest": newest[:16].replace("T", " "),
        }
    if dead:
        yield {"stage": "unused", "artefacts": dead, "size": "", "newest": "curriculum gc"}


def _phase_line(store: Store, phase: PhaseStatus) -> dict[str, object]:
    report = phase.report
    return {
        "specialist": format_reference(phase.ref),
        "phase": phase.phase,
        "attempt": phase.attempt,
        "state": phase.state,
        "why": phase.why,
        "steps": phase.steps,
        "valid_tokens": phase.valid_tokens,
        "val_bpb": change(report, "phase") if report else "",
        "anchor": change(report, "anchor") if report else "",
        "gpu_seconds": report.gpu_seconds if report else None,
        "cost": report.cost if report else None,
        "key": phase.key,
        "path": phase.run.relative_to(store.root).as_posix() if phase.run else "",
        "unfinished": _phase_line(store, phase.unfinished) if phase.unfinished else None,
    }


def report(home: Path, specialist: str | None, *, show: bool, folder: Path | None = None) -> None:
    """Write the report of one specialist or of all specialists; with `show`, open the first one in a browser.

    Reports are written to `folder` if it is given, and to the workspace otherwise.

    Raises:
        CurriculumError: if neither the workspace nor a diet has the name, or if the workspace is empty.
    """
    files = [_write_report(plan, folder) for plan in _plans(home, specialist)]
    is_served = folder is None and settings.served(home)
    for file in files:
        out.print(str(file), soft_wrap=True)
        if is_served:
            address = f"{settings.reports_at(home)}/{file.name}"
            print_line(address, MUTED)
    if show and files and not webbrowser.open(files[0].as_uri()):
        warn("no browser found; open the path above")


def _plans(home: Path, name: str | None) -> Iterator[RunPlan]:
    """Yield the plan of each specialist that `name` refers to; the name may also be that of a run.

    Without a name, yield the plans of all specialists. Specialists whose diet is missing are skipped with a
    warning.

    Raises:
        StoreError: if the workspace is empty or the name unknown; the error then names the closest known
            name.
    """
    store = Store(home, dry=True)
    attempts = attempts_in(store)
    mixed = {specialist_of(mixture) for mixture in store.artefacts("mixtures")}
    found = {attempt.ref for attempt in attempts if name is None or name in attempt.names}
    found |= {ref for ref in mixed if name in {None, *names_of(ref), ref.specialist}}
    if name is None and not found:
        raise StoreError(
            str(home),
            cause="no specialist is mixed or trained in this workspace",
            cure="Start with: curriculum demo",
        )
    if name is not None and not found:
        if "/" in name and not Path(name).is_file():
            refs = sorted(mixed | {attempt.ref for attempt in attempts}, key=format_reference)
            known = dict.fromkeys(
                [*map(format_reference, refs), *(attempt.name for attempt in attempts)]
            )
            raise StoreError(
                name,
                cause="no specialist, run or diet has this name",
                cure=nearest(name, known),
            )
        # Only builds exist; the diet has the details.
        yield resolve_plan(RunConfig.of(specialist=name, workspace=home), dry=True)
    for ref in sorted(found, key=format_reference):
        try:
            yield newest_plan(store, ref, attempts)
        except CurriculumError as wrong:
            if name is not None:
                raise
            warn(f"{format_reference(ref)} has no report: {wrong}")


def _write_report(plan: RunPlan, folder: Path | None) -> Path:
    if not plan.store.root.is_dir():
        raise StoreError(
            str(plan.store.root), cause="there is no workspace", cure="Start with: curriculum demo"
        )
    # This import loads DuckDB, which `status` never needs.
    from dashboards.report.report_file import write

    if folder is None and not os.access(plan.store.root, os.W_OK):
        folder = settings.reports_folder(plan.store.root)
        warn(f"{plan.store.root} isn't writable; the report is written to {folder}")
    try:
        return write(plan, resources(), warn, folder)
    except OSError as failed:
        raise StoreError(
            str(failed.filename or plan.store.root),
            failed.strerror,
            cause="the report can't be written",
            cure="Check the permissions of the folder",
        ) from None
