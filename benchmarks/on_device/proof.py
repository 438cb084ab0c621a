"""Leakcheck on the device: no document of a row changes another, in a model and in the step that trains."""

import functools
from collections.abc import Callable, Iterator, Sequence

import torch

from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import Rows, built_rows
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.leakcheck.claims import ROW_LENGTH
from curriculum.leakcheck.decoders import whole
from curriculum.leakcheck.proof import Scope, prove
from curriculum.leakcheck.step_claims import prove_step
from curriculum.leakcheck.subject import dtype_name
from schemas.job import Backend
from schemas.leak import Finding

SECTION = "leakcheck"
Prover = Callable[[Setting, Backend, torch.dtype], tuple[Finding, ...]]
TF32 = "high"
EXACT = "highest"
_SHOWN = 3
"""Failures that are named in a line."""


def measurements(setting: Setting) -> Iterator[Measurement]:
    """A model and its step by the main backend in bfloat16 and float32, then models by the others.

    On a GPU float32 is tried twice: exact, and with products in TF32 as the trainer sets it.
    """
    first, *others = setting.backends[: setting.proofs]
    for dtype in (torch.bfloat16, torch.float32):
        yield _measurement(setting, first, dtype, EXACT, of_model, wave=1)
    yield _measurement(setting, first, torch.float32, EXACT, of_step, wave=1)
    if setting.on_gpu:
        yield _measurement(setting, first, torch.bfloat16, EXACT, of_step, wave=1)
        yield _measurement(setting, first, torch.float32, TF32, of_model, wave=2)
        yield _measurement(setting, first, torch.float32, TF32, of_step, wave=2)
    for backend in others:
        yield _measurement(setting, backend, torch.bfloat16, EXACT, of_model, wave=3)


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
    name = f"{backend}, {dtype_name(dtype)}{suffix}{', step' if prover is of_step else ''}"
    return Measurement(
        wave=wave,
        line=ResultLine(
            section=SECTION, subject=name, row_length=ROW_LENGTH, documents="edge cases"
        ),
        work=functools.partial(_proven, setting, backend, dtype, precision, prover),
        build=functools.partial(
            built_rows,
            setting,
            setting.spec(setting.models[-1]),
            backend,
            Rows(length=ROW_LENGTH, mean=100),
        ),
    )


def of_model(setting: Setting, backend: Backend, dtype: torch.dtype) -> tuple[Finding, ...]:
    """Prove every claim about the layers of the hybrid, all in one small decoder."""
    scope = Scope(
        cases=(whole(setting.spec(setting.models[-1])),),
        backends=(backend,),
        dtypes=(dtype,),
        uneven=False,
        mutations=False,
        device=setting.device,
    )
    return prove(scope).findings


def of_step(setting: Setting, backend: Backend, dtype: torch.dtype) -> tuple[Finding, ...]:
    """Prove the claims about the step that trains a small hybrid."""
    spec = setting.spec(setting.models[-1])
    return prove_step(
        spec, backend=backend, row_length=ROW_LENGTH, dtype=dtype, device=setting.device
    )


def _proven(
    setting: Setting,
    backend: Backend,
    dtype: torch.dtype,
    precision: str,
    prover: Prover,
    share: float,
) -> Outcome:
    """Prove all claims whatever the share of the time: a part proves nothing."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        found = prover(setting, backend, dtype)
    finally:
        torch.set_float32_matmul_precision(before)
        # Its many small shapes would use up the number of shapes that flex is compiled for.
        torch.compiler.reset()
    failed = [each for each in found if not each.passed]
    return Outcome(
        figures=(
            Figure(name="claims that hold", value=len(found) - len(failed)),
            Figure(name="claims that fail", value=len(failed)),
        ),
        note=_note(failed),
    )


def _note(failed: Sequence[Finding]) -> str:
    named = [f"LEAK {each.claim} ({each.detail})" for each in failed]
    rest = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return "; ".join(named[:_SHOWN]) + rest
