"""The curriculum: build, mix and train phase by phase, each from where the phase before it ended."""

from prefect import flow
from prefect.logging import get_run_logger

from curriculum.store import Artefact
from flows.build import build_phase
from flows.gates import verdict
from flows.mix import mix_phase
from flows.parameters import ALL_PHASES, Changes, ChangesOfRun, Onwards, Phase, Specialist
from flows.starting import chosen, start
from flows.train import train_phase
from flows.work import outcome


@flow(name="run", flow_run_name="run {specialist} {phase}")
def run(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    onwards: Onwards = False,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> tuple[Artefact, ...]:
    """Take a specialist through its curriculum: what is done is kept, what is missing is made."""
    logger = get_run_logger()
    plan = start(specialist, changes)
    runs = []
    for each in chosen(plan, phase, onwards=onwards):
        built = build_phase(plan, each)
        mixture = mix_phase(plan, each, built)
        runs.append(train_phase(plan, each, built, mixture, again=each == phase))
        gate = verdict(plan, each, runs[-1])
        if not gate.is_open:
            logger.warning(gate.why)
            break
    logger.info(outcome(plan, phase, runs))
    return tuple(runs)
