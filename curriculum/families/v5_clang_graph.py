"""v5_clang_graph: the functions that a commit touched, with the code that a compiler finds around them.

Users of the changed code are nearest to it: overrides, callers, their callers, base interfaces. The label of
an edge says how certain it is. If the frontend didn't index a definition with its current bytes, the edges of
the definition come from syntax trees and have the label `syntactic`.
"""

from curriculum.families.render import RenderResult, result_of
from curriculum.families.touched_functions import targets_of
from curriculum.families.v4_context_graph import graph_documents
from curriculum.graph.clang.graph import ClangGraph
from curriculum.graph.facts import symbol
from curriculum.graph.neighbourhood import GraphStep, SearchOrder
from schemas.change import CommitChange
from schemas.corpus import USUAL_CONTEXT, ContextSettings

ORDER = SearchOrder(
    near=(
        GraphStep("overrides", outward=True, cost=0),
        GraphStep("overrides", outward=False, cost=0),
        GraphStep("calls", outward=False, cost=0),
        GraphStep("member", outward=True, cost=0),
        GraphStep("calls", outward=True, cost=2),
        GraphStep("constructs", outward=True, cost=2),
        GraphStep("uses", outward=True, cost=2),
    ),
    far=(
        GraphStep("inherits", outward=True),
        GraphStep("overrides", outward=True),
        GraphStep("overrides", outward=False),
        GraphStep("member", outward=True, cost=2),
        GraphStep("uses", outward=True, cost=2),
        GraphStep("constructs", outward=True, cost=2),
        GraphStep("calls", outward=True, cost=2),
        GraphStep("member", outward=False, cost=2),
        GraphStep("inherits", outward=False, cost=2),
        GraphStep("includes", outward=True),
        GraphStep("calls", outward=False),
    ),
)
"""Search order: overrides, callers and the method's own class; bases and callers of callers; callees and
types; more distant nodes.

Callers of callers have distance 1 and callees of callees have distance 3, so that functions that only share a
callee with the target are far from it.
"""


def documents(
    commit: CommitChange,
    graph: ClangGraph,
    *,
    family: str,
    settings: ContextSettings = USUAL_CONTEXT,
) -> RenderResult:
    """Render one commit if the frontend covers at least half of the functions that it touched.

    `graph` has the commit's tree. Other commits are rendered by the family that `stand_in` names.
    """
    functions = [
        target.node
        for target in targets_of(commit, graph)
        if symbol(graph, target.node).kind == "function"
    ]
    if 2 * sum(map(graph.covers, functions)) < len(functions):
        return result_of(family, (), {"not_covered": 1})
    return graph_documents(commit, graph, family=family, order=ORDER, settings=settings)
