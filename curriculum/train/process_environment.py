"""Environment variables of a training process. They must be set before torch is loaded."""

import os
from pathlib import Path


def wait_passively() -> None:
    """Make idle OpenMP threads sleep. Spinning threads slow down all other work on shared cores."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def restrict_visible_gpus(slot: int, of: int) -> None:
    """Make only the share of slot `slot` of `of` slots visible among the GPUs.

    Call it before torch is imported.
    """
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
