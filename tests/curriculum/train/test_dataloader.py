import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curriculum.train import dataloader as module
from curriculum.train.batch import Row, Shards
from curriculum.train.dataloader import (
    Batch,
    Lookahead,
    MicroBatches,
    PlannedRows,
    collate,
    loader_of,
    steps_of,
)
from curriculum.train.distributed import deal
from curriculum.train.plan_reader import PlanReader
from schemas.errors import JobError, MixtureError, SchemaError
from schemas.mixture import PLAN_SCHEMA
from tests.error_fields import fields


def write_plan(path: Path, lengths: list[list[int]]) -> PlanReader:
    """A plan of slots with rows of these lengths."""
    rows: list[dict[str, Any]] = []
    for slot, each in enumerate(lengths):
        for length in each:
            rows.append(
                dict.fromkeys(PLAN_SCHEMA.names, 0)
                | {"position": len(rows), "slot": slot, "row_length": length}
                | {"rows_key": "k", "pack_id": f"k-{len(rows)}"}
            )
    pq.write_table(pa.Table.from_pylist(rows, PLAN_SCHEMA), path, row_group_size=2)
    return PlanReader(path)


def test_rows_of_one_length_share_a_micro_batch(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.parquet", [[2], [1, 1], [2], [1, 1]])
    batches = MicroBatches(plan, slots_per_step=4, micro_positions=3, steps=range(1))
    assert list(batches) == [[0], [3], [1, 2, 4], [5]]


def test_any_step_can_be_the_first(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.parquet", [[2], [1, 1], [2], [2], [1, 1], [2], [1, 1]])

    def positions(steps: range) -> list[list[int]]:
        return list(MicroBatches(plan, slots_per_step=2, micro_positions=2, steps=steps))

    whole = positions(range(3))
    assert whole == [[0], [1, 2], [3], [4], [7], [5, 6]]
    for first in range(3):
        skipped = sum(len(positions(range(at, at + 1))) for at in range(first))
        assert positions(range(first, 3)) == whole[skipped:]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 9])
def test_ranks_share_a_step_and_each_has_as_many_micro_batches(world: Any, ranks: int) -> None:
    job = world.job(steps=2, micro_positions=256)
    rows = PlannedRows.from_job(job, world.store.root)
    alone = list(steps_of(job, rows, first_step=0, workers=0))
    shared = [
        list(steps_of(job, rows, first_step=0, workers=0, rank=rank, ranks=ranks))
        for rank in range(ranks)
    ]
    for number, whole in enumerate(alone):
        turns = [step[number] for step in shared]
        assert len({len(turn) for turn in turns}) == 1
        own = [pack_id for turn in turns for batch in turn for pack_id in batch.pack_ids]
        assert sorted(own) == sorted(pack_id for batch in whole for pack_id in batch.pack_ids)
        assert len(own) == len(set(own)) > 1
        for stand_in in (batch for turn in turns for batch in turn if not batch.pack_ids):
            assert not stand_in.loss_mask.any()
            assert stand_in.valid_tokens == stand_in.attention_pairs == 0
            assert len(stand_in.input_ids) == 1
    stand_ins = sum(not batch.pack_ids for step in shared for turn in step for batch in turn)
    assert stand_ins > 0 if ranks > 4 else ranks > 2 or stand_ins == 0


@given(
    st.lists(
        st.tuples(st.sampled_from([128, 512]), st.integers(1, 10**9)), min_size=1, max_size=90
    ),
    st.integers(1, 9),
)
def test_each_rank_gets_as_many_rows_of_each_length(
    rows: list[tuple[int, int]], ranks: int
) -> None:
    lengths, pairs = (np.array(each, dtype=np.int64) for each in zip(*rows, strict=True))
    rank = deal(lengths, pairs, ranks)
    for length in set(lengths.tolist()):
        counts = np.bincount(rank[lengths == length], minlength=ranks)
        assert counts.max() - counts.min() <= 1
    assert np.array_equal(rank, deal(lengths, pairs, ranks))
    assert np.bincount(rank, weights=pairs).max() <= 1.01 * pairs.sum() / ranks + pairs.max()


def test_a_row_of_few_pairs_is_exchanged_for_one_of_many() -> None:
    same = np.full(5, 512)
    assert deal(same, np.array([9, 1, 5, 4, 2]), 2).tolist() == [0, 0, 1, 1, 0]
    assert deal(same, np.array([9, 1, 5, 4, 2]), 1).tolist() == [0] * 5
    # Dealt there and back alone, rank 0 has 9 + 5 + 1 and rank 1 has 8 + 5 + 1 + 1.
    assert deal(np.full(4, 512), np.array([7, 5, 4, 4]), 2).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("mean_log", [5.1, 6.5, 8.0])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_attention_of_eight_rows_a_rank_is_even(mean_log: float, ranks: int) -> None:
    random, length, row_count = np.random.default_rng(3), 16_384, 8
    unmatched = 0
    for _ in range(12):
        pairs = np.array([_pairs(random, length, mean_log) for _ in range(ranks * row_count)])
        rank = deal(np.full(len(pairs), length), pairs, ranks)
        loads = np.bincount(rank, weights=pairs, minlength=ranks)
        # A row that outweighs its rank's share can be dealt no other way: it has the smallest beside it.
        least = np.sort(pairs)
        bound = (least[-1] + least[: row_count - 1].sum()) / loads.mean()
        unmatched += bound > 1.05
        assert loads.max() / loads.mean() <= max(1.05, 1.03 * bound)
    assert unmatched < 8


def _pairs(random: np.random.Generator, length: int, mean_log: float) -> int:
    """Attention pairs of a row of documents of log-normal lengths."""
    pairs, left = 0, length
    while left:
        document = min(max(int(random.lognormal(mean_log, 1.1)), 8), left)
        pairs, left = pairs + document * (document + 1) // 2, left - document
    return pairs


def test_an_item_may_be_seen_before_it_is_taken() -> None:
    items = Lookahead(iter([1, 2]))
    assert [items.peek(), items.peek(), next(items), items.peek(), next(items)] == [1, 1, 1, 2, 2]
    assert items.peek() is None
    assert list(items) == []


def test_what_fails_ahead_is_raised_when_it_is_taken() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise MixtureError("position 2", cause="there lies another", cure="Mix the phase again")

    items = Lookahead(failing())
    assert next(items) == 1
    assert items.peek() is None
    with pytest.raises(MixtureError, match="position 2"):
        next(items)


def test_a_rank_reads_its_own_rows_only(world: Any) -> None:
    job = world.job(steps=1, micro_positions=256)
    rows = PlannedRows.from_job(job, world.store.root)
    read: list[int] = []
    get = rows.__class__.__getitem__

    class Watched(PlannedRows):
        def __getitem__(self, position: int) -> Row:
            read.append(position)
            return get(self, position)

    watched = Watched(rows.path, rows.folders)
    (step,) = steps_of(job, watched, first_step=0, workers=0, rank=1, ranks=2)
    assert len(read) == sum(len(batch.pack_ids) for batch in step) < 6


def test_a_row_says_what_lies_in_its_shard(world: Any) -> None:
    rows = PlannedRows.from_job(world.job(), world.store.root)
    planned = pq.read_table(world.plan.path / "plan.parquet").to_pylist()
    assert len(rows) == len(planned) > 60
    for position in (0, 1, 2, len(planned) - 1):
        row = rows[position]
        assert row.pack_id == planned[position]["pack_id"]
        assert len(row.input_ids) == planned[position]["row_length"]
        scored = np.flatnonzero(row.loss_mask)
        assert np.array_equal(row.target_ids[scored], row.input_ids[scored + 1])
        assert (row.target_ids[row.loss_mask == 0] == 0).all()


def test_last_token_of_a_document_never_predicts_the_next(world: Any) -> None:
    rows = PlannedRows.from_job(world.job(), world.store.root)
    for position in range(6):
        batch = collate([rows[position]])
        ends = torch.tensor(batch.boundaries.lengths).cumsum(0) - 1
        assert batch.loss_mask[0].sum() > 50
        assert (batch.loss_mask[0, ends] == 0).all()
        assert (batch.target_ids[0, ends] == 0).all()


def test_a_collated_batch_carries_what_other_models_take(world: Any) -> None:
    rows = PlannedRows.from_job(world.job(), world.store.root)
    batch = collate([rows[0], rows[0]])
    tensors = batch.tensors()
    assert tensors["input_ids"].shape == tensors["position_ids"].shape == (2, 256)
    assert tensors["cu_seqlens"][0] == 0
    assert tensors["cu_seqlens"][-1] == 512
    assert batch.valid_tokens == 2 * rows[0].valid_token_count
    assert batch.positions == 512


def test_steps_have_the_same_positions_whatever_the_row_lengths(world: Any) -> None:
    job = world.job()
    steps = list(
        steps_of(job, PlannedRows.from_job(job, world.store.root), first_step=0, workers=0)
    )
    assert len(steps) == job.steps
    for step in steps:
        assert sum(batch.positions for batch in step) == job.tokens_per_step
        assert {batch.input_ids.shape[1] for batch in step} == {128, 256}
        assert all(batch.positions <= job.micro_positions for batch in step)


@pytest.mark.system
def test_order_does_not_depend_on_the_number_of_workers(world: Any) -> None:
    job = world.job(steps=6)

    def seen(workers: int) -> list[Batch]:
        rows = PlannedRows.from_job(job, world.store.root)
        return list(itertools.chain(*steps_of(job, rows, first_step=1, workers=workers)))

    alone, shared = seen(0), seen(2)
    assert len(alone) >= 10
    assert [batch.pack_ids for batch in alone] == [batch.pack_ids for batch in shared]
    for one, other in zip(alone, shared, strict=True):
        for name, values in one.tensors().items():
            assert torch.equal(values, other.tensors()[name]), name


def test_rows_that_the_plan_does_not_mean_are_refused(world: Any, tmp_path: Path) -> None:
    job = world.job()
    table = pq.read_table(world.plan.path / "plan.parquet")
    moved = table.set_column(
        7, PLAN_SCHEMA.field("row"), pa.array(np.full(len(table), 1, np.int32))
    )
    pq.write_table(moved, tmp_path / "plan.parquet")
    folders = {each.key: world.store.root / each.path for each in job.rows}
    with pytest.raises(MixtureError, match=r"^position 0 of the plan: .*-0000000000;"):
        PlannedRows(tmp_path / "plan.parquet", folders)[0]
    with pytest.raises(MixtureError, match=r"^position 0 of the plan: [^;-]*;"):
        PlannedRows(tmp_path / "plan.parquet", {})[0]


def test_a_row_outside_its_shard_is_refused(world: Any) -> None:
    shards = Shards(world.rows[0].path)
    assert shards.row(1, 0).pack_id.endswith("-0000000012")
    for shard, row in ((0, 12), (2, 0)):
        with pytest.raises(SchemaError, check=fields(value=f"row {row} of shard {shard}")):
            shards.row(shard, row)


def test_a_plan_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(MixtureError, check=fields(name=tmp_path / "plan.parquet")):
        PlanReader(tmp_path / "plan.parquet")


def test_micro_batches_for_other_trainers_are_those_of_ours(world: Any) -> None:
    job = world.job(steps=4)
    rows = PlannedRows.from_job(job, world.store.root)
    ours = itertools.chain(*steps_of(job, rows, first_step=1, workers=0))
    theirs = list(loader_of(job, world.store.root, first_step=1))
    assert len(theirs) > 4
    for one, other in zip(ours, theirs, strict=True):
        assert one.tensors().keys() == other.keys()
        assert all(torch.equal(one.tensors()[name], other[name]) for name in other)


def test_a_workers_error_keeps_its_name_and_cure(world: Any, tmp_path: Path) -> None:
    job = world.job()
    table = pq.read_table(world.plan.path / "plan.parquet")
    moved = table.set_column(
        7, PLAN_SCHEMA.field("row"), pa.array(np.full(len(table), 1, np.int32))
    )
    pq.write_table(moved, tmp_path / "plan.parquet")
    folders = {each.key: world.store.root / each.path for each in job.rows}
    rows = PlannedRows(tmp_path / "plan.parquet", folders)
    with pytest.raises(MixtureError, match=r"^position 0 of the plan: ") as said:
        next(steps_of(job, rows, first_step=0, workers=1))
    assert said.value.cure


def test_workers_start_deaf_to_interrupts(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C reaches them too; what they inherit, they have from their first moment."""
    deaf: list[bool] = []
    made = module._loader

    class Starting:
        """Starts no worker, and sees what one would inherit."""

        def __init__(self, *arguments: Any, workers: int, ranks: int) -> None:
            self.loader = made(*arguments, workers=0, ranks=ranks)

        def __iter__(self) -> Any:
            deaf.append(is_deaf())
            return iter(self.loader)

    def is_deaf() -> bool:
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())

    monkeypatch.setattr(module, "_loader", Starting)
    rows = PlannedRows.from_job(world.job(), world.store.root)
    next(steps_of(world.job(), rows, first_step=0, workers=1))
    assert (deaf, is_deaf()) == ([True], False)


class Mortal(PlannedRows):
    """Rows whose reader dies at a position, as one does that memory runs out on."""

    def __init__(self, plan: Path, rows: dict[str, Path], end: int) -> None:
        super().__init__(plan, rows)
        self.end = end

    def __getitem__(self, position: int) -> Row:
        if position == self.end:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(position)

    def __reduce__(self) -> tuple[object, ...]:
        return Mortal, (self.path, self.folders, self.end)


DEATH = r"1 workers that load rows: .*; one of them died, often"


def zombie_children() -> set[int]:
    children = psutil.Process().children()
    return {each.pid for each in children if each.status() == psutil.STATUS_ZOMBIE}


def test_a_worker_that_dies_is_said_to_have(world: Any) -> None:
    job = world.job()
    whole = PlannedRows.from_job(job, world.store.root)
    with pytest.raises(JobError, match=DEATH):
        list(steps_of(job, Mortal(whole.path, whole.folders, 2), first_step=0, workers=1))


def test_a_death_beside_a_step_is_an_error_of_the_next_one_alone(world: Any) -> None:
    """Torch's handler of SIGCHLD would raise in the midst of whatever the trainer does."""
    job, before = world.job(), zombie_children()
    whole = PlannedRows.from_job(job, world.store.root)
    batches = MicroBatches.from_job(job, whole)
    # It is asked for when the first step is there: a worker is three micro-batches ahead.
    end = list(batches)[len(batches.of_step(0)) + 2][0]
    steps = steps_of(job, Mortal(whole.path, whole.folders, end), first_step=0, workers=1)
    next(steps)
    while not (dead := zombie_children() - before):
        time.sleep(0.01)
    # Its threads may end after its first one; only then is its parent signalled.
    os.waitid(os.P_PID, dead.pop(), os.WEXITED | os.WNOWAIT)
    with pytest.raises(JobError, match=DEATH):
        next(steps)
