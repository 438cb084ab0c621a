"""Panel of active training runs, with loss and val_bpb so far; it is refreshed every few seconds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from curriculum.inspection.formats import bits, count, duration, integer
from curriculum.inspection.open_runs import TrainingCurves, training_curves
from curriculum.pipeline.attempts import SlotQueue, attempt_state, open_attempts
from curriculum.pipeline.context import Resources
from curriculum.store import Store
from curriculum.store.attempt_state import AttemptState
from dashboards import html
from dashboards.charts import marks, plots
from dashboards.charts.plots import Point, Series
from schemas.errors import CurriculumError
from schemas.job import Job

TEMPLATE = "training.html"
SECONDS = 5
"""Default refresh interval in seconds."""
SETTLED = 10
"""The first 1/SETTLED of the losses may be too high for the plot and cut off."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """A run that trains or waits for a slot, with its progress in words and its curves."""

    title: str
    state: str
    progress: str
    share: float
    """Share of finished steps."""
    loss: Markup | None
    val_bpb: Markup | None


def interval(control: Markup) -> Markup:
    """Return the control that sets how often the panel is refreshed."""
    return html.part(TEMPLATE, "interval", control)


def panel(home: Path, resources: Resources) -> Markup:
    """Return the panel of all runs that train or wait for a slot."""
    store = Store(home, dry=True)
    try:
        running = list(_running(store, resources))
        problem = ""
    except CurriculumError as refused:
        running, problem = [], str(refused)
    return html.part(TEMPLATE, "training", marks, running, problem)


def _running(store: Store, resources: Resources) -> Iterator[Training]:
    queue = SlotQueue.read(resources.slots_of(store.root))
    for attempt in open_attempts(store):
        found = attempt_state(store, attempt, queue)
        if found.state in ("running", "waiting"):
            curves = training_curves(attempt.path)
            yield training(attempt.title, attempt.job, found, curves)


def training(title: str, job: Job, found: AttemptState, curves: TrainingCurves) -> Training:
    """Return the progress of a run in words, and its curves; before its first step it has no curves."""
    beat = curves.heartbeat
    step = max(beat.step if beat else 0, curves.losses[-1][0] if curves.losses else 0)
    lines = [
        Series(
            points=points,
            look=look,
            name=name,
            figure=bits(points[-1][1]),
            dots="each",
        )
        for name, look, figures in (
            (job.phase, "own", curves.phase),
            *((name, name, figures) for name, figures in curves.fixed.items()),
        )
        if (points := [(float(figure.step), figure.val_bpb) for figure in figures])
    ]
    return Training(
        title=title,
        state=found.state,
        progress=_progress(job, step, curves) if found.state == "running" else found.why,
        share=step / job.steps,
        loss=_plot(
            _loss_series(curves.losses), steps=job.steps, what="training loss", settled_from=SETTLED
        )
        if curves.losses
        else None,
        val_bpb=_plot(lines, steps=job.steps, what="val_bpb") if lines else None,
    )


def _progress(job: Job, step: int, curves: TrainingCurves) -> str:
    """Describe the progress of a run: its step, its speed and the estimated remaining time."""
    beat = curves.heartbeat
    said = [f"step {integer(step)} of {integer(job.steps)}"]
    if beat is not None and beat.tokens_per_second > 0:
        said.append(f"{count(beat.tokens_per_second)} tokens/s")
        left = (job.steps - step) * job.tokens_per_step / beat.tokens_per_second
        left += beat.evaluating_seconds
        said.append(f"about {duration(left)} left")
    if beat is not None and beat.doing is not None:
        said.append(beat.doing)
    return " · ".join(said)


def _loss_series(losses: Sequence[Point]) -> list[Series]:
    """Return the series of the losses and of their running mean."""
    smooth = plots.running_mean(losses)
    mean = Series(points=smooth, look="own", name="running mean", figure=bits(smooth[-1][1]))
    return [Series(points=losses, look="raw", dots="none"), mean]


def _plot(
    series: Sequence[Series], *, steps: int, what: str, settled_from: int | None = None
) -> Markup:
    """Return a plot of series over the steps of a run.

    With `settled_from`, the first 1/settled_from of the points may be too high for the plot and cut off.
    """
    ends = "; ".join(
        f"{curve.name} {curve.figure} at step {integer(curve.points[-1][0])}"
        for curve in series
        if curve.name
    )
    settled = [
        value
        for curve in series
        if settled_from
        for _, value in curve.points[len(curve.points) // settled_from :]
    ]
    return plots.plot(
        series,
        x=plots.within(0, steps),
        y=plots.around(
            [value for curve in series for _, value in curve.points],
            settled,
        ),
        label=f"{what} over {integer(steps)} steps: {ends}",
        below="steps",
    )
