"""The curriculum: build, mix and train phase by phase, each from where the phase before it ended."""

from prefect import flow

from curriculum.pipeline.execute import Scope, outcome
from curriculum.store import Artefact
from flows.approval import ended, gate_after
from flows.artifacts import Log
from flows.dispatch import perform_or_dispatch
from flows.flow_runs import HOOKS, carry_out, link_report, start
from flows.parameters import ALL_PHASES, Changes, ChangesOfRun, Onwards, Phase, Specialist


@flow(name="run", **HOOKS)
def run(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    onwards: Onwards = False,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> tuple[Artefact, ...]:
    """Take a specialist through its curriculum: what is done is kept, what is missing is made."""
    plan, runs, gate = start(specialist, changes), [], None
    scope = Scope(onwards=onwards, retrain=True)
    for trained in carry_out(plan, scope, phase, perform_or_dispatch(changes)):
        runs.append(trained.run)
        gate = gate_after(plan, trained)
    link_report(plan)
    Log().info(outcome(plan, phase, runs))
    return ended(runs, gate)
