"""The panels of runs compared: what each phase won, how val_bpb fell, and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.inspection.formats import duration
from dashboards import charts, frame
from dashboards.charts import amount
from dashboards.frame import text
from dashboards.overview_panels import in_order, title
from dashboards.questions import Snapshot, question

TOO_FEW = "too few documents to tell"
"""Shown for an interval without a width, which is that of a single document."""
DEEPEST = 46.0
"""Percentage of the accent in the best cell of a phase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """A line of gains.sql."""

    specialist: str
    branch: str | None
    phase: str
    before: float
    after: float
    low: float | None
    high: float | None
    anchor_before: float | None
    anchor_after: float | None
    tokens: int

    @property
    def by(self) -> float:
        """Return the fall of the figure; below 0 it rose."""
        return self.before - self.after


@dataclass(frozen=True, kw_only=True, slots=True)
class Learning:
    """A line of learning.sql."""

    specialist: str
    branch: str | None
    phase: str
    step: int
    tokens: int
    val_bpb: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """A line of cost_of_bpb.sql."""

    specialist: str
    branch: str | None
    phase: str
    runs: int
    valid_tokens: int | None
    seconds: float | None
    cost: float | None
    bpb_won: float | None
    seconds_per_hundredth: float | None
    cost_per_hundredth: float | None


def gains(snapshot: Snapshot) -> list[Gain]:
    """Return the gains of finished phases."""
    return snapshot.ask(question("panels/gains"), Gain)


def specialists(found: Sequence[Gain]) -> list[str]:
    """Return the specialists that have finished a phase."""
    return list(dict.fromkeys(title(each.specialist, each.branch) for each in found))


def none_yet() -> str:
    """Say how to finish a first run."""
    return frame.card(
        "first",
        "No finished run yet",
        '<ol class="first"><li><code>curriculum run templates.demo</code><small>builds, mixes and trains a '
        "specialist, phase by phase</small></li></ol>",
        why="Runs are compared when their first phase is done.",
    )


def heatmap(found: Sequence[Gain], chosen: str) -> str:
    """Specialists by phases: what each phase won, coloured within its phase."""
    of: dict[str, dict[str, Gain]] = {}
    for each in found:
        of.setdefault(title(each.specialist, each.branch), {})[each.phase] = each
    phases = in_order([list(mine) for mine in of.values()])
    best = {phase: max(mine[phase].by for mine in of.values() if phase in mine) for phase in phases}
    heads = "".join(f"<th>{text(phase)}</th>" for phase in phases)
    lines = ""
    for name, mine in of.items():
        cells = "".join(_heat(mine.get(phase), best[phase]) for phase in phases)
        first, last = next(iter(mine.values())), list(mine.values())[-1]
        lines += (
            f"<tr{' class=on' if name == chosen else ''}><th>{text(name)}</th>{cells}"
            f"{_anchor(first, last)}</tr>"
        )
    body = (
        f'<div class="wide"><table class="heat"><thead><tr><th></th>{heads}<th>anchor, all the way</th>'
        f"</tr></thead><tbody>{lines}</tbody></table></div>"
    )
    return frame.card(
        "heatmap",
        "What each phase won",
        body,
        asked=[question("panels/gains")],
        why="Fall of val_bpb on the phase’s own validation rows, and where it ended. Coloured within each "
        "phase, since the first wins the most everywhere; red where it rose.",
    )


def _heat(each: Gain | None, best: float) -> str:
    if each is None:
        return '<td class="none">–</td>'
    deep = DEEPEST * each.by / best if each.by > 0 and best > 0 else 0.0
    sure = ""
    if each.low is not None and each.high is not None:
        said = f"95 % interval {each.low:.3f} to {each.high:.3f}"
        sure = f' title="{said if each.low < each.high else TOO_FEW}"'
    look = ' class="rose"' if each.by < 0 else ""
    return (
        f'<td{look} style="--deep:{deep:.0f}%"{sure}><b>{charts.change(-each.by)}</b>'
        f"<small>{each.before:.3f} → {each.after:.3f}</small></td>"
    )


def _anchor(first: Gain, last: Gain) -> str:
    if first.anchor_before is None or last.anchor_after is None:
        return '<td class="none">–</td>'
    by = last.anchor_after - first.anchor_before
    return (
        f'<td class="whole"><b>{charts.change(by)}</b>'
        f"<small>{first.anchor_before:.3f} → {last.anchor_after:.3f}</small></td>"
    )


def curves(snapshot: Snapshot, chosen: str) -> str:
    """val_bpb of the anchor over tokens, a curve a specialist."""
    asked = question("panels/learning")
    grouped: dict[str, list[Learning]] = {}
    for each in snapshot.ask(asked, Learning):
        grouped.setdefault(title(each.specialist, each.branch), []).append(each)
    drawn = [
        charts.Curve(
            name=name,
            points=[(each.tokens, each.val_bpb) for each in those],
            chosen=name == chosen,
            marks=_begins(those),
        )
        for name, those in grouped.items()
        if those
    ]
    body = charts.curves(
        drawn,
        across="valid tokens seen, over all phases",
        label="val_bpb of the anchor over tokens, by specialist",
    )
    return frame.card(
        "curves",
        "val_bpb over tokens",
        body,
        asked=[asked],
        why="On the anchor, validation rows that are the same in every phase and for all specialists; lower "
        "is better. The chosen specialist is in colour, with the phases where they begin.",
    )


def _begins(those: Sequence[Learning]) -> list[tuple[float, str]]:
    """Return the begin of each phase: the last figure of the one before."""
    begins: list[tuple[float, str]] = []
    before = those[0]
    for each in those:
        if not begins or each.phase != before.phase:
            begins.append((before.tokens if begins else each.tokens, each.phase))
        before = each
    return begins


def costs(snapshot: Snapshot, chosen: str) -> str:
    """Draw the cost of each phase of each specialist, and of a hundredth of a bit."""
    asked = question("cost_of_bpb")
    found = snapshot.ask(asked, Cost)
    priced = any(each.cost for each in found)
    most = max((each.seconds_per_hundredth or 0.0 for each in found), default=0.0) or 1.0
    lines, before = "", ""
    for each in found:
        name = title(each.specialist, each.branch)
        lines += _cost(each, name if name != before else "", most, priced, name == chosen)
        before = name
    money = '<th class="n">money</th><th class="n">money for 0.01 bpb</th>' if priced else ""
    heads = (
        '<th>specialist</th><th>phase</th><th class="n">tokens</th><th class="n">time</th>'
        f'<th class="n">bpb won</th>{money}<th></th><th class="n">time for 0.01 bpb</th>'
    )
    body = (
        f'<div class="wide"><table class="data costs"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )
    return frame.card(
        "costs",
        "Time and cost",
        body,
        asked=[asked],
        why="All attempts of a phase together, against what it won; the cheapest hundredth first.",
    )


def _cost(each: Cost, name: str, most: float, priced: bool, chosen: bool) -> str:
    per = each.seconds_per_hundredth
    money = ""
    if priced:
        money = f"<td class=n>{_money(each.cost)}</td><td class=n>{_money(each.cost_per_hundredth)}</td>"
    won = "–" if each.bpb_won is None else charts.change(-each.bpb_won)
    return (
        f'<tr class="{"on" if chosen else ""}{" begins" if name else ""}"><th>{text(name)}</th>'
        f"<td>{text(each.phase)}</td><td class=n>{amount(each.valid_tokens or 0)}</td>"
        f"<td class=n>{duration(each.seconds or 0.0)}</td><td class=n>{won}</td>{money}"
        f'<td class="drawn">{charts.bar(per or 0.0, of=most)}</td>'
        f"<td class=n>{'–' if per is None else duration(per)}</td></tr>"
    )


def _money(sum_of: float | None) -> str:
    if sum_of is None:
        return "–"
    return f"{sum_of:,.2f}" if sum_of >= 0.1 else f"{sum_of:.2g}"
