"""Machine of a job: this one, a share of it, or the resources that Slurm is asked for."""

import os
from dataclasses import dataclass

from curriculum.train.launch.sbatch import asked
from schemas.job import Backend

WORKERS_FOR_A_GPU = 2
"""Processes that load rows; on a CPU they would only take cores from the steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Machine of a job, and the kernel of its attention."""

    device: str
    backend: Backend
    threads: int
    """Threads of each process."""
    workers: int = 0
    processes: int = 1
    recompute: bool = False

    @staticmethod
    def here(processes: int | None = None, *, recompute: bool = False, slots: int = 1) -> "Machine":
        """A slot's share of the GPUs with flex where there are any, else of the CPU with documents."""
        # torch takes seconds to import, and a job that is only looked at names its machine.
        import torch

        gpu = torch.cuda.is_available()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        processes = processes or max((torch.cuda.device_count() if gpu else 1) // slots, 1)
        return Machine(
            device="cuda" if gpu else "cpu",
            backend="flex" if gpu else "documents",
            threads=max(cores // (processes * slots), 1),
            workers=WORKERS_FOR_A_GPU if gpu else 0,
            processes=processes,
            recompute=recompute,
        )

    @staticmethod
    def in_slurm(
        options: str, processes: int | None = None, *, recompute: bool = False
    ) -> "Machine":
        """Return the machine that sbatch's options ask for; this one may have no GPU of its own."""
        wanted = asked(options)
        processes = processes or max(wanted.gpus, 1)
        return Machine(
            device="cuda" if wanted.gpus else "cpu",
            backend="flex" if wanted.gpus else "documents",
            threads=max(wanted.cores // processes, 1),
            workers=WORKERS_FOR_A_GPU if wanted.gpus else 0,
            processes=processes,
            recompute=recompute,
        )
