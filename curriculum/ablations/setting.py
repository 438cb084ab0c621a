"""Setting of an ablation: the corpus, model and rows that its verdicts are of."""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.ablations.evidence import Trained
from curriculum.ablations.planned_arms import PlannedArm
from curriculum.inspection.checkpoint_weights import tensors
from curriculum.store import Store
from curriculum.train.run_directory import JOB, read_job


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """The corpus, model and rows of an ablation."""

    corpus: str
    model: str
    weights: int
    """Parameters of the model; 0 where another trainer leaves no safetensors."""
    row_lengths: tuple[int, ...]
    """Row lengths of all arms, ascending."""


def setting_of(planned: Sequence[PlannedArm], trained: Sequence[Trained]) -> Setting:
    """Return the setting of planned arms that were trained; the model is that of the first, base."""
    plan, base = planned[0].plan, trained[0]
    checkpoint = base.report.checkpoint
    counted = tensors(Store.containing(base.path).root / checkpoint) if checkpoint else ()
    lengths = {
        serving.row_length
        for each in planned
        for phase in each.plan.phases
        for serving in phase.servings
    }
    return Setting(
        corpus=plan.corpus.name,
        model=read_job(base.path / JOB).model.name,
        weights=sum(tensor.parameters for tensor in counted),
        row_lengths=tuple(sorted(lengths)),
    )
