"""Evaluation on held-out rows: bits per byte with a confidence interval, and results per document."""

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from pydantic import TypeAdapter

from curriculum import parquet
from curriculum.model.context_ranks import gather_scored_nll
from curriculum.model.decoder import Decoder
from curriculum.model.loss import token_nll
from curriculum.packing.held_out_order import ORDER_NAME, read_order
from curriculum.train.batch import EVALUATION_COLUMNS, Row, Shards
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.dataloader import Batch, blank, collate
from curriculum.train.device import mixed_precision
from curriculum.train.distributed import ALONE, Ranks
from curriculum.train.document_sums import (
    DocumentSums,
    Floats,
    concat_tables,
    filter_evaluation,
    interval,
    table_of,
)
from curriculum.train.optimizer import TrainState
from schemas.errors import JobError
from schemas.job import Evaluation, EvaluationStratum, Figure, Job

Strings = npt.NDArray[np.str_]
_Measured = tuple[str, float, int, int]
"""Part of a document in a batch: document id, nats, bytes and number of scored tokens."""
_OF_TURNS = TypeAdapter(list[list[_Measured]])
_Asked = tuple[str, tuple[int, ...]]
"""Path of a rows artefact, and the numbers of its rows that are measured."""


def is_evaluated(step: int, *, every: int, steps: int) -> bool:
    """Return True if an evaluation follows step `step`: at step 0, after every `every` steps, and at the end.

    An evaluation is skipped if less than half of `every` steps remain until the end.

    >>> [step for step in range(24) if is_evaluated(step, every=10, steps=23)]
    [0, 10, 23]
    >>> [step for step in range(26) if is_evaluated(step, every=10, steps=25)]
    [0, 10, 20, 25]
    """
    return step in (0, steps) or (step % every == 0 and 2 * (steps - step) >= every)


def evaluations_left(step: int, *, every: int, steps: int) -> int:
    """Return the number of evaluations that follow after a step, including the last one.

    >>> [evaluations_left(step, every=10, steps=25) for step in (0, 9, 10, 20, 25)]
    [3, 3, 2, 1, 0]
    """
    following = range((step // every + 1) * every, steps, every)
    return sum(is_evaluated(at, every=every, steps=steps) for at in following) + (step < steps)


class Cancelled(Exception):  # noqa: N818 - it is an outcome, not a fault
    """Raised when a stop of the run was requested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """Results of the evaluations at a step: figures, and documents as a table of EVALUATED_SCHEMA."""

    figures: tuple[Figure, ...]
    documents: pa.Table
    seconds: float = 0.0
    """Duration of the evaluations in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluator:
    """Evaluator of a model during its training, on the job's validation rows.

    Ranks share the micro-batches. All ranks get equal figures, which are the same as with one rank.
    """

    train_state: TrainState
    job: Job
    workspace: Path
    token_bytes: torch.Tensor
    stop: Callable[[], bool]
    before: Evaluated | None = None
    """Results for step 0 that `reuse_evaluations` returned, to be used instead of new ones."""

    def evaluate(self, step: int) -> Evaluated:
        """Evaluate the model at a step, then put it back into training mode.

        Raises:
            Cancelled: between two batches, if a stop was requested.
            JobError: for a stratum without scored bytes, or a loss that isn't finite.
        """
        held_out = HeldOut(
            nll=functools.partial(batch_nll, self.train_state.model),
            job=self.job,
            workspace=self.workspace,
            token_bytes=self.token_bytes,
            stop=self.stop,
            ranks=self.train_state.ranks,
        )
        self.train_state.model.eval()
        try:
            return held_out.evaluate(step, self.before if step == 0 else None)
        finally:
            self.train_state.model.train()
            self.train_state.reshard()


@torch.no_grad()
def batch_nll(model: Decoder, batch: Batch) -> torch.Tensor:
    """Return the loss of each scored target of a batch in nats, row by row, [N].

    Documents are always masked.
    """
    device = model.head.weight.device
    moved = batch.to(device)
    with mixed_precision(device):
        x_BTD = model.hidden(moved.input_ids, moved.boundaries, moved.structure)
        nll_N = token_nll(
            x_BTD, model.head.weight, model.part(moved.target_ids), model.part(moved.loss_mask)
        )
    return (
        nll_N if model.context is None else gather_scored_nll(nll_N, moved.loss_mask, model.context)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """Evaluation of any model on the validation rows of a job."""

    nll: Callable[[Batch], torch.Tensor]
    """Function that returns the loss of each scored target of a batch in nats, row by row, [N]."""
    job: Job
    workspace: Path
    token_bytes: torch.Tensor
    stop: Callable[[], bool]
    ranks: Ranks = ALONE

    def evaluate(self, step: int, known: Evaluated | None = None) -> Evaluated:
        """Run the job's evaluations at a step. The figures of strata come before their weighted mean.

        Rows that several evaluations use are read and computed once. The evaluations in `known` are not
        computed.

        Raises:
            Cancelled: between two batches, if a stop was requested.
            JobError: for a stratum without scored bytes, or a loss that isn't finite.
        """
        began = time.perf_counter()
        carried = {
            evaluation.name: known_figures
            for evaluation in self.job.evaluations
            if known is not None and (known_figures := figures_of(evaluation, known.figures))
        }
        sums = self._sums(
            [evaluation for evaluation in self.job.evaluations if evaluation.name not in carried]
        )
        figures: list[Figure] = []
        documents: list[pa.Table] = []
        for evaluation in self.job.evaluations:
            if known is not None and evaluation.name in carried:
                figures += carried[evaluation.name]
                documents.append(filter_evaluation(known.documents, evaluation))
            else:
                mine = [sums[_asked(stratum)] for stratum in evaluation.strata]
                figures += [
                    _figure(evaluation, stratum, step, [own], [1.0])
                    for stratum, own in zip(evaluation.strata, mine, strict=True)
                ]
                weights = [stratum.weight for stratum in evaluation.strata]
                figures.append(_figure(evaluation, None, step, mine, weights))
                documents.append(table_of(evaluation, mine))
        return Evaluated(
            figures=tuple(figures),
            documents=concat_tables(documents),
            seconds=time.perf_counter() - began,
        )

    def _sums(self, evaluations: Sequence[Evaluation]) -> Mapping[_Asked, DocumentSums]:
        """Compute the document sums of each stratum. Strata of several evaluations are computed once."""
        strata = {
            _asked(stratum): stratum for evaluation in evaluations for stratum in evaluation.strata
        }
        return {
            asked: _added_up(
                stratum, self._measured(stratum), lineages_in(self.workspace / stratum.rows.path)
            )
            for asked, stratum in strata.items()
        }

    def _measured(self, stratum: EvaluationStratum) -> list[_Measured]:
        """Measure a stratum's documents, in the order of micro-batches and ranks."""
        ranks, measured = self.ranks, list[list[_Measured]]()
        size = max(self.job.micro_positions // stratum.rows.row_length, 1)
        rows = rows_of(stratum, self.workspace, structure=self.job.model.structure)
        while turn := list(itertools.islice(rows, size * ranks.readers)):
            if self.stop():
                raise Cancelled
            first = size * ranks.reader
            mine = first < len(turn)
            batch = collate(turn[first : first + size] if mine else turn[:size])
            measured.append(self._documents(batch if mine else blank(batch)))
        return [
            document
            for turns in zip(*ranks.by_reader(measured, _OF_TURNS), strict=True)
            for batches in turns
            for document in batches
        ]

    def _documents(self, batch: Batch) -> list[_Measured]:
        """Measure the documents in a batch. A blank batch has none."""
        nll_N = self.nll(batch)
        row_N, position_N = (index.numpy() for index in batch.loss_mask.nonzero(as_tuple=True))
        document_N = batch.boundaries.doc_ids.numpy()[row_N, position_N]
        offsets = np.cumsum([0, *map(len, batch.document_ids)])
        index_N = offsets[row_N] + document_N
        size_N = self.token_bytes[batch.target_ids.numpy()[row_N, position_N]].numpy()
        names = [name for row in batch.document_ids for name in row]
        nats = np.bincount(index_N, nll_N.double().cpu().numpy(), minlength=len(names))
        sizes = np.bincount(index_N, size_N, minlength=len(names))
        counts = np.bincount(index_N, minlength=len(names))
        measured = (names, nats.tolist(), sizes.astype(int).tolist(), counts.tolist())
        return list(zip(*measured, strict=True))


@functools.lru_cache(maxsize=64)
def lineages_in(rows: Path) -> Mapping[str, str]:
    """Return the lineage of each held-out document by document id. Empty if the rows don't list lineages."""
    if not (rows / ORDER_NAME).is_file():
        return {}
    return {
        document: lineage
        for row in read_order(rows).rows
        for document, lineage in zip(row.documents, row.lineages, strict=True)
    }


def _asked(stratum: EvaluationStratum) -> _Asked:
    return stratum.rows.path, stratum.measured


def _added_up(
    stratum: EvaluationStratum, measured: Sequence[_Measured], lineages: Mapping[str, str]
) -> DocumentSums:
    """Add up the parts of each document over the batches of a stratum.

    A document that isn't in `lineages` is a lineage of its own.
    """
    names, *columns = zip(*measured, strict=True)
    ids, document_of = np.unique(names, return_inverse=True)
    nats, num_bytes, tokens = (
        np.bincount(document_of, column).astype(np.float64) for column in columns
    )
    _require_numbers(stratum, ids, nats, num_bytes)
    return DocumentSums(
        document_ids=tuple(ids.tolist()),
        lineages=tuple(lineages.get(document, document) for document in ids.tolist()),
        nats=nats,
        num_bytes=num_bytes.astype(np.int64),
        tokens=tokens.astype(np.int64),
    )


def figures_of(evaluation: Evaluation, figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures of one evaluation."""
    name = evaluation.set, evaluation.phase
    return [figure for figure in figures if (figure.set, figure.phase) == name]


_MEASURES = (
    "tokenizer",
    "threads",
    "processes",
    "context_parallel",
    "micro_positions",
    "rope_base",
)
"""Fields of a job, apart from model, rows, device and backend, that affect the last bits of figures."""


def reuse_evaluations(
    job: Job, before: Job, state: CheckpointState, documents: pa.Table
) -> Evaluated | None:
    """Return the results of the job `before` at its end, for use as the results of `job` at step 0.

    `job` continues `before`. Only evaluations with the same rows and the same arithmetic are reused, since
    these would give the same bits again. Structure weights that `job` adds start at zero and don't change the
    results.
    """
    model = before.model.model_copy(update={"structure": job.model.structure})
    same = all(getattr(job, name) == getattr(before, name) for name in _MEASURES)
    same = same and (job.device, job.backend) == (state.device, state.backend)
    if not same or model != job.model or before.trainer is not None:
        return None
    at_end = [figure for figure in state.figures if figure.step == state.step]
    alike = [evaluation for evaluation in job.evaluations if evaluation in before.evaluations]
    return Evaluated(
        figures=tuple(
            figure.model_copy(update={"step": 0})
            for evaluation in alike
            for figure in figures_of(evaluation, at_end)
        ),
        documents=documents,
    )


def rows_of(
    stratum: EvaluationStratum, workspace: Path, *, structure: bool = False
) -> Iterator[Row]:
    """Yield the rows of a stratum that are measured. No other rows are read."""
    shards = Shards(workspace / stratum.rows.path, EVALUATION_COLUMNS, structure=structure)
    for number in stratum.measured:
        yield shards.row(*shards.place(number))


def read_token_bytes(folder: Path) -> torch.Tensor:
    """Read how many bytes each id encodes, int64 [vocab_size]. Control tokens have 0."""
    path = folder / "token_bytes.parquet"
    if not path.is_file():
        raise JobError(str(path), cause="the tokenizer is missing", cure="Build the phase again")
    values = parquet.read_table(path, columns=["num_bytes"])["num_bytes"].to_numpy()
    return torch.from_numpy(values.astype(np.int64))


def _figure(
    evaluation: Evaluation,
    stratum: EvaluationStratum | None,
    step: int,
    strata: Sequence[DocumentSums],
    weights: Sequence[float],
) -> Figure:
    """Compute the figure of one stratum, or of the weighted mean of all strata if `stratum` is None."""
    low, high = interval(strata, weights)
    counted = evaluation if stratum is None else stratum
    total = math.fsum(weights)
    pairs = zip(strata, weights, strict=True)
    return Figure(
        set=evaluation.set,
        phase=evaluation.phase,
        family="*" if stratum is None else stratum.family,
        domain="*" if stratum is None else stratum.domain,
        step=step,
        val_bpb=math.fsum(sums.bits_per_byte * weight for sums, weight in pairs) / total,
        low=low,
        high=high,
        scored_tokens=sum(int(sums.tokens.sum()) for sums in strata),
        scored_bytes=int(sum(sums.num_bytes.sum() for sums in strata)),
        documents=counted.documents,
        lineages=counted.lineages,
        effective_documents=counted.effective_documents,
        effective_lineages=counted.effective_lineages,
    )


def _require_numbers(
    stratum: EvaluationStratum, ids: Strings, nats: Floats, num_bytes: Floats
) -> None:
    name = f"evaluation of {stratum.family}, {stratum.domain}"
    if not num_bytes.any():
        raise JobError(
            name,
            stratum.rows.path,
            cause="its rows have no scored bytes",
            cure="Build the validation rows again, or raise val_fraction",
        )
    finite = np.isfinite(nats)
    if not finite.all():
        raise JobError(
            name,
            f"document {ids[finite.argmin()]}",
            cause="the loss isn't finite",
            cure="Lower the learning rate, or train again from an earlier checkpoint",
        )
