"""The train flow: when a phase is trained; how is curriculum/train."""

from prefect import flow

from curriculum.pipeline.execute import Scope
from curriculum.store import Artefact
from flows import dispatch
from flows.artifacts import Log
from flows.final_states import ending_plainly
from flows.flow_runs import carry_out, link_report, show_forecast, start
from flows.forms import ALL_PHASES, Again, Changes, ChangesOfRun, DryRun, Phase, Specialist
from flows.hooks import HOOKS


@flow(name="train", **HOOKS)
@ending_plainly
def train(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    again: Again = False,
    dry_run: DryRun = False,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> tuple[Artefact, ...]:
    """Build, mix and train what isn't trained yet; an interrupted run resumes from its last checkpoint."""
    scope, runs = Scope(retrain=again), []
    if dry_run:
        return show_forecast(specialist, changes, scope, phase)
    plan = start(specialist, changes, phase)
    for trained, run in carry_out(plan, scope, phase):
        runs.append(run)
        dispatch.label_run(plan, run)
        if trained.gate and not trained.gate.is_open:
            Log().warning(trained.gate.why)
    link_report(plan)
    return tuple(runs)
