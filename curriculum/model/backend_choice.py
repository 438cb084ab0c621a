"""Choice of an attention backend. It depends on the diet's request, the device and the model.

The module doesn't import torch, so that commands that only read a diet stay fast.
"""

from dataclasses import dataclass
from typing import Literal

from schemas.errors import JobError
from schemas.job import Backend, DeviceName
from schemas.packed_row import ROW_MULTIPLE

MAX_DENSE_ROW = 8192
"""Maximum number of tokens in a row with a dense mask. A boolean mask of 64k by 64k takes 4 GB."""
WITH_SOFTCAP: tuple[Backend, ...] = ("math", "documents", "flex")
WITH_RELATIONS: tuple[Backend, ...] = ("math", "sdpa", "documents", "flex")


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """Attention kernels that run on a device."""

    device: DeviceName
    triton: bool
    """True if Triton supports the device. On GPUs the backend flex is compiled to Triton."""
    flash: bool
    """True if torch's FlashAttention for variable lengths runs. It needs half precision."""

    @staticmethod
    def expected(device: DeviceName) -> "Capabilities":
        """Return the usual capabilities of a device, for use before the training process has inspected it."""
        return Capabilities(device=device, triton=device == "cuda", flash=device == "cuda")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionNeeds:
    """Properties of a model and its rows that an attention backend has to support."""

    row_length: int
    """Number of tokens of the longest row."""
    softcap: float | None = None
    structure: bool = False
    """True if layers add a bias that depends on structure relations."""
    context: int = 1
    """Number of ranks that share a row. Each rank computes the queries of its part of the row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Chosen backend, and the reason for the choice."""

    backend: Backend
    reason: str


PREFERRED: dict[DeviceName, tuple[Backend, ...]] = {
    "cuda": ("flex", "varlen", "documents"),
    "cpu": ("documents",),
}
_REASONS: dict[Backend, str] = {
    "flex": "its block mask skips blocks between documents",
    "varlen": "its kernel works within document boundaries",
    "documents": "it computes every document separately, on any device",
    "sdpa": "it uses one dense mask per row",
    "math": "it is the reference implementation",
}


def choose(asked: Backend | Literal["auto"], has: Capabilities, needs: AttentionNeeds) -> Choice:
    """Return the requested backend.

    For `auto`, return the first one, by preference, that model and device support.

    Raises:
        JobError: if the device or the model doesn't support the requested backend; names the reason.
    """
    if asked != "auto":
        if (refused := refusal(asked, has, needs)) is not None:
            raise refused
        return Choice(backend=asked, reason="requested")
    skipped: list[str] = []
    for backend in PREFERRED[has.device]:
        if (refused := refusal(backend, has, needs)) is None:
            return Choice(backend=backend, reason="; ".join([_REASONS[backend], *skipped]))
        skipped.append(f"{refused.value}: {refused.cause}")
    raise AssertionError("the backend documents supports every model on every device")


def refusal(backend: Backend, has: Capabilities, needs: AttentionNeeds) -> JobError | None:
    """Return the error for a backend that the device or the model doesn't support; None if both do."""
    if needs.softcap is not None and backend not in WITH_SOFTCAP:
        return unsupported_option(
            backend, f"softcap {needs.softcap:g}", "use a model without softcap", WITH_SOFTCAP
        )
    if needs.structure and backend not in WITH_RELATIONS:
        return unsupported_option(
            backend, "structure", "set structure_inputs: false", WITH_RELATIONS
        )
    match backend:
        case "varlen":
            return row_part_unsupported("varlen") if needs.context > 1 else _without_flash(has)
        case "flex":
            return _without_blocks(has, needs)
        case "sdpa" if needs.row_length > MAX_DENSE_ROW:
            return row_too_long("sdpa", needs.row_length)
        case _:
            return None


def row_too_long(backend: str, row_length: int) -> JobError:
    """Return the error for rows of T tokens whose T² memory is too large for a backend."""
    return JobError(
        "backend",
        f"{backend} at row length {row_length}",
        cause=f"its memory grows with T², so rows may have at most {MAX_DENSE_ROW} tokens",
        cure="Choose the backend documents on a CPU, or flex on a GPU",
    )


def _without_flash(has: Capabilities) -> JobError | None:
    if has.device != "cuda":
        return JobError(
            "backend",
            f"varlen on {has.device}",
            cause="the kernel runs only on GPUs",
            cure="On a CPU, choose the backend documents",
        )
    if not has.flash:
        return JobError(
            "backend",
            "varlen",
            cause="this GPU or this torch version doesn't support variable-length FlashAttention",
            cure="Choose flex or documents",
        )
    return None


def row_part_unsupported(backend: str) -> JobError:
    """Return the error for a backend that can't compute a part of a row, as context parallelism needs."""
    return JobError(
        "backend",
        f"{backend} with context_parallel",
        cause="the kernel needs as many queries as keys, but a part of a row reads more keys",
        cure="Choose flex on a GPU or documents on a CPU",
    )


def _without_blocks(has: Capabilities, needs: AttentionNeeds) -> JobError | None:
    row_length = needs.row_length
    if row_length % (ROW_MULTIPLE * needs.context):
        parts = f", shared by {needs.context} ranks" if needs.context > 1 else ""
        return JobError(
            "backend",
            f"flex at row length {row_length}{parts}",
            cause=f"a block mask needs a multiple of {ROW_MULTIPLE} tokens per rank",
            cure="Pad the rows, or choose documents",
        )
    if has.device == "cuda":
        return (
            None
            if has.triton
            else JobError(
                "backend",
                "flex",
                cause="it is compiled to Triton, which isn't available for this GPU",
                cure="Install triton, or choose documents",
            )
        )
    return row_too_long("flex on a CPU", row_length) if row_length > MAX_DENSE_ROW else None


def unsupported_option(
    backend: str, option: str, instead: str, able: tuple[Backend, ...]
) -> JobError:
    """Return the error for an option that a backend doesn't support.

    The error names the backends in `able`.
    """
    feature = option.partition(" ")[0]
    return JobError(
        "backend",
        f"{backend} with {option}",
        cause=f"the kernel doesn't support {feature}",
        cure=f"Choose {', '.join(able[:-1])} or {able[-1]}, or {instead}",
    )
