"""Whatever history led to a tree, its graph is that of the tree alone."""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.families.v4_context_graph import ORDER
from curriculum.graph import scopes
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.clang.graph import ClangGraph
from curriculum.graph.clang.graph_snapshot import (
    GraphSnapshot,
    IndexedEdge,
    IndexedFunction,
    digest_of,
)
from curriculum.graph.cmake import BuildGraph, build_graph
from curriculum.graph.facts import Neighbour, NodeId, RepositoryGraph, SourceFile
from curriculum.graph.fragments import FragmentCosts, whole_fragment
from curriculum.graph.index import facts_of
from curriculum.graph.names import Definitions, Function, Scope, functions_of
from curriculum.graph.neighbourhood import Neighbourhood, neighbourhood
from schemas.corpus import ContextSettings
from schemas.document import EdgeKind
from schemas.reports import CallsReport, DatabaseReport, IndexReport
from tests.curriculum.graph.random_histories import (
    START,
    Commit,
    Tree,
    delta_of,
    histories,
    text_of,
)

FILLED = ContextSettings(context="filled", edges="all")
COSTS = FragmentCosts(lead=lambda path: len(path) + 10, gap=7)
read = functools.lru_cache(maxsize=10_000)(facts_of)
Neighbours = Mapping[NodeId, Sequence[Neighbour]]
Answers = tuple[
    list[str], list[SourceFile], Neighbours, list[Neighbourhood], BuildGraph, tuple[str, ...]
]
"""Paths, sources, neighbours, neighbourhoods of functions, build targets, incomplete files."""


def fresh(files: Mapping[str, str]) -> CallGraph:
    """A graph that has seen one tree only."""
    graph = CallGraph(read)
    graph.apply(delta_of({}, files))
    return graph


def neighbours(graph: RepositoryGraph) -> dict[NodeId, Sequence[Neighbour]]:
    """All edges, as each of their ends has them."""
    nodes = (
        NodeId(path, number)
        for path in graph.paths()
        for number in range(len(graph.source(path).facts.symbols))
    )
    return {node: graph.neighbours(node) for node in nodes}


def answers(graph: RepositoryGraph, incomplete: tuple[str, ...] = ()) -> Answers:
    """All that families read of a graph."""
    paths = list(graph.paths())
    near = neighbours(graph)
    functions = [
        node for node in near if graph.source(node.path).facts.symbols[node.number].body is not None
    ]
    around = [
        neighbourhood(graph, [whole_fragment(graph, node)], 600, ORDER, COSTS, FILLED)
        for node in functions
    ]
    return paths, [*map(graph.source, paths)], near, around, build_graph(graph), incomplete


def snapshot_of(graph: CallGraph, path: str) -> GraphSnapshot:
    """A snapshot that has the functions of one file of a tree and resolved the calls among them."""
    functions = {
        node: _indexed(graph, node)
        for node in neighbours(graph)
        if node.path == path
        and graph.source(node.path).facts.symbols[node.number].kind == "function"
        and graph.source(node.path).facts.symbols[node.number].body is not None
    }
    places = {node: at for at, node in enumerate(functions)}
    edges = tuple(
        IndexedEdge(
            source=places[node],
            target=places[near.node],
            kind="calls",
            label="resolved",
            candidates=1,
        )
        for node in functions
        for near in graph.neighbours(node)
        if near.outward and near.kind == "calls" and near.node in places
    )
    database = DatabaseReport(
        entries=0, matched=0, duplicates=0, missing=0, not_understood=0, missing_response_files=0
    )
    report = IndexReport(
        database=database, replaced=(), indexed=0, partial=0, failed=0, timed_out=0, crashed=0, problems=(),
        functions=0, declarations=0, classes=0, includes=0, edges=(),
        calls=CallsReport(inside=0, outside=0, dependent=0, unknown=0),
    )  # fmt: skip
    return GraphSnapshot(
        functions=tuple(functions.values()), classes=(), edges=edges, includes=(), report=report
    )


def _indexed(graph: CallGraph, node: NodeId) -> IndexedFunction:
    source = graph.source(node.path)
    data = source.file.blob.text.encode()
    each = source.facts.symbols[node.number]
    assert each.body is not None
    return IndexedFunction(
        path=node.path,
        name=each.name,
        qualified=each.qualified,
        kind="method" if each.scope else "function",
        start=each.start,
        end=each.end,
        name_start=each.name_start,
        body=each.body,
        body_digest=digest_of(data[slice(*each.body)]),
        digest=digest_of(data[each.name_start : each.body.end]),
        parameters=each.parameters,
        min_arity=each.min_arity,
        max_arity=each.max_arity,
        is_template=False,
        is_virtual=each.is_virtual,
        is_partial=False,
        is_macro=False,
    )


def calls_after(*trees: Tree) -> set[tuple[str, str, float]]:
    """The calls of the last of some trees that follow each other, by names, with their confidence."""
    graph, before = CallGraph(read), dict[str, str]()
    for tree in trees:
        files = text_of(tree)
        graph.apply(delta_of(before, files))
        before = files
        neighbours(graph)
    return {
        (source, target, confidence)
        for kind, source, target, confidence in edges_of(graph)
        if kind == "calls"
    }


def edges_of(graph: CallGraph) -> set[tuple[EdgeKind, str, str, float]]:
    """All edges, by names, with their confidence."""

    def name(node: NodeId) -> str:
        return graph.source(node.path).facts.symbols[node.number].qualified

    return {
        (near.kind, name(node), name(near.node), near.confidence)
        for node, around in neighbours(graph).items()
        for near in around
        if near.outward
    }


def held(member: str, *, body: str = "held.launch();") -> dict[str, tuple[str, ...]]:
    """A header whose class has a member, and a source that calls a method of it."""
    return {
        "a.h": (
            "struct Foo { void launch() {} };",
            "struct Bar { void launch() {} };",
            f"struct Box {{ {member} void go(); }};",
        ),
        "a.cc": ('#include "a.h"', f"void Box::go() {{ {body} }}"),
    }


@pytest.mark.parametrize("body", ["held.launch();", "held.launch(); int x = 0;"])
def test_a_member_of_another_type_leads_its_calls_to_that_type(body: str) -> None:
    found = calls_after(held("Foo held;"), held("Bar held;", body=body))
    assert found == calls_after(held("Bar held;", body=body)) == {("Box::go", "Bar::launch", 1.0)}


@pytest.mark.parametrize("member", ["Foo* held;", "Foo other;", ""])
def test_a_member_that_is_a_pointer_or_another_or_gone_changes_what_is_made(member: str) -> None:
    maker = ('#include "a.h"', "Box::Box() : held(1) {}", "void Box::go() { held.launch(); }")
    before, after = held("Foo held;") | {"a.cc": maker}, held(member) | {"a.cc": maker}
    graph = CallGraph(read)
    graph.apply(delta_of({}, text_of(before)))
    first = neighbours(graph)
    graph.apply(delta_of(text_of(before), text_of(after)))
    assert neighbours(graph) == neighbours(fresh(text_of(after))) != first


def check(history: Sequence[Commit]) -> None:
    """Hold the graph that goes through a history against fresh ones."""
    graph = CallGraph(read)
    for commit in history:
        graph.apply(commit.delta)
        if commit.is_read:
            expected = fresh(commit.files)
            assert answers(graph, graph.incomplete) == answers(expected, expected.incomplete)


def check_resolved(history: Sequence[Commit], snapshot: GraphSnapshot) -> None:
    """Hold the graph of a snapshot that goes through a history against fresh ones."""
    graph = ClangGraph(CallGraph(read), snapshot)
    for commit in history:
        graph.apply(commit.delta)
        if commit.is_read:
            expected = ClangGraph(fresh(commit.files), snapshot)
            assert answers(graph) == answers(expected)
            assert graph.coverage() == expected.coverage()


def snapshots(history: Sequence[Commit]) -> st.SearchStrategy[GraphSnapshot]:
    """Snapshots of one source of the first or the last tree of a history."""
    trees = st.sampled_from((history[0], history[-1]))
    paths = st.sampled_from(("a.cc", "b.cc"))
    return st.builds(lambda tree, path: snapshot_of(fresh(tree.files), path), trees, paths)


@settings(max_examples=40)
@given(history=histories(most=6))
def test_the_incremental_graph_equals_a_fresh_one_at_every_commit(history: list[Commit]) -> None:
    check(history)


@settings(max_examples=50)
@given(history=histories(most=6), data=st.data())
def test_the_incremental_graph_of_a_snapshot_equals_a_fresh_one_at_every_commit(
    history: list[Commit], data: st.DataObject
) -> None:
    check_resolved(history, data.draw(snapshots(history)))


@pytest.mark.slow
@settings(max_examples=2000)
@given(history=histories(most=12))
def test_the_incremental_graph_of_many_long_histories_equals_a_fresh_one(
    history: list[Commit],
) -> None:
    check(history)


@pytest.mark.slow
@settings(max_examples=2000)
@given(history=histories(most=12), data=st.data())
def test_the_incremental_graph_of_many_snapshots_equals_a_fresh_one(
    history: list[Commit], data: st.DataObject
) -> None:
    check_resolved(history, data.draw(snapshots(history)))


def test_random_histories_change_edges_of_every_kind() -> None:
    """Lest the claims above hold of nothing."""
    had, got, lost = Counter[EdgeKind](), Counter[EdgeKind](), Counter[EdgeKind]()

    @settings(max_examples=40)
    @given(history=histories(most=6))
    def look(history: list[Commit]) -> None:
        edges = [edges_of(fresh(commit.files)) for commit in history]
        had.update(kind for each in edges for kind, *_ in each)
        for before, after in pairwise(edges):
            got.update(kind for kind, *_ in after - before)
            lost.update(kind for kind, *_ in before - after)

    look()
    kinds: set[EdgeKind] = {"calls", "constructs", "overrides", "inherits", "uses", "member"}
    assert had.keys() == got.keys() == lost.keys() == kinds
    assert min(got["calls"], lost["calls"]) > 40


def test_a_commit_groups_only_the_names_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    grouped: list[str] = []

    def counting(
        found: Iterable[Definitions], known: Mapping[NodeId, Scope]
    ) -> tuple[Function, ...]:
        members = list(found)
        grouped.extend(sorted({declared.name for _, declared in members}))
        return functions_of(members, known)

    monkeypatch.setattr(scopes, "functions_of", counting)
    graph, files = CallGraph(read), text_of(START)
    graph.apply(delta_of({}, files))
    first = neighbours(graph)
    assert {"launch", "step", "go", "user"} <= set(grouped)
    grouped.clear()
    graph.apply(delta_of(files, files | {"c.cc": "void lone() { unknown(1); }\n"}))
    assert {node: near for node, near in neighbours(graph).items() if node in first} == first
    assert grouped == ["lone"]
