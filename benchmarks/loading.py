"""Throughput of the loader and of its parts, for plans that read rows in random order.

    python benchmarks/loading.py [--tokens 40_000_000] [--rounds 3]

The script writes rows with documents of log-normal lengths (mean 300), and two plans that read all rows: one
in a fully shuffled order, as for few rows, and one in the local order that is used for many rows. Then it
measures reading single rows in file order and in shuffled order, making batches of rows that are already
read, and the whole loader: with a cache for a twentieth of the row groups, and with 0, 1 and 2 worker
processes. Figures are million tokens per CPU second if a single process works, else per second; medians of
the rounds.
"""

import argparse
import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader

from curriculum.packing import best_fit
from curriculum.packing.row_writer import RowLabels, RowWriter
from curriculum.packing.spool import Encodings, Spool, SpooledDocuments
from curriculum.parquet import shards_of
from curriculum.train.dataloader import MicroBatches, PlannedRows, collate
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import RowFormat

KEY = "c0ffee" * 10 + "c0de"
VOCAB = 32_000
MICRO_POSITIONS = 1 << 16
LOCAL = "local.parquet"
BYTES_PER_POSITION = 13
"""Four bytes for the id, the target and the document, and one for the loss mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """Rows in a folder, and a plan that reads all of them in shuffled order."""

    folder: Path
    row_length: int
    rows: int

    def open(self, plan: str = "plan.parquet") -> PlannedRows:
        """Open the rows; nothing is read yet."""
        return PlannedRows(self.folder / plan, {KEY: self.folder})

    def batches(
        self, workers: int, *, plan: str = "plan.parquet", cached: float | None = None
    ) -> Iterator[object]:
        """Yield all batches of a plan; `cached` is the share of row groups that fits into the cache."""
        rows = self.open(plan)
        if cached is not None:
            rows.cache.limit = int(cached * BYTES_PER_POSITION * self.rows * self.row_length)
        sampler = MicroBatches(
            rows.plan,
            slots_per_step=MICRO_POSITIONS // self.row_length,
            micro_positions=MICRO_POSITIONS,
            steps=range(self.rows * self.row_length // MICRO_POSITIONS),
        )
        yield from DataLoader(
            rows,
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=workers,
            multiprocessing_context="spawn" if workers else None,
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokens", type=int, default=40_000_000, help="tokens of the rows")
    arguments.add_argument("--rounds", type=int, default=3, help="number of rounds")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    for row_length in (512, 4096, 65536):
        with tempfile.TemporaryDirectory() as folder:
            data = write_data(Path(folder), options.tokens, row_length)
            write_local_plan(data)
            print(f"T = {row_length}, {data.rows:,} rows: million tokens and rows")
            for name, value in measure(data, options.rounds):
                print(f"  {name:52} {value:8.1f}  {value * 1e6 / row_length:9,.0f} rows")


def measure(data: Data, rounds: int) -> Iterator[tuple[str, float]]:
    """Yield the name and the rate of every measurement."""
    tokens = data.rows * data.row_length
    random = np.random.default_rng(5).permutation(data.rows)
    for name, order in (("file", np.arange(data.rows)), ("shuffled", random)):
        action = functools.partial(read, data, order)
        yield (
            f"reading rows in {name} order, per CPU second",
            rate(tokens, rounds, time.process_time, action),
        )
    rows = data.open()
    some = [rows[at] for at in range(max(MICRO_POSITIONS // data.row_length, 1))]
    yield (
        "batches of rows in memory, per CPU second",
        rate(MICRO_POSITIONS, 10 * rounds, time.process_time, lambda: collate(some)),
    )
    yield (
        "loader without workers, per CPU second",
        rate(tokens, rounds, time.process_time, lambda: consume(data.batches(0))),
    )
    for name, plan in (("local", LOCAL), ("shuffled", "plan.parquet")):
        part = functools.partial(data.batches, 0, plan=plan, cached=0.05)
        yield (
            f"loader, 1/20 cached, {name} order, per CPU second",
            rate(tokens, rounds, time.process_time, functools.partial(consume_all, part)),
        )
    for workers in (0, 1, 2):
        yield (
            f"loader with {workers} workers, per second",
            rate_without_start(data, workers, rounds),
        )


def rate(
    tokens: int, rounds: int, clock: Callable[[], float], action: Callable[[], object]
) -> float:
    """Return the median rate of `action` in million tokens per second of `clock`."""
    seconds = []
    for _ in range(rounds):
        began = clock()
        action()
        seconds.append(clock() - began)
    return tokens / statistics.median(seconds) / 1e6


def rate_without_start(data: Data, workers: int, rounds: int) -> float:
    """Return the rate of the loader after its first batches, because workers take seconds to start."""
    rates = []
    for _ in range(rounds):
        batches = data.batches(workers)
        skipped = 8
        for _ in range(skipped):
            next(batches)
        began = time.perf_counter()
        rest = consume(batches)
        rates.append(rest * MICRO_POSITIONS / (time.perf_counter() - began) / 1e6)
    return statistics.median(rates)


def consume(batches: Iterator[object]) -> int:
    return sum(1 for _ in batches)


def consume_all(batches: Callable[[], Iterator[object]]) -> int:
    return consume(batches())


def read(data: Data, order: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
    rows = data.open()
    for at in order.tolist():
        rows.shards[KEY].row(*divmod(at, shard_rows(rows)))


def shard_rows(rows: PlannedRows) -> int:
    """Return the number of rows of a shard; only the last shard may have fewer."""
    return rows.shards[KEY]._reader.num_rows(0)


def write_data(
    folder: Path,
    tokens: int,
    row_length: int,
    *,
    vocab: int = VOCAB,
    micro_positions: int = MICRO_POSITIONS,
) -> Data:
    """Write rows with RowWriter, and a plan of the rows that fill whole micro-batches."""
    batch = encodings(tokens, row_length, vocab)
    with Spool(folder) as spool:
        spool.extend(batch)
    spooled = SpooledDocuments(folder)
    ties = best_fit.tie_breakers(spooled.document_ids, seed=17)
    plan = best_fit.plan(spooled.lengths, row_length, ties, seed=17)
    row_format = RowFormat(row_length=row_length, vocab_size=vocab, pad_id=0, bos_id=1, eos_id=2)
    labels = RowLabels(
        rows_key=KEY, family="v2_simple", objective="causal", variant=0, split="train"
    )
    with RowWriter(folder, row_format=row_format, labels=labels) as writer:
        writer.write(spooled, plan.order, plan.row_starts, domain="all")
    per_step = micro_positions // row_length
    rows = plan.num_rows // per_step * per_step
    order = np.random.default_rng(17).permutation(plan.num_rows)
    write_plan(folder / "plan.parquet", order[:rows], row_length)
    return Data(folder=folder, row_length=row_length, rows=rows)


def write_local_plan(data: Data) -> None:
    """Write a plan of the same rows in the order that plans of many rows have."""
    # This module imports Polars, which benchmarks/gpu.py must run without.
    from curriculum.mixing.schedule import GROUP_POSITIONS, WINDOW, local_order

    words = np.random.default_rng(17).integers(0, 1 << 63, data.rows).astype(np.uint64)
    group = max(GROUP_POSITIONS // data.row_length, 1)
    write_plan(data.folder / LOCAL, local_order(words, group, WINDOW), data.row_length)


def write_plan(
    file: Path, order: "np.ndarray[tuple[int], np.dtype[np.int64]]", row_length: int
) -> None:
    """Write a plan that reads rows in `order`, one row per slot."""
    files = shards_of(file.parent)
    sizes = [pq.read_metadata(shard_file).num_rows for shard_file in files]
    rows = len(order)
    shard = np.searchsorted(np.cumsum(sizes), order, side="right")
    zero = np.zeros(rows, dtype=np.int32)
    columns = {
        "position": np.arange(rows),
        "slot": np.arange(rows),
        "serving": zero,
        "stratum": zero,
        "row_length": np.full(rows, row_length, dtype=np.int32),
        "rows_key": [KEY] * rows,
        "shard": shard.astype(np.int32),
        "row": (order - np.cumsum([0, *sizes])[shard]).astype(np.int32),
        "pack_id": [f"{KEY[:12]}-{row:010d}" for row in order],
        "repetition": zero,
        "valid_tokens": zero,
        "attention_pairs": zero.astype(np.int64),
    }
    pq.write_table(pa.table(columns, PLAN_SCHEMA), file, row_group_size=1 << 16)


def encodings(tokens: int, row_length: int, vocab: int = VOCAB) -> Encodings:
    """Return documents with log-normal lengths, Zipf-distributed ids and one piece."""
    random = np.random.default_rng(20261121)
    lengths = np.clip(random.lognormal(5.1, 1.1, tokens // 250), 8, row_length).astype(np.int64)
    lengths = lengths[np.cumsum(lengths) <= tokens]
    ends = np.cumsum(lengths)
    ids = random.zipf(1.2, int(ends[-1])).clip(3, vocab - 1).astype(np.int32)
    mask = np.ones(len(ids), dtype=np.uint8)
    ids[ends - lengths], ids[ends - 1], mask[ends - 1] = 1, 2, 0
    zero = np.zeros_like(lengths)
    return Encodings(
        document_ids=random.integers(0, 256, (len(lengths), 16), dtype=np.uint8),
        lengths=lengths,
        ids=ids,
        loss_mask=mask,
        piece_counts=np.ones(len(lengths), dtype=np.int64),
        pieces=np.stack([zero, zero, lengths, zero, 4 * lengths], axis=1).astype(np.int32),
    )


if __name__ == "__main__":
    main()
