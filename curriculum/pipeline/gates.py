"""Gates between phases, and records of those that are closed: gates/<run key12>-<attempt>.json."""

from dataclasses import dataclass
from typing import Literal

from curriculum.inspection.runs import report_of, run_words
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline import approvals
from curriculum.pipeline.command_text import approve_command, command
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from curriculum.store.recipe import KEY_DIGITS
from curriculum.train.gate import gate_bits
from curriculum.train.run_directory import write_text
from schemas.diet import AdvanceWhen
from schemas.errors import JobError
from schemas.job import Report
from schemas.phase_status import ClosedGate

APPROVAL = "approval"
FOLDER = "gates"
_LOOSEN = "Raise token_budget, loosen advance_when, or let on_budget be advance"
Kind = Literal["open", "holds", "waits", "cancelled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """State of the gate behind a finished run."""

    kind: Kind
    """holds: the gate wasn't met within the budget; waits: for somebody's approval."""
    phase: str
    why: str = ""
    """Reason in a sentence, with the cure; empty where it is open."""

    @property
    def is_open(self) -> bool:
        """True where the next phase may begin, or the curriculum is done."""
        return self.kind == "open"


def verdict(plan: RunPlan, phase: str, run: Artefact) -> Verdict:
    """Read the gate behind a phase: the trainer decided, its report holds why it stopped.

    Raises:
        JobError: for a run that failed.
    """
    report, resolved = report_of(run), plan.phase(phase)
    if report.stopped == "failed":
        raise JobError(
            f"phase {phase}", report.reason, cause="training failed", cure=f"Its run is {run.path}"
        )
    if report.stopped == "cancelled":
        why = f"{phase} was cancelled. The same command goes on from its last checkpoint."
        return Verdict(kind="cancelled", phase=phase, why=why)
    is_gated = resolved.advance_when is not None
    if report.stopped == "budget" and is_gated and resolved.on_budget == "hold":
        why = (
            f"{phase} holds: {held_words(resolved, report)}. Look at the run; then raise token_budget, "
            "loosen advance_when, or let on_budget be advance, and give the same command again."
        )
        return Verdict(kind="holds", phase=phase, why=why)
    if APPROVAL in resolved.require and approvals.find_approval(plan.store, run) is None:
        why = f"{phase} is trained and waits for approval: {approve_command(plan, phase)}"
        return Verdict(kind="waits", phase=phase, why=why)
    return Verdict(kind="open", phase=phase)


def held_words(phase: ResolvedPhase, report: Report) -> str:
    """Explain a gate that wasn't met: its budget ended before its gate opened (90 steps; …)."""
    said = "; ".join(filter(None, (report.reason, _lacking(phase.advance_when, report))))
    return f"its budget ended before its gate opened ({said})"


def _lacking(rule: AdvanceWhen | None, report: Report) -> str:
    """Return the rule of a gate that wasn't met, and by how much."""
    if rule is not None and rule.val_bpb is not None:
        over, by = rule.val_bpb.over_evaluations, rule.val_bpb.stops_improving_by
        bits = gate_bits(report.history, report.phase)
        if len(bits) <= over:
            return f"{len(bits)} evaluations of the {over + 1} that it looks back on"
        if (fell := bits[-1 - over] - bits[-1]) >= by:
            return (
                f"val_bpb fell by {fell:.4f} over {over} evaluations, and not by less than {by:g}"
            )
    if rule is not None and rule.min_tokens and report.tokens.valid < rule.min_tokens:
        return f"{report.tokens.valid:,} tokens of the {rule.min_tokens:,} that it asks for"
    return ""


def record_gate(plan: RunPlan, run: Artefact, gate: Verdict) -> None:
    """Record that the gate behind a run is closed, or remove the record where it is open by now."""
    file = plan.store.root / FOLDER / f"{run.key[:KEY_DIGITS]}-{report_of(run).attempt}.json"
    if gate.kind == "holds" or gate.kind == "waits":
        file.parent.mkdir(exist_ok=True)
        write_text(file, _closed_gate(plan, run, gate.kind).model_dump_json(indent=1))
    else:
        file.unlink(missing_ok=True)


def _closed_gate(plan: RunPlan, run: Artefact, kind: Literal["holds", "waits"]) -> ClosedGate:
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
