"""Claim REPACKED: training depends on the documents of each step, not on how they are packed.

A model is trained on the same documents in several packings (packings.py). The packings differ in neighbours,
order, row lengths, micro-batches, files, evaluations, checkpoints and resumes. In each step the summed loss
of each document, the gradients and the weights must agree. If a document reads other parts of its row, of its
batch or of earlier batches, the results differ, because these parts differ between packings.
"""

import contextlib
import io
import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from curriculum.leakcheck.packings import PLAN, Packing, data_set_key, data_set_path, write
from curriculum.leakcheck.proof_documents import ProofDocument, ProofSteps
from curriculum.leakcheck.recorder import Recorder, StepTrace
from schemas.held_out import HeldOutCount
from schemas.job import (
    Backend,
    Evaluation,
    EvaluationStratum,
    Job,
    ModelSpec,
    OptimizerSpec,
    RowsSource,
    TokenizerRef,
)

KEY = "0" * 64
TOKENIZER = "tokenizer"
RATES = {"learning_rate": 1e-3, "warmup_steps": 2, "schedule": "stable", "gradient_clip": 0.1}
"""Optimizer settings of every proof: a short warm-up, and a clipping limit that every step exceeds."""
RATE = OptimizerSpec.model_validate(RATES)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofSetting:
    """Everything that determines how a proof trains, apart from the documents and their packing."""

    model: ModelSpec
    backend: Backend
    recompute: bool
    dtype: torch.dtype
    device: torch.device
    rope_base: float = 500_000.0
    optimizer: OptimizerSpec = RATE
    seed: int = 0
    start: Path | None = None
    """Checkpoint with the starting weights. None starts from fresh weights with noise on constant weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """Maximum differences between two packings that count as rounding."""

    loss: float
    """Relative difference of a document's summed loss in the first step, which starts from equal weights."""
    gradient: float
    """Difference of a tensor's gradient divided by the gradient's norm, in the first step."""
    later_loss: float
    """Relative difference of a document's summed loss in later steps."""
    weights: float
    """Difference of a weight divided by learning rate × steps. Infinity if rounding can reverse an update."""
    floor: float = 0.0
    """Share of the norm of all gradients.

    A tensor's smaller gradient is divided by it, not by its own norm.
    """


EXACT = Tolerance(loss=1e-12, gradient=1e-12, later_loss=1e-11, weights=1e-8)
ROUNDED = Tolerance(loss=1e-5, gradient=1e-4, later_loss=1e-3, weights=math.inf, floor=1e-2)
COARSE = Tolerance(loss=3e-2, gradient=1e-1, later_loss=1e-1, weights=math.inf, floor=1e-1)
MIXED = Tolerance(loss=1e-4, gradient=1e-2, later_loss=1e-3, weights=math.inf, floor=1e-2)
"""Tolerance for training with bfloat16 products.

In float64 the order of summation alone changes losses by 6e-16 to 5e-15, and gradients by 2e-15. With
bfloat16 products it changes losses by up to 3e-6, gradients by 1e-3 and losses of later steps by 6e-5
(on an H200). AdamW divides small gradients by their own size. Therefore, weights are compared only in
float64.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """First number that differs between a packing and the reference by more than the tolerance."""

    step: int
    """Step, counted from 1."""
    figure: str
    """Description of the number: the loss of a document, a gradient or a weight."""
    amount: float
    limit: float
    document: int | None = None
    """Number of the document if the loss of a document differs."""

    def __str__(self) -> str:
        if math.isinf(self.amount):
            return f"step {self.step}: {self.figure}"
        return (
            f"step {self.step}: {self.figure} differs by {self.amount:.1e}, limit {self.limit:.0e}"
        )


def tolerance_of(setting: ProofSetting) -> Tolerance:
    """Return the tolerance for our own trainer. On a GPU, training in float32 uses bfloat16 products."""
    if setting.dtype == torch.float64:
        return EXACT
    return ROUNDED if setting.dtype == torch.float32 and setting.device.type == "cpu" else MIXED


Train = Callable[["ProofSetting", Job, Path, Recorder, Packing], None]
"""Function that trains the job of a workspace while the recorder records each step."""


def disagreements(
    setting: ProofSetting,
    steps: ProofSteps,
    ways: Sequence[Packing],
    *,
    train: Train,
    tolerance: Tolerance | None = None,
) -> Iterator[tuple[Packing, Disagreement | None]]:
    """Train on each packing in `ways`, and compare all others with the first.

    Yield each packing except the first with its first difference from the first packing, or None.

    Raises:
        CurriculumError: if a training run fails.
    """
    limits = tolerance or tolerance_of(setting)
    documents = [document for step in steps for document in step]
    expected = traces(setting, steps, ways[0], train=train)
    for way in ways[1:]:
        found = traces(setting, steps, way, train=train)
        yield way, _first_difference(setting, documents, expected, found, limits)


def traces(
    setting: ProofSetting,
    steps: ProofSteps,
    packing: Packing,
    *,
    train: Train,
    probed_step: int | None = None,
) -> list[StepTrace]:
    """Train on one packing in a temporary workspace, and return the trace of each step.

    The trace of step `probed_step` also has the outputs of each block, by document.
    """
    with tempfile.TemporaryDirectory(prefix="leakcheck-") as folder:
        workspace = Path(folder)
        spec = setting.model
        write(packing, steps, workspace, vocab_size=spec.vocab_size, structured=spec.structure)
        _write_token_bytes(workspace / TOKENIZER, spec.vocab_size)
        documents = [document for step in steps for document in step]
        recorder = Recorder(packing=packing, documents=documents, probed_step=probed_step)
        # Hide the console log of the training run.
        with contextlib.redirect_stdout(io.StringIO()):
            train(setting, _job(setting, packing), workspace, recorder, packing)
        assert len(recorder.traces) == len(packing.steps), "all steps are trained"
        return recorder.traces


def _write_token_bytes(folder: Path, vocab_size: int) -> None:
    folder.mkdir()
    sizes = np.ones(vocab_size, dtype=np.int32)
    pq.write_table(pa.table({"num_bytes": sizes}), folder / "token_bytes.parquet")


def _job(setting: ProofSetting, packing: Packing) -> Job:
    sources = tuple(
        RowsSource(
            key=data_set_key(*place),
            content=KEY,
            path=data_set_path(*place),
            row_length=place[0],
        )
        for place in packing.data_sets
    )
    longest = max(source.row_length for source in sources)
    count = len(packing.steps)
    vocab_size = setting.model.vocab_size
    return Job(
        specialist="leakcheck",
        branch=None,
        phase="leakcheck",
        run_key="",
        attempt=1,
        seed=setting.seed,
        model=setting.model,
        backend=setting.backend,
        device="cuda" if setting.device.type == "cuda" else "cpu",
        tokenizer=TokenizerRef(key=KEY, content=KEY, path=TOKENIZER, vocab_size=vocab_size),
        recompute=setting.recompute,
        plan=PLAN,
        plan_key=KEY,
        plan_content=KEY,
        rows=sources,
        rope_base=setting.rope_base,
        micro_positions=max(packing.micro_positions, longest),
        # The plan has one slot per step.
        tokens_per_step=longest,
        steps=count,
        optimizer=setting.optimizer,
        start_from=None,
        evaluations=() if packing.evaluate_every is None else (_evaluation(sources[0]),),
        evaluate_every=packing.evaluate_every or count,
        checkpoint_every=packing.checkpoint_every or count,
        advance_when=None,
        require=(),
        overrides={},
    )


def _evaluation(rows: RowsSource) -> Evaluation:
    """Return an evaluation on the first row. Evaluations must not affect training."""
    count = HeldOutCount(documents=1, lineages=1, effective_documents=1, effective_lineages=1)
    stratum = EvaluationStratum(
        family="leakcheck",
        objective="causal",
        domain="leakcheck",
        weight=1.0,
        rows=rows,
        measured=(0,),
        **count.model_dump(),
    )
    return Evaluation(set="phase", phase="leakcheck", strata=(stratum,), **count.model_dump())


def _first_difference(
    setting: ProofSetting,
    documents: Sequence[ProofDocument],
    expected: Sequence[StepTrace],
    found: Sequence[StepTrace],
    limits: Tolerance,
) -> Disagreement | None:
    rate = setting.optimizer.learning_rate
    for step, (one, other) in enumerate(zip(expected, found, strict=True), start=1):
        compared = itertools.chain(
            _faults(one, other, step),
            _losses(one, other, step, documents, limits.loss if step == 1 else limits.later_loss),
            _gradients(one, other, step, limits),
            _norms(one, other, step, limits),
            _weights(one, other, step, limits.weights * rate * step),
        )
        for figure in compared:
            if not figure.amount <= figure.limit:
                return figure
    return None


def _faults(one: StepTrace, other: StepTrace, step: int) -> Iterator[Disagreement]:
    for trace in (one, other):
        if trace.fault:
            yield Disagreement(step=step, figure=trace.fault, amount=math.inf, limit=0.0)


def _losses(
    one: StepTrace,
    other: StepTrace,
    step: int,
    documents: Sequence[ProofDocument],
    limit: float,
) -> Iterator[Disagreement]:
    """Yield how the documents' losses differ, starting with the largest difference."""
    for number in sorted(
        one.losses, key=lambda number: -_relative(one.losses[number], other.losses[number])
    ):
        yield Disagreement(
            step=step,
            figure=f"the loss of document {number}, of {len(documents[number])} tokens,",
            amount=_relative(one.losses[number], other.losses[number]),
            limit=limit,
            document=number,
        )


def _relative(one: float, other: float) -> float:
    difference = abs(one - other)
    return difference / max(abs(one), abs(other)) if difference else 0.0


def _gradients(
    one: StepTrace, other: StepTrace, step: int, limits: Tolerance
) -> Iterator[Disagreement]:
    whole = math.hypot(*(float(gradient.double().norm()) for gradient in one.gradients.values()))
    for name, gradient in one.gradients.items():
        there = other.gradients.get(name)
        distance = math.inf if there is None else _norm(gradient.double() - there.double())
        scale = max(_norm(gradient.double()), limits.floor * whole)
        yield Disagreement(
            step=step,
            figure=f"the gradient of {name}",
            amount=distance / scale if scale else distance,
            limit=limits.gradient,
        )


def _norm(values: Tensor) -> float:
    return float(values.norm())


def _norms(
    one: StepTrace, other: StepTrace, step: int, limits: Tolerance
) -> Iterator[Disagreement]:
    if one.norm is not None and other.norm is not None:
        limit = limits.gradient if step == 1 else limits.later_loss
        amount = abs(one.norm - other.norm) / max(one.norm, 1e-300)
        figure = "the norm of all gradients before clipping"
        yield Disagreement(step=step, figure=figure, amount=amount, limit=limit)


def _weights(one: StepTrace, other: StepTrace, step: int, limit: float) -> Iterator[Disagreement]:
    for name in one.weights.keys() & other.weights.keys():
        amount = float((one.weights[name] - other.weights[name]).abs().max())
        yield Disagreement(step=step, figure=f"weight {name}", amount=amount, limit=limit)


def first_layer(
    setting: ProofSetting,
    steps: ProofSteps,
    one: Packing,
    other: Packing,
    step: int,
    *,
    train: Train,
) -> str:
    """Find the first block whose output or gradient differs between the packings `one` and `other` in a step.

    Both packings are trained again. The outputs are compared first, by document, from the embedding to the
    last block. Then the gradients are compared, back to the embedding. If all of them agree, the cause must
    be in the weights or the optimizer.
    """
    here, there = (
        traces(setting, steps, way, train=train, probed_step=step)[step - 1].probes
        for way in (one, other)
    )
    tolerance = tolerance_of(setting)
    limit = max(tolerance.gradient, tolerance.later_loss)
    for direction, places in (("output", [*here.outputs]), ("gradient", [*here.outputs][::-1])):
        kept = here.outputs if direction == "output" else here.gradients
        others = there.outputs if direction == "output" else there.gradients
        for place in places:
            if kept[place].keys() != others[place].keys():
                return f"first in the {direction} of {place}: not the same documents are computed"
            if not kept[place]:
                continue
            number, amount = _largest_difference(kept[place], others[place])
            if not amount <= limit:
                return f"first in the {direction} of {place}, at document {number}, by {amount:.1e}"
    return "neither in the output nor in the gradient of a block: in weights or optimizer"


def _largest_difference(
    one: Mapping[int, Tensor], other: Mapping[int, Tensor]
) -> tuple[int, float]:
    """Return the document with the largest difference divided by its norm, and this ratio."""
    amounts = {
        number: _norm(values.double() - other[number].double())
        / max(_norm(values.double()), 1e-300)
        for number, values in one.items()
    }
    number = max(amounts, key=lambda document: amounts[document])
    return number, amounts[number]
