"""Reading of checkpoints: the whole state of a run on any number of ranks, or only the model."""

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from curriculum.model.decoder import Decoder
from curriculum.train import document_sums
from curriculum.train.checkpoint import CheckpointState, read_state
from curriculum.train.checkpoint_files import (
    MOMENTS,
    SHARDS,
    WEIGHTS,
    damaged,
    read_spec,
    require_whole,
)
from curriculum.train.distributed import ALONE, Ranks
from curriculum.train.evaluation import Evaluated, reuse_evaluations
from curriculum.train.job import would_lose_structure
from curriculum.train.optimizer import (
    MOMENT_NAMES,
    TrainState,
    generators,
    is_moment,
    set_generators,
)
from curriculum.train.run_directory import JOB, read_job
from curriculum.train.tensor_file import head
from schemas.errors import JobError
from schemas.job import Job, ModelSpec


def resume(checkpoint: Path, train_state: TrainState) -> CheckpointState:
    """Load the whole state of a checkpoint, so that the run continues as if it had never stopped.

    A rank without a saved random state continues with the state from its seed.

    Raises:
        JobError: as `carry_over`, and for an invalid random state.
    """
    carry_over(checkpoint, train_state)
    there = names_in(checkpoint)
    states = {name: state for name, state in generators(train_state).items() if name in there}
    fill(checkpoint, states, train_state.ranks)
    try:
        set_generators(train_state, states)
    except RuntimeError as broken:
        raise damaged(checkpoint, f"a random state is invalid: {broken}") from None
    return read_state(checkpoint)


@torch.no_grad()
def carry_over(checkpoint: Path, train_state: TrainState) -> None:
    """Load the weights and Adam's moments of a checkpoint, for the start of a new phase.

    Raises:
        JobError: for a damaged checkpoint, a model of other sizes, or a model that reads structure if this
            one doesn't.
    """
    train_state.ranks.run_on_first(lambda: _require_fitting(checkpoint, train_state))
    train_state.reshard()
    there = names_in(checkpoint)
    # Structure weights may be added to a trained model; they keep their initial values and have no moments
    # yet.
    weights = {
        name: weight for name, weight in train_state.model.named_parameters() if name in there
    }
    moments = {
        f"{name}.{moment}": _empty(moment, weight, train_state)
        for name, weight in weights.items()
        for moment in MOMENT_NAMES
        if any(f"{name}.{other}" in there for other in MOMENT_NAMES)
    }
    fill(checkpoint, {**{n: w.detach() for n, w in weights.items()}, **moments}, train_state.ranks)
    for name, weight in weights.items():
        if f"{name}.step" in moments:
            train_state.optimizer.state[weight] = {
                moment: moments[f"{name}.{moment}"] for moment in MOMENT_NAMES
            }


def read_weights(checkpoint: Path) -> dict[str, Tensor]:
    """Read the whole weights of a checkpoint by name. The checkpoint may be portable or sharded.

    Raises:
        JobError: if the weights don't match the model; checked before memory is allocated.
    """
    with torch.device("meta"):
        # Allocate nothing yet: a received checkpoint may claim any size.
        model = Decoder(read_spec(checkpoint), "math")
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    there = names_in(checkpoint)
    weights = {
        name: shape
        for name, shape in there.items()
        if not is_moment(name, there) and not name.startswith(("generator", "cuda_generator"))
    }
    for name in sorted(shapes.keys() | weights.keys()):
        if shapes.get(name) != weights.get(name):
            wanted, found = (
                [*sizes[name]] if name in sizes else "missing" for sizes in (shapes, weights)
            )
            raise damaged(checkpoint, f"weight {name!r} is {found}, but the model needs {wanted}")
    into = {name: torch.zeros(shape) for name, shape in weights.items()}
    fill(checkpoint, into, ALONE)
    return into


def names_in(checkpoint: Path) -> dict[str, torch.Size]:
    """Return the names of a checkpoint's tensors, and their shapes without sharding.

    Raises:
        JobError: if the tensor files can't be read.
    """
    return {name: torch.Size(shape) for name, (shape, _) in _described(checkpoint).items()}


def fill(checkpoint: Path, wanted: dict[str, Tensor], ranks: Ranks) -> None:
    """Read the tensors `wanted` from a checkpoint, in place. Every rank reads its part of sharded tensors.

    Raises:
        JobError: for a missing tensor, or another shape or dtype than requested.
    """
    there = _described(checkpoint)
    for name, into in wanted.items():
        is_like = tuple(into.shape), str(into.dtype).removeprefix("torch.")
        if there.get(name) != is_like:
            raise damaged(checkpoint, f"tensor {name!r} is {there.get(name)}, expected {is_like}")
    if (checkpoint / SHARDS).is_dir():
        # Imported late, because torch's distributed checkpoints are slow to import and needed only for
        # several ranks.
        from curriculum.train import sharded

        sharded.fill(checkpoint / SHARDS, wanted, ranks)
        return
    for file in (WEIGHTS, MOMENTS):
        with safe_open(checkpoint / file, "pt") as tensors:
            for name in wanted.keys() & tensors.keys():
                copy_into(tensors.get_tensor(name), wanted[name], ranks)


def _described(checkpoint: Path) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return the shapes and dtypes of a checkpoint's tensors by name, without reading the tensors."""
    if (checkpoint / SHARDS).is_dir():
        from curriculum.train import sharded

        written = sharded.tensors_in(checkpoint / SHARDS)
        return {name: (tensor.shape, tensor.kind) for name, tensor in written.items()}
    return {
        name: described
        for file in (WEIGHTS, MOMENTS)
        for name, described in head(checkpoint / file).items()
    }


def copy_into(value: Tensor, into: Tensor, ranks: Ranks) -> None:
    """Copy a whole tensor, which every rank has, to a tensor that may be sharded."""
    if ranks.mesh is not None:
        from torch.distributed.tensor import DTensor, distribute_tensor

        if isinstance(into, DTensor):
            # Every rank has read the whole tensor, so nothing is sent.
            value = distribute_tensor(
                value.to(into.device), into.device_mesh, into.placements, src_data_rank=None
            )
    into.copy_(value)


def _empty(moment: str, weight: Tensor, train_state: TrainState) -> Tensor:
    if moment != "step":
        return torch.zeros_like(weight)
    # AdamW keeps its step count on the host unless it is fused.
    fused = bool(train_state.optimizer.defaults["fused"])
    return torch.zeros((), device=weight.device if fused else None)


def _require_fitting(checkpoint: Path, train_state: TrainState) -> None:
    require_whole(checkpoint)
    spec, ours = read_spec(checkpoint), train_state.model.spec
    attached = spec.model_copy(update={"structure": ours.structure})
    if attached == ours and spec.structure and not ours.structure:
        raise would_lose_structure(f"model {ours.name}", "without structure", str(checkpoint))
    if attached != ours:
        # Differences in the model's name are reported last.
        name, mine, its = next(
            (name, mine, its)
            for name in sorted(ModelSpec.model_fields, key="name".__eq__)
            if (mine := getattr(ours, name)) != (its := getattr(attached, name))
        )
        raise JobError(
            f"model {ours.name}",
            f"{name} {mine}",
            cause=f"{checkpoint} contains a model {spec.name} with {name} {its}",
            cure="Use the same model and tokenizer in all phases of a specialist",
        )
    missing = {name for name, _ in train_state.model.named_parameters()} - names_in(
        checkpoint
    ).keys()
    if missing and attached == spec:
        raise JobError(
            f"model {ours.name}",
            f"weight {min(missing)}",
            cause=f"{checkpoint} doesn't contain this weight, because another version wrote it",
            cure="Use that version, or train the phases again",
        )


def job_of(checkpoint: Path) -> Job:
    """Read the job to which a checkpoint runs/…/attempt=1/checkpoints/step=N belongs."""
    return read_job(checkpoint.absolute().parents[1] / JOB)


def model_in(checkpoint: Path) -> tuple[ModelSpec, dict[str, Tensor]]:
    """Read the model specification and the weights of a checkpoint into CPU memory.

    Raises:
        JobError: for a damaged checkpoint, or weights that don't match the model.
    """
    require_whole(checkpoint)
    return read_spec(checkpoint), read_weights(checkpoint)


def evaluated_before(job: Job, workspace: Path, step: int) -> Evaluated | None:
    """Return results of the previous run's last evaluation that apply to step 0 of this job, or None."""
    if job.start_from is None or step:
        return None
    start = workspace / job.start_from.path
    run = start.parents[1]
    if not (run / JOB).is_file():
        return None
    state = read_state(start)
    documents = document_sums.read(run, state.step)
    if documents is None:
        return None
    return reuse_evaluations(job, job_of(start), state, documents)
