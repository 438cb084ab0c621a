"""The train flow: when a specialist is trained; how is curriculum/train."""

from prefect import flow, task

from curriculum.build import Built
from curriculum.inspection.runs import report_of, run_words
from curriculum.pipeline.gates import verdict
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from flows import after, doors, pools, tracking, trust
from flows.build import build_phase
from flows.lines import figure_lines
from flows.mix import mix_phase
from flows.names import run_name
from flows.parameters import ALL_PHASES, Again, Changes, ChangesOfRun, Phase, Specialist
from flows.starting import chosen, start, worth_another_try
from flows.tracking import Log


@task(name="train", task_run_name="train {phase}", retries=2, retry_delay_seconds=10,
      retry_condition_fn=worth_another_try)  # fmt: skip
def train_phase(
    plan: RunPlan, phase: str, built: Built, mixture: Artefact, *, again: bool
) -> Artefact:
    """The closed run of a phase; a second try resumes from its last checkpoint."""
    tell = Log().info
    with tracking.tracked() as watch:
        run = doors.train_phase(
            plan, phase, built, mixture, new_attempt=again, watch=watch, tell=tell
        )
    report = report_of(run)
    tracking.show(plan.mark_of("val-bpb", phase), run_words(report), figure_lines(report))
    return run


@flow(
    name="train",
    flow_run_name=run_name,
    on_crashed=[after.broke_down],
    on_failure=[after.broke_down],
)
def train(
    specialist: Specialist,
    phase: Phase = ALL_PHASES,
    again: Again = False,
    changes: ChangesOfRun = Changes(),  # noqa: B008 - frozen
) -> tuple[Artefact, ...]:
    """Build, mix and train what isn't trained yet; an interrupted run goes on from its last checkpoint."""
    plan = start(specialist, changes)
    trust.permitted(plan)
    runs = []
    with plan.store.leased():
        for each in chosen(plan, phase):
            built = build_phase(plan, each)
            mixture = mix_phase(plan, each, built)
            runs.append(train_phase(plan, each, built, mixture, again=again and each == phase))
            pools.leave(plan, runs[-1])
            gate = verdict(plan, each, runs[-1])
            after.trained(plan, runs[-1], gate)
            if not gate.is_open:
                Log().warning(gate.why)
                break
    after.walked(plan, runs)
    return tuple(runs)
