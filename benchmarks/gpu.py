"""Figures of a device for training with masks: one command, one table, most valuable lines first.

    python benchmarks/gpu.py --out DIR [--minutes 8] [--only masking leakcheck] [--lengths 4096 16384]

Sections: backends (which this device has), masking (tokens/s masked, unmasked and padded, whole models and
layer by layer, with MFU), leakcheck, block mask, memory (peaks with recompute on and off), loader (share of
time that waits for rows) and agreement (twenty steps against the CPU's). Rows are made here from seeds.
gpu.md and gpu.json in DIR are whole after every line, so a stop loses nothing. Only torch, numpy, pyarrow,
pydantic and pyyaml are needed, and no installation: it runs in a checkout. `--device cpu --tiny` tries all
of it in seconds.
"""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.on_device import (
    agreement,
    attention,
    mask_building,
    masking,
    memory,
    proof,
    starvation,
)
from benchmarks.on_device.jobs import job_of
from benchmarks.on_device.lines import HEAD, Table, markdown_row
from benchmarks.on_device.schedule import Measurement, Schedule, ordered
from benchmarks.on_device.setting import Setting, described, setting_of
from benchmarks.on_device.stops import Ended, Stops
from curriculum.model.masks import BLOCK
from curriculum.train.device import prepare
from schemas.errors import JobError

SECTIONS: dict[str, Callable[[Setting], Iterator[Measurement]]] = {
    masking.SECTION: masking.measurements,
    proof.SECTION: proof.measurements,
    mask_building.SECTION: mask_building.measurements,
    attention.SECTION: attention.measurements,
    memory.SECTION: memory.measurements,
    starvation.SECTION: starvation.measurements,
    agreement.SECTION: agreement.measurements,
}
"""In the order of their value."""


def main() -> int:
    options = _arguments()
    setting = setting_of(options.device, tiny=options.tiny)
    if options.lengths:
        setting = replace(setting, lengths=tuple(options.lengths))
    try:
        prepare(job_of(setting, setting.spec(setting.models[0]), setting.lengths[0]))
    except JobError as refusal:
        print(refusal, file=sys.stderr)
        return 2
    table, stops = Table(options.out, described(setting)), Stops()
    schedule = Schedule(table, stops, 60 * options.minutes)
    print(markdown_row(HEAD), markdown_row(("---",) * len(HEAD)), sep="\n", flush=True)
    status = 0
    try:
        with stops.deadline(60 * options.minutes):
            _measure(setting, options.only, table, schedule)
        table.ended = "complete"
    except Ended as end:
        table.ended, status = end.reason, end.status
    with contextlib.suppress(KeyboardInterrupt):
        table.write()
    print(f"{table.ended}; {len(table.lines)} lines in {table.folder}/gpu.md and gpu.json")
    return status


def _measure(setting: Setting, sections: list[str], table: Table, schedule: Schedule) -> None:
    """Try the backends, then measure by the first that works."""
    schedule.run(list(attention.probes(setting)))
    setting = attention.working(setting, table.lines)
    table.environment["backend"] = f"{setting.backend}, but for lines that name another"
    chosen = [SECTIONS[name] for name in SECTIONS if name in sections]
    schedule.run(ordered(each for section in chosen for each in section(setting)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=_folder, default=Path("build-output/gpu"), help="a folder")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all of it")
    parser.add_argument("--device", choices=("cpu", "cuda"), default=_device())
    parser.add_argument("--tiny", action="store_true", help="try every section in seconds")
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS], default=[*SECTIONS])
    parser.add_argument("--lengths", nargs="+", type=_length, help="row lengths, multiples of 128")
    return parser.parse_args()


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder; give one, or a new name")
    return path


def _length(text: str) -> int:
    length = int(text)
    if length <= 0 or length % BLOCK:
        raise argparse.ArgumentTypeError(
            f"{text} is no multiple of {BLOCK}; give 4096, for example"
        )
    return length


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    sys.exit(main())
