"""Cost of attention document by document against a dense mask on a CPU, and of relations in it.

    python benchmarks/attention.py [--rounds 3]

Rows of 8192 positions, 4 heads over 2 of 32 features, forward and backward, one core, CPU seconds: the
best of rounds. `relations` is the documents backend with a trained table, each document full of chunks.
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
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"{'documents':>9} {'documents':>10} {'sdpa':>8} {'ratio':>6} {'relations':>10}")
    for mean in MEANS:
        cut = Boundaries.from_doc_ids(documents(mean))
        plain = seconds(attention("documents"), cut, None, rounds)
        dense = seconds(attention("sdpa"), cut, None, 1)
        table = torch.randn(HEADS, 9)
        biased = seconds(attention("documents", relations=True), cut, table, 1)
        print(
            f"{len(cut.lengths):9} {plain:8.3f} s {dense:6.2f} s {dense / plain:5.1f}x "
            f"{biased:8.2f} s"
        )


def documents(mean: int) -> Tensor:
    """doc_ids [1, ROW] of log-normal documents."""
    draw = random.Random(mean)
    lengths: list[int] = []
    while sum(lengths) < ROW:
        lengths.append(1 + int(draw.lognormvariate(0, 1) * mean / 1.65))
    lengths[-1] -= sum(lengths) - ROW
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None].int()


def seconds(backend: AttentionBackend, cut: Boundaries, table: Tensor | None, rounds: int) -> float:
    q, k, v = (
        torch.randn(1, heads, ROW, FEATURES, requires_grad=True)
        for heads in (HEADS, GROUPS, GROUPS)
    )
    biases = table.requires_grad_() if table is not None else None
    found = []
    for _ in range(rounds):
        began = time.process_time()
        out = backend(cut, structure_of(cut) if table is not None else None)(q, k, v, biases)
        torch.autograd.grad(out.sum(), (q, k, v))
        found.append(time.process_time() - began)
    return min(found)


def structure_of(cut: Boundaries) -> StructureTensors:
    """Chunks of 64 tokens, and relations of all kinds between them."""
    chunks = (torch.arange(ROW) // 64 + 1).int()[None]
    relations = torch.randint(9, (1, 256, 256)).byte()
    return StructureTensors(
        tokens=torch.zeros(1, ROW, 5).byte(), chunks=chunks, relations=relations
    )


if __name__ == "__main__":
    main()
