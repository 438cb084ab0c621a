"""The training job of a phase: its inputs, its machine, and its evaluations."""

from dataclasses import replace
from typing import TYPE_CHECKING

from curriculum.mixing.imported import complete_diet
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline.context import Resources
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.wanted_rows import data_sets, wanted_of
from curriculum.stages import Built
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.metric_writers import parse_writers
from schemas.errors import JobError
from schemas.job import Evaluation, Job

if TYPE_CHECKING:
    from curriculum.train.launch.gpu_slots import Machine


def machine_of(plan: RunPlan, resources: Resources) -> "Machine":
    """Return the machine on which the jobs of a plan train: this one, or a Slurm node."""
    from curriculum.train.launch.gpu_slots import Machine

    asked = plan.config.train
    if resources.sbatch is not None:
        machine = Machine.in_slurm(
            resources.sbatch,
            asked.processes,
            recompute=asked.recompute,
            loader_workers=asked.loader_workers,
        )
    else:
        machine = Machine.local(
            asked.processes,
            recompute=asked.recompute,
            loader_workers=asked.loader_workers,
            slots=resources.gpu_slots,
        )
    return replace(machine, context_parallel=asked.context_parallel or 1)


def job_of(
    plan: RunPlan,
    resolved: ResolvedPhase,
    built: Built,
    mixture: Artefact,
    previous: Artefact | None,
    machine: "Machine",
    *,
    gpu_price: float | None = None,
) -> Job:
    """Return the job of a phase. It starts from the `previous` run, or from the checkpoint that it resumes.

    Raises:
        JobError: for a mixture without one whole step, for another tokenizer than that of the `previous`
        run, or if structure would get lost.
    """
    from curriculum.train.job import JobInputs, make_job

    resumed = plan.resume_point_of(resolved)
    if resumed and resumed.job.tokenizer.key != built.tokenizer.key:
        raise JobError(
            f"phase {resolved.name}",
            f"tokenizer {built.tokenizer.key[:KEY_DIGITS]}",
            cause="the run to continue was trained with another tokenizer, "
            f"{resumed.job.tokenizer.key[:KEY_DIGITS]}",
            cure="Keep corpus and tokenizer of the diet, or start a new run",
        )
    return make_job(
        complete_diet(plan.diet, plan.imported),
        resolved.name,
        plan.specs[spec_name(plan, resolved)],
        JobInputs(
            workspace=plan.store.root,
            plan=mixture,
            rows=tuple(built.rows_of(data_set).train for data_set in data_sets(resolved)),
            tokenizer=built.tokenizer,
            previous=previous,
            middle=resumed.checkpoint if resumed else None,
        ),
        evaluations=evaluations_of(plan, resolved, built),
        machine=machine,
        overrides=dict(plan.overrides),
    ).model_copy(update={"writers": parse_writers(plan.config.train.log), "gpu_price": gpu_price})


def evaluations_of(plan: RunPlan, phase: ResolvedPhase, built: Built) -> list[Evaluation]:
    """Return the evaluations of a phase: all its validation rows, these by objective, and the fixed sets."""
    from curriculum.train.evaluation_sets import (
        FIXED_SHARE,
        PHASE_SHARE,
        Validation,
        evaluation,
        evaluations_apart,
        fixed_evaluation,
        limit_positions,
        validation_of,
    )

    root, held_out = plan.store.root, list[Validation]()
    apart: dict[str, list[Validation]] = {}
    for serving, variants in zip(phase.servings, wanted_of(phase), strict=True):
        found = built.rows_of(variants[0])
        if found.val is not None:
            held_out.append(validation_of(serving, found.val))
        for objective, rows in found.apart.items():
            apart.setdefault(objective, []).append(validation_of(serving, rows))
    budget = sum(phase.tokens for phase in plan.phases)
    fixed = [
        found
        for name, rows in built.fixed.items()
        if (whole := fixed_evaluation(name, rows, workspace=root)) is not None
        for found in limit_positions([whole], FIXED_SHARE * budget)
    ]
    if not held_out:
        return fixed
    # The anneal is measured like the phase before it, with the limit of that phase.
    name = spec_name(plan, phase)
    whole = evaluation(name, held_out, workspace=root)
    sets = [whole, *evaluations_apart(whole, apart, workspace=root)]
    return [*limit_positions(sets, PHASE_SHARE * plan.phase(name).tokens), *fixed]


def spec_name(plan: RunPlan, phase: ResolvedPhase) -> str:
    """Return the name under which the phases file describes a phase.

    The anneal isn't listed there, so it uses the spec of the last phase.
    """
    return plan.diet.phases[-1].phase if phase.is_anneal else phase.name
