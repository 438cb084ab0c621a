"""Time to build the block mask of a row, compared with torch's create_block_mask.

    python benchmarks/block_mask.py [--rounds 5]

Rows contain documents of about 1,000 tokens. Times are CPU milliseconds of one core, medians of the rounds.
create_block_mask evaluates the mask for every pair of positions, so it is measured only for short rows. The
script fails if both masks differ.
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
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"{'T':>6} {'documents':>9} {'boundaries':>11} {'ours':>9} {'torch':>9}")
    for length in LENGTHS:
        ids = documents(length)
        boundaries = Boundaries.from_doc_ids(ids)
        ours = milliseconds(functools.partial(block_mask, boundaries), rounds)
        building = milliseconds(functools.partial(Boundaries.from_doc_ids, ids), rounds)
        theirs = "-"
        if length <= MAX_TORCH_LENGTH:
            theirs = f"{milliseconds(functools.partial(torch_block_mask, ids), 1):.0f} ms"
            assert has_same_blocks(block_mask(boundaries), torch_block_mask(ids)), (
                "the masks differ"
            )
        number = int(ids.max()) + 1
        print(f"{length:6} {number:9} {building:8.1f} ms {ours:6.1f} ms {theirs:>9}")


def documents(length: int) -> Tensor:
    """Return the doc_ids [1, length] of documents with log-normal lengths."""
    generator = random.Random(length)
    lengths: list[int] = []
    while sum(lengths) < length:
        lengths.append(1 + int(generator.lognormvariate(0, 1) * MEAN / 1.65))
    lengths[-1] -= sum(lengths) - length
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None].int()


def torch_block_mask(ids: Tensor) -> BlockMask:
    def visible(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (ids[b, q] == ids[b, kv]) & (q >= kv)

    T = ids.shape[1]
    return create_block_mask(visible, 1, None, T, T, device=str(ids.device))


def has_same_blocks(one: BlockMask, other: BlockMask) -> bool:
    """Return True if both masks have the same partial blocks and the same full blocks."""
    return all(torch.equal(_dense(one, name), _dense(other, name)) for name in ("kv", "full_kv"))


def _dense(mask: BlockMask, name: str) -> Tensor:
    counts, indices = getattr(mask, f"{name}_num_blocks"), getattr(mask, f"{name}_indices")
    n = indices.shape[-1]
    used = torch.arange(n, device=counts.device) < counts[..., None]
    blocks = torch.zeros(*counts.shape, n, device=counts.device)
    return blocks.scatter_add_(-1, indices.long(), used.float())


def milliseconds(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(1000 * (time.process_time() - began))
    return statistics.median(times)


if __name__ == "__main__":
    main()
