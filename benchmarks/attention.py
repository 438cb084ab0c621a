"""Time of attention on a CPU: document by document, with a dense mask, and with relations of chunks.

    python benchmarks/attention.py [--rounds 3]

Times are CPU seconds of one core for a forward and a backward pass, the best of the rounds. Rows have 8,192
positions. There are 4 query heads and 2 key heads with 32 features. The column `documents` is the backend
that computes attention document by document, and `sdpa` is the backend with a dense mask. `ratio` is sdpa
divided by documents. `relations` is the documents backend with a trained table of biases for relations
between chunks, where chunks fill every document.
"""

import argparse
import random
import time

import torch
from torch import Tensor

from curriculum.model.backends import AttentionBackend, attention
from curriculum.model.masks import Boundaries
from curriculum.model.structure_tensors import StructureTensors

ROW = 8192
MEANS = (50, 200, 1000, 4000)
HEADS, GROUPS, FEATURES = 4, 2, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds of `documents`")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"{'per row':>9} {'documents':>10} {'sdpa':>8} {'ratio':>6} {'relations':>10}")
    for mean in MEANS:
        boundaries = Boundaries.from_doc_ids(documents(mean))
        plain = seconds(attention("documents"), boundaries, None, rounds)
        dense = seconds(attention("sdpa"), boundaries, None, 1)
        table = torch.randn(HEADS, 9)
        biased = seconds(attention("documents", relations=True), boundaries, table, 1)
        print(
            f"{len(boundaries.lengths):9} {plain:8.3f} s {dense:6.2f} s {dense / plain:5.1f}x "
            f"{biased:8.2f} s"
        )


def documents(mean: int) -> Tensor:
    """Return the doc_ids [1, ROW] of documents with log-normal lengths."""
    generator = random.Random(mean)
    lengths: list[int] = []
    while sum(lengths) < ROW:
        lengths.append(1 + int(generator.lognormvariate(0, 1) * mean / 1.65))
    lengths[-1] -= sum(lengths) - ROW
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None].int()


def seconds(
    backend: AttentionBackend, boundaries: Boundaries, table: Tensor | None, rounds: int
) -> float:
    q, k, v = (
        torch.randn(1, heads, ROW, FEATURES, requires_grad=True)
        for heads in (HEADS, GROUPS, GROUPS)
    )
    biases = table.requires_grad_() if table is not None else None
    times = []
    for _ in range(rounds):
        began = time.process_time()
        out = backend(boundaries, structure_of(boundaries) if table is not None else None)(
            q, k, v, biases
        )
        torch.autograd.grad(out.sum(), (q, k, v))
        times.append(time.process_time() - began)
    return min(times)


def structure_of(boundaries: Boundaries) -> StructureTensors:
    """Return chunks of 64 tokens with relations of all kinds between them."""
    chunks = (torch.arange(ROW) // 64 + 1).int()[None]
    relations = torch.randint(9, (1, 256, 256)).byte()
    return StructureTensors(
        tokens=torch.zeros(1, ROW, 5).byte(), chunks=chunks, relations=relations
    )


if __name__ == "__main__":
    main()
