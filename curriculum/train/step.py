"""One optimizer step. Ranks share its micro-batches and compute one gradient of one loss.

The loss of a step is the sum over its micro-batches divided by the number of scored targets. It doesn't
matter which rank computes which batch. If the loss or the gradient isn't finite, the step searches for
the rows and documents that cause it.
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
from curriculum.train.device import mixed_precision
from curriculum.train.distributed import ALONE, Ranks
from curriculum.train.optimizer import TrainState, gather_whole, whole_model
from schemas.errors import NotFiniteError
from schemas.job import Job

MAX_LISTED = 8
_KEY_DIGITS = 12

What = Literal["the loss", "the gradient"]
Measure = Callable[[Batch], float]
"""Function that computes the loss of a batch, or the norm of the gradient of this loss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NonfiniteRow:
    """Row whose loss or gradient isn't finite, and those of its documents that cause this by themselves.

    The list of documents is empty if each document is finite by itself and only their sum isn't.
    """

    pack_id: str
    documents: tuple[int, ...]
    """Numbers of these documents in the row."""
    document_ids: tuple[str, ...] = ()
    """Ids of these documents. Empty if the files of the rows aren't available."""

    def __str__(self) -> str:
        named = self.document_ids or tuple(f"number {number}" for number in self.documents)
        return f"{self.pack_id} ({_listed('document', named)})" if named else self.pack_id


@dataclass(frozen=True, kw_only=True, slots=True)
class RowVerdict:
    """Result of the search for rows that aren't finite."""

    what: What
    rows: int
    blamed: tuple[NonfiniteRow, ...]

    def __str__(self) -> str:
        if not self.blamed:
            return f"{self.what} of each of the {self.rows} rows is finite, so their sum overflows"
        if len(self.blamed) == self.rows > 1:
            return (
                f"{self.what} isn't finite for any of the {self.rows} rows, so the cause is the weights "
                "rather than a row"
            )
        return f"{self.what} isn't finite for {_listed('row', list(map(str, self.blamed)))} alone"


_FOUND = TypeAdapter(tuple[RowVerdict, list[str]])


@dataclass(frozen=True, kw_only=True, slots=True)
class FinitenessCheck:
    """Check whether a step is finite, and search for the rows that cause it if not."""

    model: Decoder
    step: int
    count: int
    """Number of scored targets in the step. The loss is divided by it."""
    z_weight: float
    folders: Mapping[str, Path]
    """Folders of rows by key, in which document ids are looked up. May be empty."""
    ranks: Ranks = ALONE

    def require(self, value: float, what: What, batches: Sequence[Batch]) -> None:
        """Raise unless `value` is finite.

        Before that, all ranks search their batches for the rows that cause it.

        Raises:
            NotFiniteError: on every rank; names the step, and the rows and documents that aren't finite by
                themselves.
        """
        if math.isfinite(value):
            return
        # Ranks that share rows have the same rows; one of them counts.
        real = [batch for batch in batches if batch.pack_ids and self.ranks.counts]
        rows = [name for batch in real for name in batch.pack_ids]
        found = self.ranks.gather((self.find_nonfinite(what, real), rows), _FOUND)
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
        """Check each row by itself, then each document of the rows that aren't finite.

        Existing gradients are dropped. It takes a forward pass per row and, for a gradient, a backward pass.
        A row that isn't finite takes as many passes again as it has documents.
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
        with mixed_precision(here.input_ids.device):
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
    # If documents see each other, none of them alone is responsible.
    alone = _documents(row) if row.masked else ()
    documents = tuple(number for number, document in alone if not math.isfinite(measure(document)))
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
    """Yield a copy of the row for each document with targets, in which only this document is scored."""
    doc_ids = row.boundaries.doc_ids
    for number in sorted(set(doc_ids[row.loss_mask.bool()].tolist())):
        yield number, replace(row, loss_mask=row.loss_mask * (doc_ids == number))


def _document_ids(pack_id: str, folders: Mapping[str, Path]) -> tuple[str, ...]:
    """Read the ids of the documents in a row from the row's shard."""
    mine = (folder for key, folder in folders.items() if pack_id.startswith(key[:_KEY_DIGITS]))
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
        return "Lower the learning rate, and resume from an earlier checkpoint with --from-step"
    rows = ",".join(row.pack_id for row in verdict.blamed[:MAX_LISTED])
    return (
        f"Inspect the rows with curriculum inspect, and continue without them: --from-step {step - 1} "
        f"--without-rows {rows}"
    )


def _listed(thing: str, names: Sequence[str]) -> str:
    plural = "" if len(names) == 1 else "s"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{thing}{plural} {', '.join(names[:MAX_LISTED])}{more}"


class Prefetcher:
    """Copier of batches to a device. On CUDA it copies a batch while the previous one is computed.

    The two overlap only for batches in pinned memory. `steps_of` returns such batches for a job on CUDA.
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
        """Start to copy the batch that `take` returns next. On a CPU nothing is copied ahead."""
        if self._side is not None and (self._coming is None or self._coming[0] is not batch):
            self._coming = (batch, *_sent(batch, self.device, self._side))

    def take(self, batch: Batch) -> Batch:
        """Return the batch on the device. It may have been sent before."""
        self.send(batch)
        if self._coming is None:
            return batch.to(self.device)
        (_, here, copied), self._coming = self._coming, None
        return _arrived(here, copied, self.device)

    def each(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        """Yield the batches in order, on the device.

        A batch is sent after the work on the previous one has started.
        """
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
        # Otherwise its memory could be reused for the next copy while this stream still reads it.
        tensor.record_stream(here)
    return batch


@dataclass(frozen=True, kw_only=True, slots=True)
class Gradient:
    """Sums over the micro-batches of one step, after its gradient was computed."""

    loss: float
    z_loss: float
    norm: float
    documents: tuple[Tensor, ...]
    """Sum of the losses of each segment's scored targets: a tensor [S] per micro-batch, on the device.

    Segments are the documents and the padding of the concatenated rows. Ranks that share rows have the sums
    over their own positions.
    """


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
    """Compute the gradient of Σ loss / number of scored targets over all batches of a step, and clip it.

    `batches` are this rank's batches of the step. All ranks have equally many, with whole rows even if ranks
    share rows. With `folders` (the rows' folders by key), errors can name documents. `send_next` is called
    while a GPU still computes the last batch. A batch that it sends to `prefetcher` is on the device when the
    next step begins.

    Raises:
        NotFiniteError: on every rank, if loss or gradient isn't finite; names the rows responsible.
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

    # FSDP averages gradients over ranks, but they must be summed.
    divisor = count / train_state.ranks.size
    prefetcher = prefetcher or Prefetcher(train_state.device)
    sums = [
        _backward(train_state, batch, divisor, job.optimizer.z_loss)
        for batch in prefetcher.each(batches)
    ]
    send_next()
    losses: list[list[float]] = torch.stack([part_sums.step for part_sums in sums]).tolist()
    suspects = [
        batch
        for batch, (nll, _) in zip(batches, losses, strict=True)
        # Another rank's part of a shared row may be responsible.
        if not math.isfinite(nll) or train_state.ranks.context is not None
    ]
    nll, z = train_state.ranks.total([sum(column) for column in zip(*losses, strict=True)])
    require_finite(nll, "the loss", suspects)
    clip = job.optimizer.gradient_clip
    norm = float(gather_whole(torch.nn.utils.clip_grad_norm_(train_state.model.parameters(), clip)))
    require_finite(norm, "the gradient", batches)
    return Gradient(
        loss=nll / count,
        z_loss=job.optimizer.z_loss * z / count,
        norm=norm,
        documents=tuple(part_sums.documents for part_sums in sums),
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
    """Update the weights once from the batches of a step, with the learning rate `rate`.

    Then free the gradients. The other arguments are those of `gradients`.

    Raises:
        NotFiniteError: on every rank, if loss or gradient isn't finite; names the rows responsible.
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
    """Sum of the losses and sum of the z-losses, [2]."""
    documents: Tensor
    """Sum of the losses of each segment, [S]."""


def _backward(train_state: TrainState, batch: Batch, divisor: float, z_weight: float) -> _BatchSums:
    model = train_state.model
    mask_BT = model.part(batch.loss_mask)
    with mixed_precision(train_state.device):
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
