"""The train flow: when a specialist is trained; how is curriculum/train."""

from prefect import flow, task
from prefect.logging import get_run_logger

from curriculum.build import Built
from curriculum.store import Artefact
from flows import doors, tracking
from flows.build import build_phase
from flows.course import Course
from flows.lines import figure_lines, report_of, run_words
from flows.mix import mix_phase
from flows.parameters import ALL_PHASES, Changes, ChangesOfRun, Phase, Specialist
from flows.starting import chosen, start, worth_another_try
from flows.work import goes_on


@task(name="train", task_run_name="train {phase}", retries=2, retry_delay_seconds=10,
      retry_condition_fn=worth_another_try)  # fmt: skip
def train_phase(
    plan: Course, phase: str, built: Built, mixture: Artefact, *, new_attempt: bool
) -> Artefact:
    """The closed run of a phase; a second try resumes from its last checkpoint."""
    with tracking.tracked() as watch:
        run = doors.train_phase(plan, phase, built, mixture, new_attempt=new_attempt, watch=watch)
    report = report_of(run)
    tracking.show(f"val-bpb {phase}", run_words(report), figure_lines(report))
    return run


@flow(name="train", flow_run_name="train {specialist} {phase}")
def train(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> None:
    """Build, mix and train what isn't trained yet; an interrupted run goes on from its last checkpoint."""
    plan = start(specialist, changes)
    for each in chosen(plan, phase):
        built = build_phase(plan, each)
        run = train_phase(plan, each, built, mix_phase(plan, each, built), new_attempt=False)
        if not goes_on(plan, each, run, get_run_logger().warning):
            break
