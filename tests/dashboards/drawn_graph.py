"""A graph of artefacts by hand, of any number of phases and servings."""

from collections.abc import Iterator

from curriculum.pipeline.artefact_graph import CORPUS, ArtefactGraph, Node, NodeKind, NodeState
from curriculum.pipeline.attempts import SpecialistRef


def graph_of(*servings: int, state: NodeState = "built") -> ArtefactGraph:
    """A graph with a phase for each number of servings, all of whose nodes have one state."""
    phases = tuple(f"phase_{number}" for number in range(1, len(servings) + 1))
    return ArtefactGraph(
        ref=SpecialistRef("templates", "demo"),
        phases=phases,
        nodes=tuple(_nodes(dict(zip(phases, servings, strict=True)), state)),
    )


def _nodes(servings: dict[str, int], state: NodeState) -> Iterator[Node]:
    def node(name: str, kind: NodeKind, phase: str, *made_of: str) -> Node:
        return Node(
            name=name, kind=kind, phase=phase, title=kind, how="", state=state, amount=1200,
            made_of=made_of,
        )  # fmt: skip

    yield node(CORPUS, "corpus", "")
    before = ""
    for phase, number in servings.items():
        rows = [f"{phase}/rows/{index}" for index in range(number)]
        for index in range(number):
            yield node(f"{phase}/documents/{index}", "documents", phase, CORPUS)
            yield node(rows[index], "rows", phase, f"{phase}/documents/{index}")
        yield node(f"{phase}/mixture", "mixture", phase, *rows)
        yield node(f"{phase}/run", "run", phase, f"{phase}/mixture", *filter(None, [before]))
        before = f"{phase}/run"
