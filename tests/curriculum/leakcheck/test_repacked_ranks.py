"""Packings of the same documents train the same weights on two gloo ranks, as one process trains them."""

from typing import Any

import pytest

from tests.curriculum.leakcheck import repacked_ranks
from tests.curriculum.leakcheck.repacked_ranks import LEAKS, RANKS
from tests.rank_processes import results_of_ranks

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of two ranks that share the model, and of two that share each row."""
    found: dict[str, Any] = results_of_ranks(
        repacked_ranks.__name__, RANKS, tmp_path_factory.mktemp("ranks"), seconds=600
    )
    return found


@pytest.mark.parametrize("shared", LEAKS)
def test_packings_agree_with_one_process_if_two_ranks_share(
    results: dict[str, Any], shared: str
) -> None:
    packings = results[shared]["packings"]
    assert [difference for _, difference in packings] == [""] * 6


@pytest.mark.parametrize(
    ("shared", "words"),
    [(shared, leak.words) for shared, leaks in LEAKS.items() for leak in leaks],
)
def test_a_leak_between_ranks_is_seen(results: dict[str, Any], shared: str, words: str) -> None:
    assert results[shared]["leaks"][words]
