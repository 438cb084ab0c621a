"""Throughput of writing, reading and checking rows in million tokens per CPU second.

    python benchmarks/rows.py [--tokens 8_000_000] [--rounds 5]

Figures are medians of the rounds. The last figure is the number of bytes per token on disk.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from curriculum.packing import best_fit
from curriculum.packing.read import RowReader, read_rows
from curriculum.packing.row_check import check
from curriculum.packing.row_writer import RowLabels, RowWriter
from curriculum.packing.spool import Encodings, Spool, SpooledDocuments, Structures
from curriculum.parquet import shards_of
from schemas.packed_row import RowFormat

LABELS = RowLabels(
    rows_key="c0ffee" * 10, family="v2_simple", objective="causal", variant=0, split="train"
)
FULL = ("input_ids", "target_ids", "loss_mask", "doc_ids")
DERIVED = ("input_ids", "loss_mask", "doc_ids")


def encodings(tokens: int, row_length: int) -> Encodings:
    """Return documents with log-normal lengths (mean 300), Zipf-distributed ids and three pieces."""
    random = np.random.default_rng(20261121)
    lengths = np.clip(random.lognormal(5.1, 1.1, tokens // 250), 8, row_length).astype(np.int64)
    lengths = lengths[np.cumsum(lengths) <= tokens]
    ends = np.cumsum(lengths)
    ids = random.zipf(1.2, int(ends[-1])).clip(3, 31_999).astype(np.int32)
    mask = np.ones(len(ids), dtype=np.uint8)
    ids[ends - lengths], ids[ends - 1], mask[ends - 1] = 1, 2, 0
    one, zero = np.ones_like(lengths), np.zeros_like(lengths)
    first = np.stack([one, zero, one, zero, zero], axis=1)
    text = np.stack([zero, one, lengths - 1, zero, 4 * lengths], axis=1)
    last = np.stack([one, lengths - 1, lengths, 4 * lengths, 4 * lengths], axis=1)
    return Encodings(
        document_ids=random.integers(0, 256, (len(lengths), 16), dtype=np.uint8),
        lengths=lengths,
        ids=ids,
        loss_mask=mask,
        piece_counts=np.full(len(lengths), 3, dtype=np.int64),
        pieces=np.stack([first, text, last], axis=1).reshape(-1, 5).astype(np.int32),
    )


def structured(batch: Encodings) -> Encodings:
    """Add structure to documents.

    Runs of codes are about six tokens long. Every document has two chunks; the first calls the second.
    """
    random = np.random.default_rng(20261122)
    lengths, tokens = batch.lengths, len(batch.ids)
    runs = np.cumsum(random.random(tokens) < 1 / 6)
    codes = random.integers(1, [10, 2, 20, 20, 120], (int(runs[-1]) + 1, 5), dtype=np.uint8)[runs]
    ends = np.cumsum(lengths)
    codes[ends - lengths], codes[ends - 1] = 0, 0
    codes[:, 1] = codes[:, 0] > 0
    one, middle = np.ones_like(lengths), lengths // 2
    chunks = np.stack([one, middle, 4 * one, one, middle, lengths - 1, 4 * one, one], axis=1)
    edges = np.tile(np.array([[0, 1, 1]], dtype=np.int32), (len(lengths), 1))
    structures = Structures(
        base_ids=batch.document_ids,
        codes=codes,
        chunk_counts=2 * one,
        chunks=chunks.reshape(-1, 4).astype(np.int32),
        call_counts=one,
        call_edges=edges,
        type_counts=one,
        type_edges=edges,
    )
    return replace(batch, structures=structures)


def rate(tokens: int, rounds: int, action: Callable[[], object]) -> float:
    """Return the median rate of `action` in million tokens per CPU second."""
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        action()
        seconds.append(time.process_time() - begin)
    return tokens / statistics.median(seconds) / 1e6


def consume(files: list[Path], columns: tuple[str, ...]) -> int:
    total = 0
    for batch in read_rows(files, columns):
        for name in FULL:
            total += int(getattr(batch, name)[0, -1])
    return total


def random_rows(files: list[Path], count: int, row_length: int) -> None:
    reader = RowReader(files, columns=DERIVED)
    random = np.random.default_rng(3)
    for row in random.integers(0, reader.num_rows(0), count):
        assert reader.row(0, int(row)).target_ids.shape == (1, row_length)


def measure(
    row_length: int, tokens: int, rounds: int, folder: Path, *, enriched: bool
) -> dict[str, float]:
    batch = encodings(tokens, row_length)
    if enriched:
        batch = structured(batch)
    with Spool(folder, structured=enriched) as spool:
        spool.extend(batch)
    spooled = SpooledDocuments(folder)
    ties = best_fit.tie_breakers(spooled.document_ids, seed=17)
    plan = best_fit.plan(spooled.lengths, row_length, ties, seed=17)
    row_format = RowFormat(row_length=row_length, vocab_size=32_000, pad_id=0, bos_id=1, eos_id=2)

    def write() -> None:
        labels = replace(LABELS, structured=enriched)
        with RowWriter(folder, row_format=row_format, labels=labels) as writer:
            writer.write(spooled, plan.order, plan.row_starts, domain="all")

    positions = plan.num_rows * row_length
    rates = {"write": rate(positions, rounds, write)}
    files = shards_of(folder)
    report = check(folder)
    assert not report.faults, report.faults[0]
    rates["read, full schema"] = rate(positions, rounds, lambda: consume(files, FULL))
    rates["read, deriving targets"] = rate(positions, rounds, lambda: consume(files, DERIVED))
    rates["check"] = rate(positions, rounds, lambda: check(folder))
    sampled = min(plan.num_rows, 200)
    rates["read rows at random"] = rate(
        sampled * row_length, rounds, lambda: random_rows(files, sampled, row_length)
    )
    size = sum(file.stat().st_size for file in files)
    rates["bytes per token on disk"] = size / positions
    return rates


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokens", type=int, default=8_000_000, help="tokens of the rows")
    arguments.add_argument("--rounds", type=int, default=5, help="number of rounds")
    options = arguments.parse_args()
    for row_length, enriched in ((4096, False), (65536, False), (4096, True), (65536, True)):
        with tempfile.TemporaryDirectory() as folder:
            rates = measure(
                row_length, options.tokens, options.rounds, Path(folder), enriched=enriched
            )
        kind = ", with structure" if enriched else ""
        print(f"T = {row_length}{kind}, million tokens per CPU second")
        for name, value in rates.items():
            print(f"  {name:24} {value:8.2f}")


if __name__ == "__main__":
    main()
