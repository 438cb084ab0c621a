"""One optimizer step: its micro-batches shared among ranks, one gradient of one loss.

The loss of a step is Σ over its micro-batches ÷ their scored targets, whatever rank computes what. A loss or
gradient that isn't finite is traced to its rows and documents.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Literal

import torch
from pydantic import TypeAdapter
from torch import Tensor
from torch.nn.utils import get_total_norm

from curriculum import parquet
from curriculum.model import loss
from curriculum.model.decoder import Decoder
from curriculum.model.loss import LossSums
from curriculum.model.masks import map_tensors
from curriculum.train.batch import Batch, tensors_in
from curriculum.train.device import mixed
from curriculum.train.distributed import ALONE, Ranks
from curriculum.train.optimizer import TrainState, whole, whole_model
from schemas.errors import NotFiniteError
from schemas.job import Job

LISTED = 8
_KEY_DIGITS = 12

What = Literal["the loss", "the gradient"]
Measure = Callable[[Batch], float]
"""The loss of a batch, or the norm of its gradient."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NonfiniteRow:
    """A row whose own loss or gradient isn't finite, and those of its documents of which that is true.

    No document where each is finite by itself and only their sum isn't.
    """

    pack_id: str
    documents: tuple[int, ...]
    """Documents by their numbers in the row."""
    document_ids: tuple[str, ...] = ()
    """Empty where the rows' files aren't there to ask."""

    def __str__(self) -> str:
        named = self.document_ids or tuple(f"number {number}" for number in self.documents)
        return f"{self.pack_id} ({_listed('document', named)})" if named else self.pack_id


@dataclass(frozen=True, kw_only=True, slots=True)
class RowVerdict:
    """Findings of the search row by row."""

    what: What
    rows: int
    blamed: tuple[NonfiniteRow, ...]

    def __str__(self) -> str:
        if not self.blamed:
            return (
                f"one by one {self.what} of all {self.rows} rows is finite, so their sum overflows"
            )
        if len(self.blamed) == self.rows > 1:
            return (
                f"one by one {self.what} of each of the {self.rows} rows isn't finite, so the weights "
                "are to blame rather than a row"
            )
        return (
            f"by itself {self.what} isn't finite for {_listed('row', list(map(str, self.blamed)))}"
        )


_FOUND = TypeAdapter(tuple[RowVerdict, list[str]])


@dataclass(frozen=True, kw_only=True, slots=True)
class FinitenessCheck:
    """Checks each step for finiteness, and finds the rows that break it."""

    model: Decoder
    step: int
    count: int
    """Scored targets of the step, by which its loss is divided."""
    z_weight: float
    folders: Mapping[str, Path]
    """Folders of the rows, by their keys, to name documents by their ids; may be empty."""
    ranks: Ranks = ALONE

    def require(self, value: float, what: What, batches: Sequence[Batch]) -> None:
        """Let a finite value pass; for another all ranks find the rows to blame, each among its batches.

        Raises:
            NotFiniteError: on every rank, naming the step, and the rows and documents that aren't finite by
                themselves.
        """
        if math.isfinite(value):
            return
        # Ranks that share rows have the same.
        real = [batch for batch in batches if batch.pack_ids and self.ranks.counts]
        rows = [name for batch in real for name in batch.pack_ids]
        found = self.ranks.gathered((self.find_nonfinite(what, real), rows), _FOUND)
        names = [name for _, own in found for name in own]
        verdict = RowVerdict(
            what=what,
            rows=sum(part.rows for part, _ in found),
            blamed=tuple(row for part, _ in found for row in part.blamed),
        )
        raise NotFiniteError(
            f"step {self.step}",
            f"{what} is {value} on the {_listed('row', names)}",
            cause=str(verdict),
            cure=_hint(verdict, self.step),
        )

    def find_nonfinite(self, what: What, batches: Sequence[Batch]) -> RowVerdict:
        """Ask row by row, and document by document in those rows; gradients that stand are dropped.

        Costs a forward pass of each row, for a gradient also a backward pass; of a row to blame as
        many as it has documents.
        """
        measure = self._loss if what == "the loss" else self._norm
        rows = [row for batch in batches for row in _rows(batch)]
        found = [row for row in rows if not math.isfinite(measure(row))]
        blamed = tuple(_blamed(row, measure, self.folders) for row in found)
        self.model.zero_grad()
        return RowVerdict(what=what, rows=len(rows), blamed=blamed)

    @torch.no_grad()
    def _loss(self, batch: Batch) -> float:
        return self._sums(batch).nll.item()

    def _norm(self, batch: Batch) -> float:
        self.model.zero_grad()
        sums = self._sums(batch)
        (sums.total / self.count).backward()  # type: ignore[no-untyped-call]
        gradients = [
            parameter.grad for parameter in self.model.parameters() if parameter.grad is not None
        ]
        return get_total_norm(gradients).item()

    def _sums(self, batch: Batch) -> LossSums:
        here = batch.to(self.model.head.weight.device)
        with mixed(here.input_ids.device):
            x_BTD = self.model.hidden(here.input_ids, here.boundaries, here.structure)
            return loss.loss_sums(
                x_BTD,
                self.model.head.weight,
                here.target_ids,
                here.loss_mask,
                z_weight=self.z_weight,
            )


def _blamed(row: Batch, measure: Measure, folders: Mapping[str, Path]) -> NonfiniteRow:
    (pack_id,) = row.pack_ids
    # Where documents read one another, none of them is to blame alone.
    alone = _documents(row) if row.masked else ()
    documents = tuple(number for number, each in alone if not math.isfinite(measure(each)))
    ids = row.document_ids[0] or _document_ids(pack_id, folders)
    return NonfiniteRow(
        pack_id=pack_id,
        documents=documents,
        document_ids=tuple(ids[number] for number in documents) if ids else (),
    )


def _rows(batch: Batch) -> Iterator[Batch]:
    for at, pack_id in enumerate(batch.pack_ids):
        one = slice(at, at + 1)
        yield replace(
            batch,
            input_ids=batch.input_ids[one],
            target_ids=batch.target_ids[one],
            loss_mask=batch.loss_mask[one],
            boundaries=batch.boundaries.select_row(at),
            structure=map_tensors(batch.structure, itemgetter(one)) if batch.structure else None,
            pack_ids=(pack_id,),
            document_ids=batch.document_ids[one],
        )


def _documents(row: Batch) -> Iterator[tuple[int, Batch]]:
    """The row once for each document that has scored targets, these alone scored."""
    doc_ids = row.boundaries.doc_ids
    for number in sorted(set(doc_ids[row.loss_mask.bool()].tolist())):
        yield number, replace(row, loss_mask=row.loss_mask * (doc_ids == number))


def _document_ids(pack_id: str, folders: Mapping[str, Path]) -> tuple[str, ...]:
    """The documents of a row, from its file."""
    mine = (each for key, each in folders.items() if pack_id.startswith(key[:_KEY_DIGITS]))
    folder = next(mine, None)
    if folder is None:
        return ()
    table = parquet.read_table(
        parquet.shards_of(folder),
        columns=["document_ids"],
        filters=[("pack_id", "=", pack_id)],
    )
    return tuple(table["document_ids"][0].as_py()) if table.num_rows else ()


def _hint(verdict: RowVerdict, step: int) -> str:
    if not verdict.blamed or len(verdict.blamed) == verdict.rows > 1:
        return "Lower the learning rate, and go back with --from-step to a checkpoint before it"
    rows = ",".join(each.pack_id for each in verdict.blamed[:LISTED])
    return (
        f"Look at them with curriculum inspect, and continue without them: --from-step {step - 1} "
        f"--without-rows {rows}"
    )


def _listed(thing: str, names: Sequence[str]) -> str:
    plural = "" if len(names) == 1 else "s"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{thing}{plural} {', '.join(names[:LISTED])}{more}"


class Prefetcher:
    """Batches on a device; on CUDA each is copied on a stream of its own while the one before is computed.

    Copies overlap only where the batches are pinned, as those of `steps_of` are for a job on CUDA.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._side = (
            torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            if device.type == "cuda"
            else None
        )
        self._coming: tuple[Batch, Batch, torch.cuda.Event] | None = None

    def send(self, batch: Batch) -> None:
        """Begin to copy a batch, the next that is taken; on a CPU nothing is copied ahead."""
        if self._side is not None and (self._coming is None or self._coming[0] is not batch):
            self._coming = (batch, *_sent(batch, self.device, self._side))

    def take(self, batch: Batch) -> Batch:
        """The batch on the device."""
        self.send(batch)
        if self._coming is None:
            return batch.to(self.device)
        (_, here, copied), self._coming = self._coming, None
        return _arrived(here, copied, self.device)

    def each(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        """The batches in order, each sent once the work on the one before was begun."""
        for batch, following in itertools.zip_longest(batches, batches[1:]):
            yield self.take(batch)
            if following is not None:
                self.send(following)


def _sent(
    batch: Batch, device: torch.device, side: torch.cuda.Stream
) -> tuple[Batch, torch.cuda.Event]:
    with torch.cuda.stream(side):
        return batch.to(device), side.record_event()


def _arrived(batch: Batch, copied: torch.cuda.Event, device: torch.device) -> Batch:
    here = torch.cuda.current_stream(device)
    here.wait_event(copied)
    for tensor in tensors_in(batch):
        # Else its memory could be given to the next copy while this stream still reads it.
        tensor.record_stream(here)
    return batch


@dataclass(frozen=True, kw_only=True, slots=True)
class Gradient:
    """Sums over one step's micro-batches."""

    loss: float
    z_loss: float
    norm: float
    documents: tuple[Tensor, ...]
    """Σ nll of the scored targets of each segment [S], one tensor per micro-batch, on the model's device.
    Segments are the documents and the padding of the rows laid end to end. Of ranks that share rows each
    has the sums over its own positions."""


def gradients(
    train_state: TrainState,
    batches: Sequence[Batch],
    job: Job,
    *,
    step: int,
    folders: Mapping[str, Path] | None = None,
    prefetcher: Prefetcher | None = None,
    send_next: Callable[[], None] = lambda: None,
) -> Gradient:
    """Accumulate the gradient of Σ loss / count of scored targets over a step, and clip it.

    `batches` are this rank's of the step, as many as every other's, and whole rows also where ranks share
    them. `folders` of the rows by their keys let documents be named where something isn't finite. `send_next`
    is called while a GPU still computes the last batch: what it sends to `prefetcher` is there when the next
    step begins.

    Raises:
        NotFiniteError: on every rank, where loss or gradient isn't finite, naming the rows to blame.
    """
    part = train_state.model.part
    (scored,) = train_state.ranks.total(
        [sum(int(part(batch.loss_mask).sum()) for batch in batches)]
    )
    count = max(int(scored), 1)

    def require_finite(value: float, what: What, suspects: Sequence[Batch]) -> None:
        if not math.isfinite(value):
            FinitenessCheck(
                model=whole_model(train_state, job),
                step=step,
                count=count,
                z_weight=job.optimizer.z_loss,
                folders=folders or {},
                ranks=train_state.ranks,
            ).require(value, what, suspects)

    # Sharded gradients are averaged over ranks; here they are to be summed.
    divisor = count / train_state.ranks.size
    prefetcher = prefetcher or Prefetcher(train_state.device)
    sums = [
        _backward(train_state, batch, divisor, job.optimizer.z_loss)
        for batch in prefetcher.each(batches)
    ]
    send_next()
    losses: list[list[float]] = torch.stack([each.step for each in sums]).tolist()
    suspects = [
        batch
        for batch, (nll, _) in zip(batches, losses, strict=True)
        # Of a shared row another rank's part may be to blame.
        if not math.isfinite(nll) or train_state.ranks.context is not None
    ]
    nll, z = train_state.ranks.total([sum(each) for each in zip(*losses, strict=True)])
    require_finite(nll, "the loss", suspects)
    clip = job.optimizer.gradient_clip
    norm = float(whole(torch.nn.utils.clip_grad_norm_(train_state.model.parameters(), clip)))
    require_finite(norm, "the gradient", batches)
    return Gradient(
        loss=nll / count,
        z_loss=job.optimizer.z_loss * z / count,
        norm=norm,
        documents=tuple(each.documents for each in sums),
    )


def optimizer_step(
    train_state: TrainState,
    batches: Sequence[Batch],
    job: Job,
    *,
    step: int,
    rate: float,
    folders: Mapping[str, Path] | None = None,
    prefetcher: Prefetcher | None = None,
    send_next: Callable[[], None] = lambda: None,
) -> Gradient:
    """Update the weights once from a step's micro-batches, at this learning rate; gradients are freed.

    The other arguments are those of `gradients`.

    Raises:
        NotFiniteError: on every rank, where loss or gradient isn't finite, naming the rows to blame.
    """
    for group in train_state.optimizer.param_groups:
        group["lr"] = rate
    gradient = gradients(
        train_state,
        batches,
        job,
        step=step,
        folders=folders,
        prefetcher=prefetcher,
        send_next=send_next,
    )
    train_state.optimizer.step()
    train_state.optimizer.zero_grad()
    return gradient


@dataclass(frozen=True, kw_only=True, slots=True)
class _BatchSums:
    """Sums over the scored targets of one micro-batch."""

    step: Tensor
    """[2]: Σ nll and Σ z."""
    documents: Tensor
    """[S]: Σ nll of each segment."""


def _backward(train_state: TrainState, batch: Batch, divisor: float, z_weight: float) -> _BatchSums:
    model = train_state.model
    mask_BT = model.part(batch.loss_mask)
    with mixed(train_state.device):
        x_BTD = model.hidden(batch.input_ids, batch.boundaries, batch.structure)
        sums = loss.loss_sums(
            x_BTD, model.head.weight, model.part(batch.target_ids), mask_BT, z_weight=z_weight
        )
    (sums.total / divisor).backward()  # type: ignore[no-untyped-call]
    segments_N = model.part(batch.boundaries.segments)[mask_BT.bool()]
    nll_S = sums.token_nll.new_zeros(len(batch.boundaries.lengths))
    return _BatchSums(
        step=torch.stack([sums.nll, sums.z]),
        documents=nll_S.index_add_(0, segments_N, sums.token_nll),
    )
