"""The ablate flow: when the arms of an ablation are trained; how is curriculum/ablations."""

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
from flows.final_states import ending_plainly, result_of
from flows.forms import AblationFile, Changes, Repositories
from flows.hooks import HOOKS
from flows.settings import trust
from schemas.progress import ignore_progress
from schemas.regular_files import expanded


@flow(name="ablate", **HOOKS)
@ending_plainly
def ablate(file: AblationFile, repositories: Repositories = ()) -> None:
    """Train diets that differ in one thing with the same seeds, and judge claims about them."""
    home = settings.home()
    outcome, made = _judged(home, home / expanded(file), repositories)
    write_ablation(home, made)
    name = f"ablation-{outcome.spec.name}"
    page = f"{settings.pages_at(home)}/ablations/"
    warnings = outcome_warnings(outcome)
    artifacts.show_table_and_link(
        name, claim_lines(outcome), notes=warnings, link=("Page of ablations", page)
    )
    for line in warnings:
        Log().warning(line)


def _judged(home: Path, file: Path, repositories: Sequence[str]) -> tuple[Outcome, Artefact]:
    """Train the arms of a file and judge its claims.

    Raises:
        CurriculumError: for a file of a workspace that isn't trusted, and as `curriculum ablate` does.
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
    """Return the plan of an arm as this flow run first resolved it."""
    name = flow_runs.arm_snapshot(runtime.flow_run.id, arm.config.specialist)
    return first_plan(arm.config, name)


def _train(planned: PlannedArm) -> tuple[Artefact, ...]:
    arm = planned.arm
    Log().info(planned.title)
    return result_of(arm_task(arm.name, arm.seed, planned, return_state=True))


@task(name="arm", task_run_name="{name} seed {seed}")
@ending_plainly
def arm_task(name: str, seed: int, planned: PlannedArm) -> tuple[Artefact, ...]:
    """Train an arm through all of its phases, each step in a task that is tried again by itself."""
    changes = Changes.model_validate(dict(planned.arm.config.changes()))
    context = tasks.flow_context(ignore_progress)
    return train_arm(planned, perform_or_dispatch(changes), context)
