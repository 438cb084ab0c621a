"""A compiler's edges over the samples, some known by hand, and a document as it is meant to look.

After an intended change, write the document anew with

    python tests/curriculum/graph/clang/test_clang_graph_of_samples.py

and read the difference in tests/golden/clang_graph.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from curriculum.corpus.load import unpack_samples
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import read_commits
from curriculum.families.document_check import check_document
from curriculum.families.v5_clang_graph import documents
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.clang import GraphSnapshot, index_tree
from curriculum.graph.clang.graph import ClangGraph
from curriculum.graph.facts import NodeId, symbol
from schemas.change import CommitChange
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.document import Document

pytestmark = pytest.mark.clang

GOLDEN = Path(__file__).parents[3] / "golden" / "clang_graph" / "arena.txt"
SUBJECT = "Fix alignment of addresses"
"""Subject of the commit of the shown document."""


def commits(root: Path) -> Iterator[CommitChange]:
    spec = RepositorySpec(name=root.name, path=str(root))
    corpus = CorpusSpec(name="samples", repositories=(spec,))
    return read_commits(resolve(spec, cache=root), spec, corpus, Skips())


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return {root.name: root for root in unpack_samples(tmp_path_factory.mktemp("trees"))}


Edge = tuple[str, str, str, str]
Heads = Mapping[str, tuple[ClangGraph, frozenset[Edge]]]


@pytest.fixture(scope="module")
def heads(roots: Mapping[str, Path], snapshots: Mapping[str, GraphSnapshot]) -> Heads:
    """The graph of each sample at its head with all its edges: source, kind, target, label."""
    found: dict[str, tuple[ClangGraph, frozenset[Edge]]] = {}
    for name, root in roots.items():
        graph = ClangGraph(CallGraph(), snapshots[name])
        for commit in commits(root):
            graph.apply(commit.tree)
        found[name] = (graph, frozenset(edges(graph)))
    return found


def edges(graph: ClangGraph) -> Iterator[Edge]:
    for path in graph.paths():
        for number in range(len(graph.source(path).facts.symbols)):
            node = NodeId(path, number)
            for near in graph.neighbours(node):
                if near.outward:
                    yield named(graph, node), near.kind, named(graph, near.node), near.label


def named(graph: ClangGraph, node: NodeId) -> str:
    """`norm(Vec)`, by the types that a syntax tree can name."""
    found = symbol(graph, node)
    name = found.qualified.removeprefix("lattice::").removeprefix("arena::")
    return f"{name}({', '.join(found.parameters)})" if found.kind == "function" else name


LATTICE = [
    ("operator*(Matrix, Vec)", "calls", "multiply(Matrix, Vec)", "dependent"),
    ("multiply(Vec, Matrix)", "calls", "transpose(Matrix)", "dependent"),
    ("normalized(Vec)", "calls", "norm(Vec)", "dependent"),
    ("exact::order(T, T)", "calls", "exact::equal(T, T)", "dependent"),
    ("approx::order(T, T)", "calls", "exact::order(T, T)", "dependent"),
    ("to_text(Vec)", "calls", "to_text(string_view)", "dependent"),
    ("expr::to_text(Node)", "calls", "expr::operand_text(Node, int)", "resolved"),
    ("expr::operand_text(Node, int)", "calls", "expr::to_text(Node)", "resolved"),
    ("expr::ParseError::ParseError(size_t, string)", "calls", "to_text(long long)", "resolved"),
    ("expr::evaluate(Node)", "calls", "expr::evaluate(Node, Environment)", "resolved"),
    ("TEST(expr_prints_what_it_parsed)", "calls", "expr::to_text(Node)", "resolved"),
]
ARENA = [
    (
        "TracingResource::do_allocate(size_t, size_t)",
        "calls",
        "CountingResource::do_allocate(size_t, size_t)",
        "resolved",
    ),
    (
        "TracingResource::do_allocate(size_t, size_t)",
        "overrides",
        "CountingResource::do_allocate(size_t, size_t)",
        "resolved",
    ),
    (
        "MemoryResource::allocate(size_t, size_t)",
        "calls",
        "PoolResource::do_allocate(size_t, size_t)",
        "overridden",
    ),
    ("report::describe(Sink, Stats)", "calls", "units::format(size_t)", "resolved"),
    (
        "report::describe(Sink, PoolResource)",
        "calls",
        "report::describe(Sink, MemoryResource)",
        "resolved",
    ),
    ("BumpArena", "inherits", "ChainedResource", "resolved"),
    ("ChainedResource", "inherits", "MemoryResource", "resolved"),
    ("BufferedSink::put(string_view)", "calls", "BufferedSink::flush()", "resolved"),
    ("BufferedSink::put(string_view)", "calls", "FileSink::drain(string_view)", "overridden"),
]
NOT_THERE = [
    ("lattice", "exact::order(T, T)", "approx::equal(T, T, T)"),
    ("lattice", "expr::ParseError::ParseError(size_t, string)", "expr::to_text(Node)"),
    ("lattice", "to_text(Vec)", "expr::to_text(Node)"),
    ("arena", "report::describe(Sink, PoolResource)", "report::describe(Sink, BumpArena)"),
    ("arena", "report::describe(Sink, Stats)", "report::format(Stats)"),
    ("arena", "BufferedSink::put(string_view)", "IndentingSink::flush()"),
]


@pytest.mark.parametrize(
    ("name", "edge"),
    [*(("lattice", edge) for edge in LATTICE), *(("arena", edge) for edge in ARENA)],
)
def test_edges_that_are_known_by_hand_are_there(heads: Heads, name: str, edge: Edge) -> None:
    assert edge in heads[name][1]


@pytest.mark.parametrize(("name", "source", "target"), NOT_THERE)
def test_names_that_mislead_have_no_edge(heads: Heads, name: str, source: str, target: str) -> None:
    known = heads[name][1]
    assert any(each[0] == source for each in known)
    assert not [each for each in known if each[0] == source and each[2] == target]


@pytest.mark.parametrize(("name", "share"), [("lattice", 0.99), ("arena", 0.97), ("ringlog", 0.97)])
def test_a_snapshot_covers_the_tree_of_its_own_commit(
    heads: Heads, name: str, share: float
) -> None:
    coverage = heads[name][0].coverage()
    assert coverage.functions > 100
    assert coverage.covered >= coverage.functions * share


def test_older_commits_mix_what_is_known_with_what_is_written(
    roots: Mapping[str, Path], snapshots: Mapping[str, GraphSnapshot]
) -> None:
    assert shown(roots["arena"], snapshots["arena"]) == GOLDEN.read_text(encoding="utf-8")


def shown(root: Path, snapshot: GraphSnapshot) -> str:
    """The documents of one commit as lists of chunks."""
    graph = ClangGraph(CallGraph(), snapshot)
    for commit in commits(root):
        graph.apply(commit.tree)
        if commit.subject.startswith(SUBJECT):
            found = documents(commit, graph, family="v5_clang_graph").documents
            for document in found:
                check_document(document)
            return f"{commit.subject}\n{graph.coverage()!r}\n" + "\n".join(map(_listed, found))
    raise AssertionError(f"no commit begins with {SUBJECT!r}")


def _listed(document: Document) -> str:
    lines: list[str] = []
    for at, chunk in enumerate(document.chunks):
        source = next(
            document.provenance[part.source]
            for part in document.parts[chunk.first_part : chunk.last_part]
            if part.source >= 0
        )
        via = ""
        if chunk.via >= 0:
            edge = document.edges[chunk.via]
            other = document.chunks[edge.target if edge.source == at else edge.source].name
            verb = f"{edge.kind} {other}" if edge.source == at else f"{other} {edge.kind} it"
            via = f": {verb}, {edge.label} {edge.confidence:.2f}"
        lines.append(
            f"{chunk.hop} {chunk.form} {chunk.symbol} {chunk.name} in {source.path}{via}\n"
        )
    labels = [edge.label for edge in document.edges]
    counts = ", ".join(f"{labels.count(label)} {label}" for label in sorted(set(labels)))
    return "".join(lines) + f"edges: {counts}\n"


def rewrite() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (root,) = (each for each in unpack_samples(Path(folder) / "trees") if each.name == "arena")
        index = Path(folder) / "index"
        index.mkdir()
        index_tree(root, root / "compile_commands.json", index, original=root, workers=2)
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(shown(root, GraphSnapshot.open(index)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    rewrite()
