"""Picture of a specialist's artefacts: columns from the corpus to the runs, a band a phase.

Its lengths are pixels, so that its text has one size on every screen; a narrow one scrolls it.
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
"""From one column to the next, and from the top of one node to that of the node below."""
HEAD, BAND_HEAD, BAND_FOOT = 22, 24, 14
"""Heights of the names of columns and phases, and of the room below a phase."""
INDENT = 14
"""From the left edge of a node to its text."""
LONGEST = 27
"""Characters of a line of a node; longer lines are whole in its title."""
CORNER = 7
MARGIN = 16
"""Around a picture that is a file of its own."""
NAMES = ("corpus", "documents", "rows", "mixture", "run")
"""Headings of the columns, in the order of `KINDS`."""

LinkOf = Callable[[Node], str]
"""The address of a node's manifests; empty for a node that leads nowhere."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePlace:
    """The position of a node: its left edge and its top."""

    x: float
    y: float

    @property
    def inlet(self) -> tuple[float, float]:
        """The end of lines that lead to it."""
        return self.x, self.y + NODE_HEIGHT / 2

    @property
    def outlet(self) -> tuple[float, float]:
        """The start of lines that lead on."""
        return self.x + NODE_WIDTH, self.y + NODE_HEIGHT / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartLayout:
    """Positions of all nodes, of the names of phases, and the size of the picture."""

    places: Mapping[str, NodePlace]
    heads: Sequence[tuple[str, float]]
    """Each phase with the top of its band."""
    width: float
    height: float


def layout(graph: ArtefactGraph) -> ChartLayout:
    """Place a column a kind and a lane a serving, each node in the middle of those that it is made of."""
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
    """The picture of a graph; each node that has artefacts is a link to their manifests."""
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
    """The picture as a file of its own, on a card of one colour scheme."""
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
    """The names of the columns, and of each phase above its band."""
    for index, name in enumerate(NAMES):
        yield element("text", name, class_="head", x=index * (NODE_WIDTH + GAP), y=12)
    left = NODE_WIDTH + GAP
    for number, (phase, top) in enumerate(placed.heads, start=1):
        yield element("line", class_="rule", x1=left, x2=placed.width, y1=top + 4.5, y2=top + 4.5)
        name = element("tspan", phase, class_="name")
        yield element("text", f"{number} ", name, class_="phase", x=left, y=top + 18)


def _edges(graph: ArtefactGraph, placed: ChartLayout) -> Iterator[Markup]:
    """A line from each node to what is made of it; from a run to the next one it goes down."""
    kinds = {each.name: each.kind for each in graph.nodes}
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
    """A line to the right, up or down, and to the right again, with round corners.

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
    """A box with a name, a figure and the state, in words and in colour; of a run its study too."""
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
    """The figure of a node: how much there is of it, or how well a run did."""
    if node.kind == "run":
        return "" if node.val_bpb is None else f"val_bpb {bits(node.val_bpb)}"
    if node.amount is None or node.kind == "corpus":
        return node.how
    if node.kind == "documents" and node.how:
        return f"{count(node.amount)} {node.how}"
    unit = "documents" if node.kind == "documents" else "tokens"
    return ", ".join(filter(None, (f"{count(node.amount)} {unit}", node.how)))


def _short(text: str) -> str:
    """A line that fits into a node.

    >>> _short("v4_context_graph"), _short("177 of a_family_with_a_very_long_name")
    ('v4_context_graph', '177 of a_family_with_a_ver…')
    """
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
