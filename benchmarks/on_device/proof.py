"""Leakcheck on the device: no document of a row changes another, forward and backward."""

import functools
from collections.abc import Iterator

import torch

from benchmarks.on_device.lines import Figure, Line
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.leakcheck.decoders import whole
from curriculum.leakcheck.examine import ROW_LENGTH
from curriculum.leakcheck.proof import Scope, prove
from curriculum.leakcheck.subject import dtype_name
from schemas.job import Backend
from schemas.leak import LeakReport

SECTION = "leakcheck"
TF32 = "high"
EXACT = "highest"
_SHOWN = 3
"""Failures that are named in a line."""


def measurements(setting: Setting) -> Iterator[Measurement]:
    """The main backend in bfloat16 and float32, then the others in bfloat16.

    On a GPU float32 is tried twice: exact, and with products in TF32 as the trainer sets it.
    """
    first, *others = setting.backends[: setting.proofs]
    for dtype in (torch.bfloat16, torch.float32):
        yield _measurement(setting, first, dtype, EXACT, wave=1)
    if setting.on_gpu:
        yield _measurement(setting, first, torch.float32, TF32, wave=2)
    for backend in others:
        yield _measurement(setting, backend, torch.bfloat16, EXACT, wave=3)


def _measurement(
    setting: Setting, backend: Backend, dtype: torch.dtype, precision: str, *, wave: int
) -> Measurement:
    suffix = ", TF32" if precision == TF32 else ""
    name = f"{backend}, {dtype_name(dtype)}{suffix}"
    return Measurement(
        wave=wave,
        line=Line(section=SECTION, subject=name, row_length=ROW_LENGTH, documents="edge cases"),
        work=functools.partial(_proven, setting, backend, dtype, precision),
    )


def report_of(setting: Setting, backend: Backend, dtype: torch.dtype) -> LeakReport:
    """Prove every claim about the layers of the hybrid, all in one small decoder."""
    return prove(
        Scope(
            cases=(whole(setting.spec(setting.models[-1])),),
            backends=(backend,),
            dtypes=(dtype,),
            uneven=False,
            mutations=False,
            device=setting.device,
        )
    )


def _proven(
    setting: Setting, backend: Backend, dtype: torch.dtype, precision: str, share: float
) -> Outcome:
    """Prove all claims whatever the share of the time: a part proves nothing."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        report = report_of(setting, backend, dtype)
    finally:
        torch.set_float32_matmul_precision(before)
        # Its many small shapes would use up the number of shapes that flex is compiled for.
        torch.compiler.reset()
    failed = len(report.failures)
    return Outcome(
        figures=(
            Figure(name="claims that hold", value=len(report.findings) - failed),
            Figure(name="claims that fail", value=failed),
        ),
        note=_note(report),
    )


def _note(report: LeakReport) -> str:
    named = [f"LEAK {each.claim} ({each.detail})" for each in report.failures]
    rest = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return "; ".join(named[:_SHOWN]) + rest
