"""A rank of four: each case with rows shared by two and by four ranks, against one process, in float64.

    python -m tests.curriculum.model.context_ranks RANK MEET OUT

Rank 0 writes to OUT the largest difference of outputs, losses and gradients, of each case and number of
ranks, as each rank found it.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor

from curriculum.model import documents_backend, mamba
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.loss import loss_sums
from curriculum.model.masks import Boundaries, ContextRanks
from curriculum.model.structure_tensors import StructureTensors
from schemas.job import Backend, EngramSpec, MambaSpec, ModelSpec
from schemas.structure import MAX_CODES, RELATION_CODES

T = 24
RANKS = 4
ROWS: tuple[tuple[int, ...], ...] = (
    (24,),
    (5, 7, 12),
    (6, 6, 6, 6),
    (12, 12),
    (1, 10, 1, 1, 11),
    (2, 20, 2),
    (1,) * 24,
    (3,) * 8,
    (5, 1, 12, 6),
    (7, 11, 6),
    (6, 12, 6),
    (18, 6),
    (11, 2, 11),
    (13, 5, 6),
    (23, 1),
    (1, 23),
)
"""Documents of rows: filling one, beginning at a border of two or four ranks or one off, tiny ones."""
CASES: dict[str, tuple[str, Backend, dict[str, object]]] = {
    "attention by math": ("A", "math", {"softcap": 3.0}),
    "attention by sdpa": ("A", "sdpa", {}),
    "attention by documents": ("A", "documents", {}),
    "attention with structure by math": ("A", "math", {"structure": True}),
    "attention with structure by documents": ("A", "documents", {"structure": True}),
    "convolution": ("C", "documents", {}),
    "Mamba": ("M", "documents", {}),
    "Mamba in groups of heads": ("M", "documents", {"at_once": 1}),
    "Engram": ("E", "documents", {}),
    "feed-forward": ("F", "documents", {}),
    "hybrid": ("AMCEFMA", "documents", {"streams": 2}),
}


FORGETFUL = "Mamba without the states of ranks before"
"""No case, but what a fault of one would show."""


def nothing(x_BtHP: Tensor, *_: object) -> Tensor:
    return torch.zeros_like(x_BtHP)


def spec_of(blocks: str, changes: dict[str, object]) -> ModelSpec:
    spec = ModelSpec(
        name="small",
        vocab_size=31,
        blocks=blocks,
        width=16,
        heads=4,
        kv_heads=2,
        mlp_width=24,
        mamba=MambaSpec(state=4, head_width=8, chunk=4),
        engram=EngramSpec(heads=2, slots=40, slot_width=4),
    )
    return spec.model_copy(update={k: v for k, v in changes.items() if k != "at_once"})


def model_of(spec: ModelSpec, backend: Backend) -> Decoder:
    """A model none of whose weights is zero."""
    model = initialise(Decoder(spec, backend), 1).double()
    drawn = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=drawn) * 0.2)
    return model


def batch_of(spec: ModelSpec) -> tuple[Tensor, ...]:
    """All rows at once."""
    drawn = torch.Generator().manual_seed(3)
    ids, targets = torch.randint(0, spec.vocab_size, (2, len(ROWS), T), generator=drawn)
    scored = torch.rand(len(ROWS), T, generator=drawn) < 0.8
    doc_ids = torch.tensor([[i for i, n in enumerate(row) for _ in range(n)] for row in ROWS])
    return ids, targets, scored, doc_ids


def structure_of(ids: Tensor) -> StructureTensors:
    drawn = torch.Generator().manual_seed(4)
    tokens = torch.randint(0, min(MAX_CODES.values()), (*ids.shape, 5), generator=drawn)
    relations = torch.randint(0, len(RELATION_CODES), (len(ids), 8, 8), generator=drawn)
    relations[:, 0], relations[:, :, 0] = 0, 0
    chunks = torch.randint(0, 8, ids.shape, generator=drawn)
    chunks[:, : T // 4] = 0
    return StructureTensors(tokens=tokens.byte(), chunks=chunks.int(), relations=relations.byte())


def run(
    model: Decoder, batch: tuple[Tensor, ...], context: ContextRanks | None
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The stream, the loss and the gradients, as one process has them."""
    ids, targets, scored, doc_ids = batch
    model.context = context
    model.zero_grad()
    structure = structure_of(ids) if model.structure is not None else None
    x_BTD = model.hidden(ids, Boundaries.from_doc_ids(doc_ids), structure)
    loss = loss_sums(
        x_BTD, model.head.weight, model.part(targets), model.part(scored), z_weight=0.1
    ).total
    loss.backward()  # type: ignore[no-untyped-call]
    x_BTD, loss = x_BTD.detach(), loss.detach()
    gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in model.parameters()]
    if context is None:
        return x_BTD, loss, gradients
    parts = [torch.empty_like(x_BTD) for _ in range(context.size)]
    dist.all_gather(parts, x_BTD.contiguous(), group=context.group)
    for each in (loss, *gradients):
        dist.all_reduce(each, group=context.group)
    return torch.cat(parts, dim=1), loss, gradients


def differences(
    blocks: str, backend: Backend, changes: dict[str, object], contexts: Sequence[ContextRanks]
) -> dict[int, float]:
    """The largest difference between one process and each number of ranks."""
    spec = spec_of(blocks, changes)
    model, batch = model_of(spec, backend), batch_of(spec)
    x, loss, gradients = run(model, batch, None)
    expected = [x, loss, *(each.clone() for each in gradients)]
    worst: dict[int, float] = {}
    for context in contexts:
        found_x, found_loss, found_gradients = run(model, batch, context)
        pairs = list(zip([found_x, found_loss, *found_gradients], expected, strict=True))
        assert all(ours.shape == theirs.shape for ours, theirs in pairs)
        worst[context.size] = max(apart(ours, theirs) for ours, theirs in pairs)
    return worst


def apart(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max()) / max(1.0, float(theirs.abs().max()))


def main() -> None:
    rank, meet, out = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=RANKS)
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    contexts = (
        ContextRanks(rank=rank % 2, size=2, group=halves[rank // 2]),
        ContextRanks(rank=rank, size=4, group=dist.new_group()),
    )
    worst: dict[str, dict[int, float]] = {}
    with mock.patch.object(mamba, "state_before", nothing):
        worst[FORGETFUL] = differences("M", "documents", {}, contexts)
    # Blocks of few queries, so that documents have several.
    with mock.patch.object(documents_backend, "QUERIES", 4):
        for name, (blocks, backend, changes) in CASES.items():
            at_once = changes.get("at_once", 1 << 25)
            with mock.patch("curriculum.model.mamba.MAX_DECAYS", at_once):
                worst[name] = differences(blocks, backend, changes, contexts)
    everywhere: list[dict[str, dict[int, float]] | None] = [None] * RANKS
    dist.all_gather_object(everywhere, worst)
    if rank == 0:
        out.write_text(json.dumps(everywhere))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
