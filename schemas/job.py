"""Jobs, reports and state of training runs: one specialist trained through one phase.

Every path is relative to the workspace, so that a workspace can be moved or mounted elsewhere.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from schemas.corpus import Name
from schemas.diet import AdvanceWhen
from schemas.document import SCHEMA_VERSION, required
from schemas.held_out import HeldOutCount
from schemas.json_text import Sealed
from schemas.objectives import FIXED_SETS, PHASE_SET, FixedSet, SetName
from schemas.regular_files import PlainPath, PlainPathOrNone
from schemas.study import Study, no_study
from schemas.text import Strict

Stopped = Literal["gate", "budget", "failed", "cancelled"]
Failure = Literal["memory", "not_finite", "killed", "other"]
WriterName = Literal["tensorboard", "wandb"]
Backend = Literal["math", "sdpa", "documents", "flex", "varlen"]
DeviceName = Literal["cpu", "cuda"]
Doing = Literal["leakcheck", "evaluating"]
ANNEAL = "anneal"
"""Name of the phase in which the learning rate falls to zero.

It is measured on the validation rows of the last phase, under that phase's name.
"""


class MambaSpec(Strict):
    """Mamba-2 blocks with `expand` · width features, in heads of `head_width` features."""

    state: Annotated[int, Field(ge=1, le=1 << 14)] = 64
    """Number of state features per channel."""
    head_width: Annotated[int, Field(ge=1, le=1 << 14)] = 64
    expand: Annotated[int, Field(ge=1, le=64)] = 2
    chunk: Annotated[int, Field(ge=1, le=1 << 16)] = 64
    """Number of positions that are computed as one product. Every document starts a new chunk."""


class EngramSpec(Strict):
    """Engram blocks. They look up suffix n-grams of the given orders in tables, with `heads` hashes each."""

    orders: Annotated[
        tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, max_length=8)
    ] = (2, 3, 4)
    heads: Annotated[int, Field(ge=1, le=32)] = 4
    slots: Annotated[int, Field(ge=1, le=1 << 24)] = 4096
    """Minimum number of entries in the table of an order and head. Each size is another prime number."""
    slot_width: Annotated[int, Field(ge=1, le=1 << 14)] = 32
    """Number of features per entry."""


class ModelSpec(Strict):
    """A decoder. Widths are numbers of features, `vocab_size` is a number of ids.

    Checkpoints may come from untrusted sources. So each size has a limit, far above those of all shipped
    models, and anything computed from a spec alone, before its weights are checked, stays small.
    """

    name: str
    vocab_size: Annotated[int, Field(ge=1, le=1 << 24)]
    blocks: Annotated[str, Field(pattern="^[AMCEF]+$", max_length=1024)]
    """Pattern of the blocks from the input on, one letter per block: A attention, M Mamba-2, C gated
    convolution, E Engram, F feed-forward.
    """
    width: Annotated[int, Field(ge=1, le=1 << 18)]
    heads: Annotated[int, Field(ge=1, le=1 << 14)]
    kv_heads: Annotated[int, Field(ge=1, le=1 << 14)]
    mlp_width: Annotated[int, Field(ge=1, le=1 << 20)]
    softcap: float | None = None
    """Bound of the attention scores: softcap · tanh(score / softcap)."""
    streams: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of residual streams; several streams are mixed by manifold-constrained hyper-connections
    (mHC)."""
    mamba: MambaSpec = MambaSpec()
    engram: EngramSpec = EngramSpec()
    conv_kernel: Annotated[int, Field(ge=1, le=1 << 10)] = 4
    """Positions that each convolution reads, including its own."""
    structure: bool = False
    """True if the model reads structure columns. If they are added to a trained model, its output doesn't
    change at first.
    """


class OptimizerSpec(Strict):
    """AdamW and its schedule. A step is a step of the optimizer."""

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    gradient_clip: float = 1.0
    z_loss: float = 1e-5
    warmup_steps: int
    """Number of warm-up steps. They start from 0 in the first phase, and from a tenth of the learning rate
    where T changes.
    """
    schedule: Literal["stable", "decay"] = "stable"
    """stable: constant after warm-up. decay: linear decrease to a tenth over the whole job (anneal)."""


class RowsSource(Strict):
    """A rows artefact that the mixture or an evaluation reads."""

    key: str
    content: str
    path: PlainPath
    row_length: int


class EvaluationStratum(HeldOutCount):
    """One stratum of an evaluation: rows of one artefact, and its weight in the mean."""

    family: str
    objective: str
    domain: str
    weight: float
    rows: RowsSource
    measured: tuple[int, ...]
    """Numbers of the measured rows, counted over all files, in ascending order."""

    @property
    def positions(self) -> int:
        """Row positions of the stratum that an evaluation reads."""
        return len(self.measured) * self.rows.row_length


class Evaluation(HeldOutCount):
    """One set of validation rows: of one of the phases so far (all, or one objective), or of a fixed set."""

    set: SetName
    phase: str
    """Phase that the strata belong to; for a fixed set, the name of the set."""
    strata: tuple[EvaluationStratum, ...]
    trained_share: float | None = None
    """Share (0…1) of the targets of all rows that also occur in training documents. These targets aren't
    scored. None for conversations and imported rows, which aren't compared with training documents.
    """

    @property
    def name(self) -> str:
        """Title of the set, for example anchor, phase syntax or fim of syntax."""
        return set_title(self.set, self.phase)


def set_title(name: str, phase: str) -> str:
    """Return the title of a validation set of a phase.

    >>> set_title("anchor", "anchor"), set_title("phase", "syntax"), set_title("fim", "syntax")
    ('anchor', 'phase syntax', 'fim of syntax')
    """
    if name in FIXED_SETS:
        return name
    return f"{name} {phase}" if name == PHASE_SET else f"{name} of {phase}"


class TokenizerRef(Strict):
    """The tokenizer artefact; the trainer reads only its token_bytes.parquet."""

    key: str
    content: str
    path: PlainPath
    vocab_size: int


class CheckpointRef(Strict):
    """A checkpoint to start from: the key and the content of its run, and its path."""

    run_key: str
    run_content: str
    path: PlainPath


class Job(Sealed):
    """Everything that a training run depends on; it is frozen in job.json before the first step."""

    specialist: Name
    branch: Name | None
    phase: Name
    run_key: Name | Literal[""]
    attempt: int
    begun: str = ""
    """UTC time at which the job was frozen, or empty. Not part of the run's identity."""
    ordinal: Annotated[int, Field(ge=0)] = 0
    """Number of the attempt among all attempts of the workspace, counted from 1 in the order in which they
    were frozen, or 0. Clocks aren't used, because they may be set back. Not part of the run's identity.
    """
    seed: int
    model: ModelSpec
    backend: Backend | Literal["auto"]
    """Requested backend. With auto, the training process chooses one and writes it to state and report."""
    device: DeviceName
    """Device of the machine that last launched the job. Not part of the run's identity."""
    tokenizer: TokenizerRef
    threads: int = 1
    """Number of CPU threads per process. A resumed run keeps the number, because sums depend on it."""
    processes: Annotated[int, Field(ge=1)] = 1
    """Number of processes that share the model and the micro-batches of a step. Sums depend on it, but the
    data doesn't.
    """
    context_parallel: Annotated[int, Field(ge=1)] = 1
    """Number of training processes that share each row; each process handles a part of its positions."""
    workers: Annotated[int, Field(ge=0)] = 0
    """Number of additional processes that load rows, per training process. With 0, rows are loaded between
    steps.
    """
    trainer: str | None = None
    """Command of an external trainer; {job} is the path of job.json."""
    recompute: bool = False
    """True if the backward pass computes the activations of each block again, so that they aren't stored."""
    plan: PlainPath
    """Path of plan.parquet."""
    plan_key: str
    plan_content: str
    rows: tuple[RowsSource, ...]
    rope_base: float
    micro_positions: int
    """Number of row positions per micro-batch; at least the largest row length."""
    tokens_per_step: int
    """Number of row positions per optimizer step; a multiple of the slot."""
    steps: int
    """Budget, in whole steps."""
    optimizer: OptimizerSpec
    start_from: CheckpointRef | None
    evaluations: tuple[Evaluation, ...]
    evaluate_every: int
    """Number of steps between evaluations.

    All sets are measured before the first step, at this interval, and at the end. An evaluation less than
    half an interval before the end is skipped. Before the first step, measurements aren't repeated if the
    run that this one continues has measured the same model on the same rows.
    """
    checkpoint_every: int
    """Number of steps between checkpoints. The last two checkpoints and the final one are kept."""
    advance_when: AdvanceWhen | None
    require: tuple[str, ...]
    study: Study | None = Field(default=None, exclude_if=no_study)
    """Mask and position settings of a study. None for any other run; job.json then has no such field."""
    writers: tuple[WriterName, ...] = ()
    """Outputs of metrics in addition to Parquet and the console. Not part of the run's identity."""
    gpu_price: Annotated[float, Field(gt=0)] | None = None
    """Price of one GPU hour in any currency, or None."""
    overrides: dict[str, str]
    """Overrides of diet fields from the command line: corpus, model, token_budget, max_repetition …"""

    @property
    def kernel(self) -> Backend:
        """The backend that the training process has chosen. Before that, it isn't available."""
        assert self.backend != "auto", "the backend of this job isn't chosen yet"
        return self.backend

    @property
    def slot_length(self) -> int:
        """Number of positions in a slot: the largest row length."""
        return max(rows.row_length for rows in self.rows)

    @property
    def slots_per_step(self) -> int:
        """Number of slots that a step reads."""
        return self.tokens_per_step // self.slot_length


class Figure(HeldOutCount):
    """val_bpb of one evaluation at one step, with a confidence interval computed over lineages."""

    set: SetName
    phase: str
    family: str
    """Family; `*` for the weighted mean over the strata."""
    domain: str
    step: int
    val_bpb: float
    low: float
    high: float
    scored_tokens: int
    scored_bytes: int

    @property
    def name(self) -> str:
        """Title of the evaluation, for example anchor, phase syntax or fim of syntax."""
        return set_title(self.set, self.phase)

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Set, phase, family and domain of the figure."""
        return self.set, self.phase, self.family, self.domain

    @property
    def is_whole(self) -> bool:
        """True for a fixed set, and for everything that a phase serves; False for a single objective."""
        return self.set in (PHASE_SET, *FIXED_SETS)


class TokenCounts(Strict):
    """Numbers of tokens that a run trained on."""

    positions: int
    valid: int
    scored: int
    bytes: int
    """Number of bytes that the scored target tokens encode."""


class MaskingCost(Strict):
    """Cost of document masks, measured on rows of the job."""

    ratio: float
    """Masked ÷ unmasked tokens per second on the same rows with the same kernel, as the median over
    micro-batches. Only the masked time includes building masks. Above 1, training with masks is faster.
    """
    row_length: int
    """Length of the longest rows that were measured."""
    positions: int
    """Number of measured positions: those of the first twenty steps, or fewer if time ran out."""
    micro_batches: int
    masked_seconds: float
    unmasked_seconds: float
    """Seconds of the forward and backward passes over these positions without masks. On a CPU, these are CPU
    seconds.
    """


class Report(Sealed):
    """report.json: summary of a finished run, read by the pipeline."""

    specialist: str
    phase: str
    attempt: int
    stopped: Stopped
    reason: str
    failure: Failure | None = None
    """Kind of failure of a failed run."""
    steps: int
    tokens: TokenCounts
    before: tuple[Figure, ...]
    after: tuple[Figure, ...]
    history: tuple[Figure, ...]
    """Weighted means of every evaluation."""
    tokens_per_second: float
    seconds: float
    """Seconds spent on steps."""
    evaluation_seconds: float | None = None
    """Seconds spent on evaluations; None if an external trainer doesn't report them."""
    gpu_seconds: float
    """Seconds of steps and evaluations, summed over all GPUs; 0 on a CPU."""
    cost: float | None = None
    """Cost of the GPU seconds at the job's price; 0 on a CPU, None without a price."""
    device: str
    backend: str
    """Backend of the last steps; the requested one if an external trainer doesn't report it."""
    switched: tuple[str, ...] = ()
    """Changes of device or backend when the run was resumed. Only without such a change are the results
    bitwise equal to those of an uninterrupted run.
    """
    masked_mfu: float | None = None
    """Model FLOPs utilization if attention is only counted within documents, as a share of the devices' dense
    bfloat16 peak. None if the peak is unknown, for example on a CPU.
    """
    causal_mfu: float | None = None
    """Model FLOPs utilization as it is usually reported: attention is counted as if each row were one
    document.
    """
    padded_positions: int | None = None
    """Row positions that the same documents would need with one document per row; None from external
    trainers."""
    mean_context: float | None = None
    """Mean number of tokens of the same document before a scored token. In a study without masks, tokens of
    the same row count.
    """
    attention_density: float | None = None
    """Attention pairs within documents ÷ pairs of rows without masks, as the mean over steps. In a study
    without masks, pairs within rows count.
    """
    masking_cost: MaskingCost | None = None
    """Cost of document masks. None if it wasn't measured, because rows have fewer than 16,384 tokens and the
    phase doesn't require masking_cost.
    """
    leakcheck: Literal["passed", "not run"]
    study: Study | None = Field(default=None, exclude_if=no_study)
    """Study of the run. None for any other run; report.json then has no such field."""
    checkpoint: PlainPathOrNone
    """Checkpoint from which the next phase starts. The path is relative to the workspace."""
    ended: str = ""
    """UTC time of the end; empty if an external trainer doesn't report it."""

    def own_mean(
        self, figures: Iterable[Figure], kind: Literal["phase"] | FixedSet
    ) -> Figure | None:
        """Return the last weighted mean of a fixed set, or of the phase of this run.

        A phase that serves only imported rows may have no figure of its own.
        """
        means = [
            figure
            for figure in figures
            if (figure.set, figure.family) == (kind, "*")
            and (kind in FIXED_SETS or self.phase in (ANNEAL, figure.phase))
        ]
        return means[-1] if means else None


class Heartbeat(Sealed):
    """heartbeat.json of an open run: its progress, written at most once a second as a sign of life."""

    step: int
    steps: int
    valid_tokens: int
    tokens_per_second: float
    val_bpb: float | None = None
    """val_bpb of the last evaluation on the validation rows of the phase."""
    figures: tuple[Figure, ...] = ()
    """Weighted means of all evaluations so far."""
    doing: Doing | None = None
    """Work that the run is doing now, if it isn't a training step; else None."""
    evaluating_seconds: float = 0.0
    """Seconds that the remaining evaluations will take, estimated from those that were measured."""
    at: str
    """UTC time at which this was written."""


class RunState(Sealed):
    """state.json of an open run: the process that owns it.

    It is only for readers. A lock decides whether the owner is alive.
    """

    host: str
    pid: int
    at: str
    """UTC time at which this was written."""
    device: DeviceName | None = None
    backend: Backend | None = None
    """Device and backend, once the training process has chosen them; None before."""


class SlurmJob(Sealed):
    """sbatch.json of an open run that is trained by Slurm."""

    id: Annotated[str, Field(pattern=r"^[0-9]+$", max_length=20)]
    """Number of the Slurm job. Only digits are allowed, because it is passed to squeue and scancel."""


class SlotState(RunState):
    """A run that holds a GPU slot or waits for one. The process is the one that launches the job."""

    run: str
    """Absolute path of the run's directory, because several workspaces may share slots."""


METRICS_SCHEMA = pa.schema(
    [
        required("step", pa.int64()),
        required("position", pa.int64()),
        required("valid_tokens", pa.int64()),
        required("scored_tokens", pa.int64()),
        required("loss", pa.float64()),
        required("z_loss", pa.float64()),
        required("gradient_norm", pa.float64()),
        required("learning_rate", pa.float64()),
        required("attention_density", pa.float64()),
        required("padding_share", pa.float64()),
        pa.field("padded_positions", pa.int64()),
        pa.field("mean_context", pa.float64()),
        required("seconds", pa.float64()),
        required("tokens_per_second", pa.float64()),
        required("scored_tokens_per_second", pa.float64()),
        required("memory_bytes", pa.int64()),
        pa.field("masked_mfu", pa.float64()),
        pa.field("causal_mfu", pa.float64()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""metrics/<first step>.parquet: one row per step. The last six columns measure the machine; all others are
equal in a resumed and an uninterrupted run. padded_positions is the number of positions that the same
documents would need with one document per row. masked_mfu counts attention within documents, causal_mfu
as if each row were one document; both are null if no peak is known. Nullable columns may also be null in
metrics of external trainers."""
CLOCK_COLUMNS = (
    *("seconds", "tokens_per_second", "scored_tokens_per_second", "memory_bytes"),
    *("masked_mfu", "causal_mfu"),
)

EVALUATED_SCHEMA = pa.schema(
    [
        required("phase", pa.string()),
        required("set", pa.string()),
        required("family", pa.string()),
        required("objective", pa.string()),
        required("domain", pa.string()),
        required("row_length", pa.int32()),
        required("rows_key", pa.string()),
        required("document_id", pa.string()),
        required("lineage", pa.string()),
        required("nats", pa.float64()),
        required("bytes", pa.int64()),
        required("tokens", pa.int64()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""evaluations/step=<step>/documents.parquet: one row per document of each stratum and set that was measured
at that step, sorted by all columns up to document_id. nats, bytes and tokens are sums over the document's
scored tokens. In the report, val_bpb of a stratum is Σ nats / ln 2 ÷ Σ bytes.
"""
