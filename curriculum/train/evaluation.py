"""Bits per byte on held-out rows, with an interval over documents."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from curriculum import parquet
from curriculum.model.loss import token_nll
from curriculum.train.batch import EVALUATION_COLUMNS, Row, Shards
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.dataloader import Batch, blank, collate
from curriculum.train.device import mixed
from curriculum.train.distributed import ALONE, Ranks
from curriculum.train.optimizer import TrainState
from schemas.errors import JobError
from schemas.job import Evaluation, EvaluationStratum, Figure, Job

_Measured = tuple[str, float, int, int]
"""Document id, nats, bytes and scored tokens of a document of a batch."""
_Asked = tuple[str, str, int]
"""Path of rows, their domain, and the largest number of positions."""
Floats = npt.NDArray[np.float64]
RESAMPLES = 1000
INTERVAL = (2.5, 97.5)
ANY_DOMAIN = "*"


def is_evaluated(step: int, *, every: int, steps: int) -> bool:
    """Return True where the figures are taken: at the start, every so many steps, at the end.

    One that is due less than half an interval before the end is left to the end.

    >>> [step for step in range(24) if is_evaluated(step, every=10, steps=23)]
    [0, 10, 23]
    >>> [step for step in range(26) if is_evaluated(step, every=10, steps=25)]
    [0, 10, 20, 25]
    """
    return step in (0, steps) or (step % every == 0 and 2 * (steps - step) >= every)


class Cancelled(Exception):  # noqa: N818 - it is an outcome, not a fault
    """Someone asked the run to stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentSums:
    """Nats and bytes of the scored tokens of each document."""

    nats: Floats
    num_bytes: Floats
    tokens: int

    @property
    def bits_per_byte(self) -> float:
        """Σ nll / ln 2 ÷ Σ bytes."""
        return float(self.nats.sum() / math.log(2) / self.num_bytes.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluator:
    """Evaluates a train state's model on a job's validation rows in the workspace, by bytes of token ids.

    Ranks share its micro-batches; the figures are those of one rank, and the same on all.
    """

    train_state: TrainState
    job: Job
    workspace: Path
    token_bytes: torch.Tensor
    stop: Callable[[], bool]
    before: tuple[Figure, ...] = ()
    """Figures of step 0 that `carried_over` has found."""

    def figures(self, step: int) -> tuple[Figure, ...]:
        """`HeldOut.figures` of the train state's model, which trains on afterwards.

        Raises:
            Cancelled: between two batches, when a stop was asked for.
            JobError: for a stratum without scored bytes, or a loss that isn't a number.
        """
        held_out = HeldOut(
            nll=self._nll,
            job=self.job,
            workspace=self.workspace,
            token_bytes=self.token_bytes,
            stop=self.stop,
            ranks=self.train_state.ranks,
        )
        self.train_state.model.eval()
        try:
            return held_out.figures(step, self.before if step == 0 else ())
        finally:
            self.train_state.model.train()
            self.train_state.rest()

    @torch.no_grad()
    def _nll(self, batch: Batch) -> torch.Tensor:
        model, device = self.train_state.model, self.train_state.device
        moved = batch.to(device)
        with mixed(device):
            x_BTD = model.hidden(moved.input_ids, moved.boundaries, moved.structure)
            return token_nll(x_BTD, model.head.weight, moved.target_ids, moved.loss_mask)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """The validation rows of a job, asked of any model."""

    nll: Callable[[Batch], torch.Tensor]
    """Nats [N] of a batch's scored targets, row by row: where loss_mask is 1."""
    job: Job
    workspace: Path
    token_bytes: torch.Tensor
    stop: Callable[[], bool]
    ranks: Ranks = ALONE

    def figures(self, step: int, known: Sequence[Figure] = ()) -> tuple[Figure, ...]:
        """All figures of the job's evaluations at a step, each evaluation's weighted mean last.

        Rows that several evaluations ask for are read and computed once; evaluations with known figures
        not at all.

        Raises:
            Cancelled: between two batches, when a stop was asked for.
            JobError: for a stratum without scored bytes, or a loss that isn't a number.
        """
        sums: dict[_Asked, DocumentSums] = {}
        return tuple(
            figure
            for evaluation in self.job.evaluations
            for figure in figures_of(evaluation, known) or self._evaluation(evaluation, step, sums)
        )

    def _evaluation(
        self, evaluation: Evaluation, step: int, known: dict[_Asked, DocumentSums]
    ) -> list[Figure]:
        sums: list[DocumentSums] = []
        for stratum in evaluation.strata:
            asked = (stratum.rows.path, stratum.domain, evaluation.max_positions)
            if asked not in known:
                known[asked] = self._stratum(stratum, evaluation.max_positions)
            sums.append(known[asked])
        figures = [
            _figure(evaluation, stratum.family, stratum.domain, step, [each], [1.0])
            for stratum, each in zip(evaluation.strata, sums, strict=True)
        ]
        weights = [stratum.weight for stratum in evaluation.strata]
        return [*figures, _figure(evaluation, "*", "*", step, sums, weights)]

    def _stratum(self, stratum: EvaluationStratum, max_positions: int) -> DocumentSums:
        nats: dict[str, float] = {}
        num_bytes: dict[str, int] = {}
        tokens = 0
        for document, nll, size, count in self._shared(stratum, max_positions):
            nats[document] = nats.get(document, 0.0) + nll
            num_bytes[document] = num_bytes.get(document, 0) + size
            tokens += count
        _require_numbers(stratum, nats, num_bytes)
        return DocumentSums(
            nats=np.array(list(nats.values())),
            num_bytes=np.array(list(num_bytes.values()), dtype=np.float64),
            tokens=tokens,
        )

    def _shared(self, stratum: EvaluationStratum, max_positions: int) -> Iterator[_Measured]:
        """Yield the results of `_documents` in the order of micro-batches, rank after rank."""
        ranks = self.ranks
        found: list[list[_Measured]] = []
        micro = self._micro_batches(stratum, max_positions)
        while turn := list(itertools.islice(micro, ranks.size)):
            if self.stop():
                raise Cancelled
            mine = ranks.rank < len(turn)
            batch = collate(turn[ranks.rank if mine else 0])
            found.append(self._documents(batch if mine else blank(batch)))
        for turns in zip(*ranks.gathered(found), strict=True):
            for documents in turns:
                yield from documents

    def _micro_batches(self, stratum: EvaluationStratum, max_positions: int) -> Iterator[list[Row]]:
        length = stratum.rows.row_length
        each = max(self.job.micro_positions // length, 1)
        rows = rows_of(
            stratum,
            self.workspace,
            limit=max(max_positions // length, 1),
            structure=self.job.model.structure,
        )
        while micro := list(itertools.islice(rows, each)):
            yield micro

    def _documents(self, batch: Batch) -> list[_Measured]:
        """Each document of a batch; none of a blank one."""
        nll_N = self.nll(batch)
        row_N, position_N = (each.numpy() for each in batch.loss_mask.nonzero(as_tuple=True))
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


def figures_of(evaluation: Evaluation, figures: Sequence[Figure]) -> list[Figure]:
    """The figures of one evaluation among those of several."""
    name = evaluation.kind, evaluation.phase
    return [figure for figure in figures if (figure.kind, figure.phase) == name]


_MEASURES = (
    "tokenizer",
    "threads",
    "processes",
    "micro_positions",
    "rope_base",
)
"""Fields of a job that a figure's last bits depend on, beside model, rows, device and backend."""


def carried_over(job: Job, before: Job, state: CheckpointState) -> tuple[Figure, ...]:
    """Figures at step 0 of a job that carries on `before` at a checkpoint, from those measured there.

    Those of the same evaluations by the same arithmetic: evaluating again would give the same bits.
    Weights of structure that are attached between the two start at zero and change none.
    """
    model = before.model.model_copy(update={"structure": job.model.structure})
    same = all(getattr(job, name) == getattr(before, name) for name in _MEASURES)
    same = same and (job.device, job.backend) == (state.device, state.backend)
    if not same or model != job.model or before.trainer is not None:
        return ()
    at_end = [figure for figure in state.figures if figure.step == state.step]
    return tuple(
        figure.model_copy(update={"step": 0})
        for evaluation in job.evaluations
        if evaluation in before.evaluations
        for figure in figures_of(evaluation, at_end)
    )


def rows_of(
    stratum: EvaluationStratum, workspace: Path, *, limit: int, structure: bool = False
) -> Iterator[Row]:
    """The first `limit` rows of a stratum's domain, in the order in which they lie.

    No shard is read behind the one that holds the last of them.
    """
    folder = workspace / stratum.rows.path
    shards = Shards(folder, EVALUATION_COLUMNS, structure=structure)
    wanted = (
        (shard, index)
        for shard in range(len(shards.files))
        for index, domain in enumerate(shards.domains(shard))
        if stratum.domain in (ANY_DOMAIN, domain)
    )
    for shard, index in itertools.islice(wanted, limit):
        yield shards.row(shard, index)


def read_token_bytes(folder: Path) -> torch.Tensor:
    """Bytes that each id encodes, 0 for control tokens; int64 [vocab_size]."""
    path = folder / "token_bytes.parquet"
    if not path.is_file():
        raise JobError(str(path), cause="the tokenizer is missing", cure="Build the phase again")
    values = parquet.read_table(path, columns=["num_bytes"])["num_bytes"].to_numpy()
    return torch.from_numpy(values.astype(np.int64))


def interval(
    strata: Sequence[DocumentSums], weights: Sequence[float], *, seed: int = 0
) -> tuple[float, float]:
    """95 % of the weighted mean's values when each stratum's documents are drawn anew, seeded.

    The draws are the same at every step, so intervals of a run differ by its weights only.

    Costs RESAMPLES · documents; 100 resamples are drawn at once.
    """
    means = np.zeros(RESAMPLES)
    for number, (sums, weight) in enumerate(zip(strata, weights, strict=True)):
        generator = np.random.default_rng([seed, number])
        means += weight / math.fsum(weights) * _resampled(sums, generator)
    low, high = np.percentile(means, INTERVAL)
    return float(low), float(high)


def _resampled(sums: DocumentSums, generator: np.random.Generator) -> Floats:
    documents = len(sums.nats)
    chances = np.full(documents, 1 / documents)
    drawn: list[Floats] = []
    for _ in range(RESAMPLES // 100):
        times = generator.multinomial(documents, chances, size=100).astype(np.float64)
        # A draw may hold no scored byte at all where few documents have any.
        num_bytes = np.maximum(times @ sums.num_bytes, 1)
        drawn.append(times @ sums.nats / math.log(2) / num_bytes)
    return np.concatenate(drawn)


def _figure(
    evaluation: Evaluation,
    family: str,
    domain: str,
    step: int,
    strata: Sequence[DocumentSums],
    weights: Sequence[float],
) -> Figure:
    low, high = interval(strata, weights)
    total = math.fsum(weights)
    pairs = zip(strata, weights, strict=True)
    return Figure(
        kind=evaluation.kind,
        phase=evaluation.phase,
        family=family,
        domain=domain,
        step=step,
        val_bpb=math.fsum(sums.bits_per_byte * weight for sums, weight in pairs) / total,
        low=low,
        high=high,
        scored_tokens=sum(sums.tokens for sums in strata),
        scored_bytes=int(sum(sums.num_bytes.sum() for sums in strata)),
    )


def _require_numbers(
    stratum: EvaluationStratum, nats: dict[str, float], num_bytes: dict[str, int]
) -> None:
    name = f"evaluation of {stratum.family}, {stratum.domain}"
    if not sum(num_bytes.values()):
        raise JobError(
            name,
            stratum.rows.path,
            cause="no byte of its rows is scored",
            cure="Build the validation rows again, or raise val_fraction",
        )
    wrong = next((document for document, nll in nats.items() if not math.isfinite(nll)), None)
    if wrong is not None:
        raise JobError(
            name,
            f"document {wrong}",
            cause="the loss isn't a number",
            cure="Lower the learning rate, or train again from an earlier checkpoint",
        )
