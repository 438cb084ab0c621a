"""Time of Mamba-2 with chunks that start at documents, compared with chunks on a fixed grid.

    python benchmarks/mamba.py

In the `aligned` form, which curriculum uses, every document starts a new chunk. In the `unaligned` form,
chunks are cut at multiples of their size, and decays between documents in the same chunk are masked. Both
forms compute the same result. The script measures forward and backward passes, including the time to cut
chunks, over rows of documents with exponentially distributed lengths. Times are CPU seconds of one thread,
medians of alternating rounds. `slots per position` is the number of chunk positions per row position: its
excess over 1 is the padding of aligned chunks.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model.mamba import decays_between, entering_states, scan_states
from curriculum.model.masks import Boundaries, Chunks

HEADS, FEATURES, STATE, CHUNK = 8, 64, 64, 64
ROUNDS = 7
Scan = Callable[[tuple[Tensor, ...], Boundaries], Tensor]


def main() -> None:
    torch.set_num_threads(1)
    for row_length in (4096, 16384):
        for mean in (1000, 100):
            boundaries = documents(row_length, mean)
            inputs = random_inputs(row_length)
            first, second = aligned(inputs, boundaries), unaligned(inputs, boundaries)
            assert torch.allclose(first, second, atol=1e-3)
            seconds: dict[Scan, list[float]] = {aligned: [], unaligned: []}
            for _ in range(ROUNDS + 1):
                for scan, durations in seconds.items():
                    durations.append(measure(scan, inputs, boundaries))
            ours, theirs = (statistics.median(durations[1:]) for durations in seconds.values())
            slots = sum(Chunks.from_boundaries(boundaries, CHUNK).sizes) * CHUNK
            print(
                f"T {row_length:>5}  documents of {mean:>4}  aligned {ours:6.3f} s  "
                f"unaligned {theirs:6.3f} s  ratio {ours / theirs:4.2f}  "
                f"slots per position {slots / row_length:4.2f}"
            )


def documents(row_length: int, mean: int) -> Boundaries:
    """Return the boundaries of a row of documents with `mean` tokens on average."""
    starts = torch.rand(row_length, generator=torch.Generator().manual_seed(mean)) < 1 / mean
    return Boundaries.from_doc_ids(starts.long().cumsum(0)[None])


def random_inputs(row_length: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(row_length)
    shapes = (
        (row_length, HEADS, FEATURES),
        (row_length, HEADS),
        (HEADS,),
        (row_length, STATE),
        (row_length, STATE),
    )
    x, step, rate, b, c = (torch.randn(shape, generator=generator) for shape in shapes)
    return tuple(tensor.requires_grad_() for tensor in (x, step - 4, -1 - rate.abs(), b, c))


def measure(scan: Scan, inputs: tuple[Tensor, ...], boundaries: Boundaries) -> float:
    began = time.process_time()
    y_NHP = scan(inputs, boundaries)
    torch.autograd.grad(y_NHP.sum(), inputs)
    return time.process_time() - began


def aligned(inputs: tuple[Tensor, ...], boundaries: Boundaries) -> Tensor:
    x_NHP, step_NH, rate_H, b_NE, c_NE = inputs
    return scan_states(
        x_NHP, step_NH, rate_H, b_NE, c_NE, Chunks.from_boundaries(boundaries, CHUNK)
    )


def unaligned(inputs: tuple[Tensor, ...], boundaries: Boundaries) -> Tensor:
    """Scan with chunks on a fixed grid; torch.where masks decays between documents."""
    x_NHP, step_NH, rate_H, b_NE, c_NE = inputs
    row = Boundaries.from_doc_ids(torch.zeros_like(boundaries.doc_ids))
    chunks = Chunks.from_boundaries(row, CHUNK)
    doc_nq, before_n1 = documents_by_chunk(chunks, boundaries.doc_ids.flatten())
    dt_nqH = F.softplus(chunks.to_chunks(step_NH))
    u_nqHP = chunks.to_chunks(x_NHP * chunks.unchunk(dt_nqH)[..., None])
    b_nqE, c_nqE = chunks.to_chunks(b_NE), chunks.to_chunks(c_NE)
    log_decay_nHq = (dt_nqH * rate_H).transpose(1, 2)
    same_n1kq = (doc_nq[:, :, None] == doc_nq[:, None, :])[:, None]
    decays_nHkq = torch.where(same_n1kq, decays_between(log_decay_nHq), 0)
    scores_nkq = b_nqE @ c_nqE.mT
    near_nHqP = (decays_nHkq * scores_nkq[:, None]).mT @ u_nqHP.transpose(1, 2)

    to_end_nqH1 = decays_nHkq[..., -1].transpose(1, 2)[..., None]
    states_nIE = (u_nqHP * to_end_nqH1).flatten(2).mT @ b_nqE
    continues_n1q = (doc_nq == before_n1)[:, None]
    from_start_nHq = torch.where(continues_n1q, log_decay_nHq.cumsum(-1).exp(), 0)
    entering_nHPE = entering_states(
        states_nIE.view(-1, HEADS, FEATURES, STATE), from_start_nHq[..., -1], chunks
    )
    far_nqHP = (c_nqE @ entering_nHPE.flatten(1, 2).mT).view_as(u_nqHP)
    return chunks.unchunk(
        near_nHqP.transpose(1, 2) + far_nqHP * from_start_nHq.transpose(1, 2)[..., None]
    )


def documents_by_chunk(chunks: Chunks, doc_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return the document of every chunk position, and the last document of the previous chunk."""
    doc_nq = chunks.to_chunks(doc_N, blank=-1)
    before_N = torch.cat([doc_N.new_full((CHUNK,), -1), doc_N[:-CHUNK]])
    ends_N = before_N.view(-1, CHUNK)[:, -1:].expand(-1, CHUNK).flatten()
    return doc_nq, chunks.to_chunks(ends_N)[:, :1]


if __name__ == "__main__":
    main()
