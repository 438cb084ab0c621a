"""A trained model alone, from any checkpoint: to sample from, and to hand on."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from curriculum.model.decoder import Decoder
from curriculum.model.generate import continuation
from curriculum.model.sampling import Sampling
from curriculum.train.checkpoint_files import read_spec, require_whole
from curriculum.train.directory import JOB, read_job
from curriculum.train.restore import read_weights
from schemas.errors import JobError
from schemas.job import Backend, Job, ModelSpec


def job_of(checkpoint: Path) -> Job:
    """The job that a checkpoint runs/…/attempt=1/checkpoints/step=N belongs to."""
    return read_job(checkpoint.absolute().parents[1] / JOB)


def model_in(checkpoint: Path) -> tuple[ModelSpec, dict[str, Tensor]]:
    """The model of a checkpoint and its weights by name, on the CPU.

    Raises:
        JobError: for a checkpoint whose files aren't what was written, or not those of its model.
    """
    require_whole(checkpoint)
    return read_spec(checkpoint), read_weights(checkpoint)


def trained_model(checkpoint: Path, device: torch.device) -> Decoder:
    """The model of a checkpoint under the rope base of its job, for one document at a time."""
    spec, weights = model_in(checkpoint)
    model = Decoder(spec, backend_for_one(spec))
    model.load_state_dict(weights)
    model.rope_base = job_of(checkpoint).rope_base
    return model.to(device).eval()


def backend_for_one(spec: ModelSpec) -> Backend:
    """What attends within a document alone, on any device: no mask, but for a softcap or structure."""
    return "math" if spec.structure or spec.softcap is not None else "documents"


def longest_row(job: Job) -> int:
    """Tokens of the longest rows that a run and those before it were trained on."""
    evaluated = (
        stratum.rows.row_length
        for evaluation in job.evaluations
        if evaluation.kind == "phase"
        for stratum in evaluation.strata
    )
    return max(*(rows.row_length for rows in job.rows), *evaluated)


def complete(
    checkpoint: Path, ids: Sequence[int], sampling: Sampling, *, tokens: int, end: int | None
) -> Iterator[int]:
    """The tokens that a checkpoint's model puts behind `ids`, to `end` or a row's length at most.

    Raises:
        JobError: for no ids, for more than the longest row that was trained, and for a damaged
            checkpoint.
    """
    longest = longest_row(job_of(checkpoint))
    if not ids:
        raise JobError(
            "the prompt", "no token", cause="this tokenizer has no BOS to begin with",
            cure="Give --prompt or --file",
        )  # fmt: skip
    if len(ids) >= longest:
        raise JobError(
            "the prompt",
            f"{len(ids):,} tokens",
            cause=f"this model was trained on rows of at most {longest:,}",
            cure=f"Shorten it to {longest - 1:,}, or take a checkpoint of a phase with longer rows",
        )
    model = trained_model(checkpoint, _device())
    return continuation(model, ids, sampling, tokens=min(tokens, longest - len(ids)), end=end)


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
