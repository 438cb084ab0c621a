"""`curriculum status`: what the workspace holds, how far each specialist is, and what is stale."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from curriculum.inspection.formats import Line, count
from curriculum.inspection.runs import change
from curriculum.pipeline.attempts import spelled
from curriculum.pipeline.forecast import money
from curriculum.pipeline.status import PhaseStatus, StatusInputs, earlier, write_status
from curriculum.store import Artefact, Store, garbage
from curriculum.store.recipe import KEY_DIGITS
from flows.cli.console import out, print_json, table, warn
from flows.settings.contexts import resources
from flows.settings.trust import shadow_words, shadows


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """Stages and phases of a workspace."""

    stages: tuple[Line, ...]
    phases: tuple[PhaseStatus, ...]


def status(home: Path, *, as_json: bool, everything: bool = False) -> None:
    """Print artefacts by stage, then the phases with why they stand so; of `everything` also earlier runs."""
    store = Store(home, dry=True)
    found = look(store, everything=everything)
    if as_json:
        listed = [_as_json(store, each) for each in found.phases]
        content = {"home": str(home), "stages": found.stages, "phases": listed}
        print_json({**content, "shadows": [*shadows(home)]})
        return
    out.print(Text(str(store.root), "bold"))
    for line in shadow_words(home):
        warn(line)
    if not found.stages and not found.phases:
        out.print("Nothing here yet. Begin with: curriculum demo")
        return
    if found.stages:
        out.print(table(found.stages))
    if found.phases:
        out.print()
        out.print(table(_lines(found.phases)))


def look(store: Store, *, everything: bool = False) -> Status:
    """Return the status of a workspace and write current/status.parquet, if possible. `store` is dry."""
    artefacts = list(store.artefacts())
    survey = StatusInputs.of(store, resources())
    now = tuple(survey.phase_statuses())
    with contextlib.suppress(OSError):  # It is read-only, or full: the answer is the same.
        write_status(survey, now)
    phases = (*(earlier(store) if everything else ()), *now)
    return Status(stages=tuple(_stages(artefacts, len(garbage(store)))), phases=phases)


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


def _lines(phases: tuple[PhaseStatus, ...]) -> Iterator[Line]:
    """A line a phase; what GPUs cost has a column where something did."""
    is_priced = any(each.report and each.report.cost for each in phases)
    for each in phases:
        line = {
            "specialist": spelled(each.way),
            "phase": each.phase,
            "state": each.state,
            "attempt": "" if each.attempt is None else str(each.attempt),
            **_figures(each),
            "cost": _cost(each),
            "key": each.key[:KEY_DIGITS],
            "why": each.why,
        }
        if not is_priced:
            del line["cost"]
        yield line


def _as_json(store: Store, each: PhaseStatus) -> dict[str, object]:
    report = each.report
    return {
        "specialist": each.way[0],
        "branch": each.way[1],
        "phase": each.phase,
        "attempt": each.attempt,
        "state": each.state,
        "why": each.why,
        **_figures(each),
        "gpu_seconds": report.gpu_seconds if report else None,
        "cost": report.cost if report else None,
        "key": each.key,
        "path": each.run.relative_to(store.root).as_posix() if each.run else "",
    }


def _figures(each: PhaseStatus) -> dict[str, str]:
    if each.report is None:
        return {"val_bpb": "", "anchor": ""}
    return {"val_bpb": change(each.report, "phase"), "anchor": change(each.report, "anchor")}


def _cost(each: PhaseStatus) -> str:
    return money(each.report.cost) if each.report else ""
