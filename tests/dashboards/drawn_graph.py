"""A graph of artefacts by hand, of any number of phases and servings."""

from collections.abc import Iterator

from curriculum.pipeline.artefact_graph import CORPUS, ArtefactGraph, Node, NodeKind, NodeState
from schemas.specialist import SpecialistRef


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


def example_graph() -> ArtefactGraph:
    """The graph of the documents: a phase is trained, one is stale, one is planned."""
    nodes = [
        Node(
            name=CORPUS, kind="corpus", phase="", title="sample", how="3 repositories",
            state="built",
        ),
        *_phase("syntax", (("v3_doxygen", 512), ("v3_simple", 512)), "built", 2.109),
        *_phase("file_graph", (("v4_context_graph", 1024), ("v3_doxygen", 512)), "stale", 1.987),
        *_phase("structure", (("v6_enriched", 1024),), "planned", None),
    ]  # fmt: skip
    return ArtefactGraph(
        ref=SpecialistRef("templates", "demo"),
        phases=("syntax", "file_graph", "structure"),
        nodes=tuple(nodes),
    )


_BEFORE = {"file_graph": "syntax", "structure": "file_graph"}
_AMOUNTS = {"v3_doxygen": (96, 47_600), "v3_simple": (96, 47_200), "v4_context_graph": (51, 34_000)}


def _phase(
    phase: str, servings: tuple[tuple[str, int], ...], state: NodeState, val_bpb: float | None
) -> Iterator[Node]:
    """A phase whose mixture and run have a state; what is before them is built, unless it is planned."""
    first: NodeState = "planned" if state == "planned" else "built"
    rows = [f"{phase}/rows/{family}" for family, _ in servings]
    for family, length in servings:
        documents, tokens = _AMOUNTS.get(family, (None, None))
        yield Node(
            name=f"{phase}/documents/{family}", kind="documents", phase=phase, title=family,
            how="of v4_context_graph" if family == "v6_enriched" else "", state=first,
            amount=documents, made_of=(CORPUS,),
        )  # fmt: skip
        yield Node(
            name=f"{phase}/rows/{family}", kind="rows", phase=phase, title=f"causal at {length:,}",
            how="", state=first, amount=tokens, made_of=(f"{phase}/documents/{family}",),
        )  # fmt: skip
    number = len(servings)
    yield Node(
        name=f"{phase}/mixture", kind="mixture", phase=phase, how="", state=state,
        title=f"{number} serving{'' if number == 1 else 's'}", made_of=tuple(rows),
        amount=None if state == "planned" else 22_600 * number,
    )  # fmt: skip
    before = [f"{_BEFORE[phase]}/run"] if phase in _BEFORE else []
    yield Node(
        name=f"{phase}/run", kind="run", phase=phase, title="attempt 1" if val_bpb else "run",
        how="", state=state, val_bpb=val_bpb, made_of=(f"{phase}/mixture", *before),
    )  # fmt: skip
