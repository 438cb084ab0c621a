"""Attention within documents, computed in five ways that agree.

    math, sdpa   whole matrices of scores: the reference, and torch's kernel under a dense mask
    documents    causal attention document by document: no pair across a boundary is ever computed
    flex         FlexAttention: compiled on CUDA, the higher-order operator elsewhere
    varlen       FlashAttention over rows laid end to end and cut by `cu_seqlens`

A backend takes the boundaries of a batch, and its structure where the model reads it, and returns
`attend`, which every layer calls. One that can't honour an option raises. Shapes: q_BHTK; k_BGTK, v_BGTK
with G key-value heads, H a multiple of G; table_HR with R relations.
"""

import functools
from typing import Protocol

from curriculum.model.backend_choice import WITH_RELATIONS, WITH_SOFTCAP, without
from curriculum.model.dense_backends import math_attend, sdpa_attend
from curriculum.model.documents_backend import documents_attend
from curriculum.model.flex_backend import flex_attend
from curriculum.model.masks import Attend, Boundaries
from curriculum.model.structure_tensors import StructureTensors
from curriculum.model.varlen_backend import varlen_attend
from schemas.job import Backend


class AttentionBackend(Protocol):
    """A backend, once its options are known."""

    def __call__(
        self,
        boundaries: Boundaries,
        structure: StructureTensors | None = None,
        queries: range | None = None,
    ) -> Attend:
        """Attention within these boundaries; what it builds for them is shared by all layers.

        `queries` are the positions of the part of each row that brings queries; keys are of whole rows.
        """


def attention(
    backend: Backend, *, softcap: float | None = None, relations: bool = False
) -> AttentionBackend:
    """The attention of a backend.

    `softcap` bounds scores by cap · tanh(score / cap); `relations` says that layers bring a table of
    biases, which are added inside of it.

    Raises:
        JobError: for a softcap or relations on a backend whose kernel has none.
    """
    if softcap is not None and backend not in WITH_SOFTCAP:
        raise without(backend, f"softcap {softcap}", "a model without softcap", WITH_SOFTCAP)
    if relations and backend not in WITH_RELATIONS:
        raise without(backend, "structure", "structure_inputs: false", WITH_RELATIONS)
    match backend:
        case "math":
            return functools.partial(math_attend, softcap)
        case "flex":
            return functools.partial(flex_attend, softcap)
        case "sdpa":
            return sdpa_attend
        case "documents":
            return functools.partial(documents_attend, softcap)
        case "varlen":
            return varlen_attend
