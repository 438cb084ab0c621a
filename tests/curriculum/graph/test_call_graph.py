"""Small trees, each of which shows one rule."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha1

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.call_graph import CallGraph
from curriculum.graph.facts import FileFacts, NodeId, symbol
from curriculum.graph.index import facts_of
from curriculum.graph.name_resolution import MAX_OVERRIDERS
from schemas.change import Blob, TreeDelta, TreeFile
from schemas.corpus import Language
from schemas.document import EdgeKind


def file_of(path: str, text: str) -> TreeFile:
    blob = Blob(blob_id=sha1(text.encode()).hexdigest(), text=text)
    language: Language = "c" if path.endswith(".c") else "cpp"
    return TreeFile(path=path, language=language, blob=blob, lineage=f"sample:{path}")


def delta(files: dict[str, str], removed: Iterable[str] = ()) -> TreeDelta:
    made = tuple(file_of(path, text) for path, text in sorted(files.items()))
    return TreeDelta(removed=tuple(sorted(removed)), files=made)


def graph_of(files: dict[str, str] | str) -> CallGraph:
    graph = CallGraph()
    graph.apply(delta({"a.cc": files} if isinstance(files, str) else files))
    return graph


def nodes_of(graph: CallGraph) -> list[NodeId]:
    return [
        NodeId(path, number)
        for path in graph.paths()
        for number in range(len(graph.source(path).facts.symbols))
    ]


def describe(graph: CallGraph, node: NodeId) -> str:
    found = symbol(graph, node)
    listed = f"({', '.join(found.parameters)})" if found.kind == "function" else ""
    return f"{found.qualified}{listed}"


def edges(graph: CallGraph, kind: EdgeKind = "calls") -> set[tuple[str, str]]:
    """The edges of a kind by what they join."""
    return {
        (describe(graph, node), describe(graph, near.node))
        for node in nodes_of(graph)
        for near in graph.neighbours(node)
        if near.kind == kind and near.outward
    }


def callees(files: dict[str, str] | str, caller: str = "caller()") -> set[str]:
    return {target for source, target in edges(graph_of(files)) if source == caller}


def test_the_innermost_scope_hides_those_around_it() -> None:
    text = """
void f() {}
namespace a { void f() {} namespace b { void f() {} void caller() { f(); } } }
"""
    assert callees(text, "a::b::caller()") == {"a::b::f()"}


def test_what_an_inner_scope_lacks_is_found_outside() -> None:
    text = "void f() {}\nnamespace a { void g() {} namespace b { void caller() { f(); g(); } } }\n"
    assert callees(text, "a::b::caller()") == {"f()", "a::g()"}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("a::f()", {"a::f()"}),
        ("b::f()", {"b::f()"}),
        ("::f()", {"f()"}),
        ("b::c::f()", {"b::c::f()"}),
        ("std::f()", set()),
    ],
)
def test_a_qualifier_says_which(call: str, expected: set[str]) -> None:
    text = (
        "void f() {}\nnamespace a { void f() {} }\n"
        "namespace b { void f() {} namespace c { void f() {} } }\n"
        f"void caller() {{ {call}; }}\n"
    )
    assert callees(text) == expected


def test_a_qualifier_counts_from_the_scope_of_the_call() -> None:
    text = """
namespace a { namespace b { void f() {} } }
namespace b { void f() {} }
namespace a { void caller() { b::f(); } }
"""
    assert callees(text, "a::caller()") == {"a::b::f()"}


def test_using_directives_and_declarations_open_other_scopes() -> None:
    text = """
namespace a { void f() {} void g() {} }
namespace b { void g() {} }
using namespace a;
using b::g;
void caller() { f(); g(); }
"""
    assert callees(text) == {"a::f()", "b::g()"}


def test_arity_decides_with_defaults_and_without_limit_for_variadics() -> None:
    text = """
void f(int a) {}
void f(int a, int b, int c = 1) {}
void g(const char* format, ...) {}
void caller() { CALLS }
"""
    assert len(callees(text.replace("CALLS", "f(1, 2); f(1, 2, 3);"))) == 1
    assert len(callees(text.replace("CALLS", "f(1); f(1, 2, 3);"))) == 2
    assert len(callees(text.replace("CALLS", 'g("", 1, 2, 3);'))) == 1
    assert callees(text.replace("CALLS", "f(); f(1, 2, 3, 4);")) == set()


def test_overloads_of_one_arity_share_their_confidence() -> None:
    graph = graph_of(
        "struct A {};\nstruct B {};\nvoid f(A a) {}\nvoid f(B b) {}\nvoid g() { f(1); }\n"
    )
    caller = next(node for node in nodes_of(graph) if describe(graph, node) == "g()")
    shares = {
        describe(graph, near.node): near.confidence
        for near in graph.neighbours(caller)
        if near.kind == "calls"
    }
    assert shares == {"f(A)": 0.5, "f(B)": 0.5}


def test_a_function_is_seen_through_includes_only() -> None:
    files = {
        "a.h": "void f();\n",
        "a.cc": '#include "a.h"\nvoid f() {}\n',
        "b.cc": '#include "a.h"\nvoid caller() { f(); }\n',
        "c.cc": "void stranger() { f(); }\n",
    }
    assert edges(graph_of(files)) == {("caller()", "f()")}


def test_an_edge_ends_at_the_definition_and_the_declaration_has_none() -> None:
    files = {
        "a.h": "void f();\n",
        "a.cc": '#include "a.h"\nvoid f() {}\n',
        "b.cc": '#include "a.h"\nvoid caller() { f(); }\n',
    }
    graph = graph_of(files)
    ends = {near.node.path for node in nodes_of(graph) for near in graph.neighbours(node)}
    assert ends == {"a.cc", "b.cc"}
    assert list(graph.neighbours(NodeId("a.h", 0))) == []


def test_an_include_means_the_file_beside_then_the_nearest() -> None:
    files = {
        "x/a.h": "void f() {}\n",
        "y/a.h": "namespace y { void f() {} }\nusing y::f;\n",
        "x/b.cc": '#include "a.h"\nvoid caller() { f(); }\n',
        "y/b.cc": '#include "a.h"\nvoid other() { y::f(); }\n',
        "y/deep/c.cc": "#include <a.h>\nvoid third() { y::f(); }\n",
    }
    assert edges(graph_of(files)) == {
        ("caller()", "f()"),
        ("other()", "y::f()"),
        ("third()", "y::f()"),
    }


def calls_between_files(graph: CallGraph) -> set[tuple[str, str]]:
    return {
        (node.path, near.node.path)
        for node in nodes_of(graph)
        for near in graph.neighbours(node)
        if near.kind == "calls" and near.outward
    }


def test_a_definition_of_its_own_comes_before_those_elsewhere() -> None:
    """C's static functions have the same names in many files."""
    files = {
        "a.c": "static void f(void) {}\nvoid caller(void) { f(); }\n",
        "b.c": "static void f(void) {}\nvoid other(void) { f(); }\n",
    }
    assert calls_between_files(graph_of(files)) == {("a.c", "a.c"), ("b.c", "b.c")}


def test_anonymous_namespaces_are_of_their_file() -> None:
    files = {
        "a.cc": "namespace { void f() {} }\nvoid caller() { f(); }\n",
        "b.cc": '#include "c.h"\nnamespace { void f() {} }\nvoid other() { f(); }\n',
        "c.h": "void third() { f(); }\n",
    }
    assert calls_between_files(graph_of(files)) == {("a.cc", "a.cc"), ("b.cc", "b.cc")}


CLASSES = """
struct Base { void f() {} void g() {} virtual void v() {} };
struct Derived : Base { void f() {} void v() override {} void caller() { BODY } };
struct Other { void f() {} void v() {} };
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("f();", {"Derived::f()"}),
        ("g();", {"Base::g()"}),
        ("this->g();", {"Base::g()"}),
        ("Base::f();", {"Base::f()"}),
        ("Base::v();", {"Base::v()"}),
        ("Other o; o.f();", {"Other::f()"}),
        ("Other* o; o->v();", {"Other::v()"}),
        ("Base* b; b->v();", {"Base::v()", "Derived::v()"}),
        ("Derived d; d.g();", {"Base::g()"}),
        ("v();", {"Derived::v()"}),
    ],
)
def test_methods_are_found_by_the_type_of_their_object(body: str, expected: set[str]) -> None:
    assert callees(CLASSES.replace("BODY", body), "Derived::caller()") == expected


def test_what_overrides_the_named_method_weighs_half_as_much() -> None:
    graph = graph_of(CLASSES.replace("BODY", "Base* b; b->v();"))
    caller = next(node for node in nodes_of(graph) if describe(graph, node) == "Derived::caller()")
    shares = {
        describe(graph, near.node): near.confidence
        for near in graph.neighbours(caller)
        if near.kind == "calls" and near.outward
    }
    assert shares == {"Base::v()": pytest.approx(2 / 3), "Derived::v()": pytest.approx(1 / 3)}


def test_overrides_lead_to_the_nearest_virtual_method_of_each_line_of_bases() -> None:
    text = """
struct A { virtual void v(); virtual void w(int x); virtual ~A() {} };
struct B : A { void v() override {} void w() {} ~B() {} };
struct C : B { void v() override {} };
struct D { virtual void v() = 0; };
struct E : C, D { void v() override {} };
"""
    assert edges(graph_of(text), "overrides") == {
        ("B::v()", "A::v()"),
        ("C::v()", "B::v()"),
        ("E::v()", "C::v()"),
        ("E::v()", "D::v()"),
        ("B::~B()", "A::~A()"),
    }


def test_classes_inherit_and_hold_and_are_named() -> None:
    text = """
namespace a { struct Base {}; enum Colour { red }; }
struct Derived : a::Base { void method(); struct Inner {}; };
void Derived::method() { a::Colour colour; }
using Short = Derived;
struct Last : Short {};
"""
    graph = graph_of(text)
    assert edges(graph, "inherits") == {("Derived", "a::Base"), ("Last", "Derived")}
    assert edges(graph, "member") == {
        ("Derived::method()", "Derived"),
        ("Derived::Inner", "Derived"),
    }
    assert ("Derived::method()", "a::Colour") in edges(graph, "uses")
    assert ("Short", "Derived") in edges(graph, "uses")


def test_making_an_object_leads_to_its_class_and_constructor() -> None:
    text = """
struct A { A(int x) {} A(int x, int y) {} };
using Alias = A;
void first() { A a(1); }
void second() { new A(1, 2); }
void third() { A(1); }
void fourth() { Alias a(1); }
"""
    graph = graph_of(text)
    makers = {"first()", "second()", "third()", "fourth()"}
    assert edges(graph, "constructs") == {(maker, "A") for maker in makers}
    found = edges(graph)
    assert {source for source, _ in found} == makers
    assert len({target for source, target in found if source != "second()"}) == 1
    assert len({target for _, target in found}) == 2


def test_a_macro_is_no_function_unless_nobody_defines_it() -> None:
    text = "void CHECK(int x) {}\nvoid caller() { CHECK(1); }\n"
    assert len(callees(text)) == 1
    assert callees("#define CHECK(x) x\n" + text) == set()


def test_what_is_no_function_of_the_tree_has_no_edges() -> None:
    text = "#include <vector>\nvoid caller() { std::move(1); unknown(); std::vector<int> v; v.size(); }\n"
    assert callees(text) == set()


def test_a_familiar_method_of_an_unknown_object_says_nothing() -> None:
    text = """
struct A { int size() { return 0; } int special() { return 0; } };
template <class T> void caller(T t) { make(t).size(); make(t).special(); }
"""
    assert {target for _, target in edges(graph_of(text))} == {"A::special()"}


def test_functions_in_the_namespaces_of_arguments_are_found() -> None:
    text = """
namespace a { struct A {}; void f(A x) {} }
namespace b { void f(int x) {} void g(int x) {} }
void caller() { a::A x; f(x); }
"""
    assert callees(text) == {"a::f(A)"}


def test_functions_call_themselves_and_each_other() -> None:
    text = "void odd(int n);\nvoid even(int n) { odd(n - 1); }\nvoid odd(int n) { even(n - 1); odd(n); }\n"
    found = {(a.split("(")[0], b.split("(")[0]) for a, b in edges(graph_of(text))}
    assert found == {("even", "odd"), ("odd", "even"), ("odd", "odd")}


@pytest.mark.parametrize(
    "text",
    [
        "struct A : A { void f() { f(); } };\n",
        "struct A : B {};\nstruct B : A { virtual void f() {} void g() { f(); } };\n",
        "using A = B;\nusing B = A;\nA f() { A a(1); return a; }\n",
        "struct A : A::B { struct B : A { void f() { f(); g(); } }; };\n",
    ],
)
def test_circles_of_bases_and_aliases_end(text: str) -> None:
    graph = graph_of(text)
    assert nodes_of(graph)
    for node in nodes_of(graph):
        graph.neighbours(node)


def test_other_languages_have_no_facts_and_broken_files_are_told() -> None:
    script = TreeFile(
        path="x.cmake",
        language="cmake",
        blob=Blob(blob_id="1", text="function(f)\n"),
        lineage="sample:x.cmake",
    )
    graph = CallGraph()
    graph.apply(TreeDelta(removed=(), files=(script,)))
    assert graph.source("x.cmake").facts.symbols == ()
    assert graph.incomplete == ()


def test_files_without_a_whole_tree_are_told() -> None:
    def read(text: str, language: Language) -> FileFacts:
        return replace(facts_of(text, language), is_complete="whole" in text)

    graph = CallGraph(read)
    graph.apply(delta({"a.cc": "// whole\n", "b.cc": "// not\n"}))
    assert graph.incomplete == ("b.cc",)


def test_a_path_that_is_not_there_can_not_go() -> None:
    with pytest.raises(KeyError):
        CallGraph().apply(delta({}, removed=["a.cc"]))


def test_a_blob_is_read_once_while_a_path_has_it() -> None:
    read: list[str] = []

    def counting(text: str, language: Language) -> FileFacts:
        read.append(text)
        return facts_of(text, language)

    graph = CallGraph(counting)
    graph.apply(delta({"a.cc": "void f() {}\n", "b.cc": "void f() {}\n"}))
    graph.apply(delta({"c.cc": "void f() {}\n"}, removed=["a.cc", "b.cc"]))
    assert len(read) == 1
    graph.apply(delta({}, removed=["c.cc"]))
    graph.apply(delta({"c.cc": "void f() {}\n"}))
    assert len(read) == 2


VERSIONS: dict[str, Sequence[str]] = {
    "a.h": [
        "struct A { virtual void v(); void f(int x = 0); };\nvoid g(A a);\n",
        "struct A { void f(); };\nnamespace n { void g(A a); }\n",
        "struct A;\nusing B = A;\n#define h(x) x\n",
    ],
    "b.h": [
        '#include "a.h"\nstruct B : A { void v() override {} void f() { v(); A::f(); } };\n',
        '#include "sub/a.h"\nnamespace n { struct B : A { B(int x); void v(); }; }\n',
        "template <class T> struct B { void v() { f(); } void f() {} };\n",
    ],
    "sub/a.h": [
        "namespace n { struct A { virtual void v() {} void f() {} }; void h(int x) {} }\n",
        "struct A { void v(int x) {} ~A() {} };\n",
    ],
    "a.cc": [
        '#include "a.h"\nvoid A::v() { f(); }\nvoid A::f(int x) { g(*this); }\nvoid g(A a) { a.v(); }\n',
        '#include "a.h"\nvoid A::v() { f(1); g(*this); }\nvoid A::f(int x) {}\nvoid g(A a) { a.f(); }\n',
        '#include "b.h"\nvoid g(A a) {}\nnamespace { void h(int x) { g(A()); } }\n',
        '#include "b.h"\nusing namespace n;\nB::B(int x) { v(); }\nvoid B::v() { h(1); }\n',
    ],
    "b.cc": [
        '#include "b.h"\nvoid k(B b) { b.v(); b.f(); B c(1); h(2); }\n',
        '#include "b.h"\nvoid k(n::B& b) { b.v(); n::B c(1); g(c); unknown(c).special(); }\n',
        '#include "a.cc"\nvoid special() { k(1); special(); n::h(1); }\n',
    ],
}
STATES = st.fixed_dictionaries(
    {path: st.none() | st.sampled_from(texts) for path, texts in VERSIONS.items()}
)


@given(states=st.lists(STATES, min_size=1, max_size=6))
def test_answers_depend_on_the_tree_alone(states: list[dict[str, str | None]]) -> None:
    """Whatever deltas led there, and whatever was asked on the way."""
    graph, files = CallGraph(), dict[str, str]()
    for state in states:
        wanted = {path: text for path, text in state.items() if text is not None}
        changed = {path: text for path, text in wanted.items() if files.get(path) != text}
        graph.apply(delta(changed, removed=files.keys() - wanted.keys()))
        files = wanted
        found = {node: graph.neighbours(node) for node in nodes_of(graph)}
        fresh = graph_of(files)
        assert found == {node: fresh.neighbours(node) for node in reversed(nodes_of(fresh))}


@given(state=STATES)
def test_both_ends_see_the_same_edges_in_order(state: dict[str, str | None]) -> None:
    graph = graph_of({path: text for path, text in state.items() if text is not None})
    out, back = set(), set()
    for node in nodes_of(graph):
        found = graph.neighbours(node)
        keys = [(near.kind, not near.outward, near.node) for near in found]
        assert keys == sorted(set(keys))
        for near in found:
            assert near.label == "syntactic"
            assert 0 < near.confidence <= 1
            if near.outward:
                out.add((node, near.kind, near.node, near.confidence))
            else:
                back.add((near.node, near.kind, node, near.confidence))
    assert out == back


def test_the_versions_have_edges_of_every_kind() -> None:
    """Lest the claims above hold of nothing."""
    graph = graph_of({path: texts[0] for path, texts in VERSIONS.items()})
    kinds = {near.kind for node in nodes_of(graph) for near in graph.neighbours(node)}
    assert kinds == {"calls", "constructs", "overrides", "inherits", "uses", "member"}


def test_members_that_other_files_declare_have_their_types() -> None:
    files = {
        "a.h": "struct Lock { Lock(int x) {} void lock() {} };\nstruct Latch { void lock() {} };\n",
        "b.h": '#include "a.h"\nclass B { B(); void caller(); Lock lock_; };\n',
        "b.cc": '#include "b.h"\nB::B() : lock_(1) {}\nvoid B::caller() { lock_.lock(); }\n',
    }
    assert callees(files, "B::caller()") == {"Lock::lock()"}
    graph = graph_of(files)
    assert ("B::B()", "Lock") in edges(graph, "constructs")
    assert {callee.partition("(")[0] for caller, callee in edges(graph) if caller == "B::B()"} == {
        "Lock::Lock"
    }


def test_a_macro_without_arguments_may_rename_a_function() -> None:
    text = "#define remove erase\nvoid remove(int x) {}\nvoid caller() { remove(1); }\n"
    assert len(callees(text)) == 1


def test_a_type_of_the_same_name_is_tried_where_the_nearest_lacks_the_method() -> None:
    """The name of a receiver's type comes without its qualifier."""
    text = """
namespace log { class Writer { public: void add(int x) {} }; }
struct Db { struct Writer { int done; }; void caller(log::Writer* w) { w->add(1); } };
"""
    assert {name.partition("(")[0] for name in callees(text, "Db::caller(Writer)")} == {
        "log::Writer::add"
    }


def test_a_virtual_call_that_may_reach_too_many_reaches_the_named_one() -> None:
    heirs = "".join(
        f"struct D{n} : B {{ void v() override {{}} }};\n" for n in range(MAX_OVERRIDERS + 1)
    )
    text = f"struct B {{ virtual void v() {{}} }};\n{heirs}void caller(B* b) {{ b->v(); }}\n"
    assert callees(text, "caller(B)") == {"B::v()"}
    fewer = text.replace(f"struct D{MAX_OVERRIDERS} : B", "struct D")
    assert len(callees(fewer, "caller(B)")) == MAX_OVERRIDERS + 1


@pytest.mark.parametrize("member", ["Lock* lock_", "Lock& lock_", "std::unique_ptr<Lock> lock_"])
def test_initialising_what_points_to_an_object_makes_none(member: str) -> None:
    classes = f"struct Lock {{ Lock(Lock*) {{}} }};\nclass B {{ B(Lock* x); {member}; }};\n"
    body = "B::B(Lock* x) : lock_(x) {}\n"
    for files in ({"b.cc": classes + body}, {"b.h": classes, "b.cc": '#include "b.h"\n' + body}):
        graph = graph_of(files)
        assert ("B::B(Lock)", "Lock") in edges(graph, "uses")
        assert edges(graph, "constructs") == edges(graph) == set()


def test_a_local_pointer_or_reference_makes_no_object() -> None:
    text = """
struct A { A(int x) {} A(const A& x) {} };
void reference(A* x) { A& y{*x}; }
void pointer(A* x) { A* y{x}; }
void object(A* x) { A y{*x}; }
void objects() { A y[2]{1, 2}; }
"""
    makers = {source for source, _ in edges(graph_of(text), "constructs")}
    assert makers == {"object(A)", "objects()"}
