"""The gates that walks through the phases stop at, for who looks later: gates/<run key12>-<attempt>.json."""

from typing import Literal

from curriculum.inspection.runs import report_of, run_words
from curriculum.pipeline.command_text import approve_command, command
from curriculum.pipeline.gates import Verdict, held_words
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from curriculum.store.recipe import KEY_DIGITS
from curriculum.train.disk import write_text
from schemas.gate import ClosedGate

FOLDER = "gates"
_LOOSEN = "Raise token_budget, loosen advance_when, or let on_budget be advance"


def note(plan: RunPlan, run: Artefact, gate: Verdict) -> None:
    """Keep that the gate behind a run is closed, or forget it where it isn't any more."""
    file = plan.store.root / FOLDER / f"{run.key[:KEY_DIGITS]}-{report_of(run).attempt}.json"
    if gate.kind == "holds" or gate.kind == "waits":
        file.parent.mkdir(exist_ok=True)
        write_text(file, _closed(plan, run, gate.kind).model_dump_json(indent=1))
    else:
        file.unlink(missing_ok=True)


def _closed(plan: RunPlan, run: Artefact, kind: Literal["holds", "waits"]) -> ClosedGate:
    report = report_of(run)
    if kind == "holds":
        why = f"{held_words(plan.phase(report.phase), report)}. {_LOOSEN}."
        cure = command("run", plan.config)
    else:
        why, cure = f"trained {run_words(report)}", approve_command(plan, report.phase)
    return ClosedGate(
        kind=kind,
        run=run.path.relative_to(plan.store.root).as_posix(),
        content=run.content,
        specialist=plan.diet.specialist,
        branch=plan.diet.branch,
        phase=report.phase,
        why=why,
        cure=cure,
    )
