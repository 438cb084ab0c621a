"""v4_context_graph: the functions that a commit touched, among what the syntax trees say is around them.

The build targets that it touched make documents of their own.
"""

from curriculum.families import cmake_targets
from curriculum.families.context_graph import graph_documents
from curriculum.families.render import RenderResult
from curriculum.graph.facts import RepositoryGraph
from curriculum.graph.neighbourhood import SearchOrder, Step
from schemas.change import CommitChange

ORDER = SearchOrder(
    near=(
        Step("calls", outward=True),
        Step("calls", outward=False),
        Step("member", outward=True),
        Step("constructs", outward=True),
        Step("uses", outward=True),
        Step("overrides", outward=True),
        Step("overrides", outward=False),
    ),
    far=(
        Step("member", outward=True),
        Step("uses", outward=True),
        Step("constructs", outward=True),
        Step("inherits", outward=True),
        Step("overrides", outward=True),
        Step("overrides", outward=False),
        Step("member", outward=False),
        Step("inherits", outward=False),
        Step("includes", outward=True),
        Step("calls", outward=True),
        Step("calls", outward=False),
    ),
)
"""Direct callees and callers, then classes, bases, overrides, sibling methods, files, and what is farther."""


def documents(commit: CommitChange, graph: RepositoryGraph, *, family: str) -> RenderResult:
    """Render one commit, whose tree the graph has: documents of functions, then of build targets."""
    functions = graph_documents(commit, graph, family=family, order=ORDER)
    targets = cmake_targets.documents(commit, graph, family=family)
    return RenderResult(
        documents=functions.documents + targets.documents, counts=functions.counts + targets.counts
    )
