"""Panels of the Runs page: change of val_bpb by phase, curves and settings of runs, and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from curriculum.inspection import formats
from curriculum.pipeline.next_steps import next_steps
from curriculum.store import Store
from curriculum.train.run_directory import JOB, read_job
from dashboards import durations, frame, html
from dashboards.charts import marks, plots, smoothing
from dashboards.overview_panels import in_order
from dashboards.palette import series_class
from dashboards.questions import WorkspaceView, narrowed, question
from dashboards.run_settings import setting_table, versions
from dashboards.training_view import SETTLED, TrainingAxis, TrainingView
from schemas.errors import CurriculumError
from schemas.held_out import HeldOutCount
from schemas.job import Job

TEMPLATE = "runs.html"
MAX_ACCENT_PERCENT = 46.0
"""Percentage of the accent colour in the best cell of a phase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """A row of the result of gains.sql: the change of val_bpb in a finished phase."""

    specialist: str
    phase: str
    before: float
    after: float
    low: float | None
    high: float | None
    documents: int | None
    lineages: int | None
    effective_documents: float | None
    effective_lineages: float | None
    anchor_before: float | None
    anchor_after: float | None
    tokens: int
    run: str
    """Path of the run in the workspace."""
    study: str | None = None

    @property
    def name(self) -> str:
        """Name of the run, as commands accept it."""
        return f"{self.specialist}/{self.phase}"

    @property
    def interval(self) -> str:
        """95 % interval of the change and the number of documents, in words; empty if unknown."""
        if self.low is None or self.high is None:
            return ""
        count = HeldOutCount(
            documents=self.documents or 0,
            lineages=self.lineages or 0,
            effective_documents=self.effective_documents or 0.0,
            effective_lineages=self.effective_lineages or 0.0,
        )
        words = formats.interval(self.low, self.high, is_sure=count.is_sure)
        return f"95 % interval: {words}, {formats.held_out_words(count)}"

    @property
    def by(self) -> float:
        """Decrease of val_bpb during the phase; negative if val_bpb rose."""
        return self.before - self.after

    def depth(self, best: float) -> float:
        """Return the percentage of the accent colour in the cell of this change.

        `best` is the largest decrease of any specialist in the same phase.
        """
        return MAX_ACCENT_PERCENT * self.by / best if self.by > 0 and best > 0 else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Learning:
    """A row of the result of learning.sql: an evaluation on the anchor."""

    specialist: str
    phase: str
    steps: int
    tokens: int
    scored_tokens: int
    seconds: float
    val_bpb: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanLoss:
    """A row of the result of losses.sql: the mean training loss of consecutive steps of a run."""

    specialist: str
    phase: str
    steps: int
    tokens: int
    scored_tokens: int
    seconds: float
    loss: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """A row of the result of cost_of_bpb.sql: the time and cost of a phase."""

    specialist: str
    phase: str
    runs: int
    valid_tokens: int | None
    seconds: float | None
    cost: float | None
    bpb_won: float | None
    seconds_per_hundredth: float | None
    cost_per_hundredth: float | None


def gains(snapshot: WorkspaceView) -> list[Gain]:
    """Return the changes of val_bpb in all finished phases."""
    return snapshot.ask(question("panels/gains"), Gain)


def specialists(found: Sequence[Gain]) -> list[str]:
    """Return the names of the specialists that have a finished phase."""
    return list(dict.fromkeys(gain.specialist for gain in found))


def none_yet(home: Path) -> Markup:
    """Return a panel for a workspace without finished runs, with the commands that finish the first one."""
    return frame.first_steps(
        "No finished runs yet",
        "Runs appear here once a specialist has finished its first phase.",
        next_steps(home, "run"),
    )


def heatmap(found: Sequence[Gain], chosen: str) -> Markup:
    """Return the panel with one line per specialist and one column per phase.

    A cell is coloured by the decrease of val_bpb during the phase. The last column shows val_bpb on the
    anchor, before the first phase and after the last.
    """
    gained: dict[str, dict[str, Gain]] = {}
    for gain in found:
        gained.setdefault(gain.specialist, {})[gain.phase] = gain
    phases = in_order([list(by_phase) for by_phase in gained.values()])
    best = {phase: max(gain.by for gain in found if gain.phase == phase) for phase in phases}
    anchors = {
        name: (next(iter(by_phase.values())).anchor_before, [*by_phase.values()][-1].anchor_after)
        for name, by_phase in gained.items()
    }
    asked = question("panels/gains")
    return html.part(TEMPLATE, "heatmap", phases, gained, best, anchors, chosen, asked)


def curves(snapshot: WorkspaceView, chosen: str, view: TrainingView) -> Markup:
    """Return the panel with val_bpb on the anchor over all phases, one curve per specialist."""
    asked = question("panels/learning")
    figures: dict[str, list[Learning]] = {}
    for evaluation in snapshot.ask(asked, Learning):
        figures.setdefault(evaluation.specialist, []).append(evaluation)
    # The last curve is drawn on top.
    by_choice = sorted(figures, key=lambda name: name == chosen)
    series = [_curve(name, figures[name], view, is_chosen=name == chosen) for name in by_choice]
    drawn = plots.plot(
        series,
        x=view.axis.scale(max(point[0] for curve in series for point in curve.points)),
        y=plots.around([point[1] for curve in series for point in curve.behind]),
        label=f"val_bpb of the anchor by {view.axis.name} and specialist",
        below=f"{view.axis.title} of all phases",
        marks=_phase_starts(figures[chosen], view.axis) if chosen in figures else (),
    )
    return html.part(TEMPLATE, "curves", drawn, asked)


def _curve(
    name: str, learned: Sequence[Learning], view: TrainingView, *, is_chosen: bool
) -> plots.Series:
    curve = plots.Series(
        points=[(view.axis.place(evaluation), evaluation.val_bpb) for evaluation in learned],
        look=f"curve{' chosen' if is_chosen else ''}",
        name=name,
        figure=formats.bits(learned[-1].val_bpb),
    )
    return smoothing.smooth(curve, view.bpb_weight)


def _phase_starts(learned: Sequence[Learning], axis: TrainingAxis) -> list[tuple[float, str]]:
    """Return the position at which each phase started, and its name.

    A phase starts at the last evaluation of the phase before it.
    """
    starts: list[tuple[float, str]] = []
    before = learned[0]
    for evaluation in learned:
        if not starts or evaluation.phase != before.phase:
            starts.append((axis.place(before if starts else evaluation), evaluation.phase))
        before = evaluation
    return starts


def losses(snapshot: WorkspaceView, chosen: Sequence[Gain], view: TrainingView) -> Markup:
    """Return the panel with the training loss of some runs, each from its own start."""
    asked = question("panels/losses")
    series = []
    for number, run in enumerate(chosen):
        of_run = narrowed(asked, specialist=run.specialist, phase=run.phase)
        if found := snapshot.ask(of_run, MeanLoss):
            curve = plots.Series(
                points=[(view.axis.place(mean), mean.loss) for mean in found],
                look=series_class(number if len(chosen) > 1 else None),
                name=run.name,
                figure=formats.bits(found[-1].loss),
            )
            series.append(smoothing.smooth(curve, view.loss_weight))
    if not series:
        return html.part(TEMPLATE, "losses", None, asked)
    settled = [loss for curve in series for _, loss in curve.behind[len(curve.behind) // SETTLED :]]
    drawn = plots.plot(
        series,
        x=view.axis.scale(max(curve.points[-1][0] for curve in series)),
        y=plots.around([loss for curve in series for _, loss in curve.behind], settled),
        label=f"training loss by {view.axis.name} and run",
        below=f"{view.axis.title} of the run",
    )
    return html.part(TEMPLATE, "losses", drawn, asked)


def settings(home: Path, chosen: Sequence[Gain]) -> Markup:
    """Return the panel with the settings of some runs side by side; damaged runs are named instead."""
    store = Store(home, dry=True)
    runs: dict[str, tuple[Job, Mapping[str, str]]] = {}
    problems = []
    for run in chosen:
        try:
            loaded = store.load(home / run.run)
            runs[run.name] = read_job(loaded.path / JOB), versions(loaded.manifest)
        except CurriculumError as damaged:
            problems.append(str(damaged))
    return html.part(TEMPLATE, "settings", [*runs], setting_table([*runs.values()]), problems)


def costs(snapshot: WorkspaceView, chosen: str) -> Markup:
    """Return the panel with the time and cost of each phase, in total and per 0.01 bits per byte gained."""
    asked = question("cost_of_bpb")
    found = snapshot.ask(asked, Cost)
    most = max((phase.seconds_per_hundredth or 0.0 for phase in found), default=0.0) or 1.0
    lines, before = [], ""
    for phase in found:
        name = phase.specialist
        lines.append((name if name != before else "", phase, name == chosen))
        before = name
    is_priced = any(phase.cost for phase in found)
    return html.part(TEMPLATE, "costs", marks, lines, is_priced, most, asked, durations.DEFINITION)
