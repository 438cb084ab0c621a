"""Trees and snapshots in a language of one definition a line, so that every rule can be seen."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.clang.graph import ClangGraph
from curriculum.graph.clang.graph_snapshot import (
    GraphSnapshot,
    IndexedClass,
    IndexedEdge,
    IndexedFunction,
    digest_of,
)
from curriculum.graph.facts import FileFacts, Neighbour, NodeId, Range, SourceFile, Symbol, symbol
from schemas.change import Blob, TreeDelta, TreeFile
from schemas.document import EdgeKind, EdgeLabel
from schemas.reports import CallsReport, CoverageReport, DatabaseReport, IndexReport

_LINE = re.compile(
    r"(?:(?:class|int) )?(?P<name>(?:\w+::)*~?\w+)"
    r"(?:\((?P<parameters>[^)]*)\))?(?: : (?P<bases>\w+))? (?P<body>\{.*\}|;)"
)


def symbols_of(text: str) -> Iterator[Symbol]:
    at = 0
    for line in text.splitlines(keepends=True):
        if found := _LINE.match(line):
            *scope, name = found["name"].split("::")
            body = Range(at + found.start("body"), at + found.end("body"))
            types = [each.split()[0] for each in (found["parameters"] or "").split(",") if each]
            yield Symbol(
                kind="class" if line.startswith("class ") else "function",
                name=name,
                scope=tuple("" if each == "anon" else each for each in scope),
                start=at,
                end=at + len(line),
                name_start=at + found.end("name") - len(name),
                body=body if found["body"] != ";" else None,
                parameters=tuple("" if each == "auto" else each for each in types),
            )
        at += len(line)


class Names:
    """A graph whose edges are names in bodies, to all definitions of that name."""

    def __init__(self, **files: str) -> None:
        self.files: dict[str, SourceFile] = {}
        self.apply(delta(**files))

    def apply(self, delta: TreeDelta) -> None:
        for path in delta.removed:
            del self.files[path]
        for file in delta.files:
            facts = FileFacts(
                symbols=tuple(symbols_of(file.blob.text)),
                calls=(),
                includes=(),
                usings=(),
                error_bytes=0,
                is_complete=True,
            )
            self.files[file.path] = SourceFile(file=file, facts=facts)

    def paths(self) -> Iterable[str]:
        return sorted(self.files)

    def source(self, path: str) -> SourceFile:
        return self.files[path]

    def neighbours(self, node: NodeId) -> Sequence[Neighbour]:
        found = list(self._edges(node))
        for path in self.paths():
            for number in range(len(self.files[path].facts.symbols)):
                other = NodeId(path, number)
                ends = self._edges(other)
                found += [
                    each._replace(node=other, outward=False) for each in ends if each.node == node
                ]
        return sorted(found, key=lambda each: (each.kind, not each.outward, each.node))

    def _edges(self, node: NodeId) -> list[Neighbour]:
        text = self.files[node.path].file.blob.text
        mine = symbol(self, node)
        if mine.body is None or mine.kind != "function":
            return []
        words = set(re.findall(r"\w+", text[mine.body.start : mine.body.end]))
        found = [
            (NodeId(path, number), each)
            for path in self.paths()
            for number, each in enumerate(self.files[path].facts.symbols)
            if each.name in words and each.kind == "function"
        ]
        return [Neighbour(each, "calls", True, "syntactic", 1 / len(found)) for each, _ in found]


def _types(text: str, symbol: Symbol) -> list[str]:
    listed = text[symbol.name_start + len(symbol.name) :].split(")")[0].lstrip("(")
    return [each.split()[0] for each in listed.split(",") if each]


def delta(removed: Sequence[str] = (), **files: str) -> TreeDelta:
    """`a` is the file a.cc."""
    made = [
        TreeFile(
            path=f"{name}.cc",
            language="cpp",
            blob=Blob(blob_id=digest_of(text.encode()), text=text),
            lineage=f"sample:{name}.cc",
        )
        for name, text in sorted(files.items())
    ]
    return TreeDelta(removed=tuple(f"{name}.cc" for name in removed), files=tuple(made))


NOTHING = IndexReport(
    database=DatabaseReport(
        entries=0,
        matched=0,
        duplicates=0,
        missing=0,
        not_understood=0,
        missing_response_files=0,
    ),
    replaced=(),
    indexed=0,
    partial=0,
    failed=0,
    timed_out=0,
    crashed=0,
    problems=(),
    functions=0,
    declarations=0,
    classes=0,
    includes=0,
    edges=(),
    calls=CallsReport(inside=0, outside=0, dependent=0, unknown=0),
)

Said = tuple[str, str, EdgeKind, EdgeLabel, int]


def calls(source: str, target: str) -> Said:
    return (source, target, "calls", "resolved", 1)


def snapshot(files: Mapping[str, str], *edges: Said) -> GraphSnapshot:
    """A snapshot of files, with edges between definitions; of several of one name the first is meant."""
    functions: dict[str, IndexedFunction] = {}
    classes: dict[str, IndexedClass] = {}
    for name, text in sorted(files.items()):
        data = text.encode()
        for each in symbols_of(text):
            scope = [part for part in each.scope if part]
            qualified = "::".join([*scope, each.name])
            if each.kind == "class":
                assert each.body is not None
                classes[qualified] = IndexedClass(
                    path=f"{name}.cc",
                    name=each.name,
                    qualified=qualified,
                    kind="class",
                    start=each.start,
                    end=each.body.end,
                    name_start=each.name_start,
                    digest=digest_of(data[each.start : each.body.end]),
                    is_template=False,
                    is_partial=False,
                )
                continue
            key = qualified if qualified not in functions else f"{qualified}#{len(functions)}"
            functions[key] = IndexedFunction(
                path=f"{name}.cc",
                name=each.name,
                qualified=qualified,
                kind="method" if each.scope and each.scope[-1][:1].isupper() else "function",
                start=each.start,
                end=each.end,
                name_start=each.name_start,
                body=each.body,
                body_digest=digest_of(data[slice(*each.body)]) if each.body else "",
                digest=digest_of(data[each.name_start : each.body.end]) if each.body else "",
                parameters=tuple(_types(text, each)),
                min_arity=len(each.parameters),
                max_arity=len(each.parameters),
                is_template=False,
                is_virtual=False,
                is_partial=False,
                is_macro=False,
            )
    keys = [*functions, *classes]
    return GraphSnapshot(
        functions=tuple(functions.values()),
        classes=tuple(classes.values()),
        edges=tuple(
            IndexedEdge(
                source=keys.index(source),
                target=keys.index(target),
                kind=kind,
                label=label,
                candidates=candidates,
            )
            for source, target, kind, label, candidates in edges
        ),
        includes=(),
        report=NOTHING,
    )


def changed(found: GraphSnapshot, name: str, **fields: Any) -> GraphSnapshot:
    functions = [replace(each, **fields) if each.name == name else each for each in found.functions]
    return replace(found, functions=tuple(functions))


def at(graph: ClangGraph, path: str, number: int = 0, *, outward: bool = True) -> list[str]:
    """Edges as `calls b.cc:0 resolved`."""
    return [
        f"{each.kind} {each.node.path}:{each.node.number} {each.label}"
        + ("" if each.confidence == 1 else f" {each.confidence:.2f}")
        for each in graph.neighbours(NodeId(f"{path}.cc", number))
        if each.outward == outward
    ]


def coverage(functions: int, matched: int, covered: int, partial: int) -> CoverageReport:
    return CoverageReport(
        functions=functions,
        matched=matched,
        covered=covered,
        partial=partial,
        fallback=functions - covered,
    )


TWO = {"a": "int f() { g(1); }\n", "b": "int g(int i) { }\nint g(long i) { }\n"}
TRUTH = snapshot(TWO, calls("f", "g"))


def test_the_overload_that_the_frontend_took_is_the_only_callee() -> None:
    graph = ClangGraph(Names(**TWO), TRUTH)
    assert at(graph, "a") == ["calls b.cc:0 resolved"]
    assert at(graph, "b", 0, outward=False) == ["calls a.cc:0 resolved"]
    assert at(graph, "b", 1, outward=False) == []


def test_a_body_that_differs_by_one_byte_has_the_edges_of_the_syntax_tree() -> None:
    graph = ClangGraph(Names(**TWO | {"a": "int f() { g(2); }\n"}), TRUTH)
    assert at(graph, "a") == ["calls b.cc:0 syntactic 0.50", "calls b.cc:1 syntactic 0.50"]
    assert at(graph, "b", 1, outward=False) == ["calls a.cc:0 syntactic 0.50"]


def test_a_parameter_that_differs_is_another_function() -> None:
    graph = ClangGraph(Names(**TWO | {"a": "int f(int g) { g(1); }\n"}), TRUTH)
    assert "resolved" not in " ".join(at(graph, "a"))


def test_the_same_text_in_another_scope_is_another_function() -> None:
    for text in ("int n::f() { g(1); }\n", "int C::f() { g(1); }\n"):
        graph = ClangGraph(Names(**TWO | {"a": text}), TRUTH)
        assert len(at(graph, "a")) == 2


def test_a_scope_that_damage_hides_does_not_hide_what_is_the_same() -> None:
    files = {"a": "int n::f() { g(1); }\n", "b": TWO["b"]}
    found = changed(snapshot(files, calls("n::f", "g")), "f", qualified="n::C::f", kind="method")
    assert at(ClangGraph(Names(**files), found), "a") == ["calls b.cc:0 resolved"]
    moved = {"c": files["a"], "b": TWO["b"]}
    assert len(at(ClangGraph(Names(**moved), found), "c")) == 2


def test_an_inline_namespace_does_not_hide_a_function() -> None:
    files = {"a": "inline namespace v1\nint n::v1::f() { g(1); }\n", "b": TWO["b"]}
    found = changed(snapshot(files, calls("n::v1::f", "g")), "f", qualified="n::f")
    assert at(ClangGraph(Names(**files), found), "a") == ["calls b.cc:0 resolved"]


def test_a_namespace_that_a_macro_opens_does_not_hide_a_function() -> None:
    found = changed(TRUTH, "f", qualified="n::f")
    found = changed(found, "g", qualified="n::g")
    assert at(ClangGraph(Names(**TWO), found), "a") == ["calls b.cc:0 resolved"]


def test_a_friend_that_its_class_defines_is_a_function_of_the_namespace() -> None:
    files = {"a": "int n::C::f() { g(1); }\n", "b": TWO["b"]}
    found = changed(snapshot(files, calls("n::C::f", "g")), "f", qualified="n::f", kind="function")
    tree = Names(**files)
    source = tree.files["a.cc"]
    (friend,) = source.facts.symbols
    facts = replace(source.facts, symbols=(friend._replace(parent=0),))
    tree.files["a.cc"] = replace(source, facts=facts)
    assert at(ClangGraph(tree, found), "a") == ["calls b.cc:0 resolved"]


def test_functions_of_the_same_text_keep_their_own_callees() -> None:
    files = {
        "a": "int x::f() { h(); }\nint y::f() { h(); }\n",
        "b": "int x::h() { }\nint y::h() { }\n",
    }
    found = snapshot(files, calls("x::f", "x::h"), calls("y::f", "y::h"))
    graph = ClangGraph(Names(**files), found)
    assert at(graph, "a", 0) == ["calls b.cc:0 resolved"]
    assert at(graph, "a", 1) == ["calls b.cc:1 resolved"]


def test_where_scopes_are_hidden_the_place_tells_equal_functions_apart() -> None:
    files = {"a": "int f() { h(); }\nint f() { h(); }\n", "b": "int h() { }\nint k() { }\n"}
    first = snapshot({"a": "int f() { h(); }\n", "b": files["b"]}, calls("f", "h"))
    graph = ClangGraph(Names(**files), first)
    assert at(graph, "a", 0) == ["calls b.cc:0 resolved"]
    assert at(graph, "a", 1) == ["calls b.cc:0 syntactic"]


def test_a_callee_is_found_in_the_file_to_which_it_moved() -> None:
    files = {"a": TWO["a"], "c": "int k() { }\n" + TWO["b"]}
    assert at(ClangGraph(Names(**files), TRUTH), "a") == ["calls c.cc:1 resolved"]


def test_a_caller_is_known_in_the_file_to_which_it_moved() -> None:
    files = {"c": TWO["a"], "b": TWO["b"]}
    assert at(ClangGraph(Names(**files), TRUTH), "c") == ["calls b.cc:0 resolved"]


def test_a_copy_is_not_what_it_was_copied_from() -> None:
    graph = ClangGraph(Names(**TWO, c=TWO["a"]), TRUTH)
    assert at(graph, "a") == ["calls b.cc:0 resolved"]
    assert "resolved" not in " ".join(at(graph, "c"))


def test_a_private_function_of_another_file_is_no_callee() -> None:
    files = {"a": "int f() { g(); }\n", "b": "int anon::g() { }\n"}
    found = snapshot(files, calls("f", "g"))
    assert at(ClangGraph(Names(**files), found), "a") == ["calls b.cc:0 resolved"]
    moved = Names(a=files["a"], c="int anon::g() { 1; }\n")
    assert at(ClangGraph(moved, found), "a") == ["calls c.cc:0 syntactic"]


def test_overloads_of_built_in_types_are_told_apart_by_their_words() -> None:
    files = {"a": TWO["a"], "b": "int g(long i) { 1; }\nint g(int i) { 2; }\n"}
    assert at(ClangGraph(Names(**files), TRUTH), "a") == ["calls b.cc:1 resolved"]
    files["b"] = "int g(auto i) { 1; }\nint g(auto j) { 2; }\n"
    assert len(at(ClangGraph(Names(**files), TRUTH), "a")) == 2


def test_a_callee_with_other_parameters_is_a_guess() -> None:
    graph = ClangGraph(Names(a=TWO["a"], b="int g(Slice s) { }\n"), TRUTH)
    assert at(graph, "a") == ["calls b.cc:0 syntactic"]


def test_a_callee_that_the_tree_lacks_has_no_edge() -> None:
    assert at(ClangGraph(Names(a=TWO["a"]), TRUTH), "a") == []


def test_an_unknown_type_can_be_the_parameter() -> None:
    files = {"a": TWO["a"], "b": "int g(auto i) { 1; }\n"}
    only = snapshot({"a": TWO["a"], "b": "int g(int i) { }\n"}, calls("f", "g"))
    assert at(ClangGraph(Names(**files), only), "a") == ["calls b.cc:0 resolved"]


def test_what_may_be_either_of_two_is_neither() -> None:
    files = {"a": TWO["a"], "b": "int g(auto i) { 1; }\n"}
    assert at(ClangGraph(Names(**files), TRUTH), "a") == ["calls b.cc:0 syntactic"]


def test_virtual_and_dependent_calls_keep_their_labels_and_share_their_confidence() -> None:
    files = {"a": "int f() { g(); }\n", "b": "int A::g() { }\nint B::g() { }\nint h() { }\n"}
    found = snapshot(
        files,
        ("f", "A::g", "calls", "overridden", 2),
        ("f", "B::g", "calls", "overridden", 2),
        ("f", "h", "calls", "dependent", 4),
    )
    assert at(ClangGraph(Names(**files), found), "a") == [
        "calls b.cc:0 overridden 0.50",
        "calls b.cc:1 overridden 0.50",
        "calls b.cc:2 dependent 0.25",
    ]


def test_a_template_keeps_the_names_that_the_frontend_leaves_open() -> None:
    files = {"a": "int f() { g(); h(); }\n", "b": "int g() { }\nint h() { }\nint N::g() { }\n"}
    found = snapshot(files, calls("f", "g"))
    assert at(ClangGraph(Names(**files), found), "a") == ["calls b.cc:0 resolved"]
    generic = ClangGraph(Names(**files), changed(found, "f", is_template=True))
    assert at(generic, "a") == ["calls b.cc:0 resolved", "calls b.cc:1 syntactic 0.33"]


def test_a_function_of_damaged_units_keeps_what_the_frontend_may_have_missed() -> None:
    files = {"a": "int f() { g(); h(); }\n", "b": "int g() { }\nint h() { }\n"}
    found = changed(snapshot(files, calls("f", "g")), "f", is_partial=True)
    graph = ClangGraph(Names(**files), found)
    assert at(graph, "a") == ["calls b.cc:0 resolved", "calls b.cc:1 syntactic 0.50"]
    assert graph.coverage() == coverage(3, 3, 3, 1)


HIERARCHY = {
    "a": "class Base { int f(); }\nint Base::f() { }\n",
    "b": "class Leaf : Base { int f(); }\nint Leaf::f() { }\n",
}
BOUND = snapshot(
    HIERARCHY,
    ("Leaf", "Base", "inherits", "resolved", 1),
    ("Leaf::f", "Base::f", "overrides", "resolved", 1),
    ("Leaf::f", "Leaf", "member", "resolved", 1),
    ("Base::f", "Base", "member", "resolved", 1),
)


def test_a_class_says_what_it_inherits_and_its_methods_override() -> None:
    graph = ClangGraph(Names(**HIERARCHY), BOUND)
    assert at(graph, "b", 0) == ["inherits a.cc:0 resolved"]
    assert at(graph, "b", 1) == ["member b.cc:0 resolved", "overrides a.cc:1 resolved"]
    assert at(graph, "a", 1, outward=False) == ["overrides b.cc:1 resolved"]


def test_a_method_overrides_whatever_its_body_is_while_its_class_is_the_same() -> None:
    text = HIERARCHY["b"].replace("Leaf::f() { }", "Leaf::f() { 1; }")
    graph = ClangGraph(Names(**HIERARCHY | {"b": text}), BOUND)
    assert at(graph, "b", 1) == ["member b.cc:0 resolved", "overrides a.cc:1 resolved"]


def test_a_class_that_changed_says_nothing_of_its_methods() -> None:
    text = HIERARCHY["b"].replace("{ int f(); }", "{ int f(); int g(); }")
    graph = ClangGraph(Names(**HIERARCHY | {"b": text}), BOUND)
    assert at(graph, "b", 0) == []
    assert at(graph, "b", 1) == []


def test_a_function_that_a_macro_names_is_known_by_its_bytes_and_file() -> None:
    files = {"a": "CASE(one) { g(1); }\nCASE(two) { g(1); }\n", "b": TWO["b"]}
    found = snapshot(files, calls("CASE", "g"))
    named = [
        replace(each, name="Body", qualified=f"{each.parameters[0]}::Body", is_macro=True)
        if each.name == "CASE"
        else each
        for each in found.functions
    ]
    graph = ClangGraph(Names(**files), replace(found, functions=tuple(named)))
    assert at(graph, "a", 0) == ["calls b.cc:0 resolved"]
    assert at(graph, "a", 1) == []
    assert graph.coverage().covered == 4


def test_a_deltas_files_are_all_that_is_looked_at_anew() -> None:
    graph = ClangGraph(Names(), TRUTH)
    assert graph.coverage() == coverage(0, 0, 0, 0)
    graph.apply(delta(**TWO))
    assert at(graph, "a") == ["calls b.cc:0 resolved"]
    graph.apply(delta(b="int g(long i) { }\nint g(int i) { }\n"))
    assert at(graph, "a") == ["calls b.cc:1 resolved"]
    graph.apply(delta(removed=["b"], c=TWO["b"]))
    assert at(graph, "a") == ["calls c.cc:0 resolved"]
    graph.apply(delta(removed=["c"], b=TWO["b"]))
    assert at(graph, "a") == ["calls b.cc:0 resolved"]
    graph.apply(delta(a="int f() { g(2); }\n"))
    assert graph.coverage() == coverage(3, 3, 2, 0)


BODIES = st.lists(st.sampled_from(["f()", "g(1)", "h()", "1"]), max_size=3).map("; ".join)
LINES = st.builds(
    "int {}({}) {{ {} }}\n".format,
    st.sampled_from(["f", "g", "h", "n::f", "n::g", "anon::h", "C::f"]),
    st.sampled_from(["", "int i", "long i", "auto i"]),
    BODIES,
)
FILES = st.dictionaries(st.sampled_from("abc"), st.lists(LINES, max_size=4).map("".join))


def everything(graph: Names | ClangGraph) -> list[Sequence[Neighbour]]:
    return [
        tuple(graph.neighbours(NodeId(path, number)))
        for path in graph.paths()
        for number in range(len(graph.source(path).facts.symbols))
    ]


@given(FILES, FILES)
def test_without_a_snapshot_all_edges_are_the_syntax_trees(
    files: dict[str, str], later: dict[str, str]
) -> None:
    plain, graph = Names(**files), ClangGraph(Names(**files), snapshot({}))
    assert everything(graph) == everything(plain)
    plain.apply(delta(**later))
    graph.apply(delta(**later))
    assert everything(graph) == everything(plain)
    assert graph.coverage().covered == 0


@given(FILES, FILES, FILES)
def test_both_ends_tell_the_same_edges_whatever_was_before(
    seen: dict[str, str], files: dict[str, str], later: dict[str, str]
) -> None:
    keys = sorted(set(_qualified(seen)))
    found = snapshot(seen, *(calls(a, b) for a in keys for b in keys if len(a + b) % 2 == 0))
    graph = ClangGraph(Names(**files), found)
    graph.apply(delta(**later))
    fresh = ClangGraph(Names(**files | later), found)
    assert everything(graph) == everything(fresh)
    assert graph.coverage() == fresh.coverage()
    _assert_symmetric(graph)


def _qualified(files: Mapping[str, str]) -> Iterator[str]:
    for _, text in sorted(files.items()):
        for each in symbols_of(text):
            yield "::".join([*filter(None, each.scope), each.name])


def _assert_symmetric(graph: ClangGraph) -> None:
    edges: set[tuple[NodeId, NodeId, Neighbour]] = set()
    mirrored: set[tuple[NodeId, NodeId, Neighbour]] = set()
    for path in graph.paths():
        for number in range(len(graph.source(path).facts.symbols)):
            node = NodeId(path, number)
            for each in graph.neighbours(node):
                if each.outward:
                    edges.add((node, each.node, each._replace(node=node)))
                else:
                    mirrored.add((each.node, node, each._replace(node=each.node, outward=True)))
    assert edges == mirrored


def test_reading_a_snapshot_loads_no_frontend() -> None:
    code = (
        "import sys\n"
        "import curriculum.families.v5_clang_graph\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'clang']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
