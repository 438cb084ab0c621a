"""Batches under the names of other trainers, and their move to a device."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curriculum.train.batch import Batch, Row, collate, tensors_in
from curriculum.train.dataloader import as_tensors, for_transformers
from curriculum.train.step import Prefetcher


def row(ids: list[int], loss_mask: list[int], doc_ids: list[int], name: str = "k-0") -> Row:
    targets = [
        after if counts else 0 for counts, after in zip(loss_mask, [*ids[1:], 0], strict=True)
    ]
    return Row(
        pack_id=name,
        input_ids=np.array(ids, dtype=np.int32),
        target_ids=np.array(targets, dtype=np.int32),
        loss_mask=np.array(loss_mask, dtype=np.uint8),
        doc_ids=np.array(doc_ids, dtype=np.int32),
        valid_token_count=len(ids),
        attention_pairs=1,
        document_ids=(),
    )


EXAMPLE = row([5, 6, 7, 8, 9], [1, 1, 0, 1, 0], [0, 0, 0, 1, 1])


def test_five_tokens_by_the_names_of_others() -> None:
    found = {name: each.tolist() for name, each in as_tensors([EXAMPLE]).items()}
    assert found == {
        "input_ids": [[5, 6, 7, 8, 9]],
        "target_ids": [[6, 7, 0, 9, 0]],
        "loss_mask": [[1, 1, 0, 1, 0]],
        "doc_ids": [[0, 0, 0, 1, 1]],
        "position_ids": [[0, 1, 2, 0, 1]],
        "cu_seqlens": [0, 3, 5],
    }


def test_five_tokens_as_transformers_take_them() -> None:
    found = for_transformers([EXAMPLE])
    assert found.pop("use_cache") is False
    assert {name: each.tolist() for name, each in found.items() if not isinstance(each, bool)} == {
        "input_ids": [[5, 6, 7, 8, 9]],
        "position_ids": [[0, 1, 2, 0, 1]],
        "labels": [[-100, 6, 7, -100, 9]],
    }
    assert {each.dtype for each in found.values() if not isinstance(each, bool)} == {torch.int64}


@st.composite
def rows_of_one_length(draw: st.DrawFn) -> list[Row]:
    length = draw(st.integers(2, 24))
    rows = []
    for number in range(draw(st.integers(1, 3))):
        doc_ids = np.cumsum(draw(st.lists(st.booleans(), min_size=length, max_size=length)))
        mask = draw(st.lists(st.booleans(), min_size=length, max_size=length))
        ends = np.append(doc_ids[1:] != doc_ids[:-1], True)
        ids = draw(st.lists(st.integers(1, 99), min_size=length, max_size=length))
        rows.append(
            row(ids, (np.array(mask) & ~ends).astype(int).tolist(), doc_ids.tolist(), f"k-{number}")
        )
    return rows


@given(rows_of_one_length())
def test_labels_shifted_by_the_model_are_the_targets(rows: list[Row]) -> None:
    batch = collate(rows)
    shifted = torch.nn.functional.pad(batch.labels()[:, 1:], (0, 1), value=-100)
    assert torch.equal(shifted != -100, batch.loss_mask.bool())
    scored = batch.loss_mask.bool()
    assert torch.equal(shifted[scored], batch.target_ids[scored].long())


def test_every_tensor_of_a_batch_is_known(world: Any) -> None:
    batch = collate([EXAMPLE])
    named = {each.data_ptr() for each in batch.tensors().values()}
    assert named <= {each.data_ptr() for each in tensors_in(batch)}
    assert len(list(tensors_in(batch))) == 7


def test_on_a_cpu_batches_come_as_they_are() -> None:
    batches = [collate([replace(EXAMPLE, pack_id=f"k-{number}")]) for number in range(3)]
    found = list(Prefetcher(torch.device("cpu")).each(batches))
    assert [each.pack_ids for each in found] == [("k-0",), ("k-1",), ("k-2",)]
    assert all(torch.equal(each.input_ids, batches[0].input_ids) for each in found)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_on_a_gpu_pinned_batches_arrive_whole_while_others_are_computed() -> None:
    device = torch.device("cuda")
    generator = np.random.default_rng(0)

    def batch(number: int) -> Batch:
        ids = generator.integers(1, 99, 1 << 16).tolist()
        return collate(
            [row(ids, [1] * len(ids), sorted(generator.integers(0, 9, len(ids))), str(number))]
        )

    sent = [batch(number).pin_memory() for number in range(8)]
    assert all(each.is_pinned() for each in tensors_in(sent[0]))
    weight = torch.randn(2048, 2048, device=device)
    sums = []
    prefetcher = Prefetcher(device)
    prefetcher.send(sent[0])
    for here in prefetcher.each(sent):
        for _ in range(20):
            weight = weight @ weight / 50
        sums.append([each.long().sum() for each in tensors_in(here)])
        del here
    for one, found in zip(sent, sums, strict=True):
        assert [int(each) for each in found] == [int(each.long().sum()) for each in tensors_in(one)]
