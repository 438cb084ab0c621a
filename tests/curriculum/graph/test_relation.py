import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.relation import MAX_HOPS, Traversal, is_related, is_trusted
from schemas.corpus import EdgeTrust
from schemas.document import EDGE_KINDS, EDGE_LABELS, EdgeLabel

WAYS: list[Traversal] = [(kind, outward) for kind in EDGE_KINDS for outward in (True, False)]
CALLEE, CALLER, USED, CLASS, BASE = (
    ("calls", True),
    ("calls", False),
    ("uses", True),
    ("member", True),
    ("inherits", True),
)


def is_way(*ways: Traversal) -> bool:
    """Return True if what stands at the end of these ways is related to the target at their start."""
    steps = itertools.pairwise((None, *ways))
    return all(is_related(before, way, hop) for hop, (before, way) in enumerate(steps, 1) if way)


@pytest.mark.parametrize(
    "ways",
    [
        (CALLEE,),
        (CALLER,),
        (USED,),
        (CLASS, BASE),
        (CALLER, CALLER, CALLER),
        (CALLEE, CALLEE, CALLEE),
        (CALLEE, USED, BASE),
        (("overrides", False), CLASS),
        (("member", False),),
        (("links", True), ("links", True)),
        (("compiles", True),),
    ],
)
def test_a_closed_list_of_ways_leads_to_what_is_related(ways: tuple[Traversal, ...]) -> None:
    assert is_way(*ways)


@pytest.mark.parametrize(
    "ways",
    [
        (CALLEE, CALLER),
        (CALLER, CALLEE),
        (CALLER, USED),
        (CLASS, ("member", False)),
        (USED, ("uses", False)),
        (BASE, ("inherits", False)),
        (("includes", True),),
        (("links", True), ("compiles", True)),
        (CALLER,) * (MAX_HOPS + 1),
    ],
)
def test_turns_includes_and_long_ways_lead_to_nothing_related(ways: tuple[Traversal, ...]) -> None:
    assert not is_way(*ways)


@given(before=st.sampled_from([None, *WAYS]), way=st.sampled_from(WAYS), hop=st.integers(1, 9))
def test_no_way_goes_along_an_include_or_past_the_longest(
    before: Traversal | None, way: Traversal, hop: int
) -> None:
    if is_related(before, way, hop):
        assert hop <= MAX_HOPS
        assert way[0] != "includes"
        assert is_related(before, way, 1)


@pytest.mark.parametrize(
    ("trust", "labels"),
    [
        ("all", {*EDGE_LABELS}),
        ("confident", {*EDGE_LABELS}),
        ("resolved", {"resolved", "overridden"}),
        ("none", set()),
    ],
)
def test_trust_is_by_label_and_confidence(trust: EdgeTrust, labels: set[EdgeLabel]) -> None:
    assert {label for label in EDGE_LABELS if is_trusted(label, 0.5, trust)} == labels
    doubtful = {label for label in EDGE_LABELS if is_trusted(label, 0.49, trust)}
    assert doubtful == (set() if trust == "confident" else labels)
