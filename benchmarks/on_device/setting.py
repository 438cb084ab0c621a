"""Sizes of the measurements on a device, and the description of the device."""

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
    "MFU counts the operations of matrix products as curriculum/train/metrics.py does: 2 per "
    "multiply-add, backward twice as many as forward, attention for pairs of tokens in the same document "
    "(unmasked: in the same row), none for recomputation"
)
PADDED = "padded rows contain one document of the mean length, then padding; only document tokens are counted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Sizes of all measurements."""

    device: torch.device
    backends: tuple[Backend, ...]
    """Attention backends in the order of preference.

    All sections except `backends` use the first backend that works.
    """
    models: tuple[str, ...]
    lengths: tuple[int, ...]
    """Row lengths, the most important first."""
    means: tuple[int, ...] = (1000, 300, 3000)
    """Mean lengths of documents in tokens, the most important first."""
    layers: int
    """Number of layers if a single layer type is measured."""
    vocab: int
    positions: int
    """Positions of a batch. A batch has at least one row, even if the row is longer."""
    probe_length: int
    """Row length at which every backend is measured first."""
    min_rounds: int
    max_rounds: int
    max_dense_length: int
    """Maximum row length for create_block_mask of torch, whose memory grows with T²."""
    workers: tuple[int, ...]
    """Numbers of processes that load rows; the trainer's default comes first."""
    steps: int
    """Training steps of a measurement of the loader."""
    proven_backends: int = 5
    """Number of backends that leakcheck proves, in the order of preference."""
    threads: int = 1
    max_measurements: int = 46
    """Maximum number of measurements; the most important ones run."""

    @property
    def backend(self) -> Backend:
        """Backend of all sections except `backends`."""
        return self.backends[0]

    @property
    def on_gpu(self) -> bool:
        """True if the device is a GPU."""
        return self.device.type == "cuda"

    def spec(self, model: str) -> ModelSpec:
        """Return the model of a preset with the vocabulary size of this setting."""
        return model_spec(model, self.vocab)

    def rows(self, length: int) -> int:
        """Return the number of rows in a batch of this row length."""
        return max(self.positions // length, 1)


GPU = Setting(
    device=torch.device("cuda"),
    backends=("flex", "varlen", "documents", "sdpa", "math"),
    models=("attention-300m", "300m"),
    lengths=(16384, 65536, 4096),
    layers=4,
    vocab=32768,
    positions=65536,
    probe_length=4096,
    min_rounds=3,
    max_rounds=15,
    max_dense_length=65536,
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
    probe_length=512,
    min_rounds=1,
    max_rounds=5,
    max_dense_length=16384,
    workers=(0, 1),
    steps=5,
    max_measurements=1000,
)


def setting_of(device: str, *, tiny: bool) -> Setting:
    """Return the sizes for a device; if `tiny`, every section takes only seconds."""
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
        probe_length=256,
        min_rounds=1,
        max_rounds=1,
        max_dense_length=256,
        workers=setting.workers[:1],
        steps=2,
        proven_backends=1,
        max_measurements=1000,
    )


def describe_environment(setting: Setting) -> tuple[tuple[str, str], ...]:
    """Return device, versions and conventions for the head of the table, as pairs of name and value."""
    peak = peak_of(setting.device)
    return (
        ("measured", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"),
        ("command", f"python {' '.join(sys.argv)}"),
        *environment(setting.device),
        *_of_device(setting.device),
        ("numpy", np.__version__),
        ("pyarrow", pa.__version__),
        ("peak", f"{peak / 1e12:,.0f} TFLOP/s, dense bfloat16" if peak else "unknown, so no MFU"),
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
