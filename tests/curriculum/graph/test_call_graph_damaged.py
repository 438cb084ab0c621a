"""Whatever a file holds, each of its definitions has an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.call_graph import CallGraph
from curriculum.graph.facts import NodeId
from schemas.change import Blob, TreeDelta, TreeFile

WORDS = (
    *(
        "virtual ",
        "void f() {}",
        "int g(",
        ");",
        "struct A",
        ": A",
        "{",
        "}",
        "f();",
        "namespace n",
    ),
    *(
        "~A() {}",
        "override",
        "template <class T> ",
        "T::x",
        "operator+",
        "using namespace n;",
        "\n",
    ),
    *(
        "class B : public A {",
        "};",
        "enum E { a };",
        "#define M(x) f(x)\n",
        "M(1)",
        "::",
        "auto l = [] {",
    ),
)


def answers(text: str) -> int:
    """All neighbours of all definitions, which must not fail."""
    blob = Blob(blob_id="b", text=text)
    file = TreeFile(path="a.cc", language="cpp", blob=blob, lineage="r:a.cc")
    graph = CallGraph()
    graph.apply(TreeDelta(removed=(), files=(file,)))
    symbols = graph.source("a.cc").facts.symbols
    return sum(len(graph.neighbours(NodeId("a.cc", number))) for number in range(len(symbols)))


@pytest.mark.parametrize(
    "text", ["virtual void f() {}", "virtual ~A() {}", "struct A { void f() override; };"]
)
def test_a_virtual_function_outside_of_a_class_is_a_function(text: str) -> None:
    assert answers(f"{text}\nvoid g() {{ f(); }}\n") >= 0


@given(st.lists(st.sampled_from(WORDS), max_size=30).map("".join))
def test_damaged_code_has_answers(text: str) -> None:
    assert answers(text) >= 0
