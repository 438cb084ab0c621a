"""Leaks that are planted to prove the proof: each must turn exactly its claims red.

A leak stands in for a small function of the model while it is examined; the model itself has no switch.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from curriculum.leakcheck import claims
from curriculum.leakcheck.claims import CAUSAL, PERTURBED
from curriculum.leakcheck.decoders import NAMES, STREAMS, STRUCTURE
from curriculum.leakcheck.injected.site import one_document_a_row, swapped
from curriculum.model import (
    backends,
    conv,
    decoder,
    dense_backends,
    engram,
    hyper_connections,
    mamba,
    masks,
    structure,
)
from curriculum.model.decoder import rotation_of
from curriculum.model.masks import Boundaries, Chunks
from schemas.job import Backend

Plant = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutation:
    """A leak, the case it is planted into, and the claims that must fail of it: these and no others."""

    leak: str
    case: str
    plant: Plant
    red: frozenset[str]
    backend: Backend = "math"
    of_backend: bool = False
    """True if it is a leak of that backend alone."""
    dtype: torch.dtype = torch.float32
    dtypes: tuple[torch.dtype, ...] = (torch.float64, torch.float32)
    """Dtypes precise enough to separate its claims."""


def _attention_over_rows(backend: Backend) -> AbstractContextManager[None]:
    """Give the backend each row as one document."""
    name = f"{backend}_attend"
    right = getattr(backends, name)

    def leaking(*given: Any) -> Any:
        return right(
            *(one_document_a_row(each) if isinstance(each, Boundaries) else each for each in given)
        )

    return swapped(backends, name, leaking)


def _mask_without_order() -> AbstractContextManager[None]:
    """A document sees all of itself, what is to come also."""

    def leaking(boundaries: Boundaries, queries: range | None = None) -> Tensor:
        ids_BT = boundaries.doc_ids
        asked_BQ = ids_BT if queries is None else ids_BT[:, queries.start : queries.stop]
        return (asked_BQ[:, :, None] == ids_BT[:, None])[:, None]

    return swapped(dense_backends, "document_mask", leaking)


def _rotation_by_rows() -> AbstractContextManager[None]:
    """Rotations count from the start of the row."""
    right = rotation_of

    def leaking(position_ids_BT: Tensor, head_width: int, base: float) -> tuple[Tensor, Tensor]:
        T = position_ids_BT.shape[1]
        counted = torch.arange(T, device=position_ids_BT.device).expand_as(position_ids_BT)
        return right(counted, head_width, base)

    return swapped(decoder, "rotation_of", leaking)


def _positions_by_rows() -> AbstractContextManager[None]:
    """Boundaries whose positions count from the start of the row."""
    right = Boundaries.of

    def leaking(doc_ids_BT: Tensor) -> Boundaries:
        counted = torch.arange(doc_ids_BT.shape[1]).expand_as(doc_ids_BT).int()
        return replace(right(doc_ids_BT), position_ids=counted)

    return swapped(Boundaries, "of", staticmethod(leaking))


def _ids_may_recur() -> AbstractContextManager[None]:
    """Document ids of a row may come again."""

    def leaking(doc_ids_BT: Tensor) -> None:
        """Accept them all."""

    return swapped(masks, "_require_contiguous_documents", leaking)


def _convolution_over_rows() -> AbstractContextManager[None]:
    """Every position before counts as the same document."""

    def leaking(positions_R: Tensor, k: int) -> Tensor:
        return torch.ones_like(positions_R, dtype=torch.bool)

    return swapped(conv, "within", leaking)


def _convolution_backwards_over_rows() -> AbstractContextManager[None]:
    """Forward is right; the gradient at the ends of documents is left as if there were none."""

    def leaking(edges_S: Tensor, reach: int) -> Tensor:
        return edges_S.new_zeros(0, dtype=torch.int64)

    return swapped(conv, "_tails", leaking)


def _state_goes_on() -> AbstractContextManager[None]:
    """Chunks are cut by rows, so that states go on into the next document."""
    right = Chunks.of

    def leaking(boundaries: Boundaries, size: int) -> Chunks:
        return right(one_document_a_row(boundaries), size)

    return swapped(Chunks, "of", staticmethod(leaking))


def _decays_by_differences() -> AbstractContextManager[None]:
    """Sums from one start, subtracted: right but for the rounding of all that stands before."""

    def leaking(log_decay_nHq: Tensor) -> Tensor:
        n, H, q = log_decay_nHq.shape
        sums_HN = log_decay_nHq.transpose(0, 1).flatten(1).cumsum(-1)
        sums_nHq = sums_HN.view(H, n, q).transpose(0, 1)
        between_nHkq = sums_nHq[..., None, :] - sums_nHq[..., None]
        past_kq = torch.ones(q, q, dtype=torch.bool, device=between_nHkq.device).triu()
        return torch.where(past_kq, torch.where(past_kq, between_nHkq, 0).exp(), 0)

    return swapped(mamba, "decays_between", leaking)


def _n_grams_over_rows() -> AbstractContextManager[None]:
    """The ids before a document's start are hashed with its own."""
    right = engram.earlier

    def leaking(ids_BT: Tensor, positions_BT: Tensor, k: int) -> Tensor:
        counted = torch.arange(ids_BT.shape[1], device=ids_BT.device).expand_as(ids_BT)
        return right(ids_BT, counted, k)

    return swapped(engram, "earlier", leaking)


def _weights_of_the_row() -> AbstractContextManager[None]:
    """The mixing weights of all tokens of a row follow from the row's mean."""
    right = hyper_connections.token_features

    def leaking(x_BTND: Tensor) -> Tensor:
        features_BTF = right(x_BTND)
        return features_BTF.mean(1, keepdim=True).expand_as(features_BTF)

    return swapped(hyper_connections, "token_features", leaking)


def _structure_of_the_token_before() -> AbstractContextManager[None]:
    """A token reads the codes of the one before it in the row."""
    right = structure.table_entries

    def leaking(tokens_BT5: Tensor) -> Tensor:
        return right(torch.cat([tokens_BT5[:, :1], tokens_BT5[:, :-1]], dim=1))

    return swapped(structure, "table_entries", leaking)


ATTENTION, MAMBA, CONVOLUTION, ENGRAM = (NAMES[letter] for letter in "AMCE")
_CROSSED = PERTURBED | {claims.ALONE, claims.MASS}


def _unmasked(backend: Backend, dtype: torch.dtype = torch.float32) -> Mutation:
    return Mutation(
        leak="attention isn't masked by document",
        case=ATTENTION,
        backend=backend,
        of_backend=True,
        dtype=dtype,
        dtypes=(dtype,) if backend == "varlen" else (torch.float64, torch.float32, torch.bfloat16),
        plant=lambda: _attention_over_rows(backend),
        red=_CROSSED | ({claims.SCORES} if backend == "math" else set()),
    )


MUTATIONS: tuple[Mutation, ...] = (
    _unmasked("math"),
    _unmasked("sdpa"),
    _unmasked("documents"),
    _unmasked("flex"),
    _unmasked("varlen", torch.bfloat16),
    Mutation(
        leak="attention sees the future",
        case=ATTENTION,
        plant=_mask_without_order,
        red=CAUSAL | {claims.SCORES},
    ),
    Mutation(
        leak="rotations count by the row",
        case=ATTENTION,
        plant=_rotation_by_rows,
        red=frozenset({claims.READS_POSITIONS}),
    ),
    Mutation(
        leak="positions don't restart",
        case=ATTENTION,
        plant=_positions_by_rows,
        red=frozenset({claims.POSITIONS}),
    ),
    Mutation(
        leak="document ids may recur",
        case=ATTENTION,
        plant=_ids_may_recur,
        red=frozenset({claims.RECURRING}),
    ),
    Mutation(
        leak="the convolution isn't masked",
        case=CONVOLUTION,
        plant=_convolution_over_rows,
        red=PERTURBED | {claims.ALONE, claims.CONVOLUTION},
    ),
    Mutation(
        leak="the convolution's gradient isn't masked",
        case=CONVOLUTION,
        plant=_convolution_backwards_over_rows,
        red=(PERTURBED - {claims.OUTPUTS}) | {claims.CONVOLUTION},
    ),
    Mutation(
        leak="the state isn't reset",
        case=MAMBA,
        plant=_state_goes_on,
        red=PERTURBED | {claims.ALONE, claims.STATE},
    ),
    Mutation(
        leak="decays are differences of sums",
        case=MAMBA,
        plant=_decays_by_differences,
        dtype=torch.float64,
        dtypes=(torch.float64,),
        red=PERTURBED | {claims.STATE},
    ),
    Mutation(
        leak="n-grams cross the boundary",
        case=ENGRAM,
        plant=_n_grams_over_rows,
        red=(PERTURBED - {claims.FOREIGN_GRADIENTS}) | {claims.ALONE, claims.N_GRAMS},
    ),
    Mutation(
        leak="mixing weights are pooled over the row",
        case=STREAMS,
        plant=_weights_of_the_row,
        red=PERTURBED | CAUSAL | {claims.ALONE, claims.PER_TOKEN},
    ),
    Mutation(
        leak="structure is read of the token before",
        case=STRUCTURE,
        plant=_structure_of_the_token_before,
        red=(PERTURBED - {claims.FOREIGN_GRADIENTS}) | {claims.ALONE},
    ),
)
"""Gradients are blind to what enters as integers: n-grams and structure."""
