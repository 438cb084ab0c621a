from collections.abc import Sequence

import pytest

from curriculum.train.advance_when import gate_bits, gate_reason
from schemas.diet import AdvanceWhen, StopsImproving
from schemas.held_out import WeightedStratum, held_out_count
from schemas.job import Figure
from tests import factories

RULE = AdvanceWhen(
    min_tokens=1000, val_bpb=StopsImproving(stops_improving_by=0.002, over_evaluations=3)
)
FLAT = [1.5, 1.4995, 1.499, 1.4985]


@pytest.mark.parametrize(
    ("rule", "tokens", "bits", "ends"),
    [
        (RULE, 1000, FLAT, True),
        (RULE, 999, FLAT, False),
        (RULE, 1000, FLAT[:3], False),
        (RULE, 1000, [1.51, *FLAT[1:]], False),
        (RULE, 1000, [2.0, *FLAT], True),
        (RULE, 1000, [1.4, 1.5, 1.6, 1.7], True),
        (AdvanceWhen(min_tokens=5), 5, [], True),
        (AdvanceWhen(val_bpb=RULE.val_bpb), 0, FLAT, True),
        (AdvanceWhen(), 10**9, FLAT, False),
        (None, 10**9, FLAT, False),
    ],
)
def test_the_gate_opens_when_all_its_rules_hold(
    rule: AdvanceWhen | None, tokens: int, bits: Sequence[float], ends: bool
) -> None:
    assert (gate_reason(rule, valid_tokens=tokens, bits=bits) is not None) == ends


def test_the_gate_says_why() -> None:
    reason = gate_reason(RULE, valid_tokens=2000, bits=FLAT)
    assert reason == "2000 of 1000 tokens, val_bpb fell by 0.0015 over 3 evaluations"


def test_the_gate_reads_the_phases_own_weighted_mean() -> None:
    def figure(name: str, phase: str, family: str, value: float) -> Figure:
        return factories.figure(value, set=name, phase=phase, family=family)

    figures = [
        figure("phase", "syntax", "*", 1.0),
        figure("phase", "syntax", "v2_simple", 2.0),
        figure("phase", "graph", "*", 3.0),
        figure("anchor", "anchor", "*", 4.0),
        figure("phase", "syntax", "*", 5.0),
        figure("fim", "syntax", "*", 6.0),
        figure("fim", "graph", "*", 7.0),
    ]
    assert gate_bits(figures, "syntax") == [1.0, 5.0]
    assert gate_bits(figures, "syntax", waiting_for("fim")) == [6.0]
    assert gate_bits(figures, "syntax", waiting_for("anchor")) == [4.0]
    assert gate_bits(figures, "syntax", waiting_for("causal")) == [1.0, 5.0], "all that it serves"


@pytest.mark.parametrize(
    ("documents", "lineages", "ends"), [(8, 4, True), (7, 4, False), (300, 3, False)]
)
def test_a_rule_on_val_bpb_of_too_few_documents_never_ends_a_phase(
    documents: int, lineages: int, ends: bool
) -> None:
    rule = waiting_for("fim")
    figures = [
        factories.figure(value, set=name, documents=few[0], lineages=few[1])
        for value in FLAT
        for name, few in (("phase", (99, 99)), ("fim", (documents, lineages)))
    ]
    bits = gate_bits(figures, "syntax", rule)
    assert (gate_reason(rule, valid_tokens=9, bits=bits) is not None) == ends


def test_a_rule_on_val_bpb_of_two_heavy_documents_never_ends_a_phase() -> None:
    """Many documents of low weight don't carry a set over the threshold."""
    heavy = WeightedStratum(weight=0.7, documents=("a", "b"), lineages=("a", "b"))
    names = [f"{at}" for at in range(19)]
    light = WeightedStratum(weight=0.3, documents=names, lineages=names[:10])
    rule = AdvanceWhen(val_bpb=RULE.val_bpb)
    for strata, ends in (([light], True), ([light, heavy], False)):
        count = held_out_count(strata).model_dump()
        figures = [factories.figure(value).model_copy(update=count) for value in FLAT]
        bits = gate_bits(figures, "syntax", rule)
        assert (gate_reason(rule, valid_tokens=9, bits=bits) is not None) == ends


def waiting_for(name: str) -> AdvanceWhen:
    return AdvanceWhen(val_bpb=StopsImproving(stops_improving_by=0.002, set=name))


def test_the_gate_says_which_set_it_waited_for() -> None:
    reason = gate_reason(waiting_for("target"), valid_tokens=9, bits=FLAT)
    assert reason == "val_bpb of target fell by 0.0015 over 3 evaluations"
