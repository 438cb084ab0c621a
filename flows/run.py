"""The run flow: build, mix and train one phase after another, starting from the previous phase's weights."""

from prefect import flow
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker

from curriculum.pipeline.attempts import current_artefacts
from curriculum.pipeline.execute import FinishedStep, Scope, runs_of
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status import outcome, phases_left
from flows import artifacts
from flows.approval import final_state, gate_passed
from flows.artifacts import Log
from flows.dispatch import perform_or_dispatch
from flows.final_states import as_prefect_state, deferred_interrupts, result_of
from flows.flow_runs import carry_out, named, show_forecast, start
from flows.forms import ALL_PHASES, Changes, ChangesOfRun, DryRun, LaterPhases, Phase, Specialist
from flows.hooks import HOOKS
from flows.settings.contexts import resources
from schemas.progress import ProgressCallback


@flow(name="run", **HOOKS)
@as_prefect_state
def run(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    later_phases: LaterPhases = False,
    dry_run: DryRun = False,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> tuple[FinishedStep, ...]:
    """Run a specialist's curriculum: reuse finished phases, build and train the missing phases."""
    scope = Scope(phase=named(phase), later_phases=later_phases, retrain=True)
    if dry_run:
        return show_forecast(specialist, changes, scope)
    plan = start(specialist, changes, scope)
    earlier = {artefact.path for artefact in current_artefacts(plan.store, "runs")}
    carried_out = carry_out(plan, scope, perform_or_dispatch(changes))
    trained = [gate_passed(plan, event, run) for event, run in carried_out]
    left = () if scope.phase is None else phases_left(plan, resources())
    Log().info(outcome(plan, phase, runs_of(trained), left, earlier))
    return final_state(trained)


def run_in_process(
    config: RunConfig, scope: Scope, watch: ProgressCallback
) -> tuple[FinishedStep, ...]:
    """Run the flow in this process for the command line; also pass its progress to `watch`."""
    artifacts.onlooker.set(watch)
    try:
        asked = (config.specialist, scope.phase or ALL_PHASES, scope.later_phases)
        changes = Changes.model_validate(dict(config.changes()))
        with deferred_interrupts():
            state = run(*asked, changes=changes, return_state=True)
        return result_of(state)
    finally:
        # Otherwise unsent events would be retried for a minute after the server has ended.
        APILogWorker.drain_all()
        EventsWorker.drain_all()
