"""Pairs of measurements: which documents are the same, and how strata count in a set's mean."""

import numpy as np
import pytest

from curriculum.inspection.paired import Measured, changes
from curriculum.train.document_sums import DocumentSums

Stratum = tuple[str, str, str, str, str, int]


def stratum(domain: str, *, objective: str = "causal", row_length: int = 512) -> Stratum:
    return ("phase", "syntax", "v3_simple", domain, objective, row_length)


def sums(nats: dict[str, float]) -> DocumentSums:
    """Documents of eight bytes each."""
    size = np.full(len(nats), 8, dtype=np.int64)
    return DocumentSums(
        document_ids=tuple(sorted(nats)),
        lineages=tuple(sorted(nats)),
        nats=np.array([nats[each] for each in sorted(nats)]) * np.log(2),
        num_bytes=size,
        tokens=size,
    )


def side(strata: dict[Stratum, dict[str, float]], weights: dict[Stratum, float]) -> Measured:
    return Measured(strata={name: sums(each) for name, each in strata.items()}, weights=weights)


def test_only_common_documents_of_common_strata_count() -> None:
    a, b = stratum("a"), stratum("b")
    other = stratum("a", objective="fim"), stratum("a", row_length=1024)
    first = side(
        {a: {"1": 8.0, "2": 8.0, "9": 80.0}, b: {"3": 8.0}, other[0]: {"1": 1.0}},
        {a: 0.5, b: 0.5, other[0]: 1.0},
    )
    last = side(
        {a: {"1": 4.0, "2": 8.0}, b: {"4": 8.0}, other[1]: {"1": 1.0}},
        {a: 0.5, b: 0.5, other[1]: 1.0},
    )
    found = changes(first, last)
    assert set(found) == {("phase", "syntax", "v3_simple", "a"), ("phase", "syntax", "*", "*")}
    change = found["phase", "syntax", "v3_simple", "a"]
    assert change.change == pytest.approx(-0.25)
    assert change.count.documents == 2
    assert found["phase", "syntax", "*", "*"].change == pytest.approx(-0.25)


def test_a_stratum_counts_as_on_the_average_of_both() -> None:
    a, b = stratum("a"), stratum("b")
    nats = {a: {"1": 8.0, "2": 8.0}, b: {"3": 8.0, "4": 8.0}}
    better = {a: {"1": 16.0, "2": 16.0}, b: {"3": 8.0, "4": 8.0}}
    found = changes(side(nats, {a: 0.2, b: 0.8}), side(better, {a: 0.4, b: 0.6}))
    assert found["phase", "syntax", "*", "*"].change == pytest.approx(0.3 * 1.0)
    assert found["phase", "syntax", "*", "*"].count.documents == 4


def test_without_a_common_document_there_is_no_change() -> None:
    a = stratum("a")
    assert changes(side({a: {"1": 1.0}}, {a: 1.0}), side({a: {"2": 1.0}}, {a: 1.0})) == {}
