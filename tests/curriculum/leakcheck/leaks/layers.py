"""Leaks in what layers compute: masks, convolutions, states, n-grams, mixing weights, structure."""

from typing import Any

import torch
from torch import Tensor

from curriculum.model import backends, conv, engram, hyper_connections, structure_tensors
from curriculum.model.masks import Boundaries, Chunks
from tests.curriculum.leakcheck.leaks.site import Needs, Site, injected, one_document_a_row

LAYERS = "a layer reads over documents"


def _over_rows(site: Site[Any], *given: Any, **named: Any) -> Any:
    """Each row is one document."""
    site.ran()
    joined = (one_document_a_row(each) if isinstance(each, Boundaries) else each for each in given)
    return site.right(*joined, **named)


math_over_rows, sdpa_over_rows, documents_over_rows = (
    injected(
        f"attention by {backend} isn't masked by document",
        kind=LAYERS,
        replaces=(backends, f"{backend}_attend"),
        needs=Needs(blocks="A", backend=backend),
    )(_over_rows)
    for backend in ("math", "sdpa", "documents")
)


@injected(
    "the convolution isn't masked",
    kind=LAYERS,
    replaces=(conv, "reaches_back"),
    needs=Needs(blocks="C"),
)
def convolution_over_rows(site: Site[Tensor], positions_R: Tensor, k: int) -> Tensor:
    """Every position before counts as the same document."""
    site.ran()
    return torch.ones_like(positions_R, dtype=torch.bool)


@injected(
    "the convolution's gradient isn't masked",
    kind=LAYERS,
    replaces=(conv, "_tails"),
    needs=Needs(blocks="C"),
)
def convolution_backwards_over_rows(site: Site[Tensor], edges_S: Tensor, reach: int) -> Tensor:
    """Forward is right; the gradient at the ends of documents is left as if there were none."""
    site.ran()
    return edges_S.new_zeros(0, dtype=torch.int64)


@injected(
    "the state isn't reset",
    kind=LAYERS,
    replaces=(Chunks, "from_boundaries"),
    needs=Needs(blocks="M"),
)
def state_goes_on(site: Site[Chunks], boundaries: Boundaries, size: int) -> Chunks:
    """Chunks are cut by rows, so that states go on into the next document."""
    site.ran()
    return site.right(one_document_a_row(boundaries), size)


@injected(
    "n-grams cross the boundary",
    kind=LAYERS,
    replaces=(engram, "ids_before"),
    needs=Needs(blocks="E"),
)
def n_grams_over_rows(site: Site[Tensor], ids_BT: Tensor, positions_BT: Tensor, k: int) -> Tensor:
    """The ids before a document's start are hashed with its own."""
    site.ran()
    return site.right(ids_BT, torch.arange(ids_BT.shape[1]).expand_as(ids_BT), k)


@injected(
    "mixing weights are pooled over the row",
    kind=LAYERS,
    replaces=(hyper_connections, "token_features"),
    needs=Needs(blocks="F", streams=2),
)
def weights_of_the_row(site: Site[Tensor], x_BTND: Tensor) -> Tensor:
    """The mixing weights of all tokens of a row follow from the row's mean."""
    site.ran()
    features_BTF = site.right(x_BTND)
    return features_BTF.mean(1, keepdim=True).expand_as(features_BTF)


@injected(
    "structure is read of the token before",
    kind=LAYERS,
    replaces=(structure_tensors, "table_entries"),
    needs=Needs(blocks="F", structure=True),
)
def structure_of_the_token_before(site: Site[Tensor], tokens_BT5: Tensor) -> Tensor:
    """A token reads the codes of the one before it in the row."""
    site.ran()
    return site.right(torch.cat([tokens_BT5[:, :1], tokens_BT5[:, :-1]], dim=1))
