"""Memory that runs out, of a GPU or of the machine, said as such."""

import contextlib
from collections.abc import Iterator

import torch

from schemas.errors import JobMemoryError
from schemas.job import Job

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
        "The same command goes on from the last checkpoint",
    )
