"""Sizes that suit a device, and a description of it."""

import datetime
import importlib.metadata
import platform
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from curriculum.leakcheck.proof import environment
from curriculum.model.presets import model_spec
from curriculum.train.launch.gpu_slots import WORKERS_FOR_A_GPU, Machine
from curriculum.train.metrics import peak_of
from schemas.job import Backend, ModelSpec

WORK = (
    "operations of matrix products by curriculum/train/metrics.py: 2 a multiply-add, backward twice "
    "forward, attention by pairs within documents (unmasked: within the row), nothing for recompute"
)
PADDED = (
    "the way without packing: documents of the same mean length one a row, the rest of T padding; "
    "tokens of documents count"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Sizes of all measurements; lengths and means in the order of their value."""

    device: torch.device
    backends: tuple[Backend, ...]
    """In the order of preference; the first that works is the one of all other sections."""
    models: tuple[str, ...]
    lengths: tuple[int, ...]
    means: tuple[int, ...] = (1000, 300, 3000)
    """Mean lengths of documents, in tokens."""
    layers: int
    """Layers of a family that is measured by itself."""
    vocab: int
    positions: int
    """Row positions of a batch; at least one row."""
    probe: int
    """Row length at which backends are tried first."""
    least_rounds: int
    most_rounds: int
    longest_dense: int
    """Longest row for which torch's create_block_mask is called: it reads the mask of every pair."""
    workers: tuple[int, ...]
    """Processes that load rows, the trainer's own choice first."""
    steps: int
    """Training steps that a line of the loader counts."""
    proofs: int = 5
    """Backends that leakcheck examines, in the order of preference."""
    threads: int = 1
    cells: int = 46
    """Measurements at most, in the order of their worth."""

    @property
    def backend(self) -> Backend:
        """The backend of every section but that of backends."""
        return self.backends[0]

    @property
    def on_gpu(self) -> bool:
        """True where the device is a GPU."""
        return self.device.type == "cuda"

    def spec(self, model: str) -> ModelSpec:
        """The model of a preset over this setting's vocabulary."""
        return model_spec(model, self.vocab)

    def rows(self, length: int) -> int:
        """Rows of a batch."""
        return max(self.positions // length, 1)


GPU = Setting(
    device=torch.device("cuda"),
    backends=("flex", "varlen", "documents", "sdpa", "math"),
    models=("attention-300m", "300m"),
    lengths=(16384, 65536, 4096),
    layers=4,
    vocab=32768,
    positions=65536,
    probe=4096,
    least_rounds=3,
    most_rounds=15,
    longest_dense=65536,
    workers=(WORKERS_FOR_A_GPU, 0),
    steps=10,
)
CPU = Setting(
    device=torch.device("cpu"),
    backends=("documents", "flex", "varlen", "sdpa", "math"),
    models=("attention-tiny", "tiny"),
    lengths=(4096, 16384),
    layers=1,
    vocab=4096,
    positions=4096,
    probe=512,
    least_rounds=1,
    most_rounds=5,
    longest_dense=16384,
    workers=(0, 1),
    steps=5,
    cells=1000,
)


def setting_of(device: str, *, tiny: bool) -> Setting:
    """The sizes for a device; tiny ones try every section in seconds."""
    setting = CPU
    if device == "cuda":
        setting = replace(GPU, threads=Machine.local().threads)
    if not tiny:
        return setting
    return replace(
        setting,
        backends=setting.backends[:3],
        models=("attention-tiny", "tiny"),
        lengths=(256,),
        means=(100,),
        layers=1,
        vocab=512,
        positions=256,
        probe=256,
        least_rounds=1,
        most_rounds=1,
        longest_dense=256,
        workers=setting.workers[:1],
        steps=2,
        proofs=1,
        cells=1000,
    )


def described(setting: Setting) -> tuple[tuple[str, str], ...]:
    """Device, versions and conventions, as the head of the table."""
    peak = peak_of(setting.device)
    return (
        ("measured", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"),
        ("command", f"python {' '.join(sys.argv)}"),
        *environment(setting.device),
        *_of_device(setting.device),
        ("numpy", np.__version__),
        ("pyarrow", pa.__version__),
        ("peak", f"{peak / 1e12:,.0f} TFLOP/s, dense bfloat16" if peak else "not known, so no MFU"),
        ("work", WORK),
        ("padded", PADDED),
        ("models", "; ".join(f"{name}: {setting.spec(name).blocks}" for name in setting.models)),
    )


def _of_device(device: torch.device) -> tuple[tuple[str, str], ...]:
    if device.type != "cuda":
        return (("processor", _processor()),)
    properties = torch.cuda.get_device_properties(device)
    return (
        ("memory", f"{properties.total_memory / 2**30:.0f} GiB"),
        ("compute capability", f"{properties.major}.{properties.minor}"),
        ("CUDA", str(torch.version.cuda)),
        ("triton", _version("triton")),
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
