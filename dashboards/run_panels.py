"""The panels of runs compared: what each phase won, how val_bpb fell, and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from curriculum.inspection import formats
from curriculum.pipeline.next_steps import next_steps
from dashboards import durations, frame, html
from dashboards.charts import marks, plots
from dashboards.overview_panels import in_order
from dashboards.questions import WorkspaceView, question
from schemas.held_out import HeldOutCount

TEMPLATE = "runs.html"
DEEPEST = 46.0
"""Percentage of the accent in the best cell of a phase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """A line of gains.sql."""

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
    study: str | None = None

    @property
    def interval(self) -> str:
        """The interval of the figure and what it is of, in words; empty where it isn't known."""
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
        """Return the fall of the figure; below 0 it rose."""
        return self.before - self.after

    def depth(self, best: float) -> float:
        """Return the percentage of the accent, beside the best fall of the phase."""
        return DEEPEST * self.by / best if self.by > 0 and best > 0 else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Learning:
    """A line of learning.sql."""

    specialist: str
    phase: str
    tokens: int
    val_bpb: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """A line of cost_of_bpb.sql."""

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
    """Return the gains of finished phases."""
    return snapshot.ask(question("panels/gains"), Gain)


def specialists(found: Sequence[Gain]) -> list[str]:
    """Return the specialists that have finished a phase."""
    return list(dict.fromkeys(each.specialist for each in found))


def none_yet(home: Path) -> Markup:
    """The commands that finish a first run."""
    return frame.first_steps(
        "No finished runs yet",
        "Runs appear here once a specialist has finished its first phase.",
        next_steps(home, "run"),
    )


def heatmap(found: Sequence[Gain], chosen: str) -> Markup:
    """Specialists by phases: what each phase won, coloured within its phase.

    Beside them the anchor before the first phase and after the last, where both are known.
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


def curves(snapshot: WorkspaceView, chosen: str) -> Markup:
    """val_bpb of the anchor over tokens, a curve a specialist."""
    asked = question("panels/learning")
    figures: dict[str, list[Learning]] = {}
    for each in snapshot.ask(asked, Learning):
        figures.setdefault(each.specialist, []).append(each)
    # What is drawn last lies on top.
    by_choice = sorted(figures, key=lambda name: name == chosen)
    series = [_curve(name, figures[name], is_chosen=name == chosen) for name in by_choice]
    drawn = plots.plot(
        series,
        x=plots.within(0, max(point[0] for curve in series for point in curve.points) or 1),
        y=plots.around([point[1] for curve in series for point in curve.points]),
        label="val_bpb of the anchor over tokens, by specialist",
        below="training tokens over all phases",
        marks=_phase_starts(figures[chosen]) if chosen in figures else (),
    )
    return html.part(TEMPLATE, "curves", drawn, asked)


def _curve(name: str, learned: Sequence[Learning], *, is_chosen: bool) -> plots.Series:
    return plots.Series(
        points=[(each.tokens, each.val_bpb) for each in learned],
        look=f"curve{' chosen' if is_chosen else ''}",
        name=name,
        figure=formats.bits(learned[-1].val_bpb),
    )


def _phase_starts(learned: Sequence[Learning]) -> list[tuple[float, str]]:
    """Return the start of each phase: the last figure of the one before."""
    starts: list[tuple[float, str]] = []
    before = learned[0]
    for each in learned:
        if not starts or each.phase != before.phase:
            starts.append((before.tokens if starts else each.tokens, each.phase))
        before = each
    return starts


def costs(snapshot: WorkspaceView, chosen: str) -> Markup:
    """Time and cost of each phase of each specialist, and of a hundredth of a bit."""
    asked = question("cost_of_bpb")
    found = snapshot.ask(asked, Cost)
    most = max((each.seconds_per_hundredth or 0.0 for each in found), default=0.0) or 1.0
    lines, before = [], ""
    for each in found:
        name = each.specialist
        lines.append((name if name != before else "", each, name == chosen))
        before = name
    is_priced = any(each.cost for each in found)
    return html.part(TEMPLATE, "costs", marks, lines, is_priced, most, asked, durations.DEFINITION)
