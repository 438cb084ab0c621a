"""The picture of artefacts as values and as SVG: nothing overlaps, every node says its state in words."""

import itertools
import re
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.pipeline.artefact_graph import ArtefactGraph, Node, NodeState
from dashboards.pipeline_chart import (
    GAP,
    NODE_HEIGHT,
    NODE_WIDTH,
    layout,
    picture,
    standalone,
)
from schemas.specialist import SpecialistRef
from tests.dashboards.drawn_graph import example_graph, graph_of

PICTURES = Path(__file__).parents[2] / "dashboards" / "pictures"
EVIL = '"><script>alert(1)</script>'


@given(st.lists(st.integers(min_value=1, max_value=6), min_size=1, max_size=5))
def test_no_two_nodes_overlap_and_all_lie_in_the_picture(servings: list[int]) -> None:
    placed = layout(graph_of(*servings))
    for one, other in itertools.combinations(placed.places.values(), 2):
        apart = abs(one.x - other.x) >= NODE_WIDTH + GAP or abs(one.y - other.y) > NODE_HEIGHT
        assert apart, (one, other)
    for each in placed.places.values():
        assert 0 <= each.x <= placed.width - NODE_WIDTH
        assert 0 < each.y <= placed.height - NODE_HEIGHT


def test_lines_lead_to_the_right_or_down_from_run_to_run() -> None:
    graph = graph_of(2, 3)
    placed = layout(graph)
    for node in graph.nodes:
        for name in node.made_of:
            start, end = placed.places[name], placed.places[node.name]
            assert end.x > start.x or (end.x == start.x and end.y > start.y)


@pytest.mark.parametrize("state", ["built", "stale", "planned", "running", "failed"])
def test_a_state_is_a_word_a_class_and_part_of_the_name(state: NodeState) -> None:
    drawn = str(picture(graph_of(1, state=state), lambda each: ""))
    nodes = re.findall(r'<g role="img" class="node is-(\w+)"[^>]* aria-label="([^"]*)"', drawn)
    assert [look for look, _ in nodes] == [state] * 5
    assert all(name.endswith(f", {state}") for _, name in nodes)
    assert re.findall(r'class="state"[^>]*>(\w+)</text>', drawn) == [state] * 5


def test_a_node_with_artefacts_is_a_link_and_one_without_is_none() -> None:
    drawn = str(picture(graph_of(1), lambda each: "../x/" if each.kind == "run" else ""))
    assert re.findall(r'<a href="([^"]*)"', drawn) == ["../x/"]
    assert drawn.count('role="img"') == 4


def test_names_are_text() -> None:
    node = Node(name=EVIL, kind="corpus", phase="", title=EVIL, how=EVIL, state="stale", why=EVIL)
    graph = ArtefactGraph(ref=SpecialistRef(EVIL), phases=(), nodes=(node,))
    drawn = str(picture(graph, lambda each: EVIL))
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_in_the_documents_is_current(
    scheme: Literal["light", "dark"], request: pytest.FixtureRequest
) -> None:
    drawn = standalone(example_graph(), scheme) + "\n"
    file = PICTURES / f"artefacts-{scheme}.svg"
    if request.config.getoption("--rewrite"):
        file.write_text(drawn)
    assert file.read_text() == drawn, (
        "run: pytest tests/dashboards/test_pipeline_chart.py --rewrite"
    )
    ElementTree.fromstring(drawn)
    assert "<a " not in drawn
    assert "http" not in drawn.replace('xmlns="http://www.w3.org/2000/svg"', "")
