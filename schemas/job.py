"""A job: one training run of one specialist through one phase; and what the run leaves.

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
"""Name of the decay, which is measured on the last phase, and so under the name of that phase."""


class MambaSpec(Strict):
    """Mamba-2 blocks; `expand` · width features in heads of `head_width`."""

    state: Annotated[int, Field(ge=1, le=1 << 14)] = 64
    """Features of the state of each channel."""
    head_width: Annotated[int, Field(ge=1, le=1 << 14)] = 64
    expand: Annotated[int, Field(ge=1, le=64)] = 2
    chunk: Annotated[int, Field(ge=1, le=1 << 16)] = 64
    """Positions that are computed as one product; each document begins a chunk of its own."""


class EngramSpec(Strict):
    """Engram blocks: hashed suffix n-grams of `orders`, each looked up by `heads` hashes."""

    orders: Annotated[
        tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, max_length=8)
    ] = (2, 3, 4)
    heads: Annotated[int, Field(ge=1, le=32)] = 4
    slots: Annotated[int, Field(ge=1, le=1 << 24)] = 4096
    """Least number of entries of the table of one order and head; each has a prime number of its own."""
    slot_width: Annotated[int, Field(ge=1, le=1 << 14)] = 32
    """Features of one entry."""


class ModelSpec(Strict):
    """A decoder; sizes are in units of features, `vocab_size` in ids.

    A checkpoint may come from anybody, so each size has a limit, far above that of any model of ours: what
    is computed from a spec alone, before its weights are seen, stays small.
    """

    name: str
    vocab_size: Annotated[int, Field(ge=1, le=1 << 24)]
    blocks: Annotated[str, Field(pattern="^[AMCEF]+$", max_length=1024)]
    """The pattern, a letter a block from the input on: A attention, M Mamba-2, C gated convolution,
    E Engram, F feed-forward."""
    width: Annotated[int, Field(ge=1, le=1 << 18)]
    heads: Annotated[int, Field(ge=1, le=1 << 14)]
    kv_heads: Annotated[int, Field(ge=1, le=1 << 14)]
    mlp_width: Annotated[int, Field(ge=1, le=1 << 20)]
    softcap: float | None = None
    """Attention scores are bounded by softcap · tanh(score / softcap)."""
    streams: Annotated[int, Field(ge=1, le=64)] = 1
    """Residual streams; several are mixed by manifold-constrained hyper-connections (mHC)."""
    mamba: MambaSpec = MambaSpec()
    engram: EngramSpec = EngramSpec()
    conv_kernel: Annotated[int, Field(ge=1, le=1 << 10)] = 4
    """Positions that each convolution reads, its own included."""
    structure: bool = False
    """True if it reads structure columns; attached to a trained model they change nothing at first."""


class OptimizerSpec(Strict):
    """AdamW and its schedule; steps are optimizer steps."""

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    gradient_clip: float = 1.0
    z_loss: float = 1e-5
    warmup_steps: int
    """Steps of warm-up, from 0 in the first phase; from a tenth of the rate where T changes."""
    schedule: Literal["stable", "decay"] = "stable"
    """stable: warm up and hold; decay: fall linearly to a tenth over the whole job (anneal)."""


class RowsSource(Strict):
    """A rows artefact that the plan or an evaluation reads."""

    key: str
    content: str
    path: PlainPath
    row_length: int


class EvaluationStratum(HeldOutCount):
    """One stratum of an evaluation: rows of a directory, and its weight in the mean."""

    family: str
    objective: str
    domain: str
    weight: float
    rows: RowsSource
    measured: tuple[int, ...]
    """Rows that are measured, by their number over all files, in rising order."""

    @property
    def positions(self) -> int:
        """Row positions that an evaluation reads of it."""
        return len(self.measured) * self.rows.row_length


class Evaluation(HeldOutCount):
    """A set of validation rows: `phase` and its objectives for each phase so far, and each fixed set."""

    set: SetName
    phase: str
    """The phase whose strata these are; for a fixed set its name."""
    strata: tuple[EvaluationStratum, ...]
    trained_share: float | None = None
    """Share of the targets of all its rows, 0…1, that training documents show; these are left unscored. None
    of conversations and imported rows, which aren't compared."""

    @property
    def name(self) -> str:
        """The set in words: anchor, phase syntax, fim of syntax."""
        return set_title(self.set, self.phase)


def set_title(name: str, phase: str) -> str:
    """A set of a phase in words.

    >>> set_title("anchor", "anchor"), set_title("phase", "syntax"), set_title("fim", "syntax")
    ('anchor', 'phase syntax', 'fim of syntax')
    """
    if name in FIXED_SETS:
        return name
    return f"{name} {phase}" if name == PHASE_SET else f"{name} of {phase}"


class TokenizerRef(Strict):
    """The tokenizer artefact; the trainer reads its token_bytes.parquet only."""

    key: str
    content: str
    path: PlainPath
    vocab_size: int


class CheckpointRef(Strict):
    """A checkpoint to start from: the run's key and content, and where it lies."""

    run_key: str
    run_content: str
    path: PlainPath


class Job(Sealed):
    """All that a trainer needs; frozen in job.json before the first step."""

    specialist: Name
    branch: Name | None
    phase: Name
    run_key: Name | Literal[""]
    attempt: int
    begun: str = ""
    """The moment at which it was frozen, in UTC; no part of what the run is, and empty before."""
    ordinal: Annotated[int, Field(ge=0)] = 0
    """Number of the attempt among all attempts of the workspace, from 1 in the order in which they were
    frozen; clocks may go back, numbers don't. No part of what the run is, and 0 before."""
    seed: int
    model: ModelSpec
    backend: Backend | Literal["auto"]
    """The backend asked for; with auto the training process chooses, and writes it to state and report."""
    device: DeviceName
    """Device of the machine that launched it last; no part of what the run is."""
    tokenizer: TokenizerRef
    threads: int = 1
    """Threads of the CPU, for each process; sums depend on it, so a resumed run keeps it."""
    processes: Annotated[int, Field(ge=1)] = 1
    """Processes that share the model and the micro-batches of a step; sums depend on it, not what is read."""
    context_parallel: Annotated[int, Field(ge=1)] = 1
    """Processes, of those that train, that share each row, each with a part of its positions."""
    workers: Annotated[int, Field(ge=0)] = 0
    """More processes, for each that trains, that load rows; 0 loads them between steps."""
    trainer: str | None = None
    """The command of a trainer that stands in for ours, {job} being the path of job.json."""
    recompute: bool = False
    """True if backward computes each block anew instead of keeping what forward left."""
    plan: PlainPath
    """Path of plan.parquet."""
    plan_key: str
    plan_content: str
    rows: tuple[RowsSource, ...]
    rope_base: float
    micro_positions: int
    """Row positions of one micro-batch: at least the largest row length."""
    tokens_per_step: int
    """Row positions of one optimizer step, a multiple of the plan's slot."""
    steps: int
    """Budget: whole steps."""
    optimizer: OptimizerSpec
    start_from: CheckpointRef | None
    evaluations: tuple[Evaluation, ...]
    evaluate_every: int
    """Steps; the phases' and the fixed sets' figures are taken before, every so many steps and after.

    One less than half as many steps before the end is left out. What the run that this one carries on
    measured of the same model on the same rows isn't measured again before the first step.
    """
    checkpoint_every: int
    """Steps; the last two and the end are kept."""
    advance_when: AdvanceWhen | None
    require: tuple[str, ...]
    study: Study | None = Field(default=None, exclude_if=no_study)
    """Settings of masks and positions for a comparison; None, and not in the file, for any other run."""
    writers: tuple[WriterName, ...] = ()
    """Destinations of metrics beside Parquet and console; no part of what the run is."""
    gpu_price: Annotated[float, Field(gt=0)] | None = None
    """Price of an hour of one GPU, in whatever money; None where none is set."""
    overrides: dict[str, str]
    """Changes of the diet by the command line: corpus, model, token_budget, max_repetition …"""

    @property
    def kernel(self) -> Backend:
        """The backend, once the training process has chosen it."""
        assert self.backend != "auto", "the backend of this job isn't chosen yet"
        return self.backend

    @property
    def slot_length(self) -> int:
        """Positions of a slot of the plan: the largest row length."""
        return max(rows.row_length for rows in self.rows)

    @property
    def slots_per_step(self) -> int:
        """Slots of the plan that a step reads."""
        return self.tokens_per_step // self.slot_length


class Figure(HeldOutCount):
    """val_bpb of one evaluation at one step, with its interval over lineages of documents."""

    set: SetName
    phase: str
    family: str
    """`*` for the weighted mean over the strata."""
    domain: str
    step: int
    val_bpb: float
    low: float
    high: float
    scored_tokens: int
    scored_bytes: int

    @property
    def name(self) -> str:
        """Its evaluation in words: anchor, phase syntax, fim of syntax."""
        return set_title(self.set, self.phase)

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Set, phase, family and domain of the figure."""
        return self.set, self.phase, self.family, self.domain

    @property
    def is_whole(self) -> bool:
        """True for figures of fixed sets and of all that a phase serves, not of an objective apart."""
        return self.set in (PHASE_SET, *FIXED_SETS)


class TokenCounts(Strict):
    """Tokens that a run consumed."""

    positions: int
    valid: int
    scored: int
    bytes: int
    """Bytes of the scored target tokens."""


class MaskingCost(Strict):
    """Cost of document masks on rows of the job itself."""

    ratio: float
    """Tokens a second masked ÷ unmasked on the same rows by the same kernel, the median over
    micro-batches; masks are built inside the clock of the masked side only. Above 1 masking is a gain."""
    row_length: int
    """Length of the longest rows among them."""
    positions: int
    """Positions that were measured: those of the first twenty steps, or fewer where time ran out."""
    micro_batches: int
    masked_seconds: float
    unmasked_seconds: float
    """Seconds of forward and backward over those positions: CPU seconds on a CPU."""


class Report(Sealed):
    """report.json: what a run leaves, and what the flow reads of it."""

    specialist: str
    phase: str
    attempt: int
    stopped: Stopped
    reason: str
    failure: Failure | None = None
    """Kind of end, where it failed."""
    steps: int
    tokens: TokenCounts
    before: tuple[Figure, ...]
    after: tuple[Figure, ...]
    history: tuple[Figure, ...]
    """The weighted means at every evaluation."""
    tokens_per_second: float
    seconds: float
    """Seconds of its steps."""
    evaluation_seconds: float | None = None
    """Seconds of its evaluations; None by other trainers that don't measure them."""
    gpu_seconds: float
    """Seconds of steps and evaluations, of all GPUs; 0 on a CPU."""
    cost: float | None = None
    """Cost of the GPU seconds, at the job's price; 0 on a CPU, None where there is no price."""
    device: str
    backend: str
    """Backend of the last steps; what was asked for, where another trainer doesn't say."""
    switched: tuple[str, ...] = ()
    """Changes of device or backend by a resume: bits equal those of a run without a stop only where there
    is none."""
    masked_mfu: float | None = None
    """The model's own operations, pairs within documents only, as a share of the devices' dense bfloat16
    peak; None where that isn't known, as on a CPU."""
    causal_mfu: float | None = None
    """The same with the pairs of rows that are one document each, as MFU is usually reported."""
    padded_positions: int | None = None
    """Row positions that the same documents would take in rows of one each; None by other trainers."""
    mean_context: float | None = None
    """Tokens of its own document before a scored token, on average; of its row in a study without masks."""
    attention_density: float | None = None
    """Pairs within documents, of those that rows without a mask would have; the mean over steps. In a study
    without masks the pairs within rows."""
    masking_cost: MaskingCost | None = None
    """None where it wasn't measured: rows below 16,384 tokens that don't require it."""
    leakcheck: Literal["passed", "not run"]
    study: Study | None = Field(default=None, exclude_if=no_study)
    """The study that the run is of; None, and not in the file, for any other."""
    checkpoint: PlainPathOrNone
    """Path of the checkpoint that the next phase starts from, relative to the workspace."""
    ended: str = ""
    """The moment of its end, in UTC; empty in reports of other trainers that don't say so."""

    def own_mean(
        self, figures: Iterable[Figure], kind: Literal["phase"] | FixedSet
    ) -> Figure | None:
        """Return the last weighted mean of a fixed set, or of the run's own phase, among its figures.

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
    """heartbeat.json of an open run: how far it is; rewritten at most once a second, so a sign of life."""

    step: int
    steps: int
    valid_tokens: int
    tokens_per_second: float
    val_bpb: float | None = None
    """Figure of the last evaluation of the phase's own mixture."""
    figures: tuple[Figure, ...] = ()
    """The weighted means of all evaluations so far."""
    doing: Doing | None = None
    """Work other than steps; None while steps are made."""
    evaluating_seconds: float = 0.0
    """Seconds that the evaluations still to come will take, by what was measured so far."""
    at: str
    """The moment at which it was written, in UTC."""


class RunState(Sealed):
    """state.json of an open run: its owner, for people to read; a lock tells whether the owner lives."""

    host: str
    pid: int
    at: str
    """The moment at which it was written, in UTC."""
    device: DeviceName | None = None
    backend: Backend | None = None
    """Device and backend of a run's steps, once its process has chosen them."""


class SlurmJob(Sealed):
    """sbatch.json of an open run that Slurm trains."""

    id: Annotated[str, Field(pattern=r"^[0-9]+$", max_length=20)]
    """A number: it becomes a word of squeue's and scancel's commands."""


class SlotState(RunState):
    """Holder of a slot, or a waiting run: the process that launches the job, and its name."""

    run: str
    """The run's directory, whole: workspaces may share slots."""


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
"""metrics/<first step>.parquet, a row a step. The last six columns measure the machine; all others
are the same in a resumed run as in an uninterrupted one. padded_positions are those that the same
documents would take in rows of one each; masked_mfu counts attention within documents, causal_mfu as if
each row were one; both are null where no peak is known, others in metrics of trainers that don't say."""
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
"""evaluations/step=<step>/documents.parquet, a row a document of each stratum of each set that was measured
at that step, sorted by all columns up to document_id: the nats of its scored tokens, their bytes and their
number. Σ nats / ln 2 ÷ Σ bytes of a stratum is its val_bpb in the report."""
