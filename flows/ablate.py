"""The ablate flow, which trains the arms of an ablation and judges its claims with curriculum.ablations."""

from collections.abc import Sequence
from pathlib import Path

from prefect import flow, runtime, task

from curriculum.ablations import ablate as ablations
from curriculum.ablations.ablate import Outcome
from curriculum.ablations.arms import Arm, load_ablation
from curriculum.ablations.outcome_tables import claim_lines, outcome_warnings
from curriculum.ablations.planned_arms import PlannedArm, train_arm
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.recorded_config import first_plan
from curriculum.store import Artefact
from dashboards.ablation_page import write_ablation
from flows import artifacts, flow_runs, settings, tasks
from flows.artifacts import Log
from flows.dispatch import perform_or_dispatch
from flows.final_states import as_prefect_state, result_of
from flows.forms import AblationFile, Changes, Repositories
from flows.hooks import HOOKS
from flows.settings import trust
from schemas.progress import ignore_progress
from schemas.regular_files import expanded


@flow(name="ablate", **HOOKS)
@as_prefect_state
def ablate(file: AblationFile, repositories: Repositories = ()) -> None:
    """Run an ablation: train its arms with the same seeds and judge its claims."""
    home = settings.home()
    outcome, made = _judged(home, home / expanded(file), repositories)
    write_ablation(home, made)
    name = f"ablation-{outcome.spec.name}"
    page = f"{settings.pages_at(home)}/ablations/"
    warnings = outcome_warnings(outcome)
    artifacts.show_table_and_link(
        name, claim_lines(outcome), notes=warnings, link=("Ablations page", page)
    )
    for line in warnings:
        Log().warning(line)


def _judged(home: Path, file: Path, repositories: Sequence[str]) -> tuple[Outcome, Artefact]:
    """Train the arms of an ablation file and judge its claims.

    Raises:
        CurriculumError: if the file's workspace isn't trusted, or for a mistake in the file.
    """
    trust.require_trusted(home, file)
    for line in trust.shadow_words(home):
        Log().warning(line)
    spec = load_ablation(file)
    flow_runs.tag_run({f"ablation:{spec.name}"})
    return ablations.ablate(
        spec,
        file,
        home,
        tasks.flow_context(ignore_progress),
        repositories=repositories,
        train=_train,
        resolve=_resolve,
    )


def _resolve(arm: Arm) -> RunPlan:
    """Return the plan of an arm.

    The first call in a flow run resolves the plan and records its config. Later calls, after a retry, return
    the recorded plan.
    """
    name = flow_runs.arm_snapshot(runtime.flow_run.id, arm.config.specialist)
    return first_plan(arm.config, name)


def _train(planned: PlannedArm) -> tuple[Artefact, ...]:
    arm = planned.arm
    Log().info(planned.title)
    return result_of(arm_task(arm.name, arm.seed, planned, return_state=True))


@task(name="arm", task_run_name="{name} seed {seed}")
@as_prefect_state
def arm_task(name: str, seed: int, planned: PlannedArm) -> tuple[Artefact, ...]:
    """Train all phases of an arm; each step is a task with its own retries."""
    changes = Changes.model_validate(dict(planned.arm.config.changes()))
    context = tasks.flow_context(ignore_progress)
    return train_arm(planned, perform_or_dispatch(changes), context)
