"""Notification rules: the events of a run, and when each is sent. notifiers.py sends them.

gate_waiting, gate_not_met   when a run of the pipeline reaches a closed gate
not_finite, out_of_memory, crashed, stalled   while a job trains, whoever started it
done                         when the last phase of a curriculum has been trained
crashed                      when a flow run of a deployment fails, even if its process is gone
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from curriculum.inspection.runs import report_of, run_words
from curriculum.mixing.diet_files import load_diet
from curriculum.pipeline.context import Context
from curriculum.pipeline.gates import Verdict
from curriculum.pipeline.notifiers import EventSource
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import REPORT
from schemas import regular_files
from schemas.errors import CurriculumError, JobError, JobKilledError, JobMemoryError, NotFiniteError
from schemas.job import Report
from schemas.progress import EventKind
from schemas.specialist import format_reference

FOLDER = "notifications"
"""Folder with one file per sent event, so that no event is sent twice."""
_KINDS: dict[type[JobError], EventKind] = {
    NotFiniteError: "not_finite",
    JobMemoryError: "out_of_memory",
    JobKilledError: "crashed",
}


def at_gate(plan: RunPlan, run: Artefact, gate: Verdict, context: Context) -> None:
    """Notify, once per run, that a gate needs an approval or that its conditions weren't met."""
    kinds: dict[str, EventKind] = {"waits": "gate_waiting", "holds": "gate_not_met"}
    if gate.kind in kinds:
        _notify_once(plan, run, kinds[gate.kind], gate.why, context)


def at_end(plan: RunPlan, run: Artefact, context: Context) -> None:
    """Notify, once per run, that a curriculum is done, if the run belongs to the last phase."""
    report = report_of(run)
    if report.phase == plan.phases[-1].name:
        _notify_once(plan, run, "done", f"{_title(plan)} is done: {run_words(report)}.", context)


def _notify_once(
    plan: RunPlan, run: Artefact, kind: EventKind, text: str, context: Context
) -> None:
    """Notify of an event of a run, unless it was sent before.

    The check is needed because each command passes through finished phases again.
    """
    report = report_of(run)
    mark = plan.store.root / FOLDER / f"{run.key[:KEY_DIGITS]}-{report.attempt}-{kind}"
    if mark.exists():
        return
    sent = context.notifier.notify(
        plan, kind, text, phase=report.phase, run=run.path, warn=context.warn
    )
    if sent:
        _remember(mark, context)


def _remember(mark: Path, context: Context) -> None:
    try:
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
    except OSError as full:
        context.warn(f"Could not record that {mark.name} was sent ({full}); it may be sent again.")


@contextlib.contextmanager
def training(plan: RunPlan, phase: str, context: Context) -> Iterator[None]:
    """Notify of a JobError that is raised within the block, and raise it again."""
    try:
        yield
    except JobError as failed:
        kind = _kind_of(failed)
        if kind is not None:
            lines = [line for line in failed.lines if line.strip()]
            last = f" Its log ends: {lines[-1].strip()}." if lines else ""
            text = f"{phase} of {_title(plan)} ended with {failed.value}.{last} {failed.cure}."
            context.notifier.notify(
                plan, kind, text, phase=phase, run=Path(failed.name), warn=context.warn
            )
        raise


def stalled(plan: RunPlan, phase: str, context: Context) -> Callable[[str], None]:
    """Return a function for a job's warning that it makes no progress; it also sends a notification."""

    def notify(line: str) -> None:
        context.warn(line)
        text = f"{phase} of {_title(plan)}: {line}"
        context.notifier.notify(plan, "stalled", text, phase=phase, warn=context.warn)

    return notify


def broken_down(whose: EventSource, title: str, words: str, *, mark: str, context: Context) -> bool:
    """Notify of a failed flow run, and return True if the notification was sent now or earlier.

    `mark` identifies this failure, because two processes may report it: the flow's own process, or `serve` if
    that process is gone.
    """
    file = whose.home / FOLDER / mark
    if file.exists():
        return True
    text = f"{title} broke down: {words}"
    arrived = context.notifier.notify(whose, "crashed", text, warn=context.warn)
    if arrived:
        _remember(file, context)
    return arrived


def whose(home: Path, name: str) -> EventSource:
    """Return the specialist whose events a diet causes; for an unknown diet, one with the diet's name."""
    try:
        diet = load_diet(name, home=home)
    except CurriculumError:
        return EventSource(home=home, specialist=name)
    return EventSource(home=home, specialist=diet.specialist, branch=diet.branch)


def _kind_of(failed: JobError) -> EventKind | None:
    """Return the kind of event for an error; None if the error didn't end any training."""
    for kind, event in _KINDS.items():
        if isinstance(failed, kind):
            return event
    try:
        left = Report.model_validate_json(regular_files.read(Path(failed.name) / REPORT))
    except (OSError, ValidationError):
        return None
    return "crashed" if left.stopped == "failed" else None


def _title(plan: RunPlan) -> str:
    return format_reference((plan.diet.specialist, plan.diet.branch))
