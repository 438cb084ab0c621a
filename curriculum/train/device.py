"""The device of a process: threads and determinism, precision, and memory that is kept or runs out.

float32 and the same bits every time on a CPU, bfloat16 products on a GPU.
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


def mixed(device: torch.device) -> torch.autocast:
    """Matrix products in bfloat16 on a GPU, weights and sums in float32; float32 throughout on a CPU."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def prepare(job: Job, local: int = 0) -> torch.device:
    """Set threads and determinism for this process, the `local`-th of its machine; return its device.

    Raises:
        JobError: for a GPU that isn't there.
    """
    torch.set_num_threads(job.threads)
    if job.device == "cpu":
        keep_freed_memory()
        torch.use_deterministic_algorithms(True)
        # Filling memory that nobody reads before it is written costs a few percent.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise JobError(
            "device", "cuda", cause="this machine has no usable GPU", cure="Make the job for cpu"
        )
    if local >= torch.cuda.device_count():
        raise JobError(
            "processes",
            job.processes,
            cause=f"this machine has {torch.cuda.device_count()} usable GPUs, one for each process",
            cure=f"Give --processes {torch.cuda.device_count()}",
        )
    torch.set_float32_matmul_precision("high")
    return torch.device("cuda", local)


def capabilities(device: torch.device) -> Capabilities:
    """The kernels of attention that a device has, with this torch."""
    if device.type != "cuda":
        return Capabilities.expected("cpu")
    generation, _ = torch.cuda.get_device_capability(device)
    return Capabilities(
        device="cuda",
        triton=generation >= _TRITON_FROM and find_spec("triton") is not None,
        flash=generation >= _FLASH_FROM and find_spec("torch.nn.attention.varlen") is not None,
    )


_TRITON_FROM, _FLASH_FROM = 7, 8
"""Major compute capabilities: Volta's and Ampere's."""


def needs_of(job: Job) -> AttentionNeeds:
    """Needs of the model of a job and of its longest rows, those of evaluations too."""
    evaluated = (stratum.rows for evaluation in job.evaluations for stratum in evaluation.strata)
    return AttentionNeeds(
        row_length=max(rows.row_length for rows in (*job.rows, *evaluated)),
        softcap=job.model.softcap,
        structure=job.model.structure,
        context=job.context_parallel,
    )


def with_backend(job: Job, device: torch.device) -> Job:
    """The job with the backend of this process in place of the one asked for; the log says why.

    Raises:
        JobError: for a backend that the device or the model can't have.
    """
    choice = choose(job.backend, capabilities(device), needs_of(job))
    log(f"attention  {choice.backend} on {device.type}: {choice.reason}")
    return job.model_copy(update={"backend": choice.backend})


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Options in glibc's malloc.h."""
_MAX_KEPT = 2**31 - 1
"""Bytes at the end of the heap; what is free beyond goes back."""


def keep_freed_memory() -> None:
    """Let malloc use freed memory again and not give it back: each page that comes anew costs a fault.

    It holds for this process, up to its end, and takes a seventh off a step of `tiny` on a CPU. Other C
    libraries than glibc keep to their ways.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _MAX_KEPT)


_OF_THE_CPU = "DefaultCPUAllocator"
"""torch says no more of it than a RuntimeError with this name in its words."""


@contextlib.contextmanager
def enough_memory(job: Job, where: str) -> Iterator[None]:
    """Say what to try where memory is full; `where` tells how far the job was.

    Raises:
        JobMemoryError: in place of what torch, NumPy or Python raise.
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
    saves = "" if job.recompute else "--recompute, which keeps less for backward; "
    shares = "--processes, which shares the model out; " if whose == "the GPU" else ""
    return JobMemoryError(
        where,
        words.strip(": ").splitlines()[0].partition(". ")[0],
        cause=f"the memory of {whose} is full",
        cure=f"Give {saves}{shares}a smaller --model; or a shorter --row-length. "
        "The same command resumes from the last checkpoint",
    )
