"""Block masks of one row: the model's own builder against torch's create_block_mask."""

import functools
import statistics
import time
from collections.abc import Callable, Iterator

import torch

from benchmarks.block_mask import agree, of_torch
from benchmarks.on_device.fake import boundaries_on_gpu, described, fake_gpu
from benchmarks.on_device.lines import Figure, ResultLine
from benchmarks.on_device.masking import Rows
from benchmarks.on_device.schedule import Measurement, Outcome
from benchmarks.on_device.setting import Setting
from curriculum.model.masks import Boundaries, block_mask
from curriculum.train.masking_cost import now

SECTION = "block mask"
HOST = torch.device("cpu")


def measurements(setting: Setting) -> Iterator[Measurement]:
    """The longest row first: the own builder on the device and on the host, then torch's.

    torch's reads the mask for every pair of positions, so it is left to rows whose T² fits.
    """
    for number, length in enumerate(sorted(setting.lengths, reverse=True)):
        wave = 1 if number == 0 else 2
        for device in dict.fromkeys((setting.device, HOST)):
            work = functools.partial(_own, setting, device, length)
            yield _measurement(setting, f"own builder, {device.type}", length, wave, work)
        if length <= setting.longest_dense:
            work = functools.partial(_of_torch, setting, length)
            name = f"create_block_mask, {setting.device.type}"
            yield _measurement(setting, name, length, 2, work)


def _measurement(
    setting: Setting, name: str, length: int, wave: int, work: Callable[[float], Outcome]
) -> Measurement:
    kind = str(_rows(setting, length))
    line = ResultLine(section=SECTION, subject=name, row_length=length, documents=kind)
    return Measurement(
        wave=wave,
        line=line,
        weight=0.2 * (1 + length / 16384),
        work=work,
        build=functools.partial(_built, setting, length),
    )


def _built(setting: Setting, length: int) -> str:
    real = _boundaries(setting, HOST, length)
    with fake_gpu():
        return described(block_mask(boundaries_on_gpu(real)).kv_indices)


def _rows(setting: Setting, length: int) -> Rows:
    return Rows(length=length, mean=setting.means[0])


def _boundaries(setting: Setting, device: torch.device, length: int) -> Boundaries:
    kind = _rows(setting, length)
    return Boundaries.from_doc_ids(kind.batch(setting, seed=0).boundaries.doc_ids[:1]).to(device)


def _own(setting: Setting, device: torch.device, length: int, share: float) -> Outcome:
    cut = _boundaries(setting, device, length)
    on_host = cut.doc_ids.to(HOST)
    return Outcome(
        figures=(
            _milliseconds("block mask", lambda: block_mask(cut), setting, device, share / 2),
            _milliseconds(
                "boundaries", lambda: Boundaries.from_doc_ids(on_host), setting, HOST, share / 2
            ),
        )
    )


def _of_torch(setting: Setting, length: int, share: float) -> Outcome:
    """Time torch's builder, and compare its blocks with those of the own one."""
    cut = _boundaries(setting, setting.device, length)
    theirs = of_torch(cut.doc_ids)
    is_same = agree(block_mask(cut), theirs)
    del theirs
    figure = _milliseconds(
        "block mask", lambda: of_torch(cut.doc_ids), setting, setting.device, share
    )
    note = "the same blocks as the own builder" if is_same else "OTHER BLOCKS than the own builder"
    return Outcome(figures=(figure,), note=note)


def _milliseconds(
    name: str, work: Callable[[], object], setting: Setting, device: torch.device, share: float
) -> Figure:
    """Median after one warm-up; CPU milliseconds on a CPU."""
    work()
    ends = time.monotonic() + share
    found: list[float] = []
    while len(found) < setting.least_rounds or (
        len(found) < setting.most_rounds and time.monotonic() < ends
    ):
        began = now(device)
        work()
        found.append(now(device) - began)
    return Figure(name=f"{name} ms", value=1000 * statistics.median(found))
