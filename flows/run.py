"""The curriculum: build, mix and train phase by phase, each from where the phase before it ended."""

from prefect import flow

from curriculum.store import Artefact
from flows import after, pools, trust
from flows.build import build_phase
from flows.mix import mix_phase
from flows.names import run_name
from flows.parameters import ALL_PHASES, Changes, ChangesOfRun, Onwards, Phase, Specialist
from flows.starting import chosen, start
from flows.suspension import ended, passed
from flows.tracking import Log
from flows.train import train_phase
from flows.work import outcome


@flow(
    name="run", flow_run_name=run_name, on_crashed=[after.broke_down], on_failure=[after.broke_down]
)
def run(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    onwards: Onwards = False,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> tuple[Artefact, ...]:
    """Take a specialist through its curriculum: what is done is kept, what is missing is made."""
    plan = start(specialist, changes)
    trust.permitted(plan)
    runs, gate = [], None
    with plan.store.leased():
        for each in chosen(plan, phase, onwards=onwards):
            built = build_phase(plan, each)
            mixture = mix_phase(plan, each, built)
            again = each == phase
            if pools.here():
                trained = pools.train_phase(plan, each, built, mixture, changes, again=again)
            else:
                trained = train_phase(plan, each, built, mixture, again=again)
            runs.append(trained)
            gate = passed(plan, each, trained)
            if not gate.is_open:
                break
    after.walked(plan, runs)
    Log().info(outcome(plan, phase, runs))
    return ended(runs, gate)
