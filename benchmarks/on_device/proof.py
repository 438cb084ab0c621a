"""Leakcheck on the device: claims about a model, and the claim REPACKED about its training."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import RowKind, build_on_rows
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.leakcheck.claims import ROW_LENGTH
from curriculum.leakcheck.decoders import small_model, whole
from curriculum.leakcheck.packings import Packing, packings
from curriculum.leakcheck.proof import ProofScope, many_findings, prove, repacked_findings
from curriculum.leakcheck.proof_documents import proof_documents
from curriculum.leakcheck.recorder import Recorder, train_plainly
from curriculum.leakcheck.repacked import ProofSetting
from curriculum.leakcheck.subject import dtype_name, spread_constant_weights
from curriculum.train.batch import Batch
from curriculum.train.optimizer import new_train_state
from curriculum.train.step import optimizer_step
from schemas.job import Backend, Job
from schemas.leak import Finding

SECTION = "leakcheck"
Prover = Callable[[Setting, Backend, torch.dtype], tuple[Finding, ...]]
TF32 = "high"
EXACT = "highest"
_SHOWN = 3
"""Failed claims that a note names."""


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Yield proofs about a model and its training with the main backend, then about models with the others.

    The main backend is checked in bfloat16 and float32. On a GPU, float32 is checked twice: with exact matrix
    products, and with products in TF32 as in the trainer.
    """
    first, *others = setting.backends[: setting.proven_backends]
    for dtype in (torch.bfloat16, torch.float32):
        yield _measurement(setting, first, dtype, EXACT, prove_model, wave=1)
    yield _measurement(setting, first, torch.float32, EXACT, prove_training, wave=1)
    yield _measurement(setting, "documents", torch.float64, EXACT, prove_training, wave=1)
    if setting.on_gpu:
        yield _measurement(setting, first, torch.bfloat16, EXACT, prove_training, wave=1)
        yield _measurement(setting, first, torch.float32, TF32, prove_model, wave=2)
        yield _measurement(setting, first, torch.float32, TF32, prove_training, wave=2)
    for backend in others:
        yield _measurement(setting, backend, torch.bfloat16, EXACT, prove_model, wave=3)


def _measurement(
    setting: Setting,
    backend: Backend,
    dtype: torch.dtype,
    precision: str,
    prover: Prover,
    *,
    wave: int,
) -> Measurement:
    suffix = ", TF32" if precision == TF32 else ""
    name = (
        f"{backend}, {dtype_name(dtype)}{suffix}{', training' if prover is prove_training else ''}"
    )
    return Measurement(
        wave=wave,
        line=ResultLine(
            section=SECTION, subject=name, row_length=ROW_LENGTH, documents="edge cases"
        ),
        work=functools.partial(_run_proof, setting, backend, dtype, precision, prover),
        build=functools.partial(
            build_on_rows,
            setting,
            setting.spec(setting.models[-1]),
            backend,
            RowKind(length=ROW_LENGTH, mean=100),
        ),
    )


def prove_model(setting: Setting, backend: Backend, dtype: torch.dtype) -> tuple[Finding, ...]:
    """Prove every claim about a model, for one small decoder with all layers of the hybrid."""
    scope = ProofScope(
        cases=(whole(setting.spec(setting.models[-1])),),
        backends=(backend,),
        dtypes=(dtype,),
        uneven=False,
        device=setting.device,
    )
    return prove(scope).findings


def prove_training(setting: Setting, backend: Backend, dtype: torch.dtype) -> tuple[Finding, ...]:
    """Prove that a small hybrid trains in the same way, however the same documents are packed."""
    proven = ProofSetting(
        model=small_model(setting.spec(setting.models[-1])),
        backend=backend,
        recompute=False,
        dtype=dtype,
        device=setting.device,
    )
    steps = proof_documents(proven.model, longest=ROW_LENGTH, steps=2)
    return (
        *repacked_findings(proven, steps, packings(steps, ROW_LENGTH), train=_train_by_steps),
        *many_findings(proven, train=_train_by_steps),
    )


def _train_by_steps(
    proven: ProofSetting, job: Job, workspace: Path, recorder: Recorder, _: Packing
) -> None:
    """Train with the steps of a training job, but without the files of a run."""
    train_plainly(_StepTrainer(proven, job), job, workspace, recorder)


class _StepTrainer:
    """Train state that takes one step at a time."""

    def __init__(self, proven: ProofSetting, job: Job) -> None:
        self.job, self.number = job, 0
        self.train_state = new_train_state(job, proven.device, dtype=proven.dtype)
        spread_constant_weights(self.train_state.model).train()

    def step(
        self, batches: Sequence[Batch]
    ) -> tuple[list[list[float]], Mapping[str, torch.Tensor]]:
        """Run one optimizer step; return the summed loss of each segment of each batch, and the gradients."""
        gradients: dict[str, torch.Tensor] = {}

        def keep_gradients(*_: Any) -> None:
            for name, weight in self.train_state.model.named_parameters():
                if weight.grad is not None:
                    gradients[name] = weight.grad.detach().clone()

        self.number += 1
        hook = self.train_state.optimizer.register_step_pre_hook(keep_gradients)
        result = optimizer_step(self.train_state, batches, self.job, step=self.number, rate=1e-3)
        hook.remove()
        return [sums.tolist() for sums in result.documents], gradients

    def weights(self) -> Mapping[str, torch.Tensor]:
        """Return copies of the weights."""
        named = self.train_state.model.named_parameters()
        return {name: weight.detach().clone() for name, weight in named}


def _run_proof(
    setting: Setting,
    backend: Backend,
    dtype: torch.dtype,
    precision: str,
    prover: Prover,
    share: float,
) -> Outcome:
    """Prove all claims, however long it takes: a part of the claims would prove nothing."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        findings = prover(setting, backend, dtype)
    finally:
        torch.set_float32_matmul_precision(before)
        # Torch compiles flex for a limited number of shapes. The small shapes of proofs would use them up.
        torch.compiler.reset()
    failed = [finding for finding in findings if not finding.passed]
    return Outcome(
        figures=(
            Figure(name="claims passed", value=len(findings) - len(failed)),
            Figure(name="claims failed", value=len(failed)),
        ),
        note=_note(failed),
    )


def _note(failed: Sequence[Finding]) -> str:
    named = [f"LEAK {finding.claim} ({finding.detail})" for finding in failed]
    rest = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return "; ".join(named[:_SHOWN]) + rest
