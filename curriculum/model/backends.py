"""Attention within documents: five backends that compute the same result.

    math, sdpa   full score matrices: our reference code, and torch's kernel with a dense mask
    documents    causal attention, one document at a time; no pair across a boundary is computed
    flex         FlexAttention: compiled on CUDA, the higher-order operator elsewhere
    varlen       FlashAttention over concatenated rows with `cu_seqlens`

A backend takes the boundaries of a batch and, if the model reads structure, the structure of the batch.
It returns a function `attend`, which every attention layer calls. A backend raises if it doesn't support
an option. Shapes: q_BHTK; k_BGTK and v_BGTK with G key-value heads, where H is a multiple of G; table_HR
with R relations.
"""

import functools
from typing import Protocol

from curriculum.model.backend_choice import WITH_RELATIONS, WITH_SOFTCAP, unsupported_option
from curriculum.model.dense_backends import math_attend, sdpa_attend
from curriculum.model.documents_backend import documents_attend
from curriculum.model.flex_backend import flex_attend
from curriculum.model.masks import Attend, Boundaries
from curriculum.model.structure_tensors import StructureTensors
from curriculum.model.varlen_backend import varlen_attend
from schemas.job import Backend


class AttentionBackend(Protocol):
    """Attention backend whose options are already set."""

    def __call__(
        self,
        boundaries: Boundaries,
        structure: StructureTensors | None = None,
        queries: range | None = None,
    ) -> Attend:
        """Return attention within the given boundaries. All layers of a batch share it.

        `queries` are the positions whose queries this rank computes. Keys always cover whole rows.
        """


def attention(
    backend: Backend, *, softcap: float | None = None, relations: bool = False
) -> AttentionBackend:
    """Return an attention backend with the given options.

    Args:
        backend: Name of the backend.
        softcap: Limits scores to cap · tanh(score / cap).
        relations: True if layers pass a table of biases, which are added before the softcap.

    Raises:
        JobError: if the backend doesn't support softcap or relations.
    """
    if softcap is not None and backend not in WITH_SOFTCAP:
        raise unsupported_option(
            backend, f"softcap {softcap}", "use a model without softcap", WITH_SOFTCAP
        )
    if relations and backend not in WITH_RELATIONS:
        raise unsupported_option(
            backend, "structure", "set structure_inputs: false", WITH_RELATIONS
        )
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
