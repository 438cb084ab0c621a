"""Environment of a process that computes, set before torch is loaded."""

import os
from pathlib import Path


def wait_passively() -> None:
    """Let threads wait without spinning, which slows all work on shared cores; OpenMP reads this."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def see_gpus_of(slot: int, of: int) -> None:
    """Limit the GPUs that this process will see to a slot's share, before torch is imported."""
    # A job's process heeds signals before it imports what takes long.
    from curriculum.train.launch.gpu_slots import share_of

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = [path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*")]
    devices = (
        sorted(there, key=int) if given is None else [name for name in given.split(",") if name]
    )
    if of > 1 and devices:
        share = share_of(slot, of, len(devices))
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices[number] for number in share)
