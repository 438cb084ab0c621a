"""Sampling from a checkpoint: a document is continued token by token.

Every token takes a forward pass over all tokens before it. This is slow, but no layer family needs a cache.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from curriculum.model.decoder import Decoder
from curriculum.model.masks import Boundaries
from curriculum.model.sampling import Sampling
from curriculum.train.restore import job_of, model_in
from schemas.errors import JobError
from schemas.job import Backend, Job, ModelSpec
from schemas.objectives import PHASE_SET


def trained_model(
    checkpoint: Path, device: torch.device, backend: Backend | None = None
) -> Decoder:
    """Load the model of a checkpoint, with the rope base of its job.

    If no backend is given, one that suits single documents is used.
    """
    spec, weights = model_in(checkpoint)
    model = Decoder(spec, backend or backend_for_one(spec))
    model.load_state_dict(weights)
    model.rope_base = job_of(checkpoint).rope_base
    return model.to(device).eval()


def backend_for_one(spec: ModelSpec) -> Backend:
    """Return a backend for single documents on any device.

    Only softcap or structure needs the backend with full score matrices.
    """
    return "math" if spec.structure or spec.softcap is not None else "documents"


def longest_row(job: Job) -> int:
    """Return the number of tokens of the longest row on which a run and the runs before it were trained."""
    evaluated = (
        stratum.rows.row_length
        for evaluation in job.evaluations
        if evaluation.set == PHASE_SET
        for stratum in evaluation.strata
    )
    return max(*(rows.row_length for rows in job.rows), *evaluated)


def complete(
    checkpoint: Path, ids: Sequence[int], sampling: Sampling, *, tokens: int, end: int | None
) -> Iterator[int]:
    """Yield the tokens that a checkpoint's model generates after `ids`, up to `end` or the row length.

    Raises:
        JobError: for empty `ids`, more ids than the longest trained row, and a damaged checkpoint.
    """
    longest = longest_row(job_of(checkpoint))
    if not ids:
        raise JobError(
            "the prompt", "no token", cause="the prompt is empty, and this tokenizer has no BOS",
            cure="Give --prompt or --file",
        )  # fmt: skip
    if len(ids) >= longest:
        raise JobError(
            "the prompt",
            f"{len(ids):,} tokens",
            cause=f"this model was trained on rows of at most {longest:,} tokens",
            cure=f"Shorten the prompt to {longest - 1:,} tokens, or use a checkpoint of a phase with longer "
            "rows",
        )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = trained_model(checkpoint, device)
    return continuation(model, ids, sampling, tokens=min(tokens, longest - len(ids)), end=end)


def continuation(
    model: Decoder, ids: Sequence[int], sampling: Sampling, *, tokens: int, end: int | None
) -> Iterator[int]:
    """Yield up to `tokens` ids that continue `ids` within one document. Stop after the id `end`.

    Equal ids and sampling give equal tokens. Each token takes a forward pass over all tokens before it.
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
    """Return the logits [V] of the token that follows the given ids of one document.

    Raises:
        JobError: if the logits aren't finite.
    """
    ids_BT = torch.tensor([list(ids)], dtype=torch.int32, device=model.head.weight.device)
    boundaries = Boundaries.from_doc_ids(torch.zeros_like(ids_BT))
    logits_V: Tensor = model.head(model.hidden(ids_BT, boundaries)[0, -1])
    if not bool(logits_V.isfinite().all()):
        raise JobError(
            f"model {model.spec.name}",
            cause="the model's predictions are NaN, so its weights are broken",
            cure="Use an earlier checkpoint",
        )
    return logits_V


def sample_token(logits_V: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """Draw one id. It is drawn in float64 on the CPU, so that equal seeds draw equal ids.

    Equally likely ids are ordered by number.
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
