"""Rows of a step, and documents in them, with a loss or gradient that isn't finite."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from curriculum import parquet
from curriculum.model.decoder import Decoder
from curriculum.model.loss import LossSums, loss_sums
from curriculum.model.masks import Boundaries
from curriculum.model.structure import Structure
from curriculum.train.batch import Batch
from curriculum.train.device import mixed
from schemas.errors import NotFiniteError

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
        named = self.document_ids or tuple(f"number {each}" for each in self.documents)
        return f"{self.pack_id} ({_listed('document', named)})" if named else self.pack_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
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

    def require(self, value: float, what: What, batches: Sequence[Batch]) -> None:
        """Let a finite value pass; for another find the rows of `batches` that are to blame.

        Raises:
            NotFiniteError: naming the step, and the rows and documents that aren't finite by themselves.
        """
        if math.isfinite(value):
            return
        verdict = self.find_nonfinite(what, batches)
        names = [each for batch in batches for each in batch.pack_ids]
        raise self.refusal(value, what, names, verdict)

    def refusal(
        self, value: float, what: What, names: Sequence[str], verdict: Verdict
    ) -> NotFiniteError:
        """The error that names the rows of a value that isn't finite, and what came of asking them."""
        return NotFiniteError(
            f"step {self.step}",
            f"{what} is {value} on the {_listed('row', names)}",
            cause=str(verdict),
            cure=_hint(verdict, self.step),
        )

    def find_nonfinite(self, what: What, batches: Sequence[Batch]) -> Verdict:
        """Ask row by row, and document by document in those rows; gradients that stand are dropped.

        Costs a forward pass of each row, for a gradient also a backward pass; of a row to blame as
        many as it has documents.
        """
        measure = self._loss if what == "the loss" else self._norm
        rows = [row for batch in batches for row in _rows(batch)]
        found = [row for row in rows if not math.isfinite(measure(row))]
        blamed = tuple(_blamed(row, measure, self.folders) for row in found)
        self.model.zero_grad()
        return Verdict(what=what, rows=len(rows), blamed=blamed)

    @torch.no_grad()
    def _loss(self, batch: Batch) -> float:
        return self._sums(batch).nll.item()

    def _norm(self, batch: Batch) -> float:
        self.model.zero_grad()
        sums = self._sums(batch)
        loss: Tensor = (sums.nll + self.z_weight * sums.z) / self.count
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [each.grad for each in self.model.parameters() if each.grad is not None]
        return get_total_norm(gradients).item()

    def _sums(self, batch: Batch) -> LossSums:
        here = batch.to(self.model.head.weight.device)
        with mixed(here.input_ids.device):
            x_BTD = self.model.hidden(here.input_ids, here.boundaries, here.structure)
            return loss_sums(x_BTD, self.model.head.weight, here.target_ids, here.loss_mask)


def _blamed(row: Batch, measure: Measure, folders: Mapping[str, Path]) -> NonfiniteRow:
    (pack_id,) = row.pack_ids
    documents = tuple(
        number for number, each in _documents(row) if not math.isfinite(measure(each))
    )
    ids = row.document_ids[0] or _document_ids(pack_id, folders)
    return NonfiniteRow(
        pack_id=pack_id,
        documents=documents,
        document_ids=tuple(ids[each] for each in documents) if ids else (),
    )


def _rows(batch: Batch) -> Iterator[Batch]:
    for at, pack_id in enumerate(batch.pack_ids):
        one = slice(at, at + 1)
        yield replace(
            batch,
            input_ids=batch.input_ids[one],
            target_ids=batch.target_ids[one],
            loss_mask=batch.loss_mask[one],
            boundaries=Boundaries.of(batch.boundaries.doc_ids[one]),
            structure=_structure(batch.structure, one) if batch.structure else None,
            pack_ids=(pack_id,),
            document_ids=batch.document_ids[one],
        )


def _structure(structure: Structure, rows: slice) -> Structure:
    return replace(
        structure, **{each.name: getattr(structure, each.name)[rows] for each in fields(structure)}
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
        sorted(folder.glob("part-*.parquet")),
        columns=["document_ids"],
        filters=[("pack_id", "=", pack_id)],
    )
    return tuple(table["document_ids"][0].as_py()) if table.num_rows else ()


def _hint(verdict: Verdict, step: int) -> str:
    if not verdict.blamed or len(verdict.blamed) == verdict.rows > 1:
        return "Lower the learning rate, and go back with --from-step to a checkpoint before it"
    rows = ",".join(each.pack_id for each in verdict.blamed[:LISTED])
    return (
        f"Look at them with curriculum inspect, and go on without them: --from-step {step - 1} "
        f"--without-rows {rows}"
    )


def _listed(thing: str, names: Sequence[str]) -> str:
    plural = "" if len(names) == 1 else "s"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{thing}{plural} {', '.join(names[:LISTED])}{more}"
