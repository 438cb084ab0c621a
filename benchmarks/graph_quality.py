"""Precision and recall of our call edges, which come from syntax trees, compared with the Clang frontend.

    python benchmarks/graph_quality.py PATH --database compile_commands.json [--snapshot FOLDER]

PATH is a repository or folder, and the compilation database describes its checked-out commit. If FOLDER
already contains the index of the frontend, it is reused. Both graphs are computed from the same exported
tree. Only edges between functions that the tree defines and that the frontend has seen are counted, once
without constructors and once with them:

    strict       the frontend has the edge: after overload resolution, or through a virtual function
    static       the frontend has the edge, and its target is the named function, not an override of it
    candidates   strict edges, edges that the frontend knows only as candidates, and edges to an overload or
                 a sibling override of a function that the caller calls
    sure         strict edges of callers whose calls don't depend on template parameters; for other callers,
                 the frontend doesn't know all callees either
    confident    strict edges among our edges with a confidence of at least 0.5
    recall       share of the frontend's edges that we also have, for all strict edges and for static edges
"""

import argparse
import hashlib
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from curriculum.corpus.paths import language_of
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import export_tree
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.clang import GraphSnapshot, index_tree
from curriculum.graph.clang.clang_index import paths_of
from curriculum.graph.facts import NodeId
from schemas.change import Blob, TreeDelta, TreeFile
from schemas.corpus import CODE, RepositorySpec

Edges = frozenset[tuple[int, int]]
"""Pairs of caller and callee, as numbers of functions in the snapshot."""
MIN_PRECISION, MIN_RECALL = 0.75, 0.90


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="repository or folder")
    parser.add_argument("--database", type=Path, required=True, help="compile_commands.json")
    parser.add_argument("--snapshot", type=Path, help="folder of the frontend's index, to reuse it")
    parser.add_argument("--workers", type=int, default=2, help="processes that index")
    parser.add_argument(
        "--show", type=int, default=0, help="number of wrong and of missed edges to print"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, index = Path(folder) / "tree", options.snapshot or Path(folder) / "index"
        spec = RepositorySpec(name="measured", path=str(options.path))
        export_tree(resolve(spec, cache=Path(folder) / "cache"), root)
        if not (index / "functions.parquet").exists():
            index.mkdir(parents=True, exist_ok=True)
            index_tree(
                root, options.database, index, original=options.path, workers=options.workers
            )
        snapshot, graph = GraphSnapshot.open(index), graph_of(root)
    measured = EdgeComparison.of(snapshot, graph)
    print(f"{options.path.name}: {measured.defined} functions, {measured.matched:.1%} matched")
    for name, with_constructors in (("without constructors", False), ("with constructors", True)):
        print(f"  {name}: {measured.scores(with_constructors=with_constructors)}")
    for line in measured.example_errors(options.show):
        print(line)


def graph_of(root: Path) -> CallGraph:
    files = []
    for path in paths_of(root):
        language = language_of(path, headers="cpp")
        if language in CODE:
            text = (root / path).read_bytes().decode("utf-8", "replace")
            blob = Blob(blob_id=hashlib.sha256(text.encode()).hexdigest(), text=text)
            files.append(TreeFile(path=path, language=language, blob=blob, lineage=path))
    graph = CallGraph()
    graph.apply(TreeDelta(removed=(), files=tuple(files)))
    return graph


@dataclass(frozen=True, kw_only=True)
class EdgeComparison:
    """Call edges of both graphs, as numbers of functions in the snapshot."""

    snapshot: GraphSnapshot
    ours: dict[tuple[int, int], float]
    """Our edges with their confidence."""
    certain: Edges
    """Edges that the frontend resolved, including overrides of virtual functions."""
    static: Edges
    """Edges that the frontend resolved to the named function."""
    dependent: Edges
    """Candidates of calls that depend on template parameters."""
    defined: int
    """Number of functions with a body in the snapshot."""
    matched: float
    """Share of these functions that we found, too."""
    kin: dict[int, frozenset[int]]
    """Overloads and sibling overrides of every function."""

    @classmethod
    def of(cls, snapshot: GraphSnapshot, graph: CallGraph) -> "EdgeComparison":
        """Compare both graphs; functions are matched by their bodies."""
        numbers = _match_functions(snapshot, graph)
        defined = sum(function.body is not None for function in snapshot.functions)
        found = {number for some in numbers.values() for number in some}
        certain = _calls(snapshot, "resolved") | _calls(snapshot, "overridden")
        return cls(
            snapshot=snapshot,
            ours=dict(_our_edges(graph, numbers)),
            certain=certain,
            static=_calls(snapshot, "resolved") | _static_targets(snapshot),
            dependent=_calls(snapshot, "dependent"),
            defined=defined,
            matched=len(found) / max(defined, 1),
            kin=_kin(snapshot),
        )

    def scores(self, *, with_constructors: bool) -> str:
        """Format the shares that the docstring of this module defines."""
        ours, certain, static, dependent = (
            frozenset(edge for edge in edges if with_constructors or not self._constructs(edge))
            for edges in (self.ours.keys(), self.certain, self.static, self.dependent)
        )
        unsure = {caller for caller, _ in self.dependent}
        sure = frozenset(edge for edge in ours if edge[0] not in unsure)
        confident = frozenset(edge for edge in ours if self.ours[edge] >= 0.5)
        near = frozenset(edge for edge in ours if self._is_near(edge, certain))
        return (
            f"{len(ours)} edges of ours, {len(certain)} of the frontend's ({len(static)} static)\n"
            f"    precision {_share(ours & certain, ours)} strict, "
            f"{_share(ours & static, ours)} static, "
            f"{_share(ours & (certain | dependent) | near, ours)} with candidates, "
            f"{_share(sure & certain, sure)} sure, "
            f"{_share(confident & certain, confident)} confident\n"
            f"    recall {_share(ours & certain, certain)} strict, "
            f"{_share(ours & static, static)} static; "
            f"bars: precision {MIN_PRECISION}, recall {MIN_RECALL}"
        )

    def example_errors(self, limit: int) -> Iterator[str]:
        """Yield up to `limit` wrong edges and up to `limit` missed edges, evenly spread."""
        wrong = sorted(self.ours.keys() - self.certain - self.dependent)
        missed = sorted(self.static - self.ours.keys())
        for name, edges in (("wrong", wrong), ("missed", missed)):
            step = max(1, len(edges) // max(limit, 1))
            for caller, callee in edges[::step][:limit]:
                yield f"{name}: {self._signature(caller)} -> {self._signature(callee)}"

    def _signature(self, number: int) -> str:
        function = self.snapshot.functions[number]
        return f"{function.path}:{function.qualified}({', '.join(function.parameters)})"

    def _constructs(self, edge: tuple[int, int]) -> bool:
        return self.snapshot.functions[edge[1]].kind == "constructor"

    def _is_near(self, edge: tuple[int, int], certain: Edges) -> bool:
        """Return True if the caller calls an overload or a sibling override of the callee."""
        caller, callee = edge
        return any((caller, other) in certain for other in self.kin[callee])


def _calls(snapshot: GraphSnapshot, label: str) -> Edges:
    """Return the call edges with this label between functions that the tree defines."""
    functions = snapshot.functions
    return frozenset(
        (edge.source, edge.target)
        for edge in snapshot.edges
        if edge.kind == "calls" and edge.label == label
        if functions[edge.source].body and functions[edge.target].body
    )


def _static_targets(snapshot: GraphSnapshot) -> Edges:
    """Return virtual calls whose target overrides no other target of the same caller."""
    found = _calls(snapshot, "overridden")
    overridden = defaultdict(set)
    for edge in snapshot.edges:
        if edge.kind == "overrides":
            overridden[edge.source].add(edge.target)
    callees = defaultdict(set)
    for edge in snapshot.edges:
        if edge.kind == "calls" and edge.label == "overridden":
            callees[edge.source].add(edge.target)
    return frozenset(
        (caller, callee) for caller, callee in found if not overridden[callee] & callees[caller]
    )


def _kin(snapshot: GraphSnapshot) -> dict[int, frozenset[int]]:
    """Return the overloads of every function, and the methods that override the same method."""
    groups: defaultdict[str, set[int]] = defaultdict(set)
    for number, function in enumerate(snapshot.functions):
        groups[function.qualified].add(number)
    near = {n: set(groups[function.qualified]) for n, function in enumerate(snapshot.functions)}
    overrides: defaultdict[int, set[int]] = defaultdict(set)
    for edge in snapshot.edges:
        if edge.kind == "overrides":
            overrides[edge.target].add(edge.source)
            near[edge.source].add(edge.target)
            near[edge.target].add(edge.source)
    for siblings in overrides.values():
        for number in siblings:
            near[number] |= siblings
    return {number: frozenset(numbers) for number, numbers in near.items()}


def _match_functions(snapshot: GraphSnapshot, graph: CallGraph) -> dict[NodeId, tuple[int, ...]]:
    """Return the functions of the snapshot that have the same body as our functions.

    If a file was compiled with different macros, one of our functions matches several.
    """
    bodies: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for number, function in enumerate(snapshot.functions):
        if function.body is not None:
            bodies[function.path, function.body.end].append(number)
    found = {}
    for path in graph.paths():
        for number, symbol in enumerate(graph.source(path).facts.symbols):
            if symbol.kind == "function" and symbol.body is not None:
                numbers = bodies.get((path, symbol.body.end))
                if numbers:
                    found[NodeId(path, number)] = tuple(numbers)
    return found


def _our_edges(
    graph: CallGraph, numbers: dict[NodeId, tuple[int, ...]]
) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield our call edges between functions that the frontend has seen, with their confidence."""
    for node, callers in numbers.items():
        for near in graph.neighbours(node):
            if near.kind == "calls" and near.outward:
                for callee in numbers.get(near.node, ()):
                    for caller in callers:
                        yield (caller, callee), near.confidence


def _share(some: Edges, whole: Edges) -> str:
    return f"{len(some) / len(whole):.3f}" if whole else "-"


if __name__ == "__main__":
    main()
