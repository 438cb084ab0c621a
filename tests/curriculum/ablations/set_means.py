"""Bits per byte of each arm, seed, set and view, from the sums of documents alone."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ARM = ("arm", "seed", "set", "view")
STRATUM = (*ARM, "family", "objective", "domain", "weight")


def set_means(documents: Path) -> dict[tuple[str, int, str, str], float]:
    """Return Σ weight · (Σ nats / ln 2 ÷ Σ bytes) ÷ Σ weight over the strata of each set."""
    strata = (
        pq.read_table(documents).group_by([*STRATUM]).aggregate([("nats", "sum"), ("bytes", "sum")])
    )
    bits = pa.array(
        [
            row["weight"] * row["nats_sum"] / math.log(2) / row["bytes_sum"]
            for row in strata.to_pylist()
        ]
    )
    sums = (
        strata.append_column("bits", bits)
        .group_by([*ARM])
        .aggregate([("bits", "sum"), ("weight", "sum")])
    )
    return {
        (row["arm"], row["seed"], row["set"], row["view"]): row["bits_sum"] / row["weight_sum"]
        for row in sums.to_pylist()
    }
