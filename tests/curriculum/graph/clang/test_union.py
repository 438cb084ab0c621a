"""Units are united the same in whatever order they come, and edges are found by the frontend's names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.clang.graph_snapshot import (
    GraphSnapshot,
    IndexedClass,
    IndexedEdge,
    IndexedFunction,
    IndexedInclude,
    Outcome,
)
from curriculum.graph.clang.union import (
    MAX_OVERRIDERS,
    Chain,
    Definition,
    NamedReference,
    Union,
    UnitResult,
)
from curriculum.graph.facts import Range
from schemas.reports import DatabaseReport

COUNT = DatabaseReport(
    entries=4, matched=4, duplicates=0, missing=0, not_understood=0, missing_response_files=0
)
NO_CALLS: Mapping[str, int] = {}


def function(name: str, path: str = "a.cpp", at: int = 0, *, body: bool = True) -> IndexedFunction:
    return IndexedFunction(
        path=path,
        name=name,
        qualified=name,
        kind="function",
        start=at,
        end=at + 9,
        name_start=at,
        body=Range(at + 5, at + 9) if body else None,
        body_digest="x" if body else "",
        digest="y" if body else "",
        parameters=(),
        min_arity=1,
        max_arity=1,
        is_template=False,
        is_virtual=False,
        is_partial=False,
        is_macro=False,
    )


def seen(
    value: IndexedFunction | IndexedClass,
    *mentions: NamedReference,
    usr: str = "",
    owner: Chain = (),
) -> Definition:
    return Definition(
        usr=usr or value.name,
        value=value,
        is_declaration=isinstance(value, IndexedFunction) and value.body is None,
        owner=owner,
        mentions=frozenset(mentions),
        calls=NO_CALLS,
    )


def klass(name: str) -> IndexedClass:
    return IndexedClass(
        path="c.h",
        name=name,
        qualified=name,
        kind="class",
        start=0,
        end=9,
        name_start=sum(name.encode()),
        digest=name,
        is_template=False,
        is_partial=False,
    )


def calls(*names: str) -> NamedReference:
    return NamedReference("calls", "resolved", tuple((name,) for name in names), len(names))


def united(*results: Sequence[Definition], outcomes: Sequence[Outcome] = ()) -> GraphSnapshot:
    union = Union()
    for number, each in enumerate(results):
        outcome = outcomes[number] if outcomes else "indexed"
        union.add(f"{number}.cpp", UnitResult(outcome=outcome, seen=tuple(each)))
    return union.snapshot(COUNT)


def pairs(snapshot: GraphSnapshot) -> list[tuple[str, str, str]]:
    nodes = snapshot.nodes
    return [
        (nodes[each.source].name, nodes[each.target].name, f"{each.label} {each.candidates}")
        for each in snapshot.edges
    ]


NAMES = ("f", "g", "h")
PLACES = st.sampled_from([(name, path) for name in NAMES for path in ("a.cpp", "b.h")])


@st.composite
def results(draw: st.DrawFn) -> UnitResult:
    found = []
    for name, path in draw(st.lists(PLACES, unique=True, max_size=4)):
        value = function(name, path, NAMES.index(name) * 10, body=draw(st.booleans()))
        value = replace(value, parameters=draw(st.sampled_from([(), ("T",)])))
        mentions = [calls(each) for each in draw(st.sets(st.sampled_from(NAMES)))]
        found.append(seen(value, *mentions))
    outcome: Outcome = draw(st.sampled_from(["indexed", "partial", "crashed"]))
    if outcome == "crashed":
        return UnitResult(outcome=outcome, reason="it did")
    includes = frozenset(
        IndexedInclude("a.cpp", name) for name in draw(st.sets(st.sampled_from(NAMES)))
    )
    return UnitResult(outcome=outcome, seen=tuple(found), includes=includes)


@given(units=st.lists(results(), max_size=4), data=st.data())
def test_the_order_in_which_units_come_changes_nothing(
    units: list[UnitResult], data: st.DataObject
) -> None:
    numbered = list(enumerate(units))
    snapshots = []
    for order in (numbered, data.draw(st.permutations(numbered))):
        union = Union()
        for number, result in order:
            union.add(f"{number}.cpp", result)
        snapshots.append(union.snapshot(COUNT))
    assert snapshots[0] == snapshots[1]


def test_a_declaration_stands_for_its_definition() -> None:
    declared = seen(replace(function("f", "f.h", body=False), min_arity=0))
    snapshot = united([declared, seen(function("g", "b.cpp"), calls("f"))], [seen(function("f"))])
    assert [(each.name, each.path) for each in snapshot.functions] == [
        ("f", "a.cpp"),
        ("g", "b.cpp"),
    ]
    assert snapshot.functions[0].min_arity == 0
    assert pairs(snapshot) == [("g", "f", "resolved 1")]


def test_a_function_that_nothing_defines_is_its_first_declaration() -> None:
    places = [seen(function("f", path, body=False)) for path in ("b.h", "a.h")]
    snapshot = united([*places, seen(function("g"), calls("f"))])
    assert [(each.name, each.path) for each in snapshot.functions] == [("g", "a.cpp"), ("f", "a.h")]
    assert (snapshot.report.functions, snapshot.report.declarations) == (1, 1)
    assert pairs(snapshot) == [("g", "f", "resolved 1")]


def test_a_specialisation_that_is_not_written_is_its_template() -> None:
    chain = NamedReference("calls", "resolved", (("f<int>", "f"),), 1)
    assert pairs(united([seen(function("f")), seen(function("g", at=10), chain)])) == [
        ("g", "f", "resolved 1")
    ]
    written = seen(function("special", at=20), usr="f<int>")
    both = united([seen(function("f")), written, seen(function("g", at=10), chain)])
    assert pairs(both) == [("g", "special", "resolved 1")]


def test_what_a_partial_unit_says_counts_only_where_no_whole_one_speaks() -> None:
    wrong, right = seen(function("f"), calls("g")), seen(function("f"), calls("h"))
    others = [seen(function("g", at=10)), seen(function("h", at=20))]
    snapshot = united([wrong, *others], [right], outcomes=["partial", "indexed"])
    assert pairs(snapshot) == [("f", "h", "resolved 1")]
    assert [each.is_partial for each in snapshot.functions] == [False, True, True]


def test_the_strongest_label_of_an_edge_is_kept() -> None:
    weak = NamedReference("calls", "dependent", (("g",), ("h",)), 2, arity=1)
    others = [seen(function("g", at=10)), seen(function("h", at=20))]
    snapshot = united([seen(function("f"), weak, calls("g")), *others])
    assert pairs(snapshot) == [("f", "g", "resolved 1"), ("f", "h", "dependent 2")]


def test_candidates_that_take_other_numbers_of_arguments_are_none() -> None:
    weak = NamedReference("calls", "dependent", (("g",), ("h",)), 2, arity=2)
    wide = replace(function("g", at=10), max_arity=-1)
    snapshot = united([seen(function("f"), weak), seen(wide), seen(function("h", at=20))])
    assert pairs(snapshot) == [("f", "g", "dependent 1")]


def test_a_virtual_call_that_may_reach_too_many_reaches_the_one_it_names() -> None:
    dynamic = NamedReference("calls", "overridden", (("base",),), 1)
    above = NamedReference("overrides", "resolved", (("base",),), 1)

    def reached(number: int) -> int:
        overriders = [seen(function(f"o{at}", at=20 + at), above) for at in range(number)]
        caller = seen(function("f"), dynamic)
        snapshot = united([caller, seen(function("base", at=10)), *overriders])
        return sum(edge.kind == "calls" for edge in snapshot.edges)

    assert reached(MAX_OVERRIDERS - 1) == MAX_OVERRIDERS
    assert reached(MAX_OVERRIDERS) == 1


def test_members_are_found_by_the_class_that_an_object_has() -> None:
    method = NamedReference("calls", "dependent", (), 0, name="size", arity=1, within=("Derived",))
    inherits = NamedReference("inherits", "resolved", (("Base",),), 1)
    snapshot = united(
        [
            seen(klass("Base")),
            seen(klass("Derived"), inherits),
            seen(klass("Other")),
            seen(function("size", at=10), usr="Base.size", owner=("Base",)),
            seen(function("size", at=20), usr="Other.size", owner=("Other",)),
            seen(function("f"), method),
        ]
    )
    found = [edge for edge in snapshot.edges if edge.kind == "calls"]
    assert [snapshot.functions[edge.target].name_start for edge in found] == [10]


def test_an_edge_never_leaves_the_nodes() -> None:
    snapshot = united([seen(function("f"), calls("f", "absent"))])
    assert snapshot.edges == (
        IndexedEdge(source=0, target=0, kind="calls", label="resolved", candidates=1),
    )
