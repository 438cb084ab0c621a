"""Packings of the same documents train alike in JAX too, and each leak shows."""

from collections.abc import Iterator

import pytest

from curriculum.leakcheck.claims import REPACKED
from tests.jax_process import Call, jax_process

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def steps() -> Iterator[Call]:
    """Functions of jax_steps.py by name, in a process with JAX."""
    with jax_process("tests.curriculum.leakcheck.jax_steps") as call:
        yield call


@pytest.mark.parametrize(
    ("vocab_size", "row_length", "streams"),
    [(97, 128, 1), pytest.param(4096, 1024, 2, marks=pytest.mark.slow)],
)
def test_packings_of_the_same_documents_train_alike(
    steps: Call, vocab_size: int, row_length: int, streams: int
) -> None:
    findings = steps("proof", vocab_size, row_length, streams)
    assert {finding.claim for finding in findings} == {REPACKED}
    assert [finding for finding in findings if not finding.passed] == []
    assert findings[0].subject == "jax EMFA"
    assert findings[0].backend == "splash"


@pytest.mark.parametrize("blocks", ["A", "EMC"])
def test_packings_agree_where_nothing_is_planted(steps: Call, blocks: str) -> None:
    assert steps("agrees", blocks)


@pytest.mark.parametrize(
    "leak",
    [
        "attention over rows",
        "a state that goes on",
        "a convolution over rows",
        "n-grams over rows",
        "padding and last tokens scored",
        "an unmasked convolution",
        "a scan without resets",
    ],
)
def test_a_broken_mask_is_seen(steps: Call, leak: str) -> None:
    assert steps("is_seen", leak)


@pytest.mark.parametrize(
    "words",
    [
        "documents of fewer than 4 tokens are read as the start of the next",
        "documents begin at BOS, and what has none is joined",
    ],
)
def test_documents_joined_by_the_loader_are_seen(steps: Call, words: str) -> None:
    assert steps("is_seen_in_loading", words)
