"""The build flow: when and how often rows are built; what they are is curriculum/build."""

from prefect import flow, task

from curriculum.build import Built
from curriculum.pipeline.plan import RunPlan
from flows import after, doors, tracking
from flows.lines import yield_lines, yield_words
from flows.losses import loss_lines, loss_words
from flows.names import run_name
from flows.parameters import ALL_PHASES, BuildChanges, ChangesOfBuild, Phase, Specialist
from flows.starting import chosen, start, worth_another_try


@task(name="build", task_run_name="build {phase}", retries=2, retry_delay_seconds=10,
      retry_condition_fn=worth_another_try)  # fmt: skip
def build_phase(plan: RunPlan, phase: str) -> Built:
    """The rows of a phase, and on the run's page how full they are and what was lost on the way."""
    with tracking.tracked() as watch:
        built = doors.build_phase(plan, phase, watch)
    tracking.show(plan.mark_of("yield", phase), yield_words(built), yield_lines(built))
    tracking.show(plan.mark_of("losses", phase), loss_words(built), loss_lines(built))
    return built


@flow(
    name="build",
    flow_run_name=run_name,
    on_crashed=[after.broke_down],
    on_failure=[after.broke_down],
)
def build(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    changes: ChangesOfBuild = BuildChanges(),  # noqa: B008 - frozen
) -> None:
    """Read the corpus and build the packed rows that a diet asks for."""
    plan = start(specialist, changes)
    with plan.store.leased():
        for each in chosen(plan, phase):
            build_phase(plan, each)
    after.drawn(plan)
