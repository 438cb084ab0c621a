from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.facts import FileFacts, Neighbour, NodeId, Range, SourceFile, Symbol
from curriculum.graph.fragments import WHOLE_FILE, Fragment, FragmentCosts, whole_fragment
from curriculum.graph.line_ranges import merge_ranges, subtract_ranges
from curriculum.graph.neighbourhood import GraphStep, Neighbourhood, SearchOrder, neighbourhood
from schemas.change import Blob, TreeFile
from schemas.corpus import USUAL_CONTEXT, ContextSettings
from schemas.document import EdgeKind

FILLED = ContextSettings(context="filled", edges="all")
COSTS = FragmentCosts(lead=lambda path: len(path) + 10, gap=7)
KINDS: tuple[EdgeKind, ...] = ("calls", "uses", "inherits", "overrides")
BOTH = tuple(
    GraphStep(kind, outward=outward)
    for kind in ("calls", "member", "uses", "inherits", "overrides")
    for outward in (True, False)
)
ORDER = SearchOrder(near=BOTH, far=(*BOTH[2:], GraphStep("includes", outward=True), *BOTH[:2]))


@dataclass
class Toy:
    """A graph by hand: `add` writes a definition at the end of a file, `join` an edge."""

    symbols: dict[str, list[Symbol]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    includes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    named: dict[str, NodeId] = field(default_factory=dict)
    edges: list[tuple[NodeId, NodeId, EdgeKind, float]] = field(default_factory=list)

    def add(self, path: str, name: str, text: str, *, inside: str | None = None) -> NodeId:
        """A class if the text says so, else a function, in `text` of a class that was added before."""
        known = self.symbols.setdefault(path, [])
        start = len(self.texts.get(path, "").encode())
        if inside is None:
            self.texts[path] = self.texts.get(path, "") + text
        else:
            outer = known[self.named[inside].number]
            start = self.texts[path].index(text, outer.start)
        opening, closing = text.find("{"), text.rfind("}")
        body = Range(start + opening, start + closing + 1) if opening >= 0 else None
        known.append(
            Symbol(
                kind="class" if text.startswith("class") else "function",
                name=name,
                scope=(),
                start=start,
                end=start + len(text.encode()),
                name_start=start + text.index(name),
                body=body,
            )
        )
        self.named[name] = NodeId(path, len(known) - 1)
        return self.named[name]

    def join(self, source: str, kind: EdgeKind, target: str, confidence: float = 1.0) -> None:
        self.edges.append((self.named[source], self.named[target], kind, confidence))

    def paths(self) -> list[str]:
        return sorted(self.texts)

    def source(self, path: str) -> SourceFile:
        text = self.texts[path]
        file = TreeFile(
            path=path, language="cpp", blob=Blob(blob_id="", text=text), lineage=f"toy:{path}"
        )
        facts = FileFacts(
            symbols=tuple(self.symbols.get(path, ())),
            calls=(),
            includes=self.includes.get(path, ()),
            usings=(),
            error_bytes=0,
            is_complete=True,
        )
        return SourceFile(file=file, facts=facts)

    def neighbours(self, node: NodeId) -> Sequence[Neighbour]:
        found = [
            Neighbour(other, kind, outward, "syntactic", confidence)
            for source, target, kind, confidence in self.edges
            for end, other, outward in ((source, target, True), (target, source, False))
            if end == node
        ]
        return sorted(found, key=lambda each: (each.kind, not each.outward, each.node))

    def text(self, fragment: Fragment) -> str:
        data = self.texts[fragment.node.path].encode()
        return "…\n".join(data[start:end].decode() for start, end in fragment.ranges)


def function(name: str, size: int = 20) -> str:
    return f"void {name}() {{\n  // {'x' * size}\n}}\n"


def around(
    graph: Toy,
    *names: str,
    budget: int = 100_000,
    order: SearchOrder = ORDER,
    settings: ContextSettings = FILLED,
) -> list[Fragment]:
    return list(search(graph, *names, budget=budget, order=order, settings=settings).fragments)


def search(
    graph: Toy,
    *names: str,
    budget: int = 100_000,
    order: SearchOrder = ORDER,
    settings: ContextSettings = USUAL_CONTEXT,
) -> Neighbourhood:
    targets = [whole_fragment(graph, graph.named[name]) for name in names]
    return neighbourhood(graph, targets, budget, order, COSTS, settings)


def names_of(graph: Toy, fragments: Sequence[Fragment]) -> list[str]:
    known = {node: name for name, node in graph.named.items()}
    return [known.get(each.node, each.node.path) for each in fragments]


@pytest.fixture
def chain() -> Toy:
    """f0 calls f1, which calls f2, and so on; f0 has two callers."""
    graph = Toy()
    for number in range(6):
        graph.add(f"src/{number}.cc", f"f{number}", function(f"f{number}", 300))
    for name in ("near", "sure"):
        graph.add("src/callers.cc", name, function(name))
    for number in range(5):
        graph.join(f"f{number}", "calls", f"f{number + 1}")
    graph.join("near", "calls", "f0", 0.5)
    graph.join("sure", "calls", "f0", 0.9)
    return graph


def test_callees_come_before_callers_and_what_is_sure_before_what_is_not(chain):
    found = around(chain, "f0")
    assert names_of(chain, found)[:3] == ["f1", "sure", "near"]
    assert [each.hop for each in found[:3]] == [1, 1, 1]


def test_what_is_distant_is_shown_by_its_signature(chain):
    fragments = around(chain, "f0")
    found = dict(zip(names_of(chain, fragments), fragments, strict=True))
    assert [found[f"f{number}"].form for number in range(1, 6)] == ["whole"] * 2 + ["signature"] * 3
    assert chain.text(found["f3"]) == "void f3() {\n…\n}\n"
    assert [found[f"f{number}"].hop for number in range(1, 6)] == [1, 2, 3, 4, 5]


def test_a_small_body_is_shown_however_distant(chain):
    chain.add("src/6.cc", "small", function("small"))
    chain.join("f4", "calls", "small")
    fragments = around(chain, "f0")
    found = dict(zip(names_of(chain, fragments), fragments, strict=True))
    assert (found["small"].hop, found["small"].form) == (5, "whole")


def test_other_callers_of_a_callee_count_as_farther(chain):
    chain.add("src/x.cc", "other", function("other"))
    chain.join("other", "calls", "f1")
    names = names_of(chain, around(chain, "f0"))
    assert names.index("f2") < names.index("other")
    chain.add("src/x.cc", "above", function("above"))
    chain.join("above", "calls", "near")
    names = names_of(chain, around(chain, "f0"))
    assert names.index("f2") < names.index("above") < names.index("other")


def test_the_edge_that_led_to_a_node_joins_it_to_one_that_is_nearer(chain):
    found = around(chain, "f0")
    hops = {each.node: each.hop for each in found} | {chain.named["f0"]: 0}
    for each in found:
        assert each.via is not None
        ends = {each.via.source, each.via.target}
        assert each.node in ends
        assert sorted(hops[node] for node in ends) == [each.hop - 1, each.hop]


SIZE = "  int size() {\n    return 1;\n  }\n"
PUT = "  void put() {\n    more();\n  }\n"
CLASS = f"class Box {{\n{SIZE}{PUT}  int field;\n}};\n"


@pytest.fixture
def boxed() -> Toy:
    graph = Toy()
    graph.add("box.h", "Box", CLASS)
    graph.add("box.h", "size", SIZE, inside="Box")
    graph.add("box.h", "put", PUT, inside="Box")
    for method in ("size", "put"):
        graph.join(method, "member", "Box")
    return graph


def test_a_class_that_holds_a_target_is_shown_without_it(boxed):
    found = around(boxed, "put")
    assert names_of(boxed, found) == ["Box", "size"]
    assert boxed.text(found[0]) == "class Box {\n…\n  int field;\n};\n"
    assert boxed.text(found[1]) == SIZE


def test_a_skeleton_has_no_bodies_and_gives_lines_to_what_comes_later(boxed):
    boxed.add("other.cc", "use", function("use"))
    boxed.join("use", "uses", "Box")
    steps = (GraphStep("uses", outward=True),)
    only_class = around(boxed, "use", order=SearchOrder(near=steps, far=steps))
    assert boxed.text(only_class[0]) == (
        "class Box {\n  int size() {\n…\n  }\n  void put() {\n…\n  }\n  int field;\n};\n"
    )
    assert names_of(boxed, around(boxed, "use")) == ["Box", "size", "put"]
    assert boxed.text(around(boxed, "use")[0]) == "class Box {\n…\n  int field;\n};\n"


def test_a_class_on_one_line_is_shown_once(boxed):
    graph = Toy()
    graph.add("a.h", "A", "class A { int f() { return 1; } };\n")
    graph.add("a.h", "f", "class A { int f() { return 1; } };\n", inside="A")
    graph.add("b.cc", "g", function("g"))
    graph.symbols["a.h"][1] = Symbol(
        kind="function", name="f", scope=("A",), start=0, end=35, name_start=14, body=Range(18, 31)
    )
    graph.join("g", "uses", "A")
    graph.join("f", "member", "A")
    assert len(around(graph, "g")) == 1
    graph.join("g", "calls", "f")
    assert len(around(graph, "g")) == 1


def test_own_file_and_what_it_includes_are_skeletons(chain):
    chain.add("src/0.cc", "beside", function("beside"))
    chain.add("include/a.h", "declared", function("declared"))
    chain.add("other/a.h", "elsewhere", function("elsewhere"))
    chain.includes["src/0.cc"] = ("include/a.h", "stdio.h", "src/0.cc")
    found = [each for each in around(chain, "f0") if each.node.number == WHOLE_FILE]
    assert [each.node.path for each in found] == ["src/0.cc", "include/a.h"]
    assert [each.via.kind for each in found if each.via] == ["member", "includes"]
    assert chain.text(found[0]) == "void beside() {\n…\n}\n"
    assert chain.text(found[1]) == "void declared() {\n…\n}\n"


def test_what_is_too_long_is_shown_by_its_signature():
    graph = Toy()
    graph.add("a.cc", "f", function("f"))
    graph.add("b.cc", "large", function("large", 2_000))
    graph.join("f", "calls", "large")
    (found,) = around(graph, "f", budget=10_000)
    assert found.form == "signature"
    assert around(graph, "f", budget=100_000)[0].form == "whole"


def test_what_everything_calls_leaves_room_for_types():
    graph = Toy()
    graph.add("a.cc", "hot", function("hot"))
    graph.add("z.h", "Type", CLASS.replace("Box", "Type"))
    graph.join("hot", "uses", "Type")
    for number in range(200):
        graph.add(f"c{number:03}.cc", f"c{number}", function(f"c{number}", 100))
        graph.join(f"c{number}", "calls", "hot")
    found = names_of(graph, around(graph, "hot", budget=10_000))
    assert "Type" in found
    assert 20 < len(found) < 60


def test_what_is_related_ends_where_nothing_related_is_left(chain):
    chain.add("src/x.cc", "other", function("other"))
    chain.join("other", "calls", "f1")
    chain.includes["src/0.cc"] = ("src/5.cc",)
    found = search(chain, "f0")
    assert names_of(chain, found.fragments) == ["f1", "sure", "near", "f2", "f3"]
    assert [each.form for each in found.fragments] == ["whole"] * 3 + ["signature"] * 2
    left_out = [(each.node.path, each.reason, each.hop) for each in found.left_out]
    assert left_out == [("src/x.cc", "unrelated", 2), ("src/4.cc", "unrelated", 4)]


def test_an_edge_that_is_more_likely_wrong_leads_nowhere_and_is_named(chain):
    chain.add("src/x.cc", "guess", function("guess"))
    chain.join("f0", "calls", "guess", 0.49)
    found = search(chain, "f0")
    assert "guess" not in names_of(chain, found.fragments)
    assert (found.left_out[0].node, found.left_out[0].reason) == (chain.named["guess"], "doubtful")
    every = replace(USUAL_CONTEXT, edges="all")
    assert "guess" in names_of(chain, around(chain, "f0", settings=every))
    none = replace(USUAL_CONTEXT, edges="none")
    assert around(chain, "f0", settings=none) == []


def test_what_had_no_room_is_named(chain):
    found = search(chain, "f0", budget=60)
    assert not found.fragments
    assert (found.left_out[0].node, found.left_out[0].reason) == (chain.named["f1"], "no_room")


@st.composite
def graphs(draw: st.DrawFn) -> Toy:
    graph = Toy()
    count = draw(st.integers(3, 14))
    for number in range(count):
        path = draw(st.sampled_from(["a.cc", "a.h", "x/b.cc"]))
        if draw(st.booleans()):
            method = f"  void m{number}() {{\n    go();\n  }}\n"
            graph.add(path, f"n{number}", f"class n{number} {{\n{method}  int n;\n}};\n")
            graph.add(path, f"m{number}", method, inside=f"n{number}")
            graph.join(f"m{number}", "member", f"n{number}")
        else:
            graph.add(path, f"n{number}", function(f"n{number}", draw(st.integers(0, 90))))
    names = sorted(graph.named)
    for _ in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(KINDS))
        ends = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        if (*(graph.named[end] for end in ends), kind) not in {edge[:3] for edge in graph.edges}:
            graph.join(ends[0], kind, ends[1], draw(st.sampled_from([0.3, 1.0])))
    graph.includes["a.cc"] = ("a.h",)
    return graph


@given(graph=graphs(), budget=st.integers(0, 4_000), data=st.data())
def test_fragments_keep_the_budget_and_show_no_line_twice_and_none_of_a_target(graph, budget, data):
    names = sorted(name for name in graph.named if not name.startswith("n"))
    names += [n for n in graph.named if n.startswith("n") and f"m{n[1:]}" not in graph.named]
    targets = data.draw(st.lists(st.sampled_from(sorted(names)), min_size=1, unique=True))
    settings = data.draw(st.sampled_from([FILLED, USUAL_CONTEXT]))
    found = around(graph, *targets, budget=budget, settings=settings)
    assert found == around(graph, *targets, budget=budget, settings=settings)
    assert COSTS.total_size(found) <= budget
    shown: dict[str, list[Range]] = {}
    for name in targets:
        node = graph.named[name]
        symbol = graph.symbols[node.path][node.number]
        shown.setdefault(node.path, []).append(Range(symbol.start, symbol.end))
    for each in found:
        assert each.ranges
        assert all(later.start > one.end for one, later in pairwise(each.ranges))
        before = merge_ranges(shown.get(each.node.path, []))
        assert subtract_ranges(each.ranges, before) == each.ranges
        shown.setdefault(each.node.path, []).extend(each.ranges)
        data_of = graph.texts[each.node.path].encode()
        for start, end in each.ranges:
            assert start == 0 or data_of[start - 1 : start] == b"\n"
            assert data_of[end - 1 : end] == b"\n"
        if each.form == "whole" and each.node.number != WHOLE_FILE:
            symbol = graph.symbols[each.node.path][each.node.number]
            assert each.ranges == (Range(symbol.start, symbol.end),)
