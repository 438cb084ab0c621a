"""v4_context_graph: the functions that a commit touched, with the code around them as found in syntax trees.

Functions that don't fit one document are distributed over several. Build targets that the commit touched get
documents of their own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from curriculum.families import cmake_targets, context_documents
from curriculum.families.context_documents import Excerpt
from curriculum.families.render import RenderResult, result_of
from curriculum.families.touched_functions import distribute_targets, targets_of
from curriculum.graph.facts import NodeId, RepositoryGraph
from curriculum.graph.fragments import WHOLE_FILE, Fragment, FragmentCosts, NodeLink
from curriculum.graph.neighbourhood import (
    GraphStep,
    Neighbourhood,
    Rejected,
    SearchOrder,
    neighbourhood,
)
from schemas.change import CommitChange
from schemas.corpus import USUAL_CONTEXT, ContextOrder, ContextSettings
from schemas.document import Document, Edge, LeftOut, Span

ORDER = SearchOrder(
    near=(
        GraphStep("calls", outward=True),
        GraphStep("calls", outward=False),
        GraphStep("member", outward=True),
        GraphStep("constructs", outward=True),
        GraphStep("uses", outward=True),
        GraphStep("overrides", outward=True),
        GraphStep("overrides", outward=False),
    ),
    far=(
        GraphStep("member", outward=True),
        GraphStep("uses", outward=True),
        GraphStep("constructs", outward=True),
        GraphStep("inherits", outward=True),
        GraphStep("overrides", outward=True),
        GraphStep("overrides", outward=False),
        GraphStep("member", outward=False),
        GraphStep("inherits", outward=False),
        GraphStep("includes", outward=True),
        GraphStep("calls", outward=True),
        GraphStep("calls", outward=False),
    ),
)
"""Search order: direct callees and callers; then classes, bases, overrides, sibling methods, files, and more
distant nodes.
"""


def documents(
    commit: CommitChange,
    graph: RepositoryGraph,
    *,
    family: str,
    settings: ContextSettings = USUAL_CONTEXT,
) -> RenderResult:
    """Render one commit: documents of the functions, then of the build targets that it touched.

    `graph` has the commit's tree.
    """
    functions = graph_documents(commit, graph, family=family, order=ORDER, settings=settings)
    targets = cmake_targets.documents(commit, graph, family=family, settings=settings)
    return RenderResult(
        documents=functions.documents + targets.documents, counts=functions.counts + targets.counts
    )


def graph_documents(
    commit: CommitChange,
    graph: RepositoryGraph,
    *,
    family: str,
    order: SearchOrder,
    settings: ContextSettings,
) -> RenderResult:
    """Return the documents of the functions that one commit touched; equal input gives equal documents.

    `graph` has the commit's tree. If the functions don't fit one document, they are divided.
    """
    targets = targets_of(commit, graph)
    if not targets:
        return result_of(family, (), {"no_function": 1})
    costs = FragmentCosts(
        lead=lambda path: context_documents.chunk_bytes(path, graph.source(path).file.language),
        gap=len(context_documents.gap_line("cpp").encode()),
    )
    language = graph.source(targets[0].node.path).file.language
    room = settings.context_bytes - context_documents.frame_bytes(commit, language)
    shares = distribute_targets(targets, graph, costs, room)
    around = [
        neighbourhood(graph, group, room - costs.total_size(group), order, costs, settings)
        for group in shares.groups
    ]
    documents = [
        _document(commit, graph, family, group, near, settings)
        for group, near in zip(shares.groups, around, strict=True)
    ]
    return result_of(
        family,
        documents,
        {
            "divided": len(documents) if len(documents) > 1 else 0,
            "function_too_large": shares.too_large,
            "repeated_definitions": sum(near.repeated_definitions for near in around),
            "repeated_bytes": sum(near.repeated_bytes for near in around),
        },
    )


def _document(
    commit: CommitChange,
    graph: RepositoryGraph,
    family: str,
    targets: Sequence[Fragment],
    near: Neighbourhood,
    settings: ContextSettings,
) -> Document:
    """Return the document of the targets, with the fragments `near` them."""
    farthest_first = _ordered(commit, near.fragments, settings.context_order)
    fragments = [*farthest_first, *targets]
    places = {fragment.node: at for at, fragment in enumerate(fragments)}
    sources = {fragment.node.path: graph.source(fragment.node.path) for fragment in fragments}
    marks = {path: context_documents.marks_of(source) for path, source in sources.items()}
    target_marks = {
        path: context_documents.with_statements(marks[path], sources[path])
        for path in {target.node.path for target in targets}
    }
    return context_documents.document(
        commit,
        family,
        [_excerpt(graph, fragment, marks, places) for fragment in farthest_first],
        [_excerpt(graph, target, target_marks, places) for target in targets],
        _edges(graph, fragments, places),
        [_rejected(graph, rejected) for rejected in near.left_out],
    )


def _ordered(
    commit: CommitChange, nearest_first: Sequence[Fragment], order: ContextOrder
) -> list[Fragment]:
    """Return the fragments in the order of the document.

    They are sorted from the farthest to the nearest, or shuffled by a hash of commit and node.
    """
    if order == "graph":
        return list(reversed(nearest_first))

    def place(fragment: Fragment) -> bytes:
        node = fragment.node
        return hashlib.sha256(f"{commit.commit} {node.number} {node.path}".encode()).digest()

    return sorted(nearest_first, key=place)


def _rejected(graph: RepositoryGraph, rejected: Rejected) -> LeftOut:
    path, number = rejected.node
    return LeftOut(
        name=path if number == WHOLE_FILE else graph.source(path).facts.symbols[number].qualified,
        path=path,
        kind=rejected.via.kind,
        outward=rejected.via.target == rejected.node,
        confidence=rejected.via.confidence,
        hop=rejected.hop,
        reason=rejected.reason,
    )


def _excerpt(
    graph: RepositoryGraph,
    fragment: Fragment,
    marks: Mapping[str, Sequence[Span]],
    places: Mapping[NodeId, int],
) -> Excerpt:
    path, number = fragment.node
    source = graph.source(path)
    found = None if number == WHOLE_FILE else source.facts.symbols[number]
    return Excerpt(
        file=source.file,
        name=path if found is None else found.qualified,
        symbol="file" if found is None else found.kind,
        form=fragment.form,
        ranges=fragment.ranges,
        hop=fragment.hop,
        marks=marks[path],
        via=None if fragment.via is None else _edge(fragment.via, places),
    )


def _edges(
    graph: RepositoryGraph, fragments: Sequence[Fragment], places: Mapping[NodeId, int]
) -> Iterator[Edge]:
    for fragment in fragments:
        node = fragment.node
        for near in graph.neighbours(node) if node.number != WHOLE_FILE else ():
            if near.outward and near.node in places:
                yield _edge(
                    NodeLink(node, near.node, near.kind, near.label, near.confidence), places
                )
        if fragment.via is not None:
            yield _edge(fragment.via, places)


def _edge(link: NodeLink, places: Mapping[NodeId, int]) -> Edge:
    return Edge(
        source=places[link.source],
        target=places[link.target],
        kind=link.kind,
        label=link.label,
        confidence=link.confidence,
    )
