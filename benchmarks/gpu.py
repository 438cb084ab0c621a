"""Figures of a device for training with masks: one command, one table, most valuable lines first.

    python benchmarks/gpu.py --out DIR [--minutes 18] [--only masking leakcheck] [--lengths 4096 16384]
    python benchmarks/gpu.py --dry-run

Sections: backends (which this device has), masking (tokens/s masked, unmasked and padded, whole models and
layer by layer, with MFU), leakcheck, block mask, memory (peaks with recompute on and off), loader (share of
time that waits for rows) and agreement (twenty steps against the CPU's). Rows are made here from seeds.
gpu.md and gpu.json in DIR are whole after every line, so a stop loses nothing, and the same command takes
the lines that are missing: at most 46 in the order of their worth, each within 45 seconds. `--dry-run` needs
no GPU: it builds each of them on fake tensors of one, and names those that DIR has no figures of. Only
torch, numpy, pyarrow, pydantic and pyyaml are needed, and no installation: it runs in a checkout.
`--device cpu --tiny` tries all of it in seconds.
"""

import argparse
import contextlib
import math
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
from benchmarks.on_device.lines import HEAD, Table, markdown_row, measured_before
from benchmarks.on_device.schedule import Measurement, Schedule, ordered
from benchmarks.on_device.setting import GPU, Setting, described, setting_of
from benchmarks.on_device.stops import Ended, Stops
from curriculum.model.masks import BLOCK
from curriculum.train.device import prepare
from schemas.errors import JobError

CELL_SECONDS = 45.0
"""Longest time of one cell on a GPU, its compiling included."""
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
    setting = GPU if options.dry_run else setting_of(options.device, tiny=options.tiny)
    if options.lengths:
        setting = replace(setting, lengths=tuple(options.lengths))
    try:
        if options.dry_run:
            return _dry_run(setting, options.only, options.out)
        prepare(job_of(setting, setting.spec(setting.models[0]), setting.lengths[0]))
        table, stops = Table(options.out, described(setting)), Stops()
    except JobError as refusal:
        print(refusal, file=sys.stderr)
        return 2
    longest = CELL_SECONDS if setting.on_gpu else math.inf
    schedule = Schedule(table, stops, 60 * options.minutes, longest=longest)
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
    probes = len(list(attention.probes(setting)))
    cells = _cells(setting, sections)[: setting.cells - probes]
    schedule.run(cells)
    table.left_out = tuple(each.line.name for each in cells if not table.has(each.line))


def _cells(setting: Setting, sections: list[str]) -> list[Measurement]:
    """All measurements of some sections behind the probes, in the order of their worth."""
    chosen = [SECTIONS[name] for name in SECTIONS if name in sections]
    return ordered(each for section in chosen for each in section(setting))


def _dry_run(setting: Setting, sections: list[str], folder: Path) -> int:
    """Build every cell on fake tensors of a GPU; then name those that a folder's table has no figures of."""
    cells = [*attention.probes(setting), *_cells(setting, sections)][: setting.cells]
    failed = 0
    print(markdown_row(("cell", "built")), markdown_row(("---", "---")), sep="\n", flush=True)
    for each in cells:
        try:
            words = each.build()
        except JobError as refusal:
            words = f"refused: {refusal}"
        except Exception as error:
            failed += 1
            words = f"failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        print(markdown_row((each.line.name, words)), flush=True)
    measured = measured_before(folder / "gpu.json")
    missing = [each.line.name for each in cells if each.line.name not in measured]
    print(f"{len(cells)} cells, {failed} failed; {len(missing)} unmeasured in {folder}:")
    for name in missing:
        print(f"  {name}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=_folder, default=Path("build-output/gpu"), help="a folder")
    parser.add_argument("--minutes", type=float, default=18.0, help="for all of it")
    parser.add_argument("--dry-run", action="store_true", help="build all on fake tensors of a GPU")
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
