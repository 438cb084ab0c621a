"""A rank of two: REPACKED where two ranks share the model, and where they share each row.

    python -m tests.curriculum.leakcheck.repacked_ranks RANK MEET OUT

The reference packing is trained by one process alone, all packings by both ranks together. Rank 0 writes to
OUT what disagrees with the reference, in the product and under each leak.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pydantic import TypeAdapter
from torch import Tensor

from curriculum.leakcheck.decoders import small_model
from curriculum.leakcheck.our_training import our_training
from curriculum.leakcheck.packings import Packing, packings
from curriculum.leakcheck.proof import CPU
from curriculum.leakcheck.proof_documents import proof_documents
from curriculum.leakcheck.recorder import Recorder
from curriculum.leakcheck.repacked import ProofSetting, disagreements
from curriculum.leakcheck.subject import same_bits
from curriculum.model import context_ranks
from curriculum.model.masks import Boundaries, ContextRanks, RowPart
from curriculum.model.presets import model_spec
from curriculum.train import dataloader
from curriculum.train.batch import Batch
from curriculum.train.distributed import PATH, ProcessRank, Ranks, exit_rank, join_ranks
from schemas.job import Job
from tests.curriculum.leakcheck.leaks.site import InjectedLeak, Needs, Site, injected
from tests.curriculum.leakcheck.leaks.site import joined as joined_ids

RANKS = 2
TEXT = TypeAdapter(str)
LENGTH = 256
OF_RANKS = "ranks compute otherwise than one process"
ALL = Needs(blocks="AMCEF", streams=2, structure=True)


@injected(
    "each rank divides its loss by its own targets",
    kind=OF_RANKS,
    replaces=(Ranks, "total"),
    needs=ALL,
)
def means_of_ranks(site: Site[list[Any]], ranks: Ranks, values: list[Any]) -> list[Any]:
    """The gradient is the mean over ranks of the mean over each rank's targets."""
    if len(values) != 1 or ranks.size == 1:
        return site.right(ranks, values)
    site.ran()
    return [value * ranks.size for value in values]


@injected(
    "a batch that stands in for missing rows is scored",
    kind=OF_RANKS,
    replaces=(dataloader, "blank"),
    needs=ALL,
)
def scored_stand_ins(site: Site[Batch], batch: Batch) -> Batch:
    """Rows that another rank trains on are trained on once more."""
    site.ran()
    return replace(site.right(batch), loss_mask=batch.loss_mask)


@injected(
    "documents that meet at the border of two ranks are joined",
    kind=OF_RANKS,
    replaces=(RowPart, "from_boundaries"),
    needs=ALL,
)
def joined_at_the_border(
    site: Site[RowPart], boundaries: Boundaries, ranks: ContextRanks, reach: int
) -> RowPart:
    """A rank takes its first document for the rest of the last document of the rank before."""
    ids_BT = boundaries.doc_ids
    border = ranks.positions(ids_BT.shape[1]).start
    dropped_BT = torch.zeros_like(ids_BT, dtype=torch.bool)
    dropped_BT[:, border] = True
    joined_BT = joined_ids(ids_BT, dropped_BT)
    if not torch.equal(Boundaries.from_doc_ids(joined_BT).starts, boundaries.starts):
        site.ran()
    return site.right(Boundaries.from_doc_ids(joined_BT), ranks, reach)


@injected(
    "a rank's keys get no gradient from the other rank's queries",
    kind=OF_RANKS,
    replaces=(context_ranks._Gather, "backward"),
    needs=ALL,
)
def own_queries_alone(site: Site[Any], ctx: Any, g_C: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of what ranks gather aren't summed over ranks."""
    site.ran()
    return g_C[dist.get_rank(ctx.group)].clone(), None, None


LEAKS = {
    "the model": (means_of_ranks, scored_stand_ins),
    "each row": (joined_at_the_border, own_queries_alone),
}
"""Settings of two ranks, and the leaks that appear with them."""


Compared = tuple[str, str]
"""A packing that two ranks trained on, and its first difference from the reference; empty for none."""


def compared(ranks: Ranks, setting: ProofSetting) -> Iterator[Compared]:
    """Yield each packing trained by the ranks, the reference packing among them."""
    steps = proof_documents(setting.model, longest=LENGTH)
    reference, *others = packings(steps, LENGTH)

    def train(
        given: ProofSetting, job: Job, workspace: Path, recorder: Recorder, packing: Packing
    ) -> None:
        if packing is reference:
            our_training(given, job, workspace, recorder, packing)
            return
        shared = ranks.broadcast_first(lambda: workspace, PATH)
        our_training(given, job, shared, recorder, packing, ranks)
        # Until here the workspace of rank 0 is needed.
        ranks.any(False)

    ways = (reference, replace(reference, name="best fit by ranks"), *others)
    for way, found in disagreements(setting, steps, ways, train=train):
        difference = ranks.gather("" if found is None else str(found), TEXT)[0]
        yield way.name, difference


def under(leak: InjectedLeak, ranks: Ranks, setting: ProofSetting) -> Compared | None:
    """Return the first packing that shows a leak; None where none does, or no rank ran the leak."""
    with leak.injected() as site:
        found = next((pair for pair in compared(ranks, setting) if pair[1]), None)
        return found if ranks.any(site.runs > 0) else None


def results(
    ranks: Ranks, setting: ProofSetting, leaks: tuple[InjectedLeak, ...]
) -> Mapping[str, Any]:
    """Return what rank 0 writes of one way of sharing."""
    return {
        "leaks": {leak.words: under(leak, ranks, setting) for leak in leaks},
        "packings": list(compared(ranks, setting)),
    }


def main() -> None:
    """Compare under both ways of sharing, one of them with recomputed blocks."""
    rank, meet, out = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    torch.set_num_threads(1)
    layers = {"blocks": ALL.blocks, "streams": ALL.streams, "structure": ALL.structure}
    setting = ProofSetting(
        model=small_model(model_spec("tiny", 300).model_copy(update=layers)),
        backend="documents",
        recompute=True,
        dtype=torch.float64,
        device=CPU,
    )
    place = ProcessRank(rank=rank, size=RANKS, local=rank, meet=meet)
    with join_ranks(place, "cpu", RANKS) as both, same_bits(CPU):
        apart = replace(both, context=None)
        found = {
            "each row": results(both, setting, LEAKS["each row"]),
            "the model": results(apart, replace(setting, recompute=False), LEAKS["the model"]),
        }
        if both.leads:
            out.write_text(json.dumps(found))
    exit_rank(0)


if __name__ == "__main__":
    main()
