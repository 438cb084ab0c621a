"""Going on with a document, token by token.

Every token is a forward pass over all that stands before it: no family of layers needs a cache to be
right, and the price is a pass over the whole prefix each time.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from curriculum.model.decoder import Decoder
from curriculum.model.masks import Boundaries
from curriculum.model.sampling import Sampling
from schemas.errors import JobError


def continuation(
    model: Decoder, ids: Sequence[int], sampling: Sampling, *, tokens: int, end: int | None
) -> Iterator[int]:
    """Yield at most `tokens` ids that follow `ids`, as one document; stop after `end`, if that comes.

    The same ids and sampling give the same tokens. Costs a forward pass over the whole prefix a token.
    """
    generator = torch.Generator().manual_seed(sampling.seed)
    document = list(ids)
    for _ in range(tokens):
        chosen = sample_token(next_logits(model, document), sampling, generator)
        yield chosen
        if chosen == end:
            return
        document.append(chosen)


@torch.no_grad()
def next_logits(model: Decoder, ids: Sequence[int]) -> Tensor:
    """logits_V of the token behind one document's first ids.

    Raises:
        JobError: where they aren't numbers.
    """
    ids_BT = torch.tensor([list(ids)], dtype=torch.int32, device=model.head.weight.device)
    boundaries = Boundaries.of(torch.zeros_like(ids_BT))
    logits_V: Tensor = model.head(model.hidden(ids_BT, boundaries)[0, -1])
    if not bool(logits_V.isfinite().all()):
        raise JobError(
            f"model {model.spec.name}",
            cause="what it expects isn't a number, so its weights are broken",
            cure="Take an earlier checkpoint",
        )
    return logits_V


def sample_token(logits_V: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """One id; computed in float64 on the CPU, where equal seeds draw equally.

    Of several that are equally likely the smallest id goes first.
    """
    logits_V = logits_V.double().cpu()
    if sampling.temperature == 0:
        return int(logits_V.argmax())
    sorted_V, order_V = (logits_V / sampling.temperature).sort(descending=True, stable=True)
    chances_V = sorted_V[: sampling.top_k].softmax(-1)
    before_V = chances_V.cumsum(-1) - chances_V
    kept_V = chances_V * (before_V < sampling.top_p)
    reached_V = kept_V.cumsum(-1)
    point = torch.rand((), dtype=torch.float64, generator=generator) * reached_V[-1]
    return int(order_V[(reached_V > point).nonzero()[0, 0]])
