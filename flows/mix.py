"""The mix flow: when a diet's rows are put in training order; how is curriculum/mix.py."""

from prefect import flow, task

from curriculum.build import Built
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from flows import after, doors, tracking
from flows.build import build_phase
from flows.lines import mixture_lines, mixture_words
from flows.names import run_name
from flows.parameters import ALL_PHASES, ChangesOfMix, MixChanges, Phase, Specialist
from flows.starting import chosen, start, worth_another_try


@task(name="mix", task_run_name="mix {phase}", retries=2, retry_delay_seconds=10,
      retry_condition_fn=worth_another_try)  # fmt: skip
def mix_phase(plan: RunPlan, phase: str, built: Built) -> Artefact:
    """The plan of a phase; its mixture, planned and realised, on the run's page."""
    with tracking.tracked() as watch:
        mixture = doors.mix_phase(plan, phase, built, watch)
    tracking.show(plan.mark_of("mixture", phase), mixture_words(mixture), mixture_lines(mixture))
    return mixture


@flow(
    name="mix", flow_run_name=run_name, on_crashed=[after.broke_down], on_failure=[after.broke_down]
)
def mix(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    changes: ChangesOfMix = MixChanges(),  # noqa: B008 - frozen
) -> None:
    """Build, then lay down which rows a specialist is trained on, in which order."""
    plan = start(specialist, changes)
    with plan.store.leased():
        for each in chosen(plan, phase):
            mix_phase(plan, each, build_phase(plan, each))
    after.drawn(plan)
