"""Names that stand in a file more often than they are looked up."""

import pytest

from curriculum.graph.call_graph import CallGraph
from curriculum.graph.facts import NodeId
from curriculum.graph.index import facts_of
from curriculum.graph.names import MAX_ALIKE, names_of, num_crowded
from schemas.change import Blob, TreeDelta, TreeFile

FUNCTION = "int fN(int x) { return last(x); }\n"


def text_of(count: int) -> str:
    """A function, and so many callers of it."""
    callers = "".join(FUNCTION.replace("N", str(number)) for number in range(count))
    return "int last(int x) { return x; }\n" + callers


@pytest.mark.parametrize("more", [0, 1, 50])
def test_so_many_callers_of_one_name_are_kept_and_names_that_have_more_are_counted(more):
    facts = facts_of(text_of(MAX_ALIKE + more), "cpp")
    names = names_of(facts)
    assert len(names.tables["callers"]["last"]) == MAX_ALIKE
    assert names.crowded == (("last",) if more else ())
    assert num_crowded(facts) == len(names.crowded)


def test_every_caller_has_its_own_edges_however_many_there_are():
    file = TreeFile(
        path="a.cc",
        language="cpp",
        blob=Blob(blob_id="", text=text_of(MAX_ALIKE + 50)),
        lineage="sample:a.cc",
    )
    graph = CallGraph()
    graph.apply(TreeDelta(removed=(), files=(file,)))
    last, *callers = (NodeId("a.cc", number) for number in range(MAX_ALIKE + 51))
    assert all(
        [(each.node, each.kind) for each in graph.neighbours(caller) if each.outward]
        == [(last, "calls")]
        for caller in callers
    )
    assert len(graph.neighbours(last)) == MAX_ALIKE


def test_overloads_are_not_limited():
    count = MAX_ALIKE + 50
    overloads = "".join(f"int f(A{number} a) {{ return 0; }}\n" for number in range(count))
    assert len(names_of(facts_of(overloads, "cpp")).tables["functions"]["f"]) == count
