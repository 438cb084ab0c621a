"""The train flow, which trains phases with curriculum.train."""

from prefect import flow

from curriculum.pipeline.execute import FinishedStep, Scope
from flows import flow_runs
from flows.final_states import as_prefect_state
from flows.forms import ALL_PHASES, Again, Changes, ChangesOfRun, DryRun, Phase, TrainedSpecialist
from flows.hooks import HOOKS


@flow(name="train", **HOOKS)
@as_prefect_state
def train(
    specialist: TrainedSpecialist,
    phase: Phase = ALL_PHASES,
    again: Again = False,
    dry_run: DryRun = False,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> tuple[FinishedStep, ...]:
    """Build, mix and train unfinished phases; an interrupted run resumes from its last checkpoint."""
    scope = Scope(phase=flow_runs.named(phase), retrain=again)
    return flow_runs.make(specialist, changes, scope, dry_run=dry_run)
