"""Batches of a plan's rows, for our trainer and for others.

    job = read_job(path)                                      # curriculum.train.run_directory
    for batch in loader_of(job, workspace):                   # micro-batches in the plan's order, as dicts
        loss = model(batch["input_ids"], batch["position_ids"] …

    rows = PlannedRows.from_job(job, workspace)               # a torch Dataset: the row at each position
    batches = DataLoader(rows, batch_sampler=MicroBatches.from_job(job, rows), collate_fn=as_tensors)

The order depends only on the plan, not on the number of workers or ranks. batch.py shows an example of a
batch. `as_tensors` returns all tensors of a batch by name; `for_transformers` returns the inputs of
Hugging Face models.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from curriculum.packing.read import GroupCache
from curriculum.train.batch import Batch, Row, Shards, blank, collate
from curriculum.train.distributed import deal, descending
from curriculum.train.loader_workers import batches_of, ignore_group_signals
from curriculum.train.plan_reader import PlanReader
from schemas.errors import CurriculumError, JobError, MixtureError
from schemas.job import Job
from schemas.study import study_mark

__all__ = [
    "Batch",
    "MicroBatches",
    "PlannedRows",
    "as_tensors",
    "blank",
    "collate",
    "for_transformers",
    "loader_of",
    "steps_of",
]

MAX_CACHE_BYTES = 1 << 28
"""Maximum bytes of decoded row groups in each process that reads: 20 million positions without structure."""
MAX_AHEAD = 32
"""Maximum number of micro-batches that a worker prepares ahead."""


def as_tensors(rows: Sequence[Row]) -> dict[str, Tensor]:
    """Combine rows of one length to tensors under the usual names; see `Batch.tensors`."""
    return collate(rows).tensors()


def for_transformers(rows: Sequence[Row]) -> dict[str, Tensor | bool]:
    """Combine rows of one length to inputs of Hugging Face causal models: int64 tensors and use_cache.

    The tensors are [B, T]. Labels are at the position of the predicted token, because the models shift them.
    Documents [5 6 7] [8 9]: input_ids [5 6 7 8 9], position_ids [0 1 2 0 1], labels [-100 6 7 -100 9].

    `use_cache` is False. The models keep documents separate by position_ids that restart, but only without a
    cache. By default they use a cache, and with a cache every document sees the documents before it.
    """
    batch = collate(rows)
    return {
        "input_ids": batch.input_ids.long(),
        "position_ids": batch.boundaries.position_ids.long(),
        "labels": batch.labels(),
        "use_cache": False,
    }


class PlannedRows(Dataset[Row]):
    """Dataset of the rows of a plan by position. MicroBatches or any other sampler supplies the positions.

    With `structure`, rows include their structure, if they have any.
    """

    def __init__(self, plan: Path, rows: dict[str, Path], *, structure: bool = False) -> None:
        self.path = plan
        self.folders = rows
        self.structure = structure
        self.plan = PlanReader(plan)
        self.cache = GroupCache(MAX_CACHE_BYTES)
        self.shards = {
            key: Shards(folder, cache=self.cache, structure=structure)
            for key, folder in rows.items()
        }

    @staticmethod
    def from_job(job: Job, workspace: Path) -> "PlannedRows":
        """Open the rows of a job. The job's paths are relative to `workspace`."""
        return PlannedRows(
            workspace / job.plan,
            {rows.key: workspace / rows.path for rows in job.rows},
            structure=job.model.structure,
        )

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, position: int) -> Row:
        """Return the row at a position. Its arrays are views of cached data: don't write to them.

        Raises:
            MixtureError: if the job doesn't list the plan's rows, or the rows aren't those of the plan.
        """
        planned = self.plan.at(position)
        shards = self.shards.get(planned.rows_key)
        if shards is None:
            raise _plan_mismatch(position, planned.rows_key, "the job doesn't list these rows")
        row = shards.row(planned.shard, planned.row)
        if row.pack_id != planned.pack_id:
            raise _plan_mismatch(position, planned.pack_id, f"the shard has row {row.pack_id}")
        return row

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the arguments, so that a worker process opens the files again."""
        opened = functools.partial(PlannedRows, structure=self.structure)
        return opened, (self.path, self.folders)


class MicroBatches(Sampler[list[int]]):
    """Sampler that yields the positions of each micro-batch, step by step, for one of several ranks.

    Within a step, rows are grouped by length, so that a micro-batch has one T: lengths 2 1 1 2 1 in
    micro-batches of 2 positions -> [0] [3] [1 2] [4].

    All ranks have equally many micro-batches per step, so that all of them take part in every forward and
    backward pass of sharded layers. `deal` distributes the rows. A rank with too few rows of a length gets
    stand-ins: copies of the step's first row of this length. `steps_of` turns stand-ins into blanks.
    """

    def __init__(
        self,
        plan: PlanReader,
        *,
        slots_per_step: int,
        micro_positions: int,
        steps: range,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self.plan = plan
        self.slots_per_step = slots_per_step
        self.micro_positions = micro_positions
        self.steps = steps
        self.rank, self.ranks = rank, ranks

    @staticmethod
    def from_job(
        job: Job, rows: PlannedRows, *, first_step: int = 0, rank: int = 0, ranks: int = 1
    ) -> "MicroBatches":
        """Return the micro-batches of a job's steps from `first_step` on."""
        return MicroBatches(
            rows.plan,
            slots_per_step=job.slots_per_step,
            micro_positions=job.micro_positions,
            steps=range(first_step, job.steps),
            rank=rank,
            ranks=ranks,
        )

    def __iter__(self) -> Iterator[list[int]]:
        return (positions for step in self.steps for positions, _ in self.of_step(step))

    def of_step(self, step: int) -> list[tuple[list[int], bool]]:
        """Return the positions of each micro-batch of a step, each with False for a stand-in, else True."""
        first = step * self.slots_per_step
        rows = self.plan.slots(first, first + self.slots_per_step)
        dealt = deal(rows.row_lengths, rows.attention_pairs, self.ranks)
        share: list[tuple[list[int], bool]] = []
        for length in descending(rows.row_lengths):
            at_once = max(self.micro_positions // length, 1)
            same = np.flatnonzero(rows.row_lengths == length)
            own = (same[dealt[same] == self.rank] + rows.start).tolist()
            most = np.bincount(dealt[same], minlength=self.ranks).max()
            missing = -(-int(most) // at_once) - -(-len(own) // at_once)
            share += [(own[at : at + at_once], True) for at in range(0, len(own), at_once)]
            share += [([rows.start + int(same[0])], False)] * missing
        return share


def loader_of(
    job: Job,
    workspace: Path,
    *,
    first_step: int = 0,
    rank: int = 0,
    ranks: int = 1,
    collate_fn: Callable[[list[Row]], Any] = as_tensors,
) -> "DataLoader[Row]":
    """Return a DataLoader of a job's micro-batches from `first_step` on. `collate_fn` combines their rows.

    A micro-batch has rows of one length and at most `job.micro_positions` positions. The micro-batches of a
    step have `job.tokens_per_step` positions in total. Every rank gets its own rows, distributed by `deal`.
    If the rows can't be divided evenly, a rank gets a copy of another rank's row.

    Raises:
        JobError: for a job of a study, because other training loops don't switch masks and positions.
    """
    if job.study is not None and job.study.acts_in_training:
        raise JobError(
            "study",
            study_mark(job.study),
            cause="only curriculum's own training loop applies studies; this loader returns rows with masks "
            "and restarting positions",
            cure="Use a job without a study, or train it with `curriculum run`",
        )
    rows = PlannedRows.from_job(job, workspace)
    sampler = MicroBatches.from_job(job, rows, first_step=first_step, rank=rank, ranks=ranks)
    return _loader(job, rows, sampler, collate_fn, workers=job.workers, ranks=ranks)


def steps_of(
    job: Job, rows: PlannedRows, *, first_step: int, workers: int, rank: int = 0, ranks: int = 1
) -> Iterator[list[Batch]]:
    """Yield all micro-batches of each step together, from `first_step` on.

    Every rank reads only its own rows. All ranks get equally many micro-batches; missing ones are blanks.
    Workers prepare the next step during the current one. Batches of a job on CUDA are in pinned memory.

    Raises:
        JobError: for ids outside the model's vocabulary, and for a worker that died.
        MixtureError: if plan and rows don't match.
    """
    sampler = MicroBatches.from_job(job, rows, first_step=first_step, rank=rank, ranks=ranks)
    # The loader runs ahead of the trainer by the batches that its workers prepare; tee keeps the steps in
    # between.
    ahead, shares = itertools.tee(map(sampler.of_step, sampler.steps))
    positions = (positions for share in ahead for positions, _ in share)
    loader = _loader(
        job, _Checked(rows, job), positions, _as_they_are, workers=workers, ranks=ranks
    )
    batches = batches_of(loader, workers)
    for step, share in zip(sampler.steps, shares, strict=True):
        if not share:
            raise JobError(
                f"step {step + 1}",
                cause=f"the plan ends before this step, and the job has {job.steps} steps",
                cure="Mix the phase again, and start a new run of it",
            )
        made: list[Batch] = []
        for _, is_own in share:
            batch = next(batches)
            if isinstance(batch, CurriculumError):
                raise batch
            made.append(batch if is_own else blank(batch))
        yield made


T = TypeVar("T")


class Lookahead(Iterator[T]):
    """Iterator whose next item can be inspected before it is taken."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._seen: list[T] = []
        self._failed: Exception | None = None

    def __next__(self) -> T:
        if self._failed is not None:
            raise self._failed
        return self._seen.pop() if self._seen else next(self._items)

    def peek(self) -> T | None:
        """Return the next item without taking it.

        None at the end, and if reading failed; `next` then raises the error.
        """
        if not self._seen and self._failed is None:
            try:
                self._seen.append(next(self._items))
            except Exception as failed:
                # The step in progress is complete and counts; the next one raises.
                self._failed = failed
        return self._seen[0] if self._seen else None


class _Checked(Dataset[Any]):
    """Dataset of whole micro-batches.

    An error is returned as a value, since worker exceptions lose their type.
    """

    def __init__(self, rows: PlannedRows, job: Job) -> None:
        self.rows, self.job = rows, job

    def __getitem__(self, position: int) -> "Batch | CurriculumError":
        return self.__getitems__([position])

    def __getitems__(self, positions: list[int]) -> "Batch | CurriculumError":
        try:
            batch = self._collated(positions)
            require_trainable(batch, self.job.model.vocab_size)
        except CurriculumError as failed:
            return failed
        return batch

    def _collated(self, positions: list[int]) -> Batch:
        """Combine rows of one step to a batch. A study may set the masks and positions for this step."""
        rows, study = [self.rows[position] for position in positions], self.job.study
        if study is None:
            return collate(rows)
        step = self.rows.plan.at(positions[0]).slot // self.job.slots_per_step
        return collate(
            rows,
            masked=study.is_masked(step, self.job.steps),
            restart=study.positions == "reset",
        )


def require_trainable(batch: Batch, vocab_size: int) -> None:
    """Raise unless every id is below vocab_size and every row has a target.

    Raises:
        JobError: names the first faulty row, with the id and its position.
    """
    ids_BT = batch.input_ids
    low, high = (int(bound) for bound in ids_BT.aminmax())
    if low < 0 or high >= vocab_size:
        row, token = ((ids_BT < 0) | (ids_BT >= vocab_size)).nonzero()[0].tolist()
        raise JobError(
            f"row {batch.pack_ids[row]}",
            f"id {int(ids_BT[row, token])} at token {token}",
            cause=f"the model has the ids 0 to {vocab_size - 1}",
            cure="Run `curriculum check` on the rows, and build them again with the job's tokenizer",
        )
    scored_B = batch.loss_mask.any(dim=1)
    if not bool(scored_B.all()):
        raise JobError(
            f"row {batch.pack_ids[int(scored_B.int().argmin())]}",
            cause="the row has no scored target",
            cure="Run `curriculum check` on the rows, and build them again",
        )


def _as_they_are(batch: Any) -> Any:
    return batch


def _loader(
    job: Job,
    rows: "Dataset[Any]",
    sampler: Iterable[list[int]],
    collate_fn: Callable[[list[Any]], Any],
    *,
    workers: int,
    ranks: int,
) -> "DataLoader[Any]":
    """Return a DataLoader whose workers prepare one step and one micro-batch ahead."""
    of_a_step = -(-job.tokens_per_step // job.micro_positions // ranks)
    return DataLoader(
        rows,
        batch_sampler=sampler,
        collate_fn=collate_fn,
        num_workers=workers,
        prefetch_factor=min(of_a_step // workers + 1, MAX_AHEAD) if workers else None,
        pin_memory=job.device == "cuda" and torch.cuda.is_available(),
        multiprocessing_context="spawn" if workers else None,
        worker_init_fn=ignore_group_signals,
        # Otherwise every new loader draws from the global generator, and a resumed run starts one more.
        generator=torch.Generator(),
    )


def _plan_mismatch(position: int, value: str, cause: str) -> MixtureError:
    return MixtureError(
        f"position {position} of the plan", value, cause=cause, cure="Mix the phase again"
    )
