"""The build flow, which builds rows with curriculum.pipeline and curriculum.stages."""

from prefect import flow

from curriculum.pipeline.execute import Scope
from flows import flow_runs
from flows.final_states import as_prefect_state
from flows.forms import ALL_PHASES, BuildChanges, ChangesOfBuild, DryRun, Phase, Specialist
from flows.hooks import HOOKS


@flow(name="build", **HOOKS)
@as_prefect_state
def build(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    dry_run: DryRun = False,
    changes: ChangesOfBuild = BuildChanges(),  # noqa: B008 - frozen
) -> None:
    """Read the corpus and build the packed rows that a diet needs."""
    scope = Scope(until="build", phase=flow_runs.named(phase))
    flow_runs.make(specialist, changes, scope, dry_run=dry_run)
