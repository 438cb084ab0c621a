"""Time to build the block mask of a row, compared with torch's own, and their agreement.

    python benchmarks/block_mask.py [--rounds 5]

Rows of documents of about 1000 tokens, one core, CPU milliseconds: medians of rounds. torch's
create_block_mask is asked where its T² memory allows: it reads the mask for every pair of positions.
"""

import argparse
import functools
import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from curriculum.model.masks import Boundaries, block_mask

LENGTHS = (4096, 16384, 65536)
MAX_TORCH_LENGTH = 16384
MEAN = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"{'row':>6} {'documents':>9} {'boundaries':>11} {'ours':>9} {'torch':>9}")
    for length in LENGTHS:
        ids = documents(length)
        cut = Boundaries.from_doc_ids(ids)
        ours = milliseconds(functools.partial(block_mask, cut), rounds)
        edges = milliseconds(functools.partial(Boundaries.from_doc_ids, ids), rounds)
        theirs = "-"
        if length <= MAX_TORCH_LENGTH:
            theirs = f"{milliseconds(functools.partial(of_torch, ids), 1):.0f} ms"
            assert agree(block_mask(cut), of_torch(ids)), "the masks differ"
        number = int(ids.max()) + 1
        print(f"{length:6} {number:9} {edges:8.1f} ms {ours:6.1f} ms {theirs:>9}")


def documents(length: int) -> Tensor:
    """doc_ids [1, length] of log-normal documents."""
    draw = random.Random(length)
    lengths: list[int] = []
    while sum(lengths) < length:
        lengths.append(1 + int(draw.lognormvariate(0, 1) * MEAN / 1.65))
    lengths[-1] -= sum(lengths) - length
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None].int()


def of_torch(ids: Tensor) -> BlockMask:
    def visible(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (ids[b, q] == ids[b, kv]) & (q >= kv)

    T = ids.shape[1]
    return create_block_mask(visible, 1, None, T, T, device=str(ids.device))


def agree(one: BlockMask, other: BlockMask) -> bool:
    """Return True if both have the same partial and full blocks."""
    return all(torch.equal(_dense(one, name), _dense(other, name)) for name in ("kv", "full_kv"))


def _dense(mask: BlockMask, name: str) -> Tensor:
    counts, indices = getattr(mask, f"{name}_num_blocks"), getattr(mask, f"{name}_indices")
    n = indices.shape[-1]
    taken = torch.arange(n, device=counts.device) < counts[..., None]
    blocks = torch.zeros(*counts.shape, n, device=counts.device)
    return blocks.scatter_add_(-1, indices.long(), taken.float())


def milliseconds(work: Callable[[], object], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(1000 * (time.process_time() - began))
    return statistics.median(found)


if __name__ == "__main__":
    main()
