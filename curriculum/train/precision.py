"""How a device computes: float32 and the same bits every time on a CPU, bfloat16 on a GPU."""

import torch
import torch.utils.deterministic

from curriculum.train.kept import keep_freed_memory
from schemas.errors import JobError
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
