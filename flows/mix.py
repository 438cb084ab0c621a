"""The mix flow: when a diet's rows are put in training order; how is curriculum/mixing/mix.py."""

from prefect import flow

from curriculum.pipeline.execute import Scope
from flows import flow_runs
from flows.final_states import ending_plainly
from flows.forms import ALL_PHASES, ChangesOfMix, DryRun, MixChanges, Phase, Specialist
from flows.hooks import HOOKS


@flow(name="mix", **HOOKS)
@ending_plainly
def mix(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    dry_run: DryRun = False,
    changes: ChangesOfMix = MixChanges(),  # noqa: B008 - frozen
) -> None:
    """Build, then lay down which rows a specialist is trained on, in which order."""
    scope = Scope(until="mix", phase=flow_runs.named(phase))
    flow_runs.make(specialist, changes, scope, dry_run=dry_run)
