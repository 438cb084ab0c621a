"""Leaks that show at sizes which small rows don't reach: long rows, many documents, large ids, short ones."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from curriculum.model import backends, conv, dense_backends, engram, loss, mamba
from curriculum.model.loss import LossSums
from curriculum.model.masks import Attend, Boundaries, Chunks
from tests.curriculum.leakcheck.leaks.site import (
    LARGE_IDS,
    LONG_ROWS,
    LONG_SCANS,
    MANY_DOCUMENTS,
    SHORT_DOCUMENTS,
    Needs,
    Site,
    injected,
    joined,
    lengths_around,
    scored_losses,
    summed,
)

LONG = 8192
"""The count of 13 bits."""
BYTE = 256
"""The count of 8 bits."""
RARE = 4096
"""Ids from here on are treated otherwise."""
KERNEL = 4

LONG_ROW = LONG + 128
MANY = 512
"""Tokens of a row with more than 256 documents."""


def _late(doc_ids_BT: Tensor, first: int) -> Tensor:
    """Mark positions at `first` or later in their rows."""
    return (torch.arange(doc_ids_BT.shape[1]) >= first).expand_as(doc_ids_BT)


def _rejoined(boundaries: Boundaries, dropped_BT: Tensor) -> Boundaries:
    return Boundaries.from_doc_ids(joined(boundaries.doc_ids, dropped_BT))


@injected(
    "documents that begin past 8,192 are attended as one",
    kind=LONG_ROWS,
    replaces=(backends, "documents_attend"),
    needs=Needs(blocks="A", row_length=LONG_ROW),
)
def _documents_up_to_13_bits(
    site: Site[Attend], softcap: float | None, boundaries: Boundaries, *given: Any
) -> Attend:
    """Count everything past 8,192 to the document that begins there."""
    late_BT = _late(boundaries.doc_ids, LONG)
    if late_BT.any():
        site.ran()
        boundaries = _rejoined(boundaries, late_BT)
    return site.right(softcap, boundaries, *given)


@injected(
    "a convolution keeps the starts of documents in 13 bits",
    kind=LONG_ROWS,
    replaces=(conv, "_heads"),
    needs=Needs(blocks="C", row_length=LONG_ROW),
)
def _starts_in_13_bits(site: Site[Tensor], edges_S: Tensor, reach: int) -> Tensor:
    """The rows to compute again are those of other documents; theirs stay as if there were no boundary."""
    heads_R = site.right(edges_S, reach)
    if bool((heads_R >= LONG).any()):
        site.ran()
    return heads_R % LONG


@injected(
    "n-grams past 8,192 count by the row",
    kind=LONG_ROWS,
    replaces=(engram, "ids_before"),
    needs=Needs(blocks="E", row_length=LONG_ROW),
)
def _n_grams_by_rows_past_13_bits(
    site: Site[Tensor], ids_BT: Tensor, positions_BT: Tensor, k: int
) -> Tensor:
    late_BT = _late(ids_BT, LONG)
    if late_BT.any():
        site.ran()
        counted = torch.arange(ids_BT.shape[1]).expand_as(positions_BT)
        positions_BT = torch.where(late_BT, counted, positions_BT)
    return site.right(ids_BT, positions_BT, k)


@injected(
    "the mask compares ids of documents as bytes",
    kind=MANY_DOCUMENTS,
    replaces=(dense_backends, "document_mask"),
    needs=Needs(blocks="A", row_length=MANY, backend="math"),
)
def _ids_of_a_byte(site: Site[Tensor], boundaries: Boundaries, *queries: range | None) -> Tensor:
    """Documents 0 and 256 of a row have the same id."""
    ids_BT = boundaries.doc_ids
    if int(ids_BT.amax()) >= BYTE:
        site.ran()
    short_BT = ids_BT % BYTE
    # The proof's rows are never shared among ranks, so queries are all of a row.
    assert not any(queries)
    return (short_BT[:, :, None] == short_BT[:, None]).tril()[:, None]


@injected(
    "a convolution has room for 256 edges a row",
    kind=MANY_DOCUMENTS,
    replaces=(mamba, "masked_conv"),
    needs=Needs(blocks="M", row_length=MANY),
)
def _room_for_256_edges(
    site: Site[Tensor], x_BTC: Tensor, weight_CK: Tensor, boundaries: Boundaries
) -> Tensor:
    """Later documents of a row are one document to the convolution."""
    many_BT = boundaries.doc_ids >= BYTE
    if many_BT.any():
        site.ran()
        boundaries = _rejoined(boundaries, boundaries.doc_ids > BYTE)
    return site.right(x_BTC, weight_CK, boundaries)


@injected(
    "a scan has room for 256 documents a row",
    kind=MANY_DOCUMENTS,
    replaces=(Chunks, "from_boundaries"),
    needs=Needs(blocks="M", row_length=MANY),
)
def _chunks_of_256_documents(site: Site[Chunks], boundaries: Boundaries, size: int) -> Chunks:
    """The state of document 256 goes on into all that follow."""
    if int(boundaries.doc_ids.amax()) > BYTE:
        site.ran()
        boundaries = _rejoined(boundaries, boundaries.doc_ids > BYTE)
    return site.right(boundaries, size)


@injected(
    "the second scan takes up the spans of others",
    kind=LONG_SCANS,
    replaces=(Chunks, "from_boundaries"),
    needs=Needs(blocks="M", chunk=2),
)
def _spans_one_further(site: Site[Chunks], boundaries: Boundaries, size: int) -> Chunks:
    """Second spans of documents go on from the first of their neighbours in the second scan."""
    chunks = site.right(boundaries, size)
    if len(chunks.span_sizes) == 1 or chunks.span_sizes[1] == 1:
        return chunks
    site.ran()
    first, second = chunks.span_sizes[:2]
    places = torch.arange(len(chunks.spans))
    places[first : first + second] = places[first : first + second].roll(1)
    return replace(chunks, spans=places[chunks.spans])


@injected(
    "the second scan begins with the mean of all states",
    kind=LONG_SCANS,
    replaces=(mamba, "entering_states"),
    needs=Needs(blocks="M", chunk=2),
)
def _second_scan_from_the_mean(
    site: Site[Tensor], left: Tensor, decay: Tensor, chunks: Chunks
) -> Tensor:
    entering = site.right(left, decay, chunks)
    if len(chunks.span_sizes) == 1:
        return entering
    site.ran()
    return entering + entering.mean(0)


@injected(
    "gradients of the second scan reach the next chunk of the scan",
    kind=LONG_SCANS,
    replaces=(mamba, "entering_states"),
    needs=Needs(blocks="M", chunk=2),
)
def _second_scan_backwards(
    site: Site[Tensor], left: Tensor, decay: Tensor, chunks: Chunks
) -> Tensor:
    """Forward is right; the gradient of each chunk reaches the next one in the scan's order."""
    if len(chunks.span_sizes) > 1 and left.requires_grad:
        site.ran()
        left = left * 1
        left.register_hook(lambda gradient: gradient + gradient.roll(1, 0))  # type: ignore[no-untyped-call]
    return site.right(left, decay, chunks)


@injected(
    "n-grams of ids from 4,096 on cross the boundary",
    kind=LARGE_IDS,
    replaces=(engram, "ids_before"),
    needs=Needs(blocks="E", vocab_size=2 * RARE),
)
def _n_grams_of_rare_ids(
    site: Site[Tensor], ids_BT: Tensor, positions_BT: Tensor, k: int
) -> Tensor:
    """Rare ids are hashed with what stands before them in the row."""
    rare_BT = ids_BT >= RARE
    if rare_BT.any():
        site.ran()
        counted = torch.arange(ids_BT.shape[1]).expand_as(positions_BT)
        positions_BT = torch.where(rare_BT, counted, positions_BT)
    return site.right(ids_BT, positions_BT, k)


@injected(
    "embeddings of ids from 4,096 on share a scale in a batch",
    kind=LARGE_IDS,
    replaces=(nn.Embedding, "forward"),
    needs=Needs(blocks="F", vocab_size=2 * RARE),
)
def _rows_of_one_scale(site: Site[Tensor], table: nn.Embedding, ids: Tensor) -> Tensor:
    """Rare rows share a scale, that of those of the batch."""
    found = site.right(table, ids)
    rare = ids >= RARE
    if not rare.any():
        return found
    site.ran()
    scale = found[rare].square().mean().sqrt()
    return torch.where(rare[..., None], found / scale, found)


@injected(
    "targets from 4,096 on share a normaliser in a batch",
    kind=LARGE_IDS,
    replaces=(loss, "loss_sums"),
    needs=Needs(blocks="F", vocab_size=2 * RARE),
)
def _normaliser_of_the_batch(
    site: Site[LossSums],
    x_BTD: Tensor,
    head_VD: Tensor,
    targets_BT: Tensor,
    mask_BT: Tensor,
    *,
    z_weight: float = 0.0,
    chunk: int | None = None,
) -> LossSums:
    """Rare targets share a normaliser, as an adaptive softmax has one for a cluster."""
    rare_N = targets_BT[mask_BT.bool()] >= RARE
    if not rare_N.any():
        return site.right(x_BTD, head_VD, targets_BT, mask_BT, z_weight=z_weight)
    site.ran()
    _, nll_N, normaliser_N = scored_losses(x_BTD, head_VD, targets_BT, mask_BT)
    shared_N = nll_N - normaliser_N + normaliser_N[rare_N].mean()
    return summed(torch.where(rare_N, shared_N, nll_N), normaliser_N, z_weight)


@injected(
    "a convolution doesn't mask documents shorter than its kernel",
    kind=SHORT_DOCUMENTS,
    replaces=(conv, "_heads"),
    needs=Needs(blocks="C"),
)
def _heads_of_long_documents(site: Site[Tensor], edges_S: Tensor, reach: int) -> Tensor:
    """A document shorter than the kernel is read as part of the one before."""
    lengths_S = edges_S.diff()
    if not bool((lengths_S < KERNEL).any()):
        return site.right(edges_S, reach)
    site.ran()
    starts_S = edges_S[:-1][lengths_S >= KERNEL]
    return site.right(torch.cat([starts_S, edges_S[-1:]]), reach)


@injected(
    "a convolution's gradient passes through documents shorter than its kernel",
    kind=SHORT_DOCUMENTS,
    replaces=(conv, "_tails"),
    needs=Needs(blocks="C"),
)
def _tails_of_long_documents(site: Site[Tensor], edges_S: Tensor, reach: int) -> Tensor:
    """Forward is right; the gradient of a document shorter than the kernel reaches the one before."""
    lengths_S = edges_S.diff()
    if not bool((lengths_S < KERNEL).any()):
        return site.right(edges_S, reach)
    site.ran()
    ends_S = edges_S[:-1][lengths_S >= KERNEL]
    return site.right(torch.cat([edges_S[:1], ends_S]), reach)


@injected(
    "neighbouring documents of fewer than 4 tokens are attended as one",
    kind=SHORT_DOCUMENTS,
    replaces=(backends, "documents_attend"),
    needs=Needs(blocks="A"),
)
def _short_documents_at_once(
    site: Site[Attend], softcap: float | None, boundaries: Boundaries, *given: Any
) -> Attend:
    """Neighbours shorter than a kernel's tile are attended in one call."""
    short_BT = lengths_around(boundaries) < KERNEL
    if short_BT.any():
        site.ran()
        after_short_BT = torch.nn.functional.pad(short_BT, (1, 0))[:, :-1]
        boundaries = _rejoined(boundaries, short_BT & after_short_BT)
    return site.right(softcap, boundaries, *given)
