"""The model and its optimizer, whole on one rank or sharded over several, and the learning rate."""

import functools
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from curriculum.model.decoder import Decoder, initialise
from curriculum.train.distributed import ALONE, Ranks
from schemas.job import Job, OptimizerSpec

MOMENT_NAMES = ("step", "exp_avg", "exp_avg_sq")
_SPARED = {"embedding", "embeddings", "table", "tables", "norm", "bias", "biases"}
"""Words in the names of weights that don't decay whatever their shape."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainState:
    """The model and what optimises it, as one rank holds them."""

    model: Decoder
    optimizer: torch.optim.AdamW
    ranks: Ranks = ALONE

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.model.head.weight.device

    def rest(self) -> None:
        """Let go of gathered weights, so that parameters are those that the optimizer knows."""
        if self.ranks.mesh is None:
            return
        # FSDP takes half a second to import, and one rank doesn't shard.
        from torch.distributed.fsdp import FSDPModule

        if isinstance(self.model, FSDPModule):
            self.model.reshard()


def new_train_state(
    job: Job, device: torch.device, ranks: Ranks = ALONE, *, dtype: torch.dtype = torch.float32
) -> TrainState:
    """A fresh model on the device and its AdamW; the same weights whatever the number of ranks."""
    model = initialise(Decoder(job.model, job.kernel), job.seed).to(device, dtype)
    model.rope_base = job.rope_base
    model.context = ranks.context
    if job.recompute:
        recompute(model)
    if ranks.mesh is not None:
        shard(model, ranks)
    settings = job.optimizer
    decayed = [weight for name, weight in model.named_parameters() if decays(name, weight)]
    chosen = {id(weight) for weight in decayed}
    spared = [weight for weight in model.parameters() if id(weight) not in chosen]
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": settings.weight_decay},
            {"params": spared, "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        fused=device.type == "cuda",
    )
    return TrainState(model=model, optimizer=optimizer, ranks=ranks)


def decays(name: str, weight: Tensor) -> bool:
    """Return True if weight decay applies: to matrices that multiply, not to vectors, tables and biases.

    blocks.0.layer.query.weight does; embedding.weight, blocks.0.norm.weight, blocks.3.layer.tables.2
    don't.
    """
    words = set(re.split(r"[._]", name))
    return weight.ndim >= 2 and not words & _SPARED


def recompute(model: Decoder) -> None:
    """Let backward compute each block anew instead of keeping what forward left: the same losses."""
    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)


def shard(model: Decoder, ranks: Ranks) -> None:
    """Shard each block and the rest; products in bfloat16 on GPUs, weights and sums in float32.

    The rest, head included, stays gathered from `hidden` to the end of backward, since the loss is
    taken after it.
    """
    from torch.distributed.fsdp import (
        MixedPrecisionPolicy,
        fully_shard,
        register_fsdp_forward_method,
    )

    mixed = MixedPrecisionPolicy()
    if model.head.weight.is_cuda:
        mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    parts: list[nn.Module] = [*model.blocks, model]
    for part in parts:
        fully_shard(part, mesh=ranks.mesh, mp_policy=mixed)
    register_fsdp_forward_method(model, "hidden")


def tensors(train_state: TrainState) -> Iterator[tuple[str, Tensor]]:
    """Weights and Adam's moments by their names in a checkpoint, sharded where they are."""
    train_state.rest()
    for name, weight in train_state.model.named_parameters():
        yield name, weight.detach()
        for moment, value in train_state.optimizer.state.get(weight, {}).items():
            yield f"{name}.{moment}", value


def is_moment(name: str, names: Container[str]) -> bool:
    """Return True if a name among those in a checkpoint is that of one of Adam's moments.

    head.weight.step is, beside head.weight; a weight blocks.0.layer.step isn't.
    """
    weight, _, moment = name.rpartition(".")
    return moment in MOMENT_NAMES and weight in names


def generators(train_state: TrainState) -> dict[str, Tensor]:
    """The states of this rank's random numbers, by names that no other rank has."""
    states = {_of_rank("generator", train_state.ranks): torch.get_rng_state()}
    if train_state.device.type == "cuda":
        states[_of_rank("cuda_generator", train_state.ranks)] = torch.cuda.get_rng_state()
    return states


def set_generators(train_state: TrainState, states: dict[str, Tensor]) -> None:
    """Put this rank's random numbers where they were; those without a state stay as they are."""
    for kind, put in (
        ("generator", torch.set_rng_state),
        ("cuda_generator", torch.cuda.set_rng_state),
    ):
        state = states.get(_of_rank(kind, train_state.ranks))
        if state is not None:
            put(state)


def _of_rank(kind: str, ranks: Ranks) -> str:
    return kind if ranks.leads else f"{kind}.{ranks.rank}"


def whole(tensor: Tensor) -> Tensor:
    """A tensor gathered from all ranks, which all call this."""
    # A DTensor's, whose class takes half a second to import.
    gather: Callable[[], Tensor] | None = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


@torch.no_grad()
def whole_model(train_state: TrainState, job: Job) -> Decoder:
    """The model as one rank alone would hold it; costs its whole memory on every rank."""
    if train_state.ranks.mesh is None:
        return train_state.model
    train_state.rest()
    model = Decoder(job.model, job.kernel).to(train_state.device)
    model.rope_base = job.rope_base
    for weight, part in zip(model.parameters(), train_state.model.parameters(), strict=True):
        weight.copy_(whole(part.detach()))
    return model


REWARM_FROM = 0.1
"""Share of the rate from which a job starts that carries on with Adam's moments at another row length."""
DECAY_TO = 0.1


def learning_rate(step: int, steps: int, optimizer: OptimizerSpec, *, carries_on: bool) -> float:
    """The rate of step `step`, counted from 0 of `steps`.

    stable, 4 steps of warm-up to 1.0: 0.25, 0.5, 0.75, 1.0, 1.0 …
    decay over 10 steps from 1.0: 1.0, 0.9, …, 0.2, 0.1 at the last.
    """
    share = 1.0
    if step < optimizer.warmup_steps:
        start = REWARM_FROM if carries_on else 0.0
        share = start + (1 - start) * (step + 1) / optimizer.warmup_steps
    if optimizer.schedule == "decay":
        share *= 1 - (1 - DECAY_TO) * step / max(steps - 1, 1)
    return optimizer.learning_rate * share
