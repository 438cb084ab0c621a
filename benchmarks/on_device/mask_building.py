"""Time to build the block mask of a row: curriculum's block_mask and torch's create_block_mask."""

import functools
import statistics
import time
from collections.abc import Callable, Iterator

import torch

from benchmarks.block_mask import has_same_blocks, torch_block_mask
from benchmarks.on_device.fake import boundaries_on_gpu, describe_tensor, fake_gpu
from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import RowKind
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.model.masks import Boundaries, block_mask
from curriculum.train.masking_cost import now

SECTION = "block mask"
HOST = torch.device("cpu")


def measurements(setting: Setting) -> Iterator[Measurement]:
    """Yield the measurements of both functions, the longest row first.

    create_block_mask evaluates the mask for every pair of positions, so it needs memory for T² values. It is
    measured only up to `setting.max_dense_length`.
    """
    for number, length in enumerate(sorted(setting.lengths, reverse=True)):
        wave = 1 if number == 0 else 2
        for device in dict.fromkeys((setting.device, HOST)):
            work = functools.partial(_measure_own, setting, device, length)
            yield _measurement(setting, f"block_mask, {device.type}", length, wave, work)
        if length <= setting.max_dense_length:
            work = functools.partial(_measure_torch, setting, length)
            name = f"create_block_mask, {setting.device.type}"
            yield _measurement(setting, name, length, 2, work)


def _measurement(
    setting: Setting, name: str, length: int, wave: int, work: Callable[[float], Outcome]
) -> Measurement:
    kind = str(_row_kind(setting, length))
    line = ResultLine(section=SECTION, subject=name, row_length=length, documents=kind)
    return Measurement(
        wave=wave,
        line=line,
        weight=0.2 * (1 + length / 16384),
        work=work,
        build=functools.partial(_build, setting, length),
    )


def _build(setting: Setting, length: int) -> str:
    real = _boundaries(setting, HOST, length)
    with fake_gpu():
        return describe_tensor(block_mask(boundaries_on_gpu(real)).kv_indices)


def _row_kind(setting: Setting, length: int) -> RowKind:
    return RowKind(length=length, mean=setting.means[0])


def _boundaries(setting: Setting, device: torch.device, length: int) -> Boundaries:
    kind = _row_kind(setting, length)
    return Boundaries.from_doc_ids(kind.batch(setting, seed=0).boundaries.doc_ids[:1]).to(device)


def _measure_own(setting: Setting, device: torch.device, length: int, share: float) -> Outcome:
    boundaries = _boundaries(setting, device, length)
    on_host = boundaries.doc_ids.to(HOST)
    return Outcome(
        figures=(
            _milliseconds("block mask", lambda: block_mask(boundaries), setting, device, share / 2),
            _milliseconds(
                "boundaries", lambda: Boundaries.from_doc_ids(on_host), setting, HOST, share / 2
            ),
        )
    )


def _measure_torch(setting: Setting, length: int, share: float) -> Outcome:
    """Measure create_block_mask, and compare its blocks with those of block_mask."""
    boundaries = _boundaries(setting, setting.device, length)
    theirs = torch_block_mask(boundaries.doc_ids)
    is_same = has_same_blocks(block_mask(boundaries), theirs)
    del theirs
    figure = _milliseconds(
        "block mask", lambda: torch_block_mask(boundaries.doc_ids), setting, setting.device, share
    )
    note = "the same blocks as block_mask" if is_same else "OTHER BLOCKS than block_mask"
    return Outcome(figures=(figure,), note=note)


def _milliseconds(
    name: str, work: Callable[[], object], setting: Setting, device: torch.device, share: float
) -> Figure:
    """Return the median milliseconds of `work` after one warm-up; on a CPU, CPU time is measured."""
    work()
    ends = time.monotonic() + share
    seconds: list[float] = []
    while len(seconds) < setting.min_rounds or (
        len(seconds) < setting.max_rounds and time.monotonic() < ends
    ):
        began = now(device)
        work()
        seconds.append(now(device) - began)
    return Figure(name=f"{name} ms", value=1000 * statistics.median(seconds))
