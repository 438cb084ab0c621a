"""Metrics of a run as Parquet parts (one row per step) and as log lines; counts and FLOPs of a step.

FLOPs are those of matrix products, with two operations per multiply-add. For attention, only pairs within
documents count, not T². Padding and recomputation in backward don't count.
"""

import functools
import re
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn

from curriculum import parquet
from curriculum.model.decoder import Decoder
from curriculum.train import document_sums
from curriculum.train.dataloader import Batch
from curriculum.train.metric_writers import Writer, figure_scalars, fill, open_writers, step_scalars
from curriculum.train.run_directory import METRICS
from curriculum.whole_files import replace_whole
from schemas.job import METRICS_SCHEMA, Figure, Job, ModelSpec, TokenCounts
from schemas.visible import visible
from schemas.whole_numbers import whole_number

FORWARD_AND_BACKWARD = 3
"""Matrix products of forward and backward together, relative to forward. Backward needs two for each."""

_PEAKS = (
    (r"\bB200\b", 2250e12),
    (r"\b(H100|H200) NVL\b", 835e12),
    (r"\bH100 PCIe\b", 756e12),
    (r"\b(H100|H200|GH200)\b", 989e12),
    (r"\bA100\b", 312e12),
    (r"\bL40S\b", 362e12),
    (r"\bL4\b", 121e12),
)
"""Peak FLOP/s of dense bfloat16 products, by patterns of the driver's device name. The first match counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepWork:
    """Numbers about a step from which its FLOPs are computed."""

    tokens: int
    """Number of valid tokens."""
    attention_pairs: int
    """Number of pairs that attention computes: Σ length · (length + 1) / 2 over documents."""
    scored: int
    """Number of positions whose prediction is scored."""


def step_flops(spec: ModelSpec, work: StepWork) -> int:
    """Compute the FLOPs of a step's forward and backward passes."""
    return FORWARD_AND_BACKWARD * forward_flops(spec, work)


def forward_flops(spec: ModelSpec, work: StepWork) -> int:
    """Compute the FLOPs of one forward pass.

    Example: one attention layer of width 8 with 2 heads, on a document of 3 tokens, takes 6 pairs · 4 · 8 =
    192 FLOPs in addition to those of its projections.
    """
    return (
        work.tokens * _flops_of_a_token(spec)
        + work.attention_pairs * 4 * spec.width * spec.blocks.count("A")
        + work.scored * 2 * spec.width * spec.vocab_size
    )


def peak_flops(device_name: str) -> float | None:
    """Return the peak FLOP/s of a GPU for dense bfloat16 products. None for an unknown GPU or a MIG slice."""
    if re.search(r"\bMIG\b", device_name):
        return None
    return next((peak for name, peak in _PEAKS if re.search(name, device_name)), None)


def peak_of(device: torch.device) -> float | None:
    """Return the peak FLOP/s of a device. None for a CPU."""
    if device.type != "cuda":
        return None
    return peak_flops(torch.cuda.get_device_name(device))


def mfu(flops: int, seconds: float, peak: float | None, *, devices: int = 1) -> float | None:
    """Return FLOP/s divided by the devices' peak FLOP/s. None if the peak is unknown."""
    return flops / seconds / (peak * devices) if peak is not None else None


@functools.cache
def _flops_of_a_token(spec: ModelSpec) -> int:
    """Compute the FLOPs of one token in all blocks. Attention scores and the head aren't included."""
    with torch.device("meta"):
        model = Decoder(spec, "math")
    linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    projections = sum(2 * layer.weight.numel() for layer in linear if layer is not model.head)
    # A Mamba-2 layer with full chunks: C·B and its sum within the chunk, states in and out.
    mamba, inner = spec.mamba, spec.mamba.expand * spec.width
    state_space = (mamba.chunk + 1) * (mamba.state + inner) + 4 * mamba.state * inner
    # Weights for reading, writing and mixing streams; the mixing itself is no matrix product.
    streams = spec.streams
    mixing = 2 * streams * spec.width * (2 * streams + streams**2) if streams > 1 else 0
    return projections + spec.blocks.count("M") * state_space + len(spec.blocks) * mixing


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCounts:
    """Counts of a step, or of the part of a step that one rank computes."""

    positions: int
    valid: int
    scored: int
    bytes: int
    """Bytes of the scored targets."""
    attention_pairs: int
    """Number of pairs that attention computes within documents."""
    causal_pairs: int
    """Number of pairs that attention would compute if every row were one document."""
    padded_positions: int
    """Number of positions that the same documents would take if each had a row of its own."""
    context: int
    """Number of preceding tokens in the document, summed over all scored tokens."""

    def numbers(self) -> list[int]:
        """Return the counts in the order of their fields, so that they can be summed over ranks."""
        return list(astuple(self))

    @staticmethod
    def from_numbers(numbers: Sequence[int]) -> "StepCounts":
        """Return the counts whose `numbers` are given."""
        return StepCounts(**dict(zip(StepCounts.__dataclass_fields__, numbers, strict=True)))

    @property
    def tokens(self) -> TokenCounts:
        """The counts that the state and the report of a run store."""
        return TokenCounts(
            positions=self.positions, valid=self.valid, scored=self.scored, bytes=self.bytes
        )


def counts_of(batch: Batch, token_bytes: Tensor) -> StepCounts:
    """Count the contents of a batch. `token_bytes` has the number of bytes of each id.

    A document of 4 tokens whose last 3 are scored has context 1 + 2 + 3 and 10 pairs. Two documents in a row
    of 12 positions would take 24 positions in rows of their own. A blank counts as 0.
    """
    if not batch.pack_ids:
        return StepCounts.from_numbers([0] * len(StepCounts.__dataclass_fields__))
    scored = batch.loss_mask.bool()
    targets = batch.target_ids[scored]
    B, T = batch.input_ids.shape
    return StepCounts(
        positions=B * T,
        valid=batch.valid_tokens,
        scored=len(targets),
        bytes=int(token_bytes[targets].sum()),
        attention_pairs=batch.attention_pairs,
        causal_pairs=B * T * (T + 1) // 2,
        padded_positions=batch.documents * T,
        # The mask is 1 at the predicting position, one before the scored token.
        context=int((batch.boundaries.position_ids[scored].long() + 1).sum()),
    )


def counts_of_step(batches: Sequence[Batch], token_bytes: Tensor) -> StepCounts:
    """Count the contents of all micro-batches of a step."""
    counts = [counts_of(batch, token_bytes).numbers() for batch in batches]
    return StepCounts.from_numbers([sum(column) for column in zip(*counts, strict=True)])


FLUSH_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepOutcome:
    """Losses and gradient norm of a step, and its learning rate."""

    loss: float
    """Loss in nats per scored target."""
    z_loss: float
    gradient_norm: float
    learning_rate: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepMetrics:
    """Metrics of one step: a row of METRICS_SCHEMA."""

    step: int
    position: int
    valid_tokens: int
    scored_tokens: int
    loss: float
    z_loss: float
    gradient_norm: float
    learning_rate: float
    attention_density: float
    """Pairs within documents divided by the pairs of rows without masks."""
    padding_share: float
    padded_positions: int
    mean_context: float
    """Number of preceding tokens in the document, averaged over scored tokens."""
    seconds: float
    tokens_per_second: float
    scored_tokens_per_second: float
    memory_bytes: int
    masked_mfu: float | None
    causal_mfu: float | None

    @staticmethod
    def from_counts(
        counts: StepCounts,
        *,
        step: int,
        position: int,
        learnt: StepOutcome,
        seconds: float,
        device: torch.device,
        spec: ModelSpec | None = None,
        devices: int = 1,
    ) -> "StepMetrics":
        """Build the row of a step. After the step, `position` row positions have been trained on.

        MFU is computed only for our own models, whose specification is `spec`, on `devices` devices.
        """

        def share(pairs: int) -> float | None:
            work = StepWork(tokens=counts.valid, attention_pairs=pairs, scored=counts.scored)
            flops = step_flops(spec, work) if spec is not None else None
            return mfu(flops, seconds, peak_of(device), devices=devices) if flops else None

        return StepMetrics(
            step=step,
            position=position,
            valid_tokens=counts.valid,
            scored_tokens=counts.scored,
            loss=learnt.loss,
            z_loss=learnt.z_loss,
            gradient_norm=learnt.gradient_norm,
            learning_rate=learnt.learning_rate,
            attention_density=counts.attention_pairs / counts.causal_pairs,
            padding_share=1 - counts.valid / counts.positions,
            padded_positions=counts.padded_positions,
            mean_context=counts.context / max(counts.scored, 1),
            seconds=seconds,
            tokens_per_second=counts.positions / seconds,
            scored_tokens_per_second=counts.scored / seconds,
            memory_bytes=memory_bytes(device),
            masked_mfu=share(counts.attention_pairs),
            causal_mfu=share(counts.causal_pairs),
        )


class Metrics:
    """Metrics of a run.

    A checkpoint always ends a part. Therefore, all parts after a resumed step can be removed as a whole.
    Empty writers are filled with the remaining steps and with the earlier `figures`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        resumed_at: int,
        writers: Sequence[Writer] = (),
        figures: Sequence[Figure] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.writers = writers
        self._rows: list[StepMetrics] = []
        self._flushed = time.monotonic()
        for part in folder.glob("*.parquet"):
            step = whole_number(part.stem)
            if step is not None and step > resumed_at:
                part.unlink()
        if writers:
            fill(writers, read_metrics(folder).to_pylist(), figures)

    @staticmethod
    def open(job: Job, directory: Path, *, step: int, figures: Sequence[Figure]) -> "Metrics":
        """Open the metrics of a run at a step. Evaluations that aren't among `figures` are removed."""
        document_sums.keep_only(directory, {figure.step for figure in figures})
        return Metrics(
            directory / METRICS,
            resumed_at=step,
            writers=open_writers(job, directory),
            figures=figures,
        )

    def record_figures(self, figures: Sequence[Figure]) -> None:
        """Write the figures of an evaluation to the writers."""
        for writer in self.writers:
            for figure in figures:
                writer.write(figure.step, figure_scalars([figure]))

    def record(self, row: StepMetrics, *, steps: int) -> None:
        """Pass a row to the writers and keep it. Every ten seconds, write all kept rows as a part."""
        self._rows.append(row)
        for writer in self.writers:
            writer.write(row.step, step_scalars(asdict(row)))
        due = time.monotonic() - self._flushed >= FLUSH_SECONDS
        if due or row.step % max(steps // 20, 1) == 0 or row.step == steps:
            log(_line(row, steps))
        if due:
            self.flush()

    def flush(self) -> None:
        """Write the kept rows as one part, named after its first step."""
        self._flushed = time.monotonic()
        if self._rows:
            table = pa.Table.from_pylist([asdict(row) for row in self._rows], METRICS_SCHEMA)
            name = f"{self._rows[0].step:010d}.parquet"
            replace_whole(
                self.folder / name,
                lambda path: pq.write_table(table, path, write_page_checksum=True),
            )
            self._rows = []
        for writer in self.writers:
            writer.flush()

    def close(self) -> None:
        """Close the writers. Rows that haven't been flushed belong to no checkpoint and are dropped."""
        for writer in self.writers:
            writer.close()


def read_metrics(folder: Path) -> pa.Table:
    """Read all parts of a run in step order. Columns that older parts don't have are null."""
    parts = sorted(folder.glob("*.parquet"))
    tables = [parquet.read_table(part) for part in parts]
    return pa.concat_tables([METRICS_SCHEMA.empty_table(), *tables], promote_options="default")


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsSummary:
    """Summary of a run's metrics. A value is None if no step measured it."""

    seconds: float
    masked_mfu: float | None
    """MFU over all steps, where only pairs within documents count."""
    causal_mfu: float | None
    """MFU over all steps, where all pairs of a row count."""
    padded_positions: int | None
    mean_context: float | None
    """Number of preceding tokens in the document, averaged over all scored tokens."""
    attention_density: float | None
    """Attention density, averaged over steps. All steps have the same number of positions."""


def summary(metrics: pa.Table) -> MetricsSummary:
    """Summarise a table of METRICS_SCHEMA."""
    return MetricsSummary(
        seconds=float(pc.sum(metrics["seconds"]).as_py() or 0.0),
        masked_mfu=_mean(metrics, "masked_mfu", by="seconds"),
        causal_mfu=_mean(metrics, "causal_mfu", by="seconds"),
        padded_positions=pc.sum(metrics["padded_positions"]).as_py(),
        mean_context=_mean(metrics, "mean_context", by="scored_tokens"),
        attention_density=pc.mean(metrics["attention_density"]).as_py(),
    )


def _mean(metrics: pa.Table, name: str, *, by: str) -> float | None:
    """Compute the mean of the column `name`, weighted by the column `by`, over the steps that have it."""
    known = metrics.filter(metrics[name].is_valid())
    weight = pc.sum(known[by]).as_py()
    return float(pc.sum(pc.multiply(known[name], known[by])).as_py() / weight) if weight else None


def memory_bytes(device: torch.device) -> int:
    """Return the peak memory so far: of the GPU, or of the process if there is no GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def log(line: str) -> None:
    """Write a line to the run's console log."""
    sys.stdout.write(f"{visible(line)}\n")
    sys.stdout.flush()


def _line(row: StepMetrics, steps: int) -> str:
    share = f"  MFU {row.masked_mfu:.1%}" if row.masked_mfu is not None else ""
    return (
        f"step {row.step}/{steps}  loss {row.loss:.4f}  rate {row.learning_rate:.2e}  "
        f"gradient {row.gradient_norm:.2f}  {row.tokens_per_second:,.0f} tokens/s{share}"
    )
