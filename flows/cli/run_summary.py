"""Last lines of `curriculum run` and `train`: runs, paths of report and weights, and the next command."""

import shlex
from collections.abc import Collection, Sequence

from rich.text import Text

from curriculum.inspection.run_notes import (
    FinishedRun,
    anchor_words,
    finished_runs,
    rises,
    samples,
    silences,
)
from curriculum.inspection.run_tables import run_lines
from curriculum.inspection.runs import ending, report_of, unused_budget
from curriculum.pipeline.execute import Scope
from curriculum.pipeline.gates import Verdict, approve_command
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.run_config import command
from curriculum.pipeline.status import later_phases, phases_left
from curriculum.store import Artefact
from dashboards.report.facts import report_path
from flows import settings
from flows.cli.console import ACCENT, MUTED, out, print_line, table, warn
from flows.settings.contexts import resources
from schemas.specialist import SpecialistRef, format_reference

PROMPT = "int main() {"


def print_runs(plan: RunPlan, runs: Sequence[Artefact]) -> None:
    """Print a table of the runs, remarks on them, and warnings.

    A remark says how many tokens of a budget were left over, because a phase ends with a whole step.
    """
    finished = finished_runs(plan.store, runs)
    out.print(table(run_lines([run.report for run in finished])))
    for run in finished:
        report = run.report
        if report.stopped != "budget":
            print_line(f"{report.phase}: {ending(report)}", MUTED)
        if run.mixture and (unused := unused_budget(report, run.mixture)):
            print_line(f"{report.phase}: {unused}", MUTED)
    for words in samples(plan.store, finished):
        print_line(words, MUTED)
    warn_of_rises(finished)
    for words in silences(finished):
        warn(words)


def warn_of_rises(finished: Sequence[FinishedRun]) -> None:
    """Warn of each run whose val_bpb rose, and if an earlier run was better on the anchor."""
    for words in filter(None, (*rises(finished), anchor_words(finished))):
        warn(words)


def print_summary(
    plan: RunPlan, scope: Scope, runs: Sequence[Artefact], gate: Verdict | None
) -> None:
    """Print the path of the report, the path of the last weights, and the recommended next command."""
    root, last = plan.store.root, report_of(runs[-1])
    report = report_path(root, plan.diet.specialist, plan.diet.branch)
    paths = [("report", report)] if report.is_file() else []
    if last.checkpoint:
        paths.append(("weights", root / last.checkpoint))
    out.print()
    for name, path in paths:
        out.print(Text(f"{name:<8}", MUTED), Text(str(path)), soft_wrap=True)
    left = () if scope.phase is None else phases_left(plan, resources())
    line, effect = next_command(plan, scope, runs, gate, left)
    place = "" if root == settings.workspace_path() else f" --home {shlex.quote(str(root))}"
    shown = Text.assemble(
        (f"{'next':<8} ", MUTED), (f"{line}{place}", ACCENT), (f"  # {effect}", MUTED)
    )
    out.print(shown, soft_wrap=True)


def next_command(
    plan: RunPlan,
    scope: Scope,
    runs: Sequence[Artefact],
    gate: Verdict | None,
    left: Collection[str] = (),
) -> tuple[str, str]:
    """Return the recommended command after some runs, and a description of its effect.

    `left` are later phases that a run of a single phase made outdated. It is empty if the weights of that
    phase didn't change.
    """
    ref = SpecialistRef(plan.diet.specialist, plan.diet.branch)
    last = report_of(runs[-1])
    phase = last.phase
    run, later = format_reference(ref, phase), later_phases(plan, phase)
    if gate is not None and gate.kind == "waits":
        return approve_command(plan, phase), "approves the run; then run the same command again"
    if gate is not None and gate.kind == "holds":
        return _line("inspect", run), "shows the run that didn't pass the gate"
    if gate is not None and not gate.is_open:
        return command("run", plan.config), "continues from the last checkpoint"
    if scope.phase is not None and (after := [name for name in later if name in left]):
        effect = f"trains the phases that depend on {phase}: {', '.join(after)}"
        return command("run", plan.config), effect
    if plan.diet.trainer is not None or not last.checkpoint:
        return _line("inspect", run), "shows the run"
    return _line("generate", run, "--prompt", PROMPT), "completes a prompt with these weights"


def _line(*words: str) -> str:
    return shlex.join(["curriculum", *words])
