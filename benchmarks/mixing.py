"""Time and memory to plan ten million rows, and time to read the plan at random positions.

    python benchmarks/mixing.py [ROWS] [RUNS]

The script writes rows with only the columns that mixing reads, in row groups of sixteen rows, as the writer
does for rows of 4,096 tokens. Then it plans one phase with four servings, RUNS times. It prints a line per
run, then the medians and their targets.
"""

import hashlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.mixing.row_plan import Planner, take_whole_steps, write_plan
from curriculum.mixing.row_supply import read_supply
from curriculum.mixing.strata import demand
from curriculum.parquet import shards_of

ROWS_PER_SHARD = 100_000
ROW_GROUP = 16
SERVINGS: tuple[tuple[str, str, int, float, int], ...] = (
    ("v3_doxygen", "causal", 4096, 0.5, 1),
    ("v3_simple", "causal", 4096, 0.2, 1),
    ("v3_doxygen", "fim", 4096, 0.2, 4),
    ("v4_context_graph", "causal", 16384, 0.1, 1),
)
"""Family, objective, row length, share and number of variants; every variant has separate rows."""
DOMAINS = ("memory", "other", "templates", "testing")
POSITIONS = 4096


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    folder = Path(tempfile.mkdtemp(prefix="mixing-"))
    try:
        for at, (_, _, _, share, variants) in enumerate(SERVINGS):
            for variant in range(variants):
                name = f"{at}-{variant}"
                write_rows(folder / name, name, int(rows * share / variants))
        results = [measure(folder, rows) for _ in range(runs)]
        seconds, megabytes, reading = (
            statistics.median(values) for values in zip(*results, strict=True)
        )
        print(
            f"medians of {runs} runs: planning {rows:,} rows {seconds:.1f} CPU s (target 30), "
            f"{megabytes:.0f} MB (target 2000), "
            f"reading {POSITIONS} rows of the plan {reading:.1f} ms (target 50)"
        )
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, rows: int) -> tuple[float, float, float]:
    """Plan in a separate process, so that its peak memory is that of the plan.

    Return CPU seconds and megabytes of planning, and milliseconds of reading.
    """
    call = [sys.executable, __file__, "plan", str(folder), str(rows)]
    done = subprocess.run(call, check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, done.stdout.split())
    reading = statistics.median(read_times(folder / "plan.parquet"))
    print(f"{seconds:.1f} CPU s, {megabytes:.0f} MB, reading {reading:.1f} ms")
    return seconds, megabytes, reading


def write_rows(folder: Path, name: str, rows: int) -> None:
    """Write the shards of one variant of a serving, grouped by domain."""
    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng([*name.encode()])
    per_domain = -(-rows // len(DOMAINS))
    for shard, start in enumerate(range(0, rows, ROWS_PER_SHARD)):
        numbers = np.arange(start, min(rows, start + ROWS_PER_SHARD))
        table = pa.table(
            {
                "pack_id": pa.array([f"{key(name)[:12]}-{number:010d}" for number in numbers]),
                "domain": pa.array([DOMAINS[number // per_domain] for number in numbers]),
                "valid_token_count": rng.integers(3000, 4097, len(numbers)).astype(np.int32),
                "attention_pairs": np.full(len(numbers), 1 << 20, dtype=np.int64),
            }
        )
        file = folder / f"data/part-{shard:05d}.parquet"
        pq.write_table(table, file, row_group_size=ROW_GROUP, compression="zstd")


def plan(folder: Path, rows: int) -> None:
    """Write a plan of about `rows` rows; print CPU seconds and peak memory in MB."""
    start = time.process_time()
    supplies = [
        [
            read_supply(shards_of(folder / f"{at}-{variant}"), key=key(f"{at}-{variant}"))
            for variant in range(variants)
        ]
        for at, (_, _, _, _, variants) in enumerate(SERVINGS)
    ]
    phase = phase_of(rows)
    strata = demand(phase, supplies)
    planner = Planner(strata, supplies, slot_length=phase.slot_length, seed=17)
    pieces = take_whole_steps(planner.pieces(), budget=phase.tokens, slots_per_step=16)
    totals = write_plan(folder / "plan.parquet", pieces, strata, supplies)
    seconds = time.process_time() - start
    assert totals.rows > 0.9 * rows, totals.rows
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def phase_of(rows: int) -> ResolvedPhase:
    servings = tuple(
        ResolvedServing(
            index=at,
            family=family,
            objective=objective,
            row_length=row_length,
            share=share,
            tokens=0,
            domains=(("*", 1.0), ("templates", 2.0)),
            repositories=(),
        )
        for at, (family, objective, row_length, share, _) in enumerate(SERVINGS)
    )
    return ResolvedPhase(
        specialist="templates",
        branch=None,
        name="syntax",
        tokens=rows * 3548,
        rope_base=500_000,
        servings=servings,
        max_repetition=8,
        max_token_repetition=8,
        on_shortage="stop",
        advance_when=None,
        on_budget="advance",
        require=(),
        why="",
    )


def read_times(file: Path) -> list[float]:
    """Return the milliseconds to open a plan and read 4,096 of its rows, for random positions."""
    rng = np.random.default_rng(1)
    total = pq.ParquetFile(file).metadata.num_rows
    times = []
    for position in rng.integers(0, total - POSITIONS, 20):
        start = time.perf_counter()
        opened = pq.ParquetFile(file)
        sizes = [opened.metadata.row_group(at).num_rows for at in range(opened.num_row_groups)]
        ends = np.cumsum(sizes)
        first, last = np.searchsorted(ends, [position, position + POSITIONS - 1], side="right")
        table = opened.read_row_groups(list(range(first, last + 1)))
        offset = int(position - (ends[first] - sizes[first]))
        found = table.slice(offset, POSITIONS)
        times.append((time.perf_counter() - start) * 1000)
        assert found["position"][0].as_py() == position
        assert found.num_rows == POSITIONS
    return times


def key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


if __name__ == "__main__":
    if sys.argv[1:2] == ["plan"]:
        plan(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
