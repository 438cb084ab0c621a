"""Gates after finished runs: records of closed gates, and approvals that open them.

The rule that ends a run before its budget is in train/advance_when.py.

gates/<run key12>-<attempt>.json        a closed gate
approvals/<run key12>-<attempt>.json    an approval of a run
"""

import datetime
import os
import pwd
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from curriculum.inspection.formats import TOO_FEW, held_out_words, number
from curriculum.inspection.runs import report_of, run_words
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.run_config import command
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.advance_when import fall, fall_words, gate_figures
from curriculum.whole_files import write_whole
from schemas.diet import AdvanceWhen
from schemas.errors import JobError, StoreError
from schemas.job import Report
from schemas.json_text import read_json
from schemas.phase_status import Approval, ClosedGate

APPROVAL = "approval"
FOLDER, APPROVALS_FOLDER = "gates", "approvals"
_LOOSEN = "Raise token_budget, loosen advance_when, or set on_budget: advance"
Kind = Literal["open", "holds", "waits", "cancelled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """State of the gate after a finished run."""

    kind: Kind
    """State of the gate.

    holds: the budget ended before the gate opened. waits: the gate needs an approval.
    """
    phase: str
    why: str = ""
    """Reason and hint as sentences; empty for an open gate."""

    @property
    def is_open(self) -> bool:
        """True if the next phase may start, or the curriculum is done."""
        return self.kind == "open"


def verdict(plan: RunPlan, phase: str, run: Artefact) -> Verdict:
    """Return the state of the gate after a phase, according to the report of the phase's run.

    Raises:
        JobError: if the run failed.
    """
    report, resolved = report_of(run), plan.phase(phase)
    if report.stopped == "failed":
        raise JobError(
            f"phase {phase}", report.reason, cause="training failed", cure=f"Its run is {run.path}"
        )
    if report.stopped == "cancelled":
        why = f"{phase} was cancelled. Run the same command again to continue from its last checkpoint."
        return Verdict(kind="cancelled", phase=phase, why=why)
    is_gated = resolved.advance_when is not None
    if report.stopped == "budget" and is_gated and resolved.on_budget == "hold":
        why = (
            f"{phase} holds: {held_words(resolved, report)}. Look at the run; then raise token_budget, "
            "loosen advance_when or set on_budget: advance, and run the same command again."
        )
        return Verdict(kind="holds", phase=phase, why=why)
    if APPROVAL in resolved.require and find_approval(plan.store, run) is None:
        why = f"{phase} is trained and waits for approval: {approve_command(plan, phase)}"
        return Verdict(kind="waits", phase=phase, why=why)
    return Verdict(kind="open", phase=phase)


def held_words(phase: ResolvedPhase, report: Report) -> str:
    """Return why a gate isn't open, for example: its budget ended before its gate opened (90 steps; …)."""
    why = "; ".join(filter(None, (report.reason, _lacking(phase.advance_when, report))))
    return f"its budget ended before its gate opened ({why})"


def _lacking(rule: AdvanceWhen | None, report: Report) -> str:
    """Return the condition of a gate that wasn't met, and by how much it was missed."""
    if rule is not None and (asked := rule.val_bpb) is not None:
        figures = gate_figures(report.history, report.phase, rule)
        if figures and not figures[-1].is_sure:
            return f"{asked.what} is of {held_out_words(figures[-1])}, {TOO_FEW}"
        fell = fall([figure.val_bpb for figure in figures], asked)
        if fell is None:
            looked_at = asked.over_evaluations + 1
            return f"{number(len(figures), 'evaluation')} of the {looked_at} that it looks back on"
        if fell >= asked.stops_improving_by:
            return f"{fall_words(fell, asked)}, and not by less than {asked.stops_improving_by:g}"
    if rule is not None and rule.min_tokens and report.tokens.valid < rule.min_tokens:
        return f"{report.tokens.valid:,} tokens of the {rule.min_tokens:,} that it asks for"
    return ""


def record_gate(plan: RunPlan, run: Artefact, gate: Verdict) -> None:
    """Write a record for a closed gate, or delete the record of a gate that is open now."""
    file = _file_of(plan.store, FOLDER, run)
    if gate.kind not in ("holds", "waits"):
        file.unlink(missing_ok=True)
        return
    report = report_of(run)
    if gate.kind == "holds":
        why = f"{held_words(plan.phase(report.phase), report)}. {_LOOSEN}."
        cure = command("run", plan.config)
    else:
        why, cure = f"trained {run_words(report)}", approve_command(plan, report.phase)
    closed = ClosedGate(
        kind=gate.kind,
        run=run.path.relative_to(plan.store.root).as_posix(),
        content=run.content,
        specialist=plan.diet.specialist,
        branch=plan.diet.branch,
        phase=report.phase,
        why=why,
        cure=cure,
    )
    file.parent.mkdir(exist_ok=True)
    write_whole(file, closed.model_dump_json(indent=1))


def approve_command(plan: RunPlan, phase: str) -> str:
    """Return the command that approves the run of a phase, with the branch in its name."""
    own = plan.config.build.branch is not None
    name = f"{plan.diet.specialist}.{plan.diet.branch}" if own else plan.config.specialist
    return shlex.join(["curriculum", "approve", name, phase])


def _file_of(store: Store, folder: str, run: Artefact) -> Path:
    return store.root / folder / f"{run.key[:KEY_DIGITS]}-{report_of(run).attempt}.json"


def find_approval(store: Store, run: Artefact) -> Approval | None:
    """Return the approval of a finished run, or None.

    An approval is valid for one attempt and its weights: any other needs its own.

    Raises:
        StoreError: if the file isn't an approval.
    """
    file = approval_file(store, run)
    if not file.is_file():
        return None
    approval = read_approval(file)
    approved = (approval.run_key, approval.attempt, approval.content)
    return approval if approved == (run.key, report_of(run).attempt, run.content) else None


def read_approval(file: Path) -> Approval:
    """Read an approval from a file.

    Raises:
        StoreError: if the file isn't an approval.
    """
    return read_json(
        Approval,
        file,
        error=StoreError,
        cause="the file is not a valid approval",
        cure="Delete it, look at the run, and approve again",
    )


def write_approval(store: Store, run: Artefact, *, who: str, comment: str = "") -> Approval:
    """Approve a finished run, replacing an earlier approval."""
    report = report_of(run)
    approval = Approval(
        run_key=run.key,
        attempt=report.attempt,
        content=run.content,
        specialist=run.manifest.labels["specialist"],
        branch=run.manifest.labels.get("branch"),
        phase=report.phase,
        who=who,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        comment=comment,
    )
    file = approval_file(store, run)
    file.parent.mkdir(exist_ok=True)
    write_whole(file, approval.model_dump_json(indent=1))
    return approval


def approval_file(store: Store, run: Artefact) -> Path:
    """Return the path of the file for a run's approval, which may not exist."""
    return _file_of(store, APPROVALS_FOLDER, run)


def approval_ticket(store: Store, run: Artefact) -> str:
    """Return the id of a run that waits for approval; it is unique among all workspaces of a server."""
    attempt = report_of(run).attempt
    return f"{store.workspace().uuid}-{run.key[:KEY_DIGITS]}-{attempt}-{run.content[:KEY_DIGITS]}"


def user_name() -> str:
    """Return the name of the user who runs this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
