"""Yield and speed of packing strategies, and the cost of padding.

    python benchmarks/packing.py [offsets.bin …] [--documents 1_000_000] [--rounds 5]

The documents have the lengths of tokens artefacts, given by their offsets.bin, or else the log-normal lengths
of two seeded corpora. Documents that are longer than a row are skipped. This file implements the strategies
that curriculum doesn't use, only to compare them. If trl is installed, its packing is measured, too.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing import best_fit, chop
from curriculum.packing.row_writer import BLOCK_TOKENS, RowLabels, RowWriter
from curriculum.packing.spool import Encodings, Spool, SpooledDocuments
from schemas.packed_row import RowFormat

Int64s = npt.NDArray[np.int64]
ROW_LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
CONTRACT_LENGTHS = (4096, 16384, 65536)
BATCH = 64
"""Documents per batch of the padding strategies."""
PEER_DOCUMENTS = 50_000
COST = {"positions_per_gpu_second": 10_000.0, "price_per_gpu_hour": 2.0}


def log_normal(mean: float, sigma: float, documents: int) -> Int64s:
    random = np.random.default_rng(20261121)
    lengths = random.lognormal(np.log(mean) - sigma**2 / 2, sigma, documents)
    return np.maximum(1, lengths).astype(np.int64)


def ties(documents: int) -> npt.NDArray[np.uint64]:
    ids = np.random.default_rng(7).integers(0, 256, (documents, 16), dtype=np.uint8)
    return best_fit.tie_breakers(ids, seed=17)


def cpu_seconds(action: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        action()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds)


# Each of these functions returns the number of positions that a strategy trains on.


def padded(lengths: Int64s, row_length: int) -> int:
    return len(lengths) * row_length


def batch_padded(lengths: Int64s, row_length: int) -> int:
    starts = np.arange(0, len(lengths), BATCH)
    counts = np.diff(np.append(starts, len(lengths)))
    return int((np.maximum.reduceat(lengths, starts) * counts).sum())


def sorted_batch_padded(lengths: Int64s, row_length: int) -> int:
    return batch_padded(np.sort(lengths), row_length)


def concatenated(lengths: Int64s, row_length: int) -> int:
    return chop.cut(lengths, row_length, with_bos=False).num_rows * row_length


def next_fit(lengths: Int64s, row_length: int) -> int:
    ends = np.cumsum(lengths)
    rows, used = 0, 0
    while used < len(lengths):
        before = int(ends[used - 1]) if used else 0
        used = int(np.searchsorted(ends, before + row_length, side="right"))
        rows += 1
    return rows * row_length


def length_sorted(lengths: Int64s, row_length: int) -> int:
    return next_fit(np.sort(lengths), row_length)


def first_fit(lengths: Int64s, row_length: int) -> int:
    return best_fit.first_fit_rows(lengths, row_length) * row_length


def best_fit_decreasing(lengths: Int64s, row_length: int) -> int:
    return best_fit.plan(lengths, row_length, ties(len(lengths)), seed=17).num_rows * row_length


STRATEGIES: dict[str, Callable[[Int64s, int], int]] = {
    "padding to T": padded,
    "padding to the batch": batch_padded,
    "sorted-batch padding": sorted_batch_padded,
    "greedy next-fit": next_fit,
    "length-sorted": length_sorted,
    "first-fit": first_fit,
    "best-fit-decreasing (ours)": best_fit_decreasing,
    "concatenation, chopped": concatenated,
}


def padding_table(corpora: dict[str, Int64s]) -> None:
    print("\nShare of padding with one document per row, longer documents truncated (%)")
    print(f"{'':34}" + "".join(f"{length:>8}" for length in ROW_LENGTHS))
    for name, lengths in corpora.items():
        waste = [1 - np.minimum(lengths, row).sum() / (len(lengths) * row) for row in ROW_LENGTHS]
        print(f"{name:34}" + "".join(f"{100 * value:8.1f}" for value in waste))


def strategy_table(name: str, lengths: Int64s, row_length: int) -> None:
    fitting = lengths[lengths <= row_length][:100_000]
    tokens = int(fitting.sum())
    cuts = chop.cut(fitting, row_length, with_bos=False)
    split = np.count_nonzero(cuts.starts[cuts.row_starts[:-1]])
    print(f"\n{name}, T = {row_length}, {len(fitting):,} documents that fit")
    print(f"{'':34}{'yield %':>9}{'GPU hours':>11}{'USD':>9}{'× ours':>8}")
    ours = best_fit_decreasing(fitting, row_length)
    for strategy, positions_of in STRATEGIES.items():
        positions = positions_of(fitting, row_length)
        hours = positions / COST["positions_per_gpu_second"] / 3600
        print(
            f"{strategy:34}{100 * tokens / positions:9.3f}{hours:11.2f}"
            f"{hours * COST['price_per_gpu_hour']:9.2f}{positions / ours:8.2f}"
        )
    print(f"concatenation starts {split:,} rows inside a document, the other strategies none")


def planner_table(corpora: dict[str, Int64s], rounds: int) -> None:
    print("\nbest-fit-decreasing (ours)")
    print(f"{'':34}{'T':>8}{'yield %':>10}{'rows above min':>18}{'M documents/CPU s':>19}")
    for name, lengths in corpora.items():
        for row_length in CONTRACT_LENGTHS:
            fitting = lengths[lengths <= row_length]
            tie = ties(len(fitting))

            def plan(
                fitting: Int64s = fitting,
                tie: npt.NDArray[np.uint64] = tie,
                row_length: int = row_length,
            ) -> best_fit.PackPlan:
                return best_fit.plan(fitting, row_length, tie, seed=17)

            report = best_fit.report(plan(), fitting)
            rate = len(fitting) / cpu_seconds(plan, rounds) / 1e6
            print(
                f"{name:34}{row_length:8}{100 * report.pack_yield:10.4f}"
                f"{report.rows - report.fewest_rows:18}{rate:19.2f}"
            )


def report_table(name: str, lengths: Int64s) -> None:
    print(f"\n{name}, best-fit-decreasing (ours)")
    for row_length in CONTRACT_LENGTHS:
        fitting = lengths[lengths <= row_length]
        plan = best_fit.plan(fitting, row_length, ties(len(fitting)), seed=17)
        report = best_fit.report(plan, fitting)
        density = report.attention_pairs / report.unmasked_pairs
        print(
            f"  T = {row_length}: {report.documents_per_row:.1f} documents a row, "
            f"masked attention {100 * density:.1f} % of unmasked, context {report.context_histogram}, "
            f"{report.cost(**COST):,.0f} USD, padded {report.padded_cost(**COST):,.0f} USD"
        )


def compare_with_trl(lengths: Int64s, row_length: int, rounds: int) -> None:
    """Compare our packing with trl, from tokens to the columns of rows.

    Our side starts from spooled tokens and creates a million positions at a time, as before writing a file.
    trl starts from an Arrow table of lists.
    """
    from trl.data_utils import _pack_bfd

    fitting = lengths[lengths <= row_length][:PEER_DOCUMENTS]
    batch = _encodings(fitting)
    table = pa.table(
        {
            name: pa.ListArray.from_arrays(
                pa.array(np.append(0, np.cumsum(fitting)), type=pa.int32()),
                pa.array(values, type=kind),
            )
            for name, values, kind in (
                ("input_ids", batch.ids, pa.int32()),
                ("loss_mask", batch.loss_mask, pa.uint8()),
            )
        }
    )
    row_format = RowFormat(row_length=row_length, vocab_size=32_000, pad_id=0, bos_id=1, eos_id=2)
    labels = RowLabels(
        rows_key="c0ffee" * 10, family="v2_simple", objective="causal", variant=0, split="train"
    )
    tie = ties(len(fitting))
    with tempfile.TemporaryDirectory() as folder:
        with Spool(Path(folder)) as spool:
            spool.extend(batch)
        spooled = SpooledDocuments(Path(folder))
        writer = RowWriter(Path(folder), row_format=row_format, labels=labels)

        def ours() -> int:
            plan = best_fit.plan(spooled.lengths, row_length, tie, seed=17)
            for first_row in range(0, plan.num_rows, BLOCK_TOKENS // row_length):
                starts = plan.row_starts[first_row : first_row + BLOCK_TOKENS // row_length + 1]
                documents = plan.order[starts[0] : starts[-1]]
                writer.table(spooled, documents, starts - starts[0], domain="all")
            return plan.num_rows

        def theirs() -> int:
            return len(_pack_bfd(table, row_length, "split"))

        assert ours() == theirs(), "both pack by best-fit-decreasing"
        seconds: dict[str, list[float]] = {"ours": [], "trl": []}
        for _ in range(rounds):
            seconds["ours"].append(cpu_seconds(ours, 1))
            seconds["trl"].append(cpu_seconds(theirs, 1))
    tokens = int(fitting.sum())
    rates = {name: tokens / statistics.median(values) / 1e6 for name, values in seconds.items()}
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["trl"], strict=True)]
    print(
        f"  T = {row_length}: ours {rates['ours']:.1f} Mtok/CPU s (18 columns), trl bfd "
        f"{rates['trl']:.1f} (3 columns); ratio, median {statistics.median(ratios):.1f} "
        f"({min(ratios):.1f}–{max(ratios):.1f})"
    )


def _encodings(lengths: Int64s) -> Encodings:
    random = np.random.default_rng(3)
    ids = random.integers(3, 32_000, int(lengths.sum())).astype(np.int32)
    mask = np.ones(len(ids), dtype=np.uint8)
    ends = np.cumsum(lengths)
    mask[ends - 1] = 0
    mask[ends[lengths == 1] - 1] = 0
    pieces = np.zeros((len(lengths), 5), dtype=np.int32)
    pieces[:, 2], pieces[:, 4] = lengths, 4 * lengths
    return Encodings(
        document_ids=random.integers(0, 256, (len(lengths), 16), dtype=np.uint8),
        lengths=lengths,
        ids=ids,
        loss_mask=mask,
        piece_counts=np.ones(len(lengths), dtype=np.int64),
        pieces=pieces,
    )


def corpora_of(files: list[Path], documents: int) -> dict[str, Int64s]:
    if files:
        offsets = {str(path): np.fromfile(path, dtype=np.int64) for path in files}
        return {name: edges[1:] - edges[:-1] for name, edges in offsets.items()}
    return {
        "log-normal, mean 300, σ 1.1": log_normal(300, 1.1, documents),
        "log-normal, mean 800, σ 1.0": log_normal(800, 1.0, documents),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("offsets", type=Path, nargs="*", help="offsets.bin of tokens artefacts")
    arguments.add_argument(
        "--documents", type=int, default=1_000_000, help="documents per generated corpus"
    )
    arguments.add_argument("--rounds", type=int, default=5, help="number of rounds")
    options = arguments.parse_args()
    corpora = corpora_of(options.offsets, options.documents)
    padding_table(corpora)
    for name, lengths in corpora.items():
        strategy_table(name, lengths, 4096)
        report_table(name, lengths)
    planner_table(corpora, options.rounds)
    try:
        import trl  # noqa: F401
    except ImportError:
        print("\ntrl is not installed; run `pip install curriculum[bench]` to measure it")
        return
    print(
        f"\nComparison with trl, {PEER_DOCUMENTS:,} documents, {options.rounds} alternating rounds"
    )
    for name, lengths in corpora.items():
        print(name)
        for row_length in (4096, 65536):
            compare_with_trl(lengths, row_length, options.rounds)


if __name__ == "__main__":
    main()
