"""Steps in JAX keep both claims, from packed rows to gradients and moments, and each leak breaks them."""

from collections.abc import Iterator

import pytest

from curriculum.leakcheck.claims import CHANGES_REACH, FED, MUTED, SCORED
from tests.jax_process import Call, jax_process


@pytest.fixture(scope="module")
def steps() -> Iterator[Call]:
    """Functions of jax_steps.py by name, in a process with JAX."""
    with jax_process("tests.curriculum.leakcheck.jax_steps") as call:
        yield call


@pytest.mark.parametrize(
    ("vocab_size", "row_length", "streams"),
    [(97, 256, 1), pytest.param(4096, 1024, 2, marks=pytest.mark.slow)],
)
def test_no_document_reaches_another_in_a_step_of_all_layers(
    steps: Call, vocab_size: int, row_length: int, streams: int
) -> None:
    findings = steps("proof", vocab_size, row_length, streams)
    assert [each.claim for each in findings] == [SCORED, MUTED, FED, CHANGES_REACH]
    assert [each for each in findings if not each.passed] == []
    assert findings[0].subject == "step jax EMFA"
    assert findings[0].backend == "splash"


@pytest.mark.parametrize("blocks", ["A", "EMC"])
def test_the_claims_hold_where_nothing_is_planted(steps: Call, blocks: str) -> None:
    assert steps("red", blocks) == set()


@pytest.mark.parametrize(
    "leak",
    [
        "attention over rows",
        "a state that goes on",
        "a convolution over rows",
        "n-grams over rows",
        "an unmasked convolution",
        "a scan without resets",
    ],
)
def test_a_broken_mask_fails_both_claims(steps: Call, leak: str) -> None:
    assert steps("leaking", leak) == {SCORED, MUTED}


def test_a_loss_over_all_positions_is_not_that_of_the_rows(steps: Call) -> None:
    assert FED in steps("leaking", "padding and last tokens scored")


@pytest.mark.parametrize(
    "words",
    [
        "documents of fewer than 4 tokens are read as the start of the next",
        "documents begin at BOS, and what has none is joined",
    ],
)
def test_documents_joined_by_the_loader_fail_both_claims(steps: Call, words: str) -> None:
    assert steps("loading", words) == {SCORED, MUTED}
