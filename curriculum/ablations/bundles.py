"""Bundles: the trainings of an ablation in one folder, for a machine without corpus and network."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from curriculum.ablations.ablation_views import build_views
from curriculum.ablations.arms import write_arms
from curriculum.ablations.planned_arms import PlannedArm, plan_arms, plan_of_arm
from curriculum.mixing.imported import complete_diet
from curriculum.outputs import require_new_folder
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import FinishedStep, Scope, execute, run_in_process
from curriculum.pipeline.phase_job import evaluations_of, spec_name
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.wanted_rows import data_sets
from curriculum.stages.merge import copy_own
from curriculum.store import Artefact, Store
from curriculum.train.bundle import BUNDLE, read_bundle, read_runs
from curriculum.train.evaluation_sets import relative
from curriculum.whole_files import write_whole
from schemas.ablation import AblationSpec
from schemas.bundle import Bundle, BundledArm, BundledPhase
from schemas.errors import JobError

MAX_BUNDLE_BYTES = 50 << 20
"""Maximum size of a bundle in bytes. It is small, since bundles are sent to borrowed machines."""


def write_bundle(
    spec: AblationSpec,
    file: Path,
    workspace: Path,
    folder: Path,
    context: Context,
    *,
    repositories: Sequence[str] = (),
    begun: Callable[[PlannedArm], None],
) -> Bundle:
    """Build and mix all arms, and write a folder for `python -m curriculum.train.bundle`.

    Artefacts that several arms share are written once. The arguments are those of `ablate`; `begun` is called
    with each arm before it is built.

    Raises:
        JobError: for a bundle above MAX_BUNDLE_BYTES, and a claim without rows.
        StoreError: for a folder that isn't empty or that another user can replace.
        CurriculumError: for a mistake in an arm.
    """
    require_new_folder("--bundle", folder)
    planned = plan_arms(write_arms(spec, file, workspace, repositories), plan_of_arm, context)
    build_views(spec, planned, context)
    arms = []
    for arm in planned:
        begun(arm)
        arms.append(_bundled(arm, context))
    bundle = Bundle(ablation=spec.name, arms=tuple(arms))
    source, target = Store(workspace), Store(folder)
    paths = {path for arm in arms for phase in arm.phases for path in _read_by(phase)}
    used = [source.load(source.root / path) for path in sorted(paths)]
    _require_small(used)
    for artefact in used:
        copy_own(target, source, artefact)
    write_whole(folder / BUNDLE, bundle.model_dump_json(indent=1))
    return bundle


def bundled_runs(spec: AblationSpec, folder: Path) -> Callable[[PlannedArm], tuple[Artefact, ...]]:
    """Return a replacement for `train_arm` that looks up an arm's runs in a trained bundle.

    Raises:
        JobError: for the bundle of another ablation, and for a bundle that isn't completely trained.
    """
    bundle, trained = read_bundle(folder), read_runs(folder).runs
    if bundle.ablation != spec.name:
        raise JobError(
            str(folder),
            f"ablation {bundle.ablation}",
            cause=f"the bundle doesn't belong to the ablation {spec.name}",
            cure="Give the ablation file for which the bundle was written",
        )
    left = [arm.title for arm in bundle.arms if arm.title not in trained]
    if left:
        raise JobError(
            str(folder),
            f"{len(left)} of {len(bundle.arms)} arms, the first is {left[0]}",
            cause="these arms aren't trained yet",
            cure=f"Train the arms: python -m curriculum.train.bundle {folder}",
        )
    store = Store(folder)

    def runs_of_arm(planned: PlannedArm) -> tuple[Artefact, ...]:
        paths = trained.get(planned.arm.title, ())
        if len(paths) != len(planned.plan.phases):
            raise JobError(
                str(folder),
                planned.arm.title,
                cause="the ablation has an arm, a seed or a phase that the bundle doesn't contain",
                cure="Write the bundle again",
            )
        return tuple(store.load(folder / path) for path in paths)

    return runs_of_arm


def _bundled(planned: PlannedArm, context: Context) -> BundledArm:
    """Build and mix an arm, and return the description of its trainings."""
    arm, plan = planned.arm, planned.plan
    steps = execute(plan, run_in_process(context), Scope(until="mix"), context)
    return BundledArm(
        arm=arm.name,
        seed=arm.seed,
        diet=complete_diet(plan.diet, plan.imported),
        phases=tuple(_phase(plan, step) for step in steps if step.verb == "mix"),
    )


def _phase(plan: RunPlan, step: FinishedStep) -> BundledPhase:
    resolved, built = plan.phase(step.phase), step.built
    assert built is not None
    assert step.mixture is not None
    root = plan.store.root
    rows = [built.rows_of(data_set).train for data_set in data_sets(resolved)]
    return BundledPhase(
        phase=resolved.name,
        spec=plan.specs[spec_name(plan, resolved)],
        plan=relative(step.mixture.path, root),
        rows=tuple(relative(artefact.path, root) for artefact in rows),
        tokenizer=relative(built.tokenizer.path, root),
        evaluations=tuple(evaluations_of(plan, resolved, built)),
        overrides=dict(plan.overrides),
    )


def _read_by(phase: BundledPhase) -> set[str]:
    """Return the paths of the artefacts that the training of a phase reads."""
    measured = {
        stratum.rows.path for evaluation in phase.evaluations for stratum in evaluation.strata
    }
    return {phase.tokenizer, phase.plan, *phase.rows, *measured}


def _require_small(artefacts: Iterable[Artefact]) -> None:
    size = sum(record.num_bytes for artefact in artefacts for record in artefact.manifest.files)
    if size > MAX_BUNDLE_BYTES:
        raise JobError(
            "--bundle",
            f"{size:,} bytes",
            cause=f"a bundle may have at most {MAX_BUNDLE_BYTES:,} bytes",
            cure="Use fewer commits or repositories in the corpus, or train on the machine of the workspace",
        )
