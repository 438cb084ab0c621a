"""Model and optimizer, whole on one rank or sharded over several ranks, and the learning rate."""

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
"""Words in the names of weights to which weight decay never applies, whatever their shape."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainState:
    """Model and optimizer, or the shard of them that one rank has."""

    model: Decoder
    optimizer: torch.optim.AdamW
    ranks: Ranks = ALONE

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.model.head.weight.device

    def reshard(self) -> None:
        """Free gathered weights. Then the model's parameters are the optimizer's parameters again."""
        if self.ranks.mesh is None:
            return
        # FSDP takes half a second to import, and a single rank doesn't need it.
        from torch.distributed.fsdp import FSDPModule

        if isinstance(self.model, FSDPModule):
            self.model.reshard()


def new_train_state(
    job: Job, device: torch.device, ranks: Ranks = ALONE, *, dtype: torch.dtype = torch.float32
) -> TrainState:
    """Create a new model on the device, and its AdamW. The weights don't depend on the number of ranks."""
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
    """Return True if weight decay applies: to matrices in products, not to vectors, tables and biases.

    It applies to blocks.0.layer.query.weight. It doesn't apply to embedding.weight, blocks.0.norm.weight and
    blocks.3.layer.tables.2.
    """
    words = set(re.split(r"[._]", name))
    return weight.ndim >= 2 and not words & _SPARED


def recompute(model: Decoder) -> None:
    """Make backward recompute every block, so that its activations need no memory. Losses don't change."""
    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)


def shard(model: Decoder, ranks: Ranks) -> None:
    """Shard each block of the model, and the rest as a whole.

    On GPUs, products are in bfloat16; weights and sums are float32. The rest, which includes the head, stays
    gathered from `hidden` to the end of backward, because the loss is computed after `hidden`.
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
    """Yield weights and Adam's moments with their names in a checkpoint. They are sharded if the model is."""
    train_state.reshard()
    for name, weight in train_state.model.named_parameters():
        yield name, weight.detach()
        for moment, value in train_state.optimizer.state.get(weight, {}).items():
            yield f"{name}.{moment}", value


def is_moment(name: str, names: Container[str]) -> bool:
    """Return True if `name` in a checkpoint is one of Adam's moments. `names` are all names in it.

    head.weight.step is a moment if head.weight exists. A weight blocks.0.layer.step isn't.
    """
    weight, _, moment = name.rpartition(".")
    return moment in MOMENT_NAMES and weight in names


def generators(train_state: TrainState) -> dict[str, Tensor]:
    """Return the random states of this rank, under names that no other rank uses."""
    states = {_of_rank("generator", train_state.ranks): torch.get_rng_state()}
    if train_state.device.type == "cuda":
        states[_of_rank("cuda_generator", train_state.ranks)] = torch.cuda.get_rng_state()
    return states


def set_generators(train_state: TrainState, states: dict[str, Tensor]) -> None:
    """Restore the random states of this rank. Generators without a saved state don't change."""
    for kind, put in (
        ("generator", torch.set_rng_state),
        ("cuda_generator", torch.cuda.set_rng_state),
    ):
        state = states.get(_of_rank(kind, train_state.ranks))
        if state is not None:
            put(state)


def _of_rank(kind: str, ranks: Ranks) -> str:
    return kind if ranks.leads else f"{kind}.{ranks.rank}"


def gather_whole(tensor: Tensor) -> Tensor:
    """Gather a tensor from all ranks. All ranks must call this function."""
    # Only a DTensor has this method; importing its class takes half a second.
    gather: Callable[[], Tensor] | None = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


@torch.no_grad()
def whole_model(train_state: TrainState, job: Job) -> Decoder:
    """Return the model without sharding. It takes the memory of a whole model on every rank."""
    if train_state.ranks.mesh is None:
        return train_state.model
    train_state.reshard()
    model = Decoder(job.model, job.kernel).to(train_state.device)
    model.rope_base = job.rope_base
    for weight, part in zip(model.parameters(), train_state.model.parameters(), strict=True):
        weight.copy_(gather_whole(part.detach()))
    return model


REWARM_FROM = 0.1
"""Share of the learning rate at which warm-up begins if a job continues at another row length."""
DECAY_TO = 0.1


def learning_rate(step: int, steps: int, optimizer: OptimizerSpec, *, carries_on: bool) -> float:
    """Return the learning rate of step number `step` of `steps`. Steps count from 0.

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
