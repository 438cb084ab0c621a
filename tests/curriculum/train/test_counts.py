import numpy as np
import numpy.typing as npt
import torch
from hypothesis import given
from hypothesis import strategies as st

from curriculum.train.batch import Row
from curriculum.train.dataloader import Batch, collate
from curriculum.train.metrics import StepCounts, counts_of, counts_of_step

TOKEN_BYTES = torch.tensor([0, 1, 2, 3])
T = 12


def batch(lengths: tuple[int, ...], mask: list[int] | None = None) -> Batch:
    """One row of documents of these lengths; what is left is padding."""
    valid = sum(lengths)
    ids = np.resize(np.array([1, 2, 3], dtype=np.int32), T)
    doc_ids = np.repeat(np.arange(len(lengths) + 1), [*lengths, T - valid]).astype(np.int32)
    scored = np.array(mask) if mask is not None else within(doc_ids, valid)
    row = Row(
        pack_id="p",
        input_ids=ids,
        target_ids=np.append(ids[1:], 0).astype(np.int32),
        loss_mask=scored.astype(np.uint8),
        doc_ids=doc_ids,
        valid_token_count=valid,
        attention_pairs=sum(n * (n + 1) // 2 for n in lengths),
        document_ids=(),
    )
    return collate([row])


def within(doc_ids: npt.NDArray[np.int32], valid: int) -> npt.NDArray[np.bool_]:
    """1 where the next token is of the same document."""
    same = np.append(doc_ids[1:] == doc_ids[:-1], False)
    return same & (np.arange(len(doc_ids)) < valid - 1)


def test_a_document_of_four_tokens_gives_its_scored_ones_two_of_context() -> None:
    counts = counts_of(batch((4,)), TOKEN_BYTES)
    assert (counts.scored, counts.context) == (3, 1 + 2 + 3)
    assert (counts.attention_pairs, counts.causal_pairs) == (10, 78)
    assert (counts.positions, counts.valid) == (12, 4)


def test_documents_that_share_a_row_would_take_a_row_each() -> None:
    for lengths in ((12,), (4,), (4, 8), (3, 5, 2)):
        counts = counts_of(batch(lengths), TOKEN_BYTES)
        assert counts.padded_positions == 12 * len(lengths)
        assert counts.causal_pairs == 78 >= counts.attention_pairs


@given(st.lists(st.integers(2, 5), min_size=1, max_size=2))
def test_context_counts_within_documents_only(lengths: list[int]) -> None:
    counts = counts_of(batch(tuple(lengths)), TOKEN_BYTES)
    assert counts.context == sum(n * (n - 1) // 2 for n in lengths) > 0


def test_counts_of_a_step_are_those_of_its_batches_added_up() -> None:
    batches = [batch((4,)), batch((3, 5)), batch((12,))]
    each = [counts_of(one, TOKEN_BYTES).numbers() for one in batches]
    whole = counts_of_step(batches, TOKEN_BYTES)
    assert whole.numbers() == [sum(column) for column in zip(*each, strict=True)]
    assert StepCounts.from_numbers(whole.numbers()) == whole
    assert whole.tokens.scored == whole.scored == 3 + 2 + 4 + 11


def test_a_step_without_scored_targets_has_no_context() -> None:
    counts = counts_of(batch((4,), mask=[0] * T), TOKEN_BYTES)
    assert (counts.scored, counts.bytes, counts.context) == (0, 0, 0)
