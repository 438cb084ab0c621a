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
from dashboards import frame, html
from dashboards.charts import marks, plots, smoothing
from dashboards.charts.plots import Scale, Series
from dashboards.training_view import SETTLED, STEPS, TrainingView, step_places
from schemas.errors import CurriculumError
from schemas.job import Figure, Job

TEMPLATE = "training.html"
SECONDS = 5
"""Default refresh interval in seconds."""


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


def controls(choices: Sequence[object], interval: object) -> Markup:
    """Return the choices for all curves of training on the page, and that of the refresh interval."""
    return html.part(TEMPLATE, "view", [*map(frame.control, choices)], frame.control(interval))


def panel(home: Path, resources: Resources, view: TrainingView) -> Markup:
    """Return the panel of all runs that train or wait for a slot."""
    store = Store(home, dry=True)
    try:
        running = list(_running(store, resources, view))
        problem = ""
    except CurriculumError as refused:
        running, problem = [], str(refused)
    return html.part(TEMPLATE, "training", marks, running, problem)


def _running(store: Store, resources: Resources, view: TrainingView) -> Iterator[Training]:
    queue = SlotQueue.read(resources.slots_of(store.root))
    for attempt in open_attempts(store):
        found = attempt_state(store, attempt, queue)
        if found.state in ("running", "waiting"):
            curves = training_curves(attempt.path)
            yield training(attempt.title, attempt.job, found, curves, view)


def training(
    title: str, job: Job, found: AttemptState, curves: TrainingCurves, view: TrainingView
) -> Training:
    """Return the progress of a run in words, and its curves; before its first step it has no curves."""
    beat = curves.heartbeat
    step = max(beat.step if beat else 0, curves.points[-1].steps if curves.points else 0)
    x = view.axis.scale(_end(job, curves, view))
    evaluated = [(job.phase, curves.phase), *curves.fixed.items()]
    return Training(
        title=title,
        state=found.state,
        progress=_progress(job, step, curves) if found.state == "running" else found.why,
        share=step / job.steps,
        loss=_loss(curves, view, x) if curves.points else None,
        val_bpb=_val_bpb(evaluated, curves, view, x)
        if any(figures for _, figures in evaluated)
        else None,
    )


def _end(job: Job, curves: TrainingCurves, view: TrainingView) -> float:
    """Return the end of the x-axis: the last planned step, or on other axes the last point."""
    if view.axis is STEPS:
        return job.steps
    return view.axis.place(curves.points[-1]) if curves.points else 0.0


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


def _loss(curves: TrainingCurves, view: TrainingView, x: Scale) -> Markup:
    """Return the plot of the training loss. The first tenth of its points may be cut off at the top."""
    points = [(view.axis.place(point), point.loss) for point in curves.points]
    losses = [loss for _, loss in points]
    line = Series(points=points, look="own", name="last loss", figure=bits(losses[-1]))
    last = f"{bits(losses[-1])} at step {integer(curves.points[-1].steps)}"
    return plots.plot(
        [smoothing.smooth(line, view.loss_weight)],
        x=x,
        y=plots.around(losses, losses[len(losses) // SETTLED :]),
        label=f"training loss by {view.axis.name}: {last}",
        below=view.axis.title,
    )


def _val_bpb(
    evaluated: Sequence[tuple[str, Sequence[Figure]]],
    curves: TrainingCurves,
    view: TrainingView,
    x: Scale,
) -> Markup:
    """Return the plot of val_bpb on the validation rows of the phase and on the fixed sets."""
    lines, ends = [], []
    for name, figures in evaluated:
        if not figures:
            continue
        places = step_places(view.axis, curves.points, [figure.step for figure in figures])
        line = Series(
            points=[*zip(places, (figure.val_bpb for figure in figures), strict=True)],
            look=name if name in curves.fixed else "own",
            name=name,
            figure=bits(figures[-1].val_bpb),
            dots="each",
        )
        lines.append(smoothing.smooth(line, view.bpb_weight))
        ends.append(f"{name} {line.figure} at step {integer(figures[-1].step)}")
    return plots.plot(
        lines,
        x=x,
        y=plots.around([figure.val_bpb for _, figures in evaluated for figure in figures]),
        label=f"val_bpb by {view.axis.name}: {'; '.join(ends)}",
        below=view.axis.title,
    )
