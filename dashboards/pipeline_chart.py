"""Diagram of a specialist's artefacts: one column per kind, from corpus to run, and one band per phase.

All lengths are in pixels, so that text has the same size on every screen. Narrow screens scroll the diagram.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from curriculum.inspection.formats import bits, count
from curriculum.pipeline.artefact_graph import KINDS, ArtefactGraph, Node
from dashboards import html, palette
from dashboards.charts.marks import element
from schemas.specialist import format_reference

NODE_WIDTH, NODE_HEIGHT = 190, 60
GAP, LANE = 38, 70
"""Distance between columns, and distance from the top of a node to the top of the node below."""
HEAD, BAND_HEAD, BAND_FOOT = 22, 24, 14
"""Heights of column titles and phase names, and of the space below a phase."""
INDENT = 14
"""Distance from the left edge of a node to its text."""
MAX_LINE_CHARACTERS = 27
"""Maximum characters of a line; the tooltip has the full text."""
CORNER = 7
MARGIN = 16
"""Margin of standalone pictures."""
NAMES = ("corpus", "documents", "rows", "mixture", "run")
"""Column titles in the order of `KINDS`."""

LinkOf = Callable[[Node], str]
"""Function that returns the address of a node's manifests; empty for none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePlace:
    """Position of a node: its left edge and its top."""

    x: float
    y: float

    @property
    def inlet(self) -> tuple[float, float]:
        """Point at which edges to the node end."""
        return self.x, self.y + NODE_HEIGHT / 2

    @property
    def outlet(self) -> tuple[float, float]:
        """Point at which edges from the node start."""
        return self.x + NODE_WIDTH, self.y + NODE_HEIGHT / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartLayout:
    """Positions of nodes and phase names, and the size of the diagram."""

    places: Mapping[str, NodePlace]
    heads: Sequence[tuple[str, float]]
    """Names of the phases, each with the top of its band."""
    width: float
    height: float


def layout(graph: ArtefactGraph) -> ChartLayout:
    """Compute the positions of all nodes.

    Each kind of artefact has a column. The rows of a phase are below each other; documents, mixtures and runs
    are centred beside the rows to which they belong.
    """
    column = {kind: index * (NODE_WIDTH + GAP) for index, kind in enumerate(KINDS)}
    places: dict[str, NodePlace] = {}
    heads: list[tuple[str, float]] = []
    top = float(HEAD)
    for phase in graph.phases:
        heads.append((phase, top))
        first = top + BAND_HEAD
        rows = graph.of_phase(phase, "rows")
        for lane, node in enumerate(rows):
            places[node.name] = NodePlace(x=column["rows"], y=first + lane * LANE)
        for node in graph.of_phase(phase, "documents"):
            lanes = [places[row.name].y for row in rows if node.name in row.made_of]
            places[node.name] = NodePlace(x=column["documents"], y=sum(lanes) / len(lanes))
        middle = first + (len(rows) - 1) * LANE / 2
        for kind in ("mixture", "run"):
            for node in graph.nodes:
                if (node.phase, node.kind) == (phase, kind):
                    places[node.name] = NodePlace(x=column[kind], y=middle)
        top = first + len(rows) * LANE - (LANE - NODE_HEIGHT) + BAND_FOOT
    for node in graph.nodes:
        if node.kind == "corpus":
            places[node.name] = NodePlace(x=0, y=HEAD + BAND_HEAD)
    width = column[KINDS[-1]] + NODE_WIDTH
    return ChartLayout(places=places, heads=heads, width=width, height=top)


def picture(graph: ArtefactGraph, link_of: LinkOf) -> Markup:
    """Return the diagram of a graph; nodes that have artefacts link to the manifests."""
    placed = layout(graph)
    drawn = [*_heads(placed), *_edges(graph, placed)]
    drawn += [_node(node, placed.places[node.name], link_of(node)) for node in graph.nodes]
    width, height = placed.width + 2, placed.height
    return element(
        "svg", *drawn, class_="pipeline", width=f"{width:g}", height=f"{height:g}",
        viewBox=f"-1 0 {width:g} {height:g}", role="group",
        aria_label=f"Artefacts of {format_reference(graph.ref)}",
    )  # fmt: skip


def standalone(graph: ArtefactGraph, scheme: Literal["light", "dark"]) -> str:
    """Return the diagram as an SVG file of its own, in one colour scheme."""
    placed = layout(graph)
    drawn = [*_heads(placed), *_edges(graph, placed)]
    drawn += [_node(node, placed.places[node.name], "") for node in graph.nodes]
    width, height = placed.width + 2 * MARGIN, placed.height + 2 * MARGIN
    style = palette.properties_of(scheme) + html.asset("pipeline.css")
    return element(
        "svg",
        element("title", f"Artefacts of {format_reference(graph.ref)} from the corpus to the runs"),
        element("style", style),
        element("rect", fill="var(--card)", width=f"{width:g}", height=f"{height:g}", rx=8),
        element("g", *drawn, class_="pipeline", transform=f"translate({MARGIN} {MARGIN})"),
        xmlns="http://www.w3.org/2000/svg", width=f"{width:g}", height=f"{height:g}",
        viewBox=f"0 0 {width:g} {height:g}", role="img",
    )  # fmt: skip


def _heads(placed: ChartLayout) -> Iterator[Markup]:
    """Yield the titles of the columns, and the names of the phases above their bands."""
    for index, name in enumerate(NAMES):
        yield element("text", name, class_="head", x=index * (NODE_WIDTH + GAP), y=12)
    left = NODE_WIDTH + GAP
    for number, (phase, top) in enumerate(placed.heads, start=1):
        yield element("line", class_="rule", x1=left, x2=placed.width, y1=top + 4.5, y2=top + 4.5)
        name = element("tspan", phase, class_="name")
        yield element("text", f"{number} ", name, class_="phase", x=left, y=top + 18)


def _edges(graph: ArtefactGraph, placed: ChartLayout) -> Iterator[Markup]:
    """Yield an edge from each input to the node made from it; edges between two runs go straight down."""
    kinds = {node.name: node.kind for node in graph.nodes}
    for node in graph.nodes:
        for name in node.made_of:
            start, end = placed.places[name], placed.places[node.name]
            if kinds[name] == node.kind:
                x = start.x + NODE_WIDTH / 2
                path = f"M{x:g} {start.y + NODE_HEIGHT:g}V{end.y - 5:g}"
                yield element("path", class_="edge", d=path)
                tip = f"M{x - 4:g} {end.y - 7:g}L{x:g} {end.y - 1:g}L{x + 4:g} {end.y - 7:g}z"
                yield element("path", class_="tip", d=tip)
            else:
                yield element("path", class_="edge", d=_bent(start.outlet, end.inlet))


def _bent(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return the SVG path of an edge whose middle part is vertical and whose corners are rounded.

    >>> _bent((0, 5), (40, 5)), _bent((0, 5), (40, 55))
    ('M0 5H40', 'M0 5H13q7 0 7 7V48q0 7 7 7H40')
    """
    (x1, y1), (x2, y2) = start, end
    if abs(y1 - y2) < 1:
        return f"M{x1:g} {y1:g}H{x2:g}"
    middle, corner = (x1 + x2) / 2, min(CORNER, abs(y2 - y1) / 2)
    down = corner if y2 > y1 else -corner
    return (
        f"M{x1:g} {y1:g}H{middle - corner:g}q{corner:g} 0 {corner:g} {down:g}"
        f"V{y2 - down:g}q0 {down:g} {corner:g} {down:g}H{x2:g}"
    )


def _node(node: Node, place: NodePlace, link: str) -> Markup:
    """Return the box of a node, with its name, figure and state, and for a run the mark of its study."""
    x, y = place.x, place.y
    name = " ".join(filter(None, (node.title, node.how)))
    words = ", ".join(filter(None, (node.phase, node.kind, name, _figure(node), node.state)))
    text = x + INDENT
    lines = [_figure(node), node.state]
    if node.kind == "run" and node.how:
        lines = [node.how, " · ".join(filter(None, (node.state, _figure(node))))]
    drawn = [
        element("title", f"{words}{f': {node.why}' if node.why else ''}"),
        element("rect", class_="box", x=x, y=y, width=NODE_WIDTH, height=NODE_HEIGHT, rx=6),
        element("rect", class_="side", x=x, y=y + 8, width=4, height=NODE_HEIGHT - 16, rx=2),
        element("text", _short(node.title), class_="title", x=text, y=y + 18),
        element("text", _short(lines[0]), class_="figure", x=text, y=y + 34),
        element("circle", class_="dot", cx=text + 4, cy=y + 46.5, r=4),
        element("text", lines[1], class_="state", x=text + 14, y=y + 50.5),
    ]
    look = {"class_": f"node is-{node.state}", "data_node": node.name, "aria_label": words}
    if link:
        return element("a", *drawn, href=link, **look)
    return element("g", *drawn, role="img", **look)


def _figure(node: Node) -> str:
    """Return the figure in a node's box: val_bpb for a run, the amount of data for other artefacts."""
    if node.kind == "run":
        return "" if node.val_bpb is None else f"val_bpb {bits(node.val_bpb)}"
    if node.amount is None or node.kind == "corpus":
        return node.how
    if node.kind == "documents" and node.how:
        return f"{count(node.amount)} {node.how}"
    unit = "documents" if node.kind == "documents" else "tokens"
    return ", ".join(filter(None, (f"{count(node.amount)} {unit}", node.how)))


def _short(text: str) -> str:
    """Shorten a text to MAX_LINE_CHARACTERS, which fit into the box of a node.

    >>> _short("v4_context_graph"), _short("177 of a_family_with_a_very_long_name")
    ('v4_context_graph', '177 of a_family_with_a_ver…')
    """
    return text if len(text) <= MAX_LINE_CHARACTERS else f"{text[: MAX_LINE_CHARACTERS - 1]}…"
