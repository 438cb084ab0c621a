"""Precision and recall of the call edges of syntax trees, measured against a compiler frontend.

    python benchmarks/graph_quality.py PATH --database compile_commands.json [--snapshot FOLDER]

PATH is a repository or directory whose pinned commit the database was made for; a snapshot that was kept
in FOLDER saves the indexing. Both graphs are of the same exported tree. Counted are edges between
functions that the tree defines and the frontend saw, once without and once with constructors:

    strict       our edge is the frontend's too: overload-resolved, or by way of a virtual function
    static       … and goes to the function that is named, not to what overrides it
    candidates   strict, or the frontend too only knows it as a candidate, or it goes to an overload of a
                 function that the caller calls, or to one that overrides the same
    sure         strict, among callers without a call that depends on a template parameter: of the other
                 callers the frontend itself doesn't know all callees
    confident    strict, of our edges whose confidence is 0.5 or more
    recall       the frontend's edges that we have too: all of `strict`, only those of `static`
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
"""Pairs of numbers of the snapshot's functions."""
MIN_PRECISION, MIN_RECALL = 0.75, 0.90


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--snapshot", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--show", type=int, default=0, help="so many wrong and missed edges")
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
    measured = Measured.of(snapshot, graph)
    print(f"{options.path.name}: {measured.defined} functions, {measured.matched:.1%} matched")
    for name, with_constructors in (("without constructors", False), ("with constructors", True)):
        print(f"  {name}: {measured.scores(with_constructors=with_constructors)}")
    for line in measured.faults(options.show):
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
class Measured:
    """Both graphs' call edges, by the snapshot's numbers."""

    snapshot: GraphSnapshot
    ours: dict[tuple[int, int], float]
    """With our confidence."""
    certain: Edges
    static: Edges
    dependent: Edges
    defined: int
    matched: float
    kin: dict[int, frozenset[int]]

    @classmethod
    def of(cls, snapshot: GraphSnapshot, graph: CallGraph) -> "Measured":
        """Matches definitions by their bodies; costs all neighbours of all functions."""
        numbers = _matched(snapshot, graph)
        defined = sum(each.body is not None for each in snapshot.functions)
        found = {number for some in numbers.values() for number in some}
        certain = _calls(snapshot, "resolved") | _calls(snapshot, "overridden")
        return cls(
            snapshot=snapshot,
            ours=dict(_ours(graph, numbers)),
            certain=certain,
            static=_calls(snapshot, "resolved") | _named(snapshot),
            dependent=_calls(snapshot, "dependent"),
            defined=defined,
            matched=len(found) / max(defined, 1),
            kin=_kin(snapshot),
        )

    def scores(self, *, with_constructors: bool) -> str:
        """The shares as the module's docstring has them."""
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

    def faults(self, most: int) -> Iterator[str]:
        """Some wrong and some missed edges, spread over all."""
        wrong = sorted(self.ours.keys() - self.certain - self.dependent)
        missed = sorted(self.static - self.ours.keys())
        for name, edges in (("wrong", wrong), ("missed", missed)):
            step = max(1, len(edges) // max(most, 1))
            for caller, callee in edges[::step][:most]:
                yield f"{name}: {self._signature(caller)} -> {self._signature(callee)}"

    def _signature(self, number: int) -> str:
        each = self.snapshot.functions[number]
        return f"{each.path}:{each.qualified}({', '.join(each.parameters)})"

    def _constructs(self, edge: tuple[int, int]) -> bool:
        return self.snapshot.functions[edge[1]].kind == "constructor"

    def _is_near(self, edge: tuple[int, int], certain: Edges) -> bool:
        """Return True if the caller calls an overload of the callee, or one that overrides the same."""
        caller, callee = edge
        alike = self.kin[callee]
        return any((caller, other) in certain for other in alike)


def _calls(snapshot: GraphSnapshot, label: str) -> Edges:
    """The call edges of a label between functions that the tree defines."""
    functions = snapshot.functions
    return frozenset(
        (each.source, each.target)
        for each in snapshot.edges
        if each.kind == "calls" and each.label == label
        if functions[each.source].body and functions[each.target].body
    )


def _named(snapshot: GraphSnapshot) -> Edges:
    """The edges through virtual functions to those that override none of the others."""
    found = _calls(snapshot, "overridden")
    overridden = defaultdict(set)
    for each in snapshot.edges:
        if each.kind == "overrides":
            overridden[each.source].add(each.target)
    callees = defaultdict(set)
    for each in snapshot.edges:
        if each.kind == "calls" and each.label == "overridden":
            callees[each.source].add(each.target)
    return frozenset(
        (caller, callee) for caller, callee in found if not overridden[callee] & callees[caller]
    )


def _kin(snapshot: GraphSnapshot) -> dict[int, frozenset[int]]:
    """Overloads of each function, and the methods that override the same as it."""
    groups: defaultdict[str, set[int]] = defaultdict(set)
    for number, each in enumerate(snapshot.functions):
        groups[each.qualified].add(number)
    near = {n: set(groups[each.qualified]) for n, each in enumerate(snapshot.functions)}
    heirs: defaultdict[int, set[int]] = defaultdict(set)
    for edge in snapshot.edges:
        if edge.kind == "overrides":
            heirs[edge.target].add(edge.source)
            near[edge.source].add(edge.target)
            near[edge.target].add(edge.source)
    for family in heirs.values():
        for number in family:
            near[number] |= family
    return {number: frozenset(each) for number, each in near.items()}


def _matched(snapshot: GraphSnapshot, graph: CallGraph) -> dict[NodeId, tuple[int, ...]]:
    """Functions of the snapshot with the same body as ours; where macros differ there are several."""
    bodies: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for number, each in enumerate(snapshot.functions):
        if each.body is not None:
            bodies[each.path, each.body.end].append(number)
    found = {}
    for path in graph.paths():
        for number, symbol in enumerate(graph.source(path).facts.symbols):
            if symbol.kind == "function" and symbol.body is not None:
                numbers = bodies.get((path, symbol.body.end))
                if numbers:
                    found[NodeId(path, number)] = tuple(numbers)
    return found


def _ours(
    graph: CallGraph, numbers: dict[NodeId, tuple[int, ...]]
) -> Iterator[tuple[tuple[int, int], float]]:
    """Our call edges between functions that the frontend saw."""
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
