"""Settings of a process for its device: threads, determinism, precision and memory.

CPUs compute in float32 and give the same bits every time. GPUs compute products in bfloat16.
"""

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import torch
import torch.utils.deterministic

from curriculum.model.backend_choice import AttentionNeeds, Capabilities, choose
from curriculum.train.metrics import log
from schemas.errors import JobError, JobMemoryError
from schemas.job import Job


def mixed_precision(device: torch.device) -> torch.autocast:
    """Return an autocast context: matrix products in bfloat16 on GPUs, everything in float32 on CPUs."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def prepare(job: Job, local: int = 0) -> torch.device:
    """Set the threads and the determinism of this process, and return its device.

    `local` is the number of the process on its machine.

    Raises:
        JobError: if the GPU doesn't exist.
    """
    torch.set_num_threads(job.threads)
    if job.device == "cpu":
        keep_freed_memory()
        torch.use_deterministic_algorithms(True)
        # Filling uninitialised memory, which is written before it is read, would cost a few percent.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise JobError(
            "device",
            "cuda",
            cause="this machine has no usable GPU",
            cure="Create the job for the CPU",
        )
    if local >= torch.cuda.device_count():
        raise JobError(
            "processes",
            job.processes,
            cause=f"every process needs a GPU, and this machine has {torch.cuda.device_count()} usable GPUs",
            cure=f"Give --processes {torch.cuda.device_count()}",
        )
    torch.set_float32_matmul_precision("high")
    return torch.device("cuda", local)


def capabilities(device: torch.device) -> Capabilities:
    """Return the attention kernels that run on a device with the installed torch."""
    if device.type != "cuda":
        return Capabilities.expected("cpu")
    generation, _ = torch.cuda.get_device_capability(device)
    return Capabilities(
        device="cuda",
        triton=generation >= _TRITON_FROM and find_spec("triton") is not None,
        flash=generation >= _FLASH_FROM and find_spec("torch.nn.attention.varlen") is not None,
    )


_TRITON_FROM, _FLASH_FROM = 7, 8
"""Minimum major compute capability of a GPU for Triton (Volta) and FlashAttention (Ampere)."""


def needs_of(job: Job) -> AttentionNeeds:
    """Return what a job needs from an attention backend. Its longest row may be an evaluation row."""
    evaluated = (stratum.rows for evaluation in job.evaluations for stratum in evaluation.strata)
    return AttentionNeeds(
        row_length=max(rows.row_length for rows in (*job.rows, *evaluated)),
        softcap=job.model.softcap,
        structure=job.model.structure,
        context=job.context_parallel,
    )


def with_backend(job: Job, device: torch.device) -> Job:
    """Return the job with the backend chosen for this process. Log the reason for the choice.

    Raises:
        JobError: if the device or the model doesn't support the requested backend.
    """
    choice = choose(job.backend, capabilities(device), needs_of(job))
    log(f"attention  {choice.backend} on {device.type}: {choice.reason}")
    return job.model_copy(update={"backend": choice.backend})


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Numbers of two options of mallopt, from glibc's malloc.h."""
_MAX_KEPT = 2**31 - 1
"""Maximum bytes of free memory that malloc keeps at the end of the heap."""


def keep_freed_memory() -> None:
    """Make malloc reuse freed memory instead of returning it to the system, which saves page faults.

    The setting applies to the whole process until it ends. It saves 1/7 of a step of the model `tiny` on a
    CPU. Only glibc supports it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _MAX_KEPT)


_OF_THE_CPU = "DefaultCPUAllocator"
"""Word in the message of the RuntimeError that torch raises if host memory is full."""


@contextlib.contextmanager
def enough_memory(job: Job, where: str) -> Iterator[None]:
    """Convert out-of-memory errors in the block to a JobMemoryError with a hint.

    `where` says in the error how far the job got.

    Raises:
        JobMemoryError: instead of the errors of torch, NumPy or Python.
    """
    try:
        yield
    except torch.OutOfMemoryError as full:
        raise _full(job, where, "the GPU", str(full)) from full
    except MemoryError as full:
        raise _full(job, where, "this machine", str(full) or type(full).__name__) from full
    except RuntimeError as full:
        if _OF_THE_CPU not in str(full):
            raise
        raise _full(job, where, "this machine", str(full).rpartition(_OF_THE_CPU)[2]) from full


def _full(job: Job, where: str, whose: str, words: str) -> JobMemoryError:
    saves = "" if job.recompute else "--recompute, which keeps fewer activations; "
    shares = "more --processes, which shard the model; " if whose == "the GPU" else ""
    return JobMemoryError(
        where,
        words.strip(": ").splitlines()[0].partition(". ")[0],
        cause=f"the memory of {whose} is full",
        cure=f"Try one of these: {saves}{shares}a smaller --model; a shorter --row-length. "
        "The same command resumes from the last checkpoint",
    )
