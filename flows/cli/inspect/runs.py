"""Runs and checkpoints in the terminal: how training went, what it has learnt from, what was kept."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from curriculum import parquet
from curriculum.inspection.documents import chosen_lines
from curriculum.inspection.formats import Line, count, number
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.paired import changes_within
from curriculum.inspection.run_tables import figure_lines, machine_line, run_lines
from curriculum.inspection.runs import ending, mixture_of_run, unused_budget
from curriculum.inspection.runs import report_of as run_report_of
from curriculum.pipeline.attempts import Attempt, SlotQueue, attempt_state, checkpoints
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import HEARTBEAT
from flows.cli.console import MUTED, plain_table, table
from flows.cli.inspect.text import bar, line
from flows.settings.contexts import resources
from schemas.errors import StoreError
from schemas.job import Heartbeat, Job, Report
from schemas.json_text import read_json
from schemas.study import study_mark
from schemas.visible import one_line

STEP_LINES = 12
METRICS = ("loss", "gradient_norm", "learning_rate", "tokens_per_second", "mean_context")
"""Metrics of a step that are shown."""


def run(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[RenderableType]:
    """A closed run: what it consumed, its loss, its checkpoints, and every figure before and after.

    Where lines are chosen, those lines alone: steps, figures or both.
    """
    report, job = run_report_of(artefact), Attempt.at(artefact.path).job
    if options.only.given:
        yield from _filtered(store, artefact, report, options)
        return
    yield ordered(job)
    yield ""
    yield table(run_lines([report]))
    yield Text(ending(report), MUTED)
    mixture = mixture_of_run(store, artefact)
    if mixture and (unused := unused_budget(report, mixture)):
        yield Text(unused, MUTED)
    yield ""
    yield table([machine_line(report)])
    losses = _losses(artefact.path)
    if losses:
        yield ""
        yield _curve(losses)
    yield from _figures(artefact.path, report, options)
    yield from _kept_checkpoints(store, artefact.path)


def open_run(store: Store, begun: Attempt) -> Iterator[RenderableType]:
    """A run that isn't finished: how it stands, how far it is, what it has kept."""
    found = attempt_state(store, begun, SlotQueue.read(resources().slots_of(store.root)))
    job = begun.job
    way = begun.name
    where = begun.path.relative_to(store.root).as_posix()
    yield Text.assemble((f"{found.state} ", "bold yellow"), (one_line(way), "bold"))
    yield Text(f"{where} · {found.why}", MUTED)
    yield ordered(job)
    beat = begun.path / HEARTBEAT
    if beat.is_file():
        now = read_json(
            Heartbeat,
            beat,
            error=StoreError,
            cause="it was changed since it was written",
            cure=f"Move {one_line(str(beat))} out of the workspace: the next heartbeat writes another",
        )
        yield ""
        yield Text.assemble(
            bar(now.step / max(now.steps, 1)), f"  step {now.step:,} of {now.steps:,}"
        )
        yield Text(
            f"{count(now.valid_tokens)} tokens, {now.tokens_per_second:,.0f} a second"
            + (f", val_bpb {now.val_bpb:.3f}" if now.val_bpb is not None else "")
        )
    losses = _losses(begun.path)
    if losses:
        yield _curve(losses)
    yield from _kept_checkpoints(store, begun.path)


def figures_of(run: Path, report: Report, options: InspectOptions) -> list[Line]:
    """The figures that are wished; means belong to all families and domains."""
    changes = changes_within(run, report)
    return [each for each in figure_lines(report, changes) if fits(each, options)]


def fits(figure: Line, options: InspectOptions) -> bool:
    """Return True for a figure of the family and domain that are asked for."""
    only = options.only
    return only.family in (None, figure["family"]) and only.domain in (None, figure["domain"])


def ordered(job: Job) -> Text:
    """Return what a job asks for, in a line."""
    model = job.model
    lengths = sorted({rows.row_length for rows in job.rows})
    return Text(
        f"{model.name}: {model.blocks} of width {model.width:,}, {model.heads} heads, "
        f"{model.vocab_size:,} ids{', with structure' if model.structure else ''} · rows of "
        f"{', '.join(f'{each:,}' for each in lengths)} · {job.tokens_per_step:,} positions a step · "
        f"rate {job.optimizer.learning_rate:g}, {job.optimizer.schedule} · {origin_of(job)}"
        f"{' · ' if job.study else ''}{study_mark(job.study)}"
    )


def origin_of(job: Job) -> str:
    """Return where a job's weights come from."""
    start = job.start_from
    return f"continues {start.run_key[:KEY_DIGITS]}" if start else "new weights"


def _curve(losses: list[float]) -> Text:
    """The loss of all steps as a line."""
    return Text.assemble(("loss  ", MUTED), line(losses), f"  {losses[0]:.3f} → {losses[-1]:.3f}")


def _filtered(
    store: Store, artefact: Artefact, report: Report, options: InspectOptions
) -> Iterator[RenderableType]:
    """The steps and the figures that are asked for."""
    only = options.only
    if only.step or only.where:
        yield from _steps(store, artefact, options)
    if only.family or only.domain:
        yield from _figures(artefact.path, report, options)


def _steps(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[RenderableType]:
    """A line a chosen step."""
    found = chosen_lines(store, artefact, options)
    held = [each for _, each in itertools.islice(found, None if options.full else STEP_LINES)]
    yield ""
    drawn = plain_table("step", "tokens", *METRICS)
    for column in drawn.columns:
        column.justify = "right"
    for each in held:
        values = (each.get(name) for name in METRICS)
        drawn.add_row(
            f"{each['step']:,}",
            f"{each['valid_tokens']:,}",
            *("" if value is None else f"{value:,.4g}" for value in values),
        )
    yield drawn
    rest = sum(1 for _ in found)
    if rest:
        yield Text(f"… {number(rest, 'more step')} (--full)", MUTED)


def _losses(run: Path) -> list[float]:
    """The loss of each step, as far as it is written."""
    found: dict[int, float] = {}
    for file in sorted((run / "metrics").glob("[0-9]*.parquet")):
        read = parquet.read_table(file, ["step", "loss"]).to_pylist()
        found |= {each["step"]: each["loss"] for each in read}
    return [found[step] for step in sorted(found)]


def _figures(run: Path, report: Report, options: InspectOptions) -> Iterator[RenderableType]:
    lines = figures_of(run, report, options)
    yield ""
    yield table(lines) if lines else Text("no figure matches", MUTED)


def _kept_checkpoints(store: Store, run: Path) -> Iterator[RenderableType]:
    """The checkpoints that a run keeps."""
    there = sorted(checkpoints(run))
    if not there:
        return
    yield ""
    for step, path in there:
        where = path.relative_to(store.root).as_posix()
        yield Text.assemble(
            ("checkpoint ", MUTED), (f"step {step:,}", "bold"), (f"  {where}", MUTED)
        )
