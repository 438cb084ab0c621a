"""Panel of runs that train now: loss and val_bpb as far as they are, drawn anew every few seconds."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from curriculum.inspection.formats import bits, count, duration, integer
from curriculum.inspection.open_runs import TrainingCurves, training_curves
from curriculum.pipeline.attempts import AttemptState, SlotQueue, attempt_state, open_attempts
from curriculum.pipeline.context import Resources
from curriculum.store import Store
from dashboards import charts, html, plots
from dashboards.charts import element
from dashboards.plots import Name, Point, Tick
from schemas.errors import CurriculumError
from schemas.job import Job

TEMPLATE = "training.html"
SECONDS = 5
"""Seconds from one drawing to the next."""
SETTLED = 10
"""A tenth of the points may lie above a plot: the fall from nothing would flatten all that follows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnCurve:
    """A curve with its name, and the figure at its end."""

    name: str
    """Empty where it isn't named at its end."""
    look: str
    points: tuple[Point, ...]
    dots: bool = False
    """True to mark each point: evaluations are far apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """A run that trains or waits, in words and curves."""

    title: str
    state: str
    progress: str
    share: float
    """Share of its steps that are done."""
    loss: Markup | None
    val_bpb: Markup | None


def interval(control: Markup) -> Markup:
    """The control of the time from one drawing to the next."""
    return html.part(TEMPLATE, "interval", control)


def panel(home: Path, resources: Resources) -> Markup:
    """All runs that train or wait for a slot, with their curves."""
    store = Store(home, dry=True)
    try:
        running = list(_running(store, resources))
        problem = ""
    except CurriculumError as refused:
        running, problem = [], str(refused)
    return html.part(TEMPLATE, "training", charts, running, problem)


def _running(store: Store, resources: Resources) -> Iterator[Training]:
    queue = SlotQueue.read(resources.slots_of(store.root))
    for attempt in open_attempts(store):
        found = attempt_state(store, attempt, queue)
        if found.state in ("running", "waiting"):
            curves = training_curves(attempt.path)
            yield training(attempt.title, attempt.job, found, curves)


def training(title: str, job: Job, found: AttemptState, curves: TrainingCurves) -> Training:
    """A run in words and curves; before its first step there are none."""
    beat = curves.heartbeat
    step = max(beat.step if beat else 0, curves.losses[-1].step if curves.losses else 0)
    losses = tuple((float(each.step), each.loss) for each in curves.losses)
    lines = [
        DrawnCurve(
            name=name,
            look=look,
            points=tuple((float(each.step), each.val_bpb) for each in figures),
            dots=True,
        )
        for name, look, figures in (
            (job.phase, "own", curves.phase),
            ("anchor", "anchor", curves.anchor),
        )
        if figures
    ]
    loss = [
        DrawnCurve(name="", look="raw", points=losses),
        DrawnCurve(name="mean", look="own", points=_smooth(losses)),
    ]
    return Training(
        title=title,
        state=found.state,
        progress=_progress(job, step, curves) if found.state == "running" else found.why,
        share=step / job.steps,
        loss=plot(loss, steps=job.steps, what="loss, nats a token") if losses else None,
        val_bpb=plot(lines, steps=job.steps, what="val_bpb") if lines else None,
    )


def _progress(job: Job, step: int, curves: TrainingCurves) -> str:
    """The step, the speed, and how long the rest takes at that speed."""
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


def _smooth(points: Sequence[Point]) -> tuple[Point, ...]:
    """Means over each point and those before it, a twentieth of all.

    >>> _smooth([(1, 4.0), (2, 2.0)]), [y for _, y in _smooth([(x, float(x % 2)) for x in range(40)])][-1]
    (((1, 4.0), (2, 2.0)), 0.5)
    """
    size = max(1, len(points) // 20)
    sums = [0.0, *itertools.accumulate(value for _, value in points)]
    return tuple(
        (step, (sums[at + 1] - sums[max(0, at + 1 - size)]) / min(at + 1, size))
        for at, (step, _) in enumerate(points)
    )


def plot(lines: Sequence[DrawnCurve], *, steps: int, what: str) -> Markup:
    """Curves over the steps of a run from 0 to its last, each named where it ends."""
    low, high, step = plots.axis_of(_settled(lines))

    def place(point: Point) -> Point:
        at, value = point
        # The first and the last dot are whole.
        return 0.01 + 0.98 * at / steps, (high - value) / (high - low)

    named = [each for each in lines if each.name]
    ends = "; ".join(
        f"{each.name} {bits(each.points[-1][1])} at step {integer(each.points[-1][0])}"
        for each in named
    )
    return plots.grid(
        [_curve(each, [place(point) for point in each.points]) for each in lines],
        left=[
            Tick(place=place((0.0, value))[1], label=label)
            for value, label in plots.steps(low, high, step)
        ],
        below=plots.labels_below(
            [
                Tick(place=0.0, label="0"),
                Tick(place=0.5, label=integer(steps / 2)),
                Tick(place=1.0, label=f"{integer(steps)} steps"),
            ]
        ),
        names=[
            Name(
                name=each.name,
                figure=bits(each.points[-1][1]),
                y=min(max(place(each.points[-1])[1], 0.0), 1.0),
                look=each.look,
            )
            for each in named
        ],
        label=f"{what} over {integer(steps)} steps: {ends}",
    )


def _settled(lines: Sequence[DrawnCurve]) -> list[float]:
    """The values that an axis reaches around: all but those that come first and lie above the rest."""
    values = [value for each in lines for _, value in each.points]
    later = [value for each in lines for _, value in each.points[len(each.points) // SETTLED :]]
    return [value for value in values if value <= max(later)]


def _curve(line: DrawnCurve, places: Sequence[Point]) -> Markup:
    marked = places if line.dots else places[-1:] if line.name else ()
    return element("g", plots.line_of(places), plots.dots(marked), class_=line.look)
