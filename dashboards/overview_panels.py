"""Panels of the overview: what needs attention, the state of every phase, the supply."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum.inspection.formats import duration
from curriculum.pipeline.attempts import spelled
from curriculum.pipeline.context import Resources
from curriculum.pipeline.status import current_status
from dashboards import charts, frame
from dashboards.charts import amount, share
from dashboards.flow_runs import FlowRun, flow_runs
from dashboards.frame import text
from dashboards.questions import Snapshot, question
from schemas.errors import CurriculumError

MOST_LINES = 40
"""Number of lines that need attention; the question behind it gives all."""
SAID = {
    "unreadable": "can’t be read",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "holds": "held by its gate",
    "waits": "waits for approval",
    "stale": "stale",
    "warning": "warning",
    "next": "next",
}
TAKEN = ("next", "interrupted")
"""Phases that an active run reaches by itself."""
FIRST = (
    (
        "curriculum demo",
        "a small specialist in five phases, from its repositories to a model that is trained",
    ),
    ("curriculum init", "diets, phases and a corpus of your own to begin with"),
    ("curriculum run templates.demo", "build, mix and train a specialist, phase by phase"),
)
"""First command in a workspace that holds nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """A line of totals.sql."""

    artefacts: int
    num_bytes: int
    unused_bytes: int
    specialists: int
    phases: int
    finished: int
    running: int
    tokens: int
    budget: int
    seconds: float
    gpu_seconds: float
    cost: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """A line of attention.sql."""

    urgency: int
    kind: str
    what: str
    why: str
    cure: str
    specialist: str | None
    branch: str | None
    phase: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseLine:
    """A line of standing.sql."""

    specialist: str
    branch: str | None
    phase: str
    state: str
    why: str
    tokens: int
    budget: int
    packed: float | None
    before: float | None
    after: float | None
    steps: int | None
    planned_steps: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """A line of data_sets.sql."""

    family: str
    base: str | None
    objective: str
    row_length: int
    rows: int
    tokens: int
    scored: int
    documents: int
    packed: float


def snapshot(home: Path, resources: Resources) -> tuple[Snapshot, str]:
    """Open a workspace with the status of now, and a sentence where only an old one can be had."""
    try:
        return Snapshot(home, current_status(home, resources)), ""
    except CurriculumError as refused:
        why = f"The status below is the one that was written last: {refused}"
        return Snapshot(home), f'<p class="calm" role="status">{text(why)}</p>'


def first() -> str:
    """Say how to begin where nothing is made yet."""
    steps = "".join(
        f"<li><code>{text(command)}</code><small>{text(why)}</small></li>" for command, why in FIRST
    )
    return frame.card(
        "first",
        "Nothing here yet",
        f'<ol class="first">{steps}</ol>',
        why="Begin with one of these.",
    )


def totals(snapshot: Snapshot) -> Totals:
    """Return the totals of the workspace."""
    (found,) = snapshot.ask(question("panels/totals"), Totals)
    return found


def totals_card(found: Totals) -> str:
    """The figures that come first."""
    running = f", {found.running} running" if found.running else ""
    unused = f", {amount(found.unused_bytes)}B of it unused" if found.unused_bytes else ""
    figures = [
        ("Specialists", f"{found.specialists}", "each with a diet of its own"),
        ("Phases done", f"{found.finished} of {found.phases}", f"of what is mixed{running}"),
        ("Tokens trained", amount(found.tokens), f"of {amount(found.budget)} planned"),
        ("Trained for", duration(found.seconds), _spent(found)),
        ("On disk", f"{amount(found.num_bytes)}B", f"{found.artefacts:,} artefacts{unused}"),
    ]
    body = "".join(
        f"<div><dt>{title}</dt><dd>{text(figure)}<small>{text(said)}</small></dd></div>"
        for title, figure, said in figures
    )
    return (
        f'<section id="totals"><dl class="numbers-first">{body}</dl>'
        f"{frame.sql_of(question('panels/totals'))}</section>"
    )


def _spent(found: Totals) -> str:
    if found.cost:
        return f"{found.cost:,.2f} in money"
    hours = found.gpu_seconds / 3600
    return f"{hours:,.1f} GPU hours" if hours else "without a GPU"


def attention(snapshot: Snapshot) -> str:
    """Lines that need attention, failing first, with what helps; without what an active run will do."""
    flows = flow_runs(snapshot.home)
    found = [*_failed(flows), *snapshot.ask(question("panels/attention"), Attention)]
    found = [each for each in found if not _is_taken(each, flows)]
    found.sort(key=lambda each: each.urgency)
    if not found:
        body = '<p class="calm">Nothing needs a hand.</p>'
    else:
        lines = "".join(_attention(each) for each in found[:MOST_LINES])
        more = len(found) - MOST_LINES
        rest = f"<p>And {more} more.</p>" if more > 0 else ""
        body = (
            f'<div class="wide"><table class="attention"><tbody>{lines}</tbody></table></div>{rest}'
        )
    return frame.card(
        "attention",
        "What needs a hand",
        body + _active(flows),
        asked=[question("panels/attention")],
        why="The most urgent first.",
    )


def _failed(flows: Sequence[FlowRun]) -> Iterator[Attention]:
    """The flow runs that failed and weren't repeated."""
    for each in flows:
        if each.kind == "failed":
            yield Attention(
                urgency=2,
                kind="failed",
                what=each.name,
                why=each.message,
                cure=each.address,
                specialist=each.specialist,
                branch=each.branch,
                phase=None,
            )


def _is_taken(line: Attention, flows: Sequence[FlowRun]) -> bool:
    """Return True where an active flow run reaches it by itself."""
    return line.kind in TAKEN and any(
        each.takes(line.specialist, line.branch, line.phase) for each in flows
    )


def _active(flows: Sequence[FlowRun]) -> str:
    names = ", ".join(f"{each.name} ({each.state})" for each in flows if each.kind == "active")
    return f"<p>Active flow runs: {text(names)}</p>" if names else ""


def _attention(each: Attention) -> str:
    return (
        f'<tr class="is-{text(each.kind)}"><td class="state is-{text(each.kind)}">'
        f"{text(SAID.get(each.kind, each.kind))}</td><th>{text(each.what)}</th>"
        f"<td>{text(each.why)}</td><td><code>{text(each.cure)}</code></td></tr>"
    )


def specialists(snapshot: Snapshot) -> str:
    """Specialists by phases: state, tokens, val_bpb and yield of each."""
    found = snapshot.ask(question("panels/standing"), PhaseLine)
    if not found:
        nothing = (
            "<p>Nothing is mixed or trained yet: <code>curriculum run templates.demo</code></p>"
        )
        return frame.card("specialists", "Specialists and phases", nothing)
    phases = in_order([[each.phase for each in one] for one in by_specialist(found).values()])
    heads = "".join(f"<th>{text(phase)}</th>" for phase in phases)
    lines = ""
    for name, those in by_specialist(found).items():
        mine = {each.phase: each for each in those}
        cells = "".join(_table_cell(mine.get(phase)) for phase in phases)
        lines += f"<tr><th>{text(name)}</th>{cells}</tr>"
    body = (
        f'<div class="wide"><table class="standing"><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )
    return frame.card(
        "specialists",
        "Specialists and phases",
        body,
        asked=[question("panels/standing")],
        why="val_bpb after each phase, and by how much it fell; the bar is filled as far as the budget is "
        "spent; yield says how full the rows are.",
    )


def _table_cell(each: PhaseLine | None) -> str:
    if each is None:
        return '<td class="none">–</td>'
    figure = "–" if each.after is None else f"{each.after:.3f}"
    by = ""
    if each.after is not None and each.before is not None:
        by = f" <span>{charts.change(each.after - each.before)}</span>"
    spent = each.tokens / each.budget if each.budget else 0.0
    full = f" · yield {share(each.packed)}" if each.packed is not None else ""
    why = f' title="{text(each.why)}"' if each.why else ""
    return (
        f'<td{why}><div class="state is-{text(each.state)}">{text(each.state)}</div>'
        f"<b>{figure}</b>{by}{charts.bar(spent)}"
        f"<small>{amount(each.tokens)} of {amount(each.budget)}{full}</small></td>"
    )


def data_sets(snapshot: Snapshot) -> str:
    """The training rows that there are, by family: how many tokens, and how full."""
    found = snapshot.ask(question("panels/data_sets"), DataSet)
    if not found:
        return frame.card("data_sets", "Data sets", "<p>No row is packed yet.</p>")
    most = max(each.tokens for each in found)
    lines = "".join(
        f'<tr><th><i class="{frame.family(each.family)}"></i>{text(each.family)} '
        f"<small>{text(_served(each))}</small></th><td class=n>{each.row_length:,}</td>"
        f"<td class=n>{each.documents:,}</td><td class=n>{each.rows:,}</td>"
        f"<td class=n>{amount(each.tokens)}</td>"
        f"<td class=drawn>{charts.bar(each.tokens, of=most, look=frame.family(each.family))}</td>"
        f"<td class=n>{share(each.packed)}</td><td class=n>{share(each.scored / each.tokens)}</td></tr>"
        for each in found
    )
    heads = "".join(
        f'<th class="{look}">{head}</th>'
        for head, look in (
            ("family", ""),
            ("row length", "n"),
            ("documents", "n"),
            ("rows", "n"),
            ("tokens", "n"),
            ("", ""),
            ("yield", "n"),
            ("scored", "n"),
        )
    )
    body = (
        f'<div class="wide"><table class="data"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody>'
        "</table></div>"
    )
    return frame.card(
        "data_sets",
        "Data sets",
        body,
        asked=[question("panels/data_sets")],
        why="Training rows in use. yield: of all positions, how many hold a token; scored: of those, how "
        "many are learnt.",
    )


def _served(each: DataSet) -> str:
    return f"{each.objective} of {each.base}" if each.base else each.objective


def title(specialist: str, branch: str | None) -> str:
    """A specialist's name, and that of its branch.

    >>> title("templates", "demo"), title("testing", None)
    ('templates/demo', 'testing')
    """
    return spelled((specialist, branch))


def by_specialist(found: Sequence[PhaseLine]) -> dict[str, list[PhaseLine]]:
    """Lines by the title of their specialist, in their order."""
    grouped: dict[str, list[PhaseLine]] = {}
    for each in found:
        grouped.setdefault(title(each.specialist, each.branch), []).append(each)
    return grouped


def in_order(orders: Sequence[Sequence[str]]) -> list[str]:
    """Order all phases, each after those that are before it in most specialists.

    >>> in_order([["syntax", "graph"], ["syntax", "structure", "graph"], ["syntax", "structure"]])
    ['syntax', 'structure', 'graph']
    """
    places: dict[str, list[float]] = {}
    for course in orders:
        for at, phase in enumerate(course):
            places.setdefault(phase, []).append(at)
    return sorted(places, key=lambda phase: (sum(places[phase]) / len(places[phase]), phase))
