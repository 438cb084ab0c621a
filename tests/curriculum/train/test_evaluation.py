import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from curriculum.train.batch import Shards
from curriculum.train.dataloader import Batch, collate
from curriculum.train.evaluation import (
    Cancelled,
    DocumentSums,
    Evaluator,
    interval,
    read_token_bytes,
    rows_of,
)
from curriculum.train.optimizer import new_train_state


def evaluator(world: Any, **changes: Any) -> Evaluator:
    job = world.job(**changes)
    return Evaluator(
        train_state=new_train_state(job, torch.device("cpu")),
        job=job,
        workspace=world.store.root,
        token_bytes=read_token_bytes(world.tokenizer.path),
        stop=lambda: False,
    )


@torch.no_grad()
def plainly(subject: Evaluator, domain: str) -> float:
    """Σ nll / ln 2 ÷ Σ bytes, row by row, with torch's own cross-entropy."""
    evaluation = subject.job.evaluations[0]
    stratum = next(each for each in evaluation.strata if each.domain == domain)
    nats, num_bytes = 0.0, 0
    for row in rows_of(stratum, subject.workspace, limit=evaluation.max_positions // 128):
        batch = collate([row])
        logits = subject.train_state.model(batch.input_ids, batch.boundaries)[0]
        scored = batch.loss_mask[0].bool()
        targets = batch.target_ids[0][scored].long()
        nats += float(F.cross_entropy(logits[scored], targets, reduction="sum"))
        num_bytes += int(subject.token_bytes[targets].sum())
    return nats / math.log(2) / num_bytes


def test_val_bpb_is_bits_over_bytes_of_scored_targets(world: Any) -> None:
    subject = evaluator(world)
    figures = {(each.phase, each.domain): each for each in subject.figures(0)}
    for domain in ("one", "two"):
        assert figures["syntax", domain].val_bpb == pytest.approx(plainly(subject, domain), 1e-5)
    mean = 0.75 * figures["syntax", "one"].val_bpb + 0.25 * figures["syntax", "two"].val_bpb
    assert figures["syntax", "*"].val_bpb == pytest.approx(mean)
    assert figures["syntax", "*"].low < figures["syntax", "*"].val_bpb < figures["syntax", "*"].high
    assert set(figures) == {(p, d) for p in ("syntax", "anchor") for d in ("one", "two", "*")}


def test_rows_that_two_evaluations_ask_for_are_computed_once(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = evaluator(world)
    syntax, anchor = subject.job.evaluations
    assert syntax.strata == anchor.strata
    computed: list[int] = []
    monkeypatch.setattr(Evaluator, "_nll", counting(computed))
    both = subject.figures(0)
    together = sum(computed)
    computed.clear()
    alone = evaluator(world, evaluations=(anchor,)).figures(0)
    assert sum(computed) == together > 0
    assert [each for each in both if each.phase == "anchor"] == [*alone]
    computed.clear()
    fewer = anchor.model_copy(update={"max_positions": anchor.max_positions // 4})
    evaluator(world, evaluations=(syntax, fewer)).figures(0)
    assert sum(computed) > together, "other rows are asked for, and those must be read"


def counting(computed: list[int]) -> Any:
    """An evaluator's pass that notes the positions of each batch."""
    plain = Evaluator._nll

    def nll(subject: Evaluator, batch: Batch) -> torch.Tensor:
        computed.append(batch.positions)
        return plain(subject, batch)

    return nll


def test_an_evaluation_changes_neither_model_nor_base(world: Any) -> None:
    subject = evaluator(world, rope_base=77.0)
    before = {name: value.clone() for name, value in subject.train_state.model.state_dict().items()}
    first = subject.figures(0)
    assert subject.train_state.model.rope_base == 77.0
    assert all(
        torch.equal(before[name], value)
        for name, value in subject.train_state.model.state_dict().items()
    )
    assert subject.figures(0) == first


def test_no_more_rows_are_read_than_the_cap_allows(world: Any) -> None:
    stratum = world.job().evaluations[0].strata[1]
    assert len(list(rows_of(stratum, world.store.root, limit=3))) == 3
    rows = list(rows_of(stratum, world.store.root, limit=99))
    assert [row.pack_id[-2:] for row in rows] == [f"{at:02d}" for at in range(8, 16)]


def test_no_shard_is_read_behind_the_one_that_fills_the_cap(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    domains = Shards.domains

    def noted(self: Shards, shard: int) -> list[str]:
        read.append(shard)
        return domains(self, shard)

    monkeypatch.setattr(Shards, "domains", noted)
    one, two = world.job().evaluations[0].strata
    for stratum, limit, shards in ((one, 3, [0]), (one, 8, [0]), (two, 3, [0, 1])):
        assert len(list(rows_of(stratum, world.store.root, limit=limit))) == limit
        assert read == shards
        read.clear()


def test_a_document_of_several_rows_is_one_draw() -> None:
    many = DocumentSums(nats=np.full(50, 1.0), num_bytes=np.full(50, 2.0), tokens=50)
    low, high = interval([many], [1.0], seed=0)
    assert low == high == pytest.approx(0.5 / math.log(2))


def test_the_interval_is_seeded_and_narrows_with_documents() -> None:
    def width(documents: int) -> float:
        generator = np.random.default_rng(0)
        sums = DocumentSums(
            nats=generator.exponential(1.0, documents), num_bytes=np.ones(documents), tokens=9
        )
        low, high = interval([sums], [1.0], seed=1)
        assert (low, high) == interval([sums], [1.0], seed=1)
        assert low < sums.bits_per_byte < high
        return high - low

    assert width(1600) < width(100) / 2


def test_a_stop_is_heeded_between_batches(world: Any) -> None:
    subject = evaluator(world)
    stopping = Evaluator(
        train_state=subject.train_state,
        job=subject.job,
        workspace=subject.workspace,
        token_bytes=subject.token_bytes,
        stop=lambda: True,
    )
    with pytest.raises(Cancelled):
        stopping.figures(0)
