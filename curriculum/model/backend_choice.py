"""The choice of an attention backend: what a diet asks for against what a device and a model allow.

A pure function of values: a command that only looks at a diet imports no torch for it.
"""

from dataclasses import dataclass
from typing import Literal

from schemas.errors import JobError
from schemas.job import Backend, DeviceName
from schemas.packed_row import ROW_MULTIPLE

MAX_DENSE_ROW = 8192
"""A boolean mask of 64k by 64k is 4 GB."""
WITH_SOFTCAP: tuple[Backend, ...] = ("math", "documents", "flex")
WITH_RELATIONS: tuple[Backend, ...] = ("math", "sdpa", "documents", "flex")


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """Kernels of attention that a device can run."""

    device: DeviceName
    triton: bool
    """True where Triton generates code for it: flex is compiled to that on a GPU."""
    flash: bool
    """True where torch's variable-length FlashAttention runs, in half precision."""

    @staticmethod
    def expected(device: DeviceName) -> "Capabilities":
        """Capabilities of a kind of device, before the process that trains has looked at it."""
        return Capabilities(device=device, triton=device == "cuda", flash=device == "cuda")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionNeeds:
    """Needs of a model and its rows that a backend must meet."""

    row_length: int
    """Tokens of the longest row."""
    softcap: float | None = None
    structure: bool = False
    """True where layers have biases by relation."""
    context: int = 1
    """Ranks that share a row, each with the queries of a part of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A backend, and the reason for it."""

    backend: Backend
    reason: str


PREFERRED: dict[DeviceName, tuple[Backend, ...]] = {
    "cuda": ("flex", "varlen", "documents"),
    "cpu": ("documents",),
}
_REASONS: dict[Backend, str] = {
    "flex": "its block mask passes over what documents don't share",
    "varlen": "its kernel is cut by the boundaries",
    "documents": "it computes each document by itself, on any device",
    "sdpa": "its mask is one matrix a row",
    "math": "it is the reference",
}


def choose(asked: Backend | Literal["auto"], has: Capabilities, needs: AttentionNeeds) -> Choice:
    """The backend that is asked for, or with auto the first of the device's that nothing refuses.

    Raises:
        JobError: for one that the device or the model can't have, with the reason.
    """
    if asked != "auto":
        if (refused := refusal(asked, has, needs)) is not None:
            raise refused
        return Choice(backend=asked, reason="asked for")
    passed: list[str] = []
    for backend in PREFERRED[has.device]:
        if (refused := refusal(backend, has, needs)) is None:
            return Choice(backend=backend, reason="; ".join([_REASONS[backend], *passed]))
        passed.append(f"{refused.value}: {refused.cause}")
    raise AssertionError("documents takes every model on every device")


def refusal(backend: Backend, has: Capabilities, needs: AttentionNeeds) -> JobError | None:
    """The error of a backend that can't be had; None for one that can."""
    if needs.softcap is not None and backend not in WITH_SOFTCAP:
        return without(
            backend, f"softcap {needs.softcap:g}", "a model without softcap", WITH_SOFTCAP
        )
    if needs.structure and backend not in WITH_RELATIONS:
        return without(backend, "structure", "structure_inputs: false", WITH_RELATIONS)
    match backend:
        case "varlen":
            return of_whole_rows("varlen") if needs.context > 1 else _without_flash(has)
        case "flex":
            return _without_blocks(has, needs)
        case "sdpa" if needs.row_length > MAX_DENSE_ROW:
            return too_long("sdpa", needs.row_length)
        case _:
            return None


def too_long(backend: str, row_length: int) -> JobError:
    """The refusal of rows whose mask or scores would grow with T²."""
    return JobError(
        "backend",
        f"{backend} at row length {row_length}",
        cause=f"its memory grows with T²; it takes rows of at most {MAX_DENSE_ROW}",
        cure="Choose documents on a CPU, flex on a GPU",
    )


def _without_flash(has: Capabilities) -> JobError | None:
    if has.device != "cuda":
        return JobError(
            "backend",
            f"varlen on {has.device}",
            cause="its kernel runs on GPUs only",
            cure="Choose documents on a CPU",
        )
    if not has.flash:
        return JobError(
            "backend",
            "varlen",
            cause="this GPU or this torch has no variable-length FlashAttention",
            cure="Choose flex or documents",
        )
    return None


def of_whole_rows(backend: str) -> JobError:
    """The refusal of queries of a part of a row, which read more keys than they are."""
    return JobError(
        "backend",
        f"{backend} with context_parallel",
        cause="it cuts queries and keys by the same lengths, and a part of a row reads more keys",
        cure="Choose flex on a GPU, documents on a CPU",
    )


def _without_blocks(has: Capabilities, needs: AttentionNeeds) -> JobError | None:
    row_length = needs.row_length
    if row_length % (ROW_MULTIPLE * needs.context):
        parts = f", shared by {needs.context} ranks" if needs.context > 1 else ""
        return JobError(
            "backend",
            f"flex at row length {row_length}{parts}",
            cause=f"a block mask needs a multiple of {ROW_MULTIPLE} a rank",
            cure="Pad the rows, or choose documents",
        )
    if has.device == "cuda":
        return (
            None
            if has.triton
            else JobError(
                "backend",
                "flex",
                cause="Triton, to which it is compiled, has no code for this GPU here",
                cure="Install triton, or choose documents",
            )
        )
    return too_long("flex on a CPU", row_length) if row_length > MAX_DENSE_ROW else None


def without(backend: str, option: str, instead: str, able: tuple[Backend, ...]) -> JobError:
    """The refusal of an option that a kernel doesn't have, with those that do."""
    what = option.partition(" ")[0]
    return JobError(
        "backend",
        f"{backend} with {option}",
        cause=f"its kernel has no {what}",
        cure=f"Choose {', '.join(able[:-1])} or {able[-1]}, or {instead}",
    )
