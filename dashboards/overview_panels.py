"""Panels of the overview: entries that need attention, the state of every phase, and the training rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from curriculum.inspection.formats import count, duration, gpu_hours, money, number
from curriculum.pipeline.artefact_graph import Node, artefact_graph
from curriculum.pipeline.context import Resources
from curriculum.pipeline.next_steps import next_steps
from curriculum.pipeline.status_table import current_status
from dashboards import frame, html, pipeline_chart
from dashboards.charts import marks
from dashboards.palette import family_class
from dashboards.questions import WorkspaceView, question
from dashboards.workspace import FlowRun, flow_runs
from schemas.errors import CurriculumError
from schemas.specialist import SpecialistRef, format_reference

TEMPLATE = "overview.html"
MAX_LINES = 40
"""Maximum number of entries in the panel of those that need attention; the SQL query returns all."""
STATE_WORDS = {
    "unreadable": "unreadable",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "holds": "stopped at its gate",
    "waits": "waiting for approval",
    "stale": "stale",
    "warning": "warning",
    "next": "next",
}
REACHED = ("next", "interrupted")
"""Kinds of entries that disappear because an active run will do the work."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TotalsLine:
    """The only row of the result of totals.sql: totals of the workspace."""

    artefacts: int
    num_bytes: int
    unused_bytes: int
    specialists: int
    phases: int
    done: int
    running: int
    tokens: int
    budget: int
    seconds: float
    gpu_seconds: float
    cost: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionLine:
    """A row of the result of attention.sql: an entry that needs attention."""

    urgency: int
    kind: str
    what: str
    why: str
    cure: str
    specialist: str | None
    phase: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseLine:
    """A row of the result of standing.sql: the state of a phase."""

    specialist: str
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
    study: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """A row of the result of data_sets.sql: the training rows of one family, objective and length."""

    family: str
    base: str | None
    objective: str
    row_length: int
    rows: int
    tokens: int
    scored: int
    documents: int
    packed: float


def snapshot(home: Path, resources: Resources) -> tuple[WorkspaceView, Markup]:
    """Open a workspace with its current status, and return it with an empty notice.

    If the status can't be computed, open the workspace with the saved status and return a notice of that.
    """
    try:
        return WorkspaceView(home, current_status(home, resources)), Markup()
    except CurriculumError as refused:
        return WorkspaceView(home), html.part(TEMPLATE, "old_status", str(refused))


def first(home: Path) -> Markup:
    """Return a panel for an empty workspace, with the first commands to run."""
    steps = next_steps(home, "run")
    return frame.first_steps("Empty workspace", "Start with one of these commands.", steps)


def totals(snapshot: WorkspaceView) -> TotalsLine:
    """Return the totals of the workspace."""
    (found,) = snapshot.ask(question("panels/totals"), TotalsLine)
    return found


def totals_card(found: TotalsLine) -> Markup:
    """Return the panel of key figures."""
    running = f", {found.running} running" if found.running else ""
    unused = f", {count(found.unused_bytes)}B of it unused" if found.unused_bytes else ""
    spent = gpu_hours(found.gpu_seconds) if found.gpu_seconds else "without a GPU"
    figures = [
        ("Specialists", f"{found.specialists}", "one diet each"),
        (
            "Phases done",
            f"{found.done} of {found.phases}",
            f"of all started diets{running}",
        ),
        ("Training tokens", count(found.tokens), f"of {count(found.budget)} planned"),
        (
            "Training time",
            duration(found.seconds),
            f"cost {money(found.cost)}" if found.cost else spent,
        ),
        (
            "Disk usage",
            f"{count(found.num_bytes)}B",
            f"{number(found.artefacts, 'artefact')}{unused}",
        ),
    ]
    return html.part(TEMPLATE, "totals", figures, question("panels/totals"))


def attention(snapshot: WorkspaceView) -> Markup:
    """Return the panel of entries that need attention, the most urgent one first.

    Entries that an active flow run will handle are left out.
    """
    flows = flow_runs(snapshot.home)
    asked = question("panels/attention")
    lines = [
        entry
        for entry in [*_failed(flows), *snapshot.ask(asked, AttentionLine)]
        if not _is_reached(entry, flows)
    ]
    lines.sort(key=lambda entry: entry.urgency)
    active = ", ".join(f"{flow.name} ({flow.state})" for flow in flows if flow.kind == "active")
    more = len(lines) - MAX_LINES
    return html.part(TEMPLATE, "attention", lines[:MAX_LINES], more, active, STATE_WORDS, asked)


def _failed(flows: Sequence[FlowRun]) -> Iterator[AttentionLine]:
    """Yield an entry for each flow run that failed and was not repeated."""
    for flow in flows:
        if flow.kind == "failed":
            yield AttentionLine(
                urgency=2,
                kind="failed",
                what=flow.name,
                why=flow.message,
                cure=flow.address,
                specialist=flow.specialist,
                phase=None,
            )


def _is_reached(line: AttentionLine, flows: Sequence[FlowRun]) -> bool:
    """Return True if an active flow run will do the work that the entry asks for."""
    return line.kind in REACHED and any(flow.takes(line.specialist, line.phase) for flow in flows)


def specialists(snapshot: WorkspaceView) -> Markup:
    """Return the panel of specialists with one column per phase: state, tokens, val_bpb and yield."""
    asked = question("panels/standing")
    lines: dict[str, dict[str, PhaseLine]] = {}
    for line in snapshot.ask(asked, PhaseLine):
        lines.setdefault(line.specialist, {})[line.phase] = line
    phases = in_order([list(by_phase) for by_phase in lines.values()])
    steps = () if lines else next_steps(snapshot.home, "run")
    return html.part(TEMPLATE, "specialists", marks, phases, lines, asked, steps)


def specialist_refs(snapshot: WorkspaceView) -> dict[str, SpecialistRef]:
    """Return the specialists that have a mixture or a run, by the name under which pages show them."""
    found = snapshot.ask(question("panels/standing"), PhaseLine)
    return {line.specialist: SpecialistRef.parse(line.specialist) for line in found}


def pipeline(home: Path, ref: SpecialistRef, resources: Resources) -> Markup:
    """Return the panel of a specialist's artefacts, which shows their states and links to their manifests."""
    try:
        graph = artefact_graph(home, ref, resources)
    except CurriculumError as refused:
        return html.part(TEMPLATE, "no_pipeline", format_reference(ref), str(refused))
    first = next((node for node in graph.nodes if node.state == "stale"), None)
    drawn = pipeline_chart.picture(graph, manifest_link)
    return html.part(TEMPLATE, "pipeline", format_reference(ref), drawn, first)


def manifest_link(node: Node) -> str:
    """Return the address of the page with a node's manifests, or with the curves of an active run."""
    if node.keys:
        return f"..{frame.MANIFEST_PATH}?key={','.join(node.keys)}"
    return "../runs/" if node.state == "running" else ""


def data_sets(snapshot: WorkspaceView) -> Markup:
    """Return the panel of training rows by family, with their tokens and their yield."""
    asked = question("panels/data_sets")
    found = snapshot.ask(asked, DataSet)
    return html.part(TEMPLATE, "data_sets", marks, family_class, found, asked)


def in_order(orders: Sequence[Sequence[str]]) -> list[str]:
    """Return all phases, ordered by their mean position in `orders`, the phases of each specialist.

    >>> in_order([["syntax", "graph"], ["syntax", "structure", "graph"], ["syntax", "structure"]])
    ['syntax', 'structure', 'graph']
    """
    places: dict[str, list[int]] = {}
    for order in orders:
        for place, phase in enumerate(order):
            places.setdefault(phase, []).append(place)
    return sorted(places, key=lambda phase: (sum(places[phase]) / len(places[phase]), phase))
