"""The mix flow, which chooses rows and their order with curriculum.mixing."""

from prefect import flow

from curriculum.pipeline.execute import Scope
from flows import flow_runs
from flows.final_states import as_prefect_state
from flows.forms import ALL_PHASES, ChangesOfMix, DryRun, MixChanges, Phase, Specialist
from flows.hooks import HOOKS


@flow(name="mix", **HOOKS)
@as_prefect_state
def mix(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    dry_run: DryRun = False,
    changes: ChangesOfMix = MixChanges(),  # noqa: B008 - frozen
) -> None:
    """Build, then choose the rows to train on and their order."""
    scope = Scope(until="mix", phase=flow_runs.named(phase))
    flow_runs.make(specialist, changes, scope, dry_run=dry_run)
