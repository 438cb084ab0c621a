"""The curriculum: build, mix and train phase by phase, each from where the phase before it ended."""

from prefect import flow
from prefect.logging import get_run_logger

from curriculum.store import Artefact
from flows.build import build_phase
from flows.mix import mix_phase
from flows.parameters import ALL_PHASES, Changes, ChangesOfRun, Phase, Specialist
from flows.starting import chosen, start
from flows.train import train_phase
from flows.work import goes_on, outcome


@flow(name="run", flow_run_name="run {specialist} {phase}")
def run(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> tuple[Artefact, ...]:
    """Take a specialist through its curriculum: what is done is kept, what is missing is made."""
    logger = get_run_logger()
    plan = start(specialist, changes)
    runs = []
    for each in chosen(plan, phase):
        built = build_phase(plan, each)
        mixture = mix_phase(plan, each, built)
        runs.append(train_phase(plan, each, built, mixture, new_attempt=phase != ALL_PHASES))
        if not goes_on(plan, each, runs[-1], logger.warning):
            break
    logger.info(outcome(plan, phase, runs))
    return tuple(runs)
