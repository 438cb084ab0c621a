"""The interval over documents, on sums whose answer is known."""

import math

import numpy as np
import pytest

from curriculum.ablations.document_intervals import document_interval
from curriculum.inspection.paired import Measured
from curriculum.train.document_sums import DocumentSums

PLACE = ("unseen", "unseen", "v2_simple", "templates", "causal", 512)
OTHER = ("anchor", "anchor", "v2_simple", "templates", "causal", 512)


def measured(bits: list[float], *, lineages: list[str] | None = None, first: int = 0) -> Measured:
    """Documents of 100 bytes and so many bits each, a lineage each unless said otherwise."""
    names = tuple(f"d{first + at}" for at in range(len(bits)))
    sums = DocumentSums(
        document_ids=names,
        lineages=tuple(lineages or names),
        nats=np.array(bits) * 100 * math.log(2),
        num_bytes=np.full(len(bits), 100),
        tokens=np.full(len(bits), 30),
    )
    return Measured(strata={PLACE: sums, OTHER: sums}, weights={PLACE: 1.0, OTHER: 1.0})


def test_a_difference_that_all_documents_share_has_no_width() -> None:
    pairs = [(measured([1.0, 2.0, 3.0]), measured([1.1, 2.1, 3.1])) for _ in range(2)]
    found = document_interval(pairs, "unseen")
    assert (found.low, found.high) == pytest.approx((-0.1, -0.1))
    assert (found.documents, found.lineages) == (3, 3)


def test_the_interval_is_that_of_a_mean_over_documents() -> None:
    random = np.random.default_rng(3)
    base, by = random.uniform(1, 3, 200), random.normal(-0.05, 0.2, 200)
    found = document_interval([(measured((base + by).tolist()), measured(base.tolist()))], "unseen")
    error = by.std(ddof=1) / math.sqrt(200)
    assert found.low == pytest.approx(by.mean() - 1.96 * error, abs=0.2 * error)
    assert found.high == pytest.approx(by.mean() + 1.96 * error, abs=0.2 * error)


def test_documents_of_one_lineage_are_drawn_together() -> None:
    base = [1.0] * 40
    moved = [1.0 + (0.2 if at < 20 else -0.2) for at in range(40)]
    alone = document_interval([(measured(moved), measured(base))], "unseen")
    two = ["a"] * 20 + ["b"] * 20
    together = document_interval(
        [(measured(moved, lineages=two), measured(base, lineages=two))], "unseen"
    )
    assert together.lineages == 2
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_only_documents_that_both_sides_have_count() -> None:
    arm, against = measured([1.0, 2.0, 9.0]), measured([1.1, 2.1])
    found = document_interval([(arm, against)], "unseen")
    assert found.documents == 2
    assert (found.low, found.high) == pytest.approx((-0.1, -0.1))
