"""Benchmark of training with document masks on one device.

    python benchmarks/gpu.py --out DIR [--minutes 18] [--only masking leakcheck] [--lengths 4096 16384]
    python benchmarks/gpu.py --dry-run

The script writes its results to gpu.md and gpu.json in DIR. The results have these sections:

    backends     attention backends that work on this device, and their speed
    masking      tokens/s with masks, without masks and with padding, for whole models and single layer
                 types, and MFU
    leakcheck    proofs that documents in the same row don't influence each other
    block mask   time to build the block mask of a row
    memory       peak memory of training steps with and without recomputation
    loader       share of time in which training waits for rows
    agreement    losses and weights after twenty steps, compared with the CPU

The most important measurements run first. On a GPU, there are at most 46 measurements, and each has a limit
of 45 seconds. Both files are replaced after every measurement, so stopping the script loses no finished
result. The same command then runs the missing measurements.

`--dry-run` needs no GPU: it builds the model of every measurement on fake GPU tensors, and lists the
measurements that have no figures in DIR. `--device cpu --tiny` runs every section with tiny sizes, in
seconds. Rows are generated from seeds. The script runs in a checkout without installation and needs only
torch, numpy, pyarrow, pydantic and pyyaml.
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
from benchmarks.on_device.lines import HEAD, Table, markdown_row, read_results
from benchmarks.on_device.schedule import Measurement, Schedule, sort_by_wave
from benchmarks.on_device.setting import GPU, Setting, describe_environment, setting_of
from benchmarks.on_device.stops import Ended, Stops
from curriculum.model.masks import BLOCK
from curriculum.train.device import prepare
from schemas.errors import JobError

MAX_SECONDS = 45.0
"""Time limit of a measurement on a GPU, including compilation."""
SECTIONS: dict[str, Callable[[Setting], Iterator[Measurement]]] = {
    masking.SECTION: masking.measurements,
    proof.SECTION: proof.measurements,
    mask_building.SECTION: mask_building.measurements,
    attention.SECTION: attention.measurements,
    memory.SECTION: memory.measurements,
    starvation.SECTION: starvation.measurements,
    agreement.SECTION: agreement.measurements,
}
"""Sections from the most to the least important."""


def main() -> int:
    options = _arguments()
    setting = GPU if options.dry_run else setting_of(options.device, tiny=options.tiny)
    if options.lengths:
        setting = replace(setting, lengths=tuple(options.lengths))
    try:
        if options.dry_run:
            return _dry_run(setting, options.only, options.out)
        prepare(job_of(setting, setting.spec(setting.models[0]), setting.lengths[0]))
        table, stops = Table(options.out, describe_environment(setting)), Stops()
    except JobError as refusal:
        print(refusal, file=sys.stderr)
        return 2
    limit = MAX_SECONDS if setting.on_gpu else math.inf
    schedule = Schedule(table, stops, 60 * options.minutes, limit=limit)
    print(markdown_row(HEAD), markdown_row(("---",) * len(HEAD)), sep="\n", flush=True)
    status = 0
    try:
        with stops.deadline(60 * options.minutes):
            _measure(setting, options.only, table, schedule)
        table.status = "complete"
    except Ended as end:
        table.status, status = end.reason, end.status
    with contextlib.suppress(KeyboardInterrupt):
        table.write()
    print(f"{table.status}; {len(table.lines)} results in {table.folder}/gpu.md and gpu.json")
    return status


def _measure(setting: Setting, sections: list[str], table: Table, schedule: Schedule) -> None:
    """Measure the backends first, then everything else with the first backend that works."""
    schedule.run(list(attention.probes(setting)))
    setting = attention.keep_working_backends(setting, table.lines)
    table.environment["backend"] = f"{setting.backend}, unless the subject names another backend"
    probes = len(list(attention.probes(setting)))
    measurements = _sorted_measurements(setting, sections)[: setting.max_measurements - probes]
    schedule.run(measurements)
    table.skipped = tuple(
        measurement.line.name for measurement in measurements if not table.has(measurement.line)
    )


def _sorted_measurements(setting: Setting, sections: list[str]) -> list[Measurement]:
    """Return the measurements of `sections`, the most important first; probes are not included."""
    chosen = [SECTIONS[name] for name in SECTIONS if name in sections]
    return sort_by_wave(measurement for section in chosen for measurement in section(setting))


def _dry_run(setting: Setting, sections: list[str], folder: Path) -> int:
    """Build every measurement on fake GPU tensors; list measurements without figures in `folder`."""
    measurements = [*attention.probes(setting), *_sorted_measurements(setting, sections)]
    measurements = measurements[: setting.max_measurements]
    failed = 0
    head = markdown_row(("measurement", "output")), markdown_row(("---", "---"))
    print(*head, sep="\n", flush=True)
    for measurement in measurements:
        try:
            output = measurement.build()
        except JobError as refusal:
            output = f"refused: {refusal}"
        except Exception as error:
            failed += 1
            output = f"failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        print(markdown_row((measurement.line.name, output)), flush=True)
    names = [measurement.line.name for measurement in measurements]
    results = read_results(folder / "gpu.json")
    missing = [name for name in names if name not in results]
    print(
        f"{len(names)} measurements, {failed} failed; {len(missing)} without figures in {folder}:"
    )
    for name in missing:
        print(f"  {name}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=_folder,
        default=Path("build-output/gpu"),
        help="folder of the results; earlier results in it are kept",
    )
    parser.add_argument("--minutes", type=float, default=18.0, help="time limit of the whole run")
    parser.add_argument(
        "--dry-run", action="store_true", help="only build every model, on fake GPU tensors"
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default=_device(),
        help="device to measure; by default a GPU if there is one",
    )
    parser.add_argument(
        "--tiny", action="store_true", help="use tiny sizes, to test every section in seconds"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*SECTIONS],
        default=[*SECTIONS],
        help="sections to measure; by default all",
    )
    parser.add_argument(
        "--lengths", nargs="+", type=_length, help="row lengths in tokens, multiples of 128"
    )
    return parser.parse_args()


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(
            f"{text} is a file; give a folder, or a name that doesn't exist yet"
        )
    return path


def _length(text: str) -> int:
    length = int(text)
    if length <= 0 or length % BLOCK:
        raise argparse.ArgumentTypeError(
            f"{text} is not a multiple of {BLOCK}; give 4096, for example"
        )
    return length


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    sys.exit(main())
