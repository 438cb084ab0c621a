"""Environment variables of a training process, set before torch is loaded."""

import os
from pathlib import Path


def wait_passively() -> None:
    """Make OpenMP threads wait without spinning, which slows down all work on shared cores."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def restrict_visible_gpus(slot: int, of: int) -> None:
    """Restrict the visible GPUs to a slot's share, before torch is imported."""
    # Imported late, because a job's process handles signals before slow imports.
    from curriculum.train.launch.gpu_slots import share_of

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = [path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*")]
    devices = (
        sorted(there, key=int) if given is None else [name for name in given.split(",") if name]
    )
    if of > 1 and devices:
        share = share_of(slot, of, len(devices))
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices[number] for number in share)
