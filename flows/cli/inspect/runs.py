"""Runs in the terminal: the loss curve, the consumed tokens, and the checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.formats import Line as TableLine
from curriculum.inspection.formats import count, number
from curriculum.inspection.line_selection import InspectOptions, Line
from curriculum.inspection.paired import changes_within
from curriculum.inspection.run_tables import figure_lines, machine_line, run_lines
from curriculum.inspection.runs import ending, mixture_of_run, report_of, unused_budget
from curriculum.inspection.step_metrics import step_losses
from curriculum.pipeline.attempts import Attempt, SlotQueue, attempt_state, checkpoints
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import HEARTBEAT, METRICS
from flows.cli.console import MUTED, table
from flows.cli.inspect.artefacts import InspectedArtefact, with_lines
from flows.cli.inspect.text import bar, line
from flows.settings.contexts import resources
from schemas.errors import StoreError
from schemas.job import Heartbeat, Job
from schemas.json_text import read_json
from schemas.study import study_mark
from schemas.visible import one_line

COLUMNS = ("loss", "gradient_norm", "learning_rate", "tokens_per_second", "mean_context")
"""Metrics that are shown per step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptCheckpoint:
    """Checkpoint in the folder of a run."""

    step: int
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView(InspectedArtefact[Line]):
    """View of a finished run; its lines are the training steps that the user asked for."""

    job: Job
    figures: tuple[TableLine, ...]
    checkpoints: tuple[KeptCheckpoint, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenRunView:
    """View of an unfinished run: its state, its progress and its checkpoints."""

    path: Path
    name: str
    state: str
    why: str
    job: Job
    progress: Heartbeat | None
    checkpoints: tuple[KeptCheckpoint, ...]


def run_view(store: Store, artefact: Artefact, options: InspectOptions) -> RunView:
    """Return the view of a finished run; the metrics include means over all families and domains."""
    report, only = report_of(artefact), options.only
    has_steps = only.step is not None or only.where is not None
    shown = with_lines(store, artefact, options) if has_steps else None
    figures = figure_lines(report, changes_within(artefact.path, report))
    return RunView(
        path=artefact.path,
        manifest=artefact.manifest,
        lines=shown.lines if shown else (),
        matching=shown.matching if shown else None,
        job=Attempt.at(artefact.path).job,
        figures=tuple(
            figure
            for figure in figures
            if only.has_figure(str(figure["family"]), str(figure["domain"]))
        ),
        checkpoints=_checkpoints(artefact.path),
    )


def open_run_view(store: Store, begun: Attempt) -> OpenRunView:
    """Return the view of an unfinished run."""
    found = attempt_state(store, begun, SlotQueue.read(resources().slots_of(store.root)))
    beat = begun.path / HEARTBEAT
    progress = None
    if beat.is_file():
        progress = read_json(
            Heartbeat,
            beat,
            error=StoreError,
            cause="the file was changed after it was written",
            cure=f"Move {one_line(str(beat))} out of the workspace; the next heartbeat writes a "
            "new file",
        )
    return OpenRunView(
        path=begun.path,
        name=begun.name,
        state=found.state,
        why=found.why,
        job=begun.job,
        progress=progress,
        checkpoints=_checkpoints(begun.path),
    )


def _checkpoints(run: Path) -> tuple[KeptCheckpoint, ...]:
    return tuple(KeptCheckpoint(step=step, path=path) for step, path in sorted(checkpoints(run)))


def run_panels(
    store: Store, artefact: Artefact, view: RunView, options: InspectOptions
) -> Iterator[RenderableType]:
    """Yield the consumed tokens, the loss, the checkpoints and the metrics of a finished run.

    The metrics are those before and after training. With a filter, yield only the matching steps and metrics.
    """
    only = options.only
    if only.given:
        if view.matching is not None:
            yield from _steps(view)
        if only.family or only.domain:
            yield from _figures(view)
        return
    report = report_of(artefact)
    yield ordered(view.job)
    yield ""
    yield table(run_lines([report]))
    yield Text(one_line(ending(report)), MUTED)
    mixture = mixture_of_run(store, artefact)
    if mixture and (unused := unused_budget(report, mixture)):
        yield Text(one_line(unused), MUTED)
    yield ""
    yield table([machine_line(report)])
    yield from _curve(artefact.path, "")
    yield from _figures(view)
    yield from _checkpoint_lines(store, view.checkpoints)


def open_run_panels(store: Store, view: OpenRunView) -> Iterator[RenderableType]:
    """Yield the state, the progress and the checkpoints of an unfinished run."""
    yield Text.assemble((f"{view.state} ", "bold yellow"), (one_line(view.name), "bold"))
    where = view.path.relative_to(store.root).as_posix()
    yield Text(one_line(f"{where} · {view.why}"), MUTED)
    yield ordered(view.job)
    if now := view.progress:
        yield ""
        yield Text.assemble(
            bar(now.step / max(now.steps, 1)), f"  step {now.step:,} of {now.steps:,}"
        )
        yield Text(
            f"{count(now.valid_tokens)} tokens, {now.tokens_per_second:,.0f} tokens/s"
            + (f", val_bpb {now.val_bpb:.3f}" if now.val_bpb is not None else "")
        )
    yield from _curve(view.path)
    yield from _checkpoint_lines(store, view.checkpoints)


def ordered(job: Job) -> Text:
    """Describe the model, the rows and the optimizer of a job in one line."""
    model = job.model
    lengths = sorted({rows.row_length for rows in job.rows})
    words = (
        f"{model.name}: {model.blocks} of width {model.width:,}, {model.heads} heads, "
        f"{model.vocab_size:,} ids{', with structure' if model.structure else ''} · rows of "
        f"{', '.join(f'{length:,}' for length in lengths)} · {job.tokens_per_step:,} positions a step · "
        f"rate {job.optimizer.learning_rate:g}, {job.optimizer.schedule} · {origin_of(job)}"
        f"{' · ' if job.study else ''}{study_mark(job.study)}"
    )
    return Text(one_line(words))


def origin_of(job: Job) -> str:
    """Describe the origin of the weights with which a job starts."""
    start = job.start_from
    return f"continues {start.run_key[:KEY_DIGITS]}" if start else "new weights"


def _curve(run: Path, *before: str) -> Iterator[RenderableType]:
    """Yield the lines in `before`, then the training loss as a sparkline; nothing without recorded steps."""
    _, losses = step_losses(run / METRICS)
    if losses:
        yield from before
        change = f"  {losses[0]:.3f} → {losses[-1]:.3f}"
        yield Text.assemble(("loss  ", MUTED), line(losses), change)


def _steps(view: RunView) -> Iterator[RenderableType]:
    """Yield a table with one line per training step that the user asked for."""
    yield ""
    yield table(view.lines, ("step", "valid_tokens", *COLUMNS), heads={"valid_tokens": "tokens"})
    if rest := (view.matching or 0) - len(view.lines):
        yield Text(f"… {number(rest, 'more step')} (--full)", MUTED)


def _figures(view: RunView) -> Iterator[RenderableType]:
    yield ""
    yield table(view.figures) if view.figures else Text("no metric matches", MUTED)


def _checkpoint_lines(store: Store, kept: tuple[KeptCheckpoint, ...]) -> Iterator[RenderableType]:
    """Yield a table with one line per checkpoint."""
    if kept:
        yield ""
    for checkpoint in kept:
        where = checkpoint.path.relative_to(store.root).as_posix()
        yield Text.assemble(
            ("checkpoint ", MUTED), (f"step {checkpoint.step:,}", "bold"), (f"  {where}", MUTED)
        )
