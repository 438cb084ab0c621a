"""Construction of a Job from a diet, a phase and published artefacts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum import parquet
from curriculum.model.presets import Preset, model_spec, preset
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.evaluation_sets import positions_read, relative, rows_source
from curriculum.train.launch.gpu_slots import Machine
from curriculum.train.run_directory import JOB, read_job, read_report, run_recipe
from schemas.diet import AdvanceWhen, Diet, DietPhase, PhaseSpec
from schemas.errors import JobError
from schemas.families import ENRICHED_FAMILY
from schemas.job import ANNEAL, CheckpointRef, Evaluation, Job, OptimizerSpec, TokenizerRef
from schemas.mixture import MixtureReport
from schemas.objectives import FIXED_SETS, PHASE_SET
from schemas.study import study_mark

EVALUATIONS = 10
"""Intended number of evaluations in a job, not counting the one before the first step."""
MIN_BETWEEN_EVALUATIONS = 10
"""Minimum number of steps between two evaluations."""
MAX_EVALUATED = 0.1
"""Maximum positions of an evaluation, divided by the positions trained on since the previous evaluation.

In a small training, the validation rows of all phases have more positions than a step.
"""
MAX_BETWEEN_CHECKPOINTS = 500
MIN_BETWEEN_CHECKPOINTS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class JobInputs:
    """Published artefacts that a job reads.

    `previous` is the finished run that the job continues. If `middle`, a checkpoint of any run, is given, the
    job continues this checkpoint instead.
    """

    workspace: Path
    plan: Artefact
    rows: tuple[Artefact, ...]
    tokenizer: Artefact
    previous: Artefact | None = None
    middle: Path | None = None


def make_job(
    diet: Diet,
    phase_name: str,
    phase: PhaseSpec,
    ingredients: JobInputs,
    *,
    evaluations: Sequence[Evaluation],
    machine: Machine | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Job:
    """Build the job of a phase of a diet.

    The phase `anneal` comes after all phases and uses the last one's spec. `evaluations` are the sets of this
    phase, its own set first, and the fixed sets. The sets of earlier phases are taken from the previous run.

    Raises:
        JobError: for an unknown model or phase, a plan without one whole step, a model that would lose its
            structure inputs, or a run of another study.
    """
    machine = machine or Machine.local()
    size = preset(diet.model)
    mixture = _mixture(ingredients.plan)
    before = None
    if ingredients.middle is not None:
        before = read_job(ingredients.middle.parents[1] / JOB)
    elif ingredients.previous is not None:
        before = read_job(ingredients.previous.path / JOB)
    if before is not None:
        require_same_study(before, diet)
    served = _diet_phase(diet, phase_name)
    # An artefact read by several servings is listed once.
    rows = {rows.key: rows_source(rows, ingredients.workspace) for rows in ingredients.rows}
    given = {evaluation.phase for evaluation in evaluations}
    kept = before.evaluations if before is not None else ()
    evaluated = (
        *(evaluation for evaluation in kept if evaluation.phase not in given),
        *evaluations,
    )
    gate = None if phase_name == ANNEAL else _gate(served, mixture, evaluated)
    tokenizer = _tokenizer(ingredients)
    spec = model_spec(diet.model, tokenizer.vocab_size, softcap=diet.softcap)
    job = Job(
        specialist=diet.specialist,
        branch=diet.branch,
        phase=phase_name,
        run_key="",
        attempt=1,
        seed=diet.seed,
        model=spec.model_copy(update={"structure": reads_structure(diet, phase_name, before)}),
        backend=diet.backend,
        device=machine.device,
        threads=machine.threads,
        workers=machine.workers,
        processes=machine.processes,
        context_parallel=machine.context_parallel,
        recompute=machine.recompute,
        trainer=diet.trainer.command if diet.trainer is not None else None,
        tokenizer=tokenizer,
        plan=relative(ingredients.plan.path / "plan.parquet", ingredients.workspace),
        plan_key=ingredients.plan.key,
        plan_content=ingredients.plan.content,
        rows=tuple(rows.values()),
        rope_base=phase.rope_base,
        micro_positions=max(
            mixture.slot_length, min(size.micro_positions, mixture.tokens_per_step)
        ),
        tokens_per_step=mixture.tokens_per_step,
        steps=mixture.steps,
        optimizer=_optimizer(size, phase_name, mixture, before),
        start_from=_start_from(ingredients, before),
        evaluations=evaluated,
        evaluate_every=_between_evaluations(evaluated, mixture, gate),
        checkpoint_every=min(
            max(mixture.steps // 10, MIN_BETWEEN_CHECKPOINTS), MAX_BETWEEN_CHECKPOINTS
        ),
        advance_when=gate,
        require=served.require,
        study=diet.study,
        overrides=dict(overrides or {}),
    )
    return job.model_copy(update={"run_key": run_recipe(job).key})


def _diet_phase(diet: Diet, name: str) -> DietPhase:
    if name == ANNEAL:
        return diet.phases[-1]
    found = next((phase for phase in diet.phases if phase.phase == name), None)
    if found is None:
        listed = ", ".join(phase.phase for phase in diet.phases)
        raise JobError(
            f"phase of {diet.specialist}",
            name,
            cause="the diet has no phase of this name",
            cure=f"Name one of its phases: {listed}",
        )
    return found


def _mixture(plan: Artefact) -> MixtureReport:
    report = plan.reported(MixtureReport)
    if not report.steps:
        raise JobError(
            "token_budget",
            f"{report.budget} tokens in this phase",
            cause=f"the budget is too small for one step of {report.tokens_per_step} positions",
            cure="Raise token_budget, or lower tokens_per_step",
        )
    return report


def _optimizer(
    size: Preset, phase: str, mixture: MixtureReport, before: Job | None
) -> OptimizerSpec:
    """Return optimizer settings.

    There is a warm-up only at the beginning and where the row length changes.
    """
    longest = before.slot_length if before is not None else None
    no_warmup = phase == ANNEAL or mixture.slot_length == longest
    return OptimizerSpec(
        learning_rate=size.learning_rate,
        warmup_steps=0 if no_warmup else min(size.warmup_steps, max(mixture.steps // 10, 1)),
        schedule="decay" if phase == ANNEAL else "stable",
    )


def _between_evaluations(
    evaluations: Sequence[Evaluation], mixture: MixtureReport, gate: AdvanceWhen | None
) -> int:
    """Return the number of steps between evaluations.

    With a gate on val_bpb, it isn't raised to save time.
    """
    steps = max(mixture.steps // EVALUATIONS, MIN_BETWEEN_EVALUATIONS)
    if gate is not None and gate.val_bpb is not None:
        return steps
    cheap = math.ceil(positions_read(evaluations) / MAX_EVALUATED / mixture.tokens_per_step)
    return max(steps, cheap)


def _gate(
    phase: DietPhase, mixture: MixtureReport, evaluations: Sequence[Evaluation]
) -> AdvanceWhen | None:
    """Return the gate of a phase. Tokens that a continued mixture has already used don't count again."""
    rule = phase.advance_when
    if rule is not None and rule.val_bpb is not None:
        _require_measured(phase.phase, rule.val_bpb.set, evaluations)
    if rule is None or rule.min_tokens is None or mixture.continued is None:
        return rule
    left = max(rule.min_tokens - mixture.continued.tokens, 1)
    return rule.model_copy(update={"min_tokens": left})


def _require_measured(phase: str, name: str, evaluations: Sequence[Evaluation]) -> None:
    """Raise unless the set that a gate names is evaluated.

    A set of an objective isn't needed if the phase has no other objective.

    Raises:
        JobError: if no rows of the set are held out.
    """
    mine = {
        evaluation.set: evaluation
        for evaluation in evaluations
        if evaluation.phase in (phase, *FIXED_SETS)
    }
    own = mine.get(PHASE_SET)
    whole = {stratum.objective for stratum in own.strata} if own is not None else set()
    if name not in (PHASE_SET, *mine) and whole != {name}:
        raise JobError(
            f"gate of {phase}",
            f"val_bpb.set = {name}",
            cause="the set has no held-out rows",
            cure=f"Raise val_fraction in the corpus, or name another set: {', '.join(mine)}",
        )


def require_same_study(before: Job, diet: Diet) -> None:
    """Raise unless the run that is continued belongs to no study or to the diet's study.

    Raises:
        JobError: for a run of another study.
    """
    if before.study in (None, diet.study):
        return
    run = "/".join(filter(None, (before.specialist, before.branch, before.phase)))
    raise JobError(
        f"run {run}, {before.run_key[:KEY_DIGITS]}",
        study_mark(before.study),
        cause="a run of a study is trained only for comparison and can't be continued",
        cure="Start from a run without a study, or train the previous phases again: curriculum run",
    )


def _start_from(ingredients: JobInputs, before: Job | None) -> CheckpointRef | None:
    previous, middle = ingredients.previous, ingredients.middle
    if middle is not None and before is not None:
        from curriculum.train.checkpoint_files import content_of

        return CheckpointRef(
            run_key=before.run_key,
            run_content=content_of(middle),
            path=relative(middle, ingredients.workspace),
        )
    if previous is None:
        return None
    return CheckpointRef(
        run_key=previous.key,
        run_content=previous.content,
        path=read_report(previous.path).checkpoint,
    )


def _tokenizer(ingredients: JobInputs) -> TokenizerRef:
    tokenizer = ingredients.tokenizer
    return TokenizerRef(
        key=tokenizer.key,
        content=tokenizer.content,
        path=relative(tokenizer.path, ingredients.workspace),
        vocab_size=int(parquet.read_metadata(tokenizer.path / "token_bytes.parquet").num_rows),
    )


def reads_structure(diet: Diet, phase: str, before: Job | None) -> bool:
    """Return whether the model of a phase reads structure.

    It does from the first phase with rows of the family v6_enriched on, if structure_inputs is true. `phase`
    is a phase of the diet or comes after all of them. `before` is the job that is continued.

    Raises:
        JobError: if structure_inputs is false, but the continued model reads structure.
    """
    if before is not None and before.model.structure:
        if not diet.structure_inputs:
            raise would_lose_structure("structure_inputs", "false", f"the run of {before.phase}")
        return True
    names = [diet_phase.phase for diet_phase in diet.phases]
    until = diet.phases[: names.index(phase) + 1] if phase in names else diet.phases
    servings = (serving for diet_phase in until for serving in diet_phase.servings)
    enriched = any(serving.family == ENRICHED_FAMILY for serving in servings)
    return diet.structure_inputs and enriched


def would_lose_structure(name: str, value: str, trained: str) -> JobError:
    """Return the error for a model that reads structure and would be continued without structure."""
    return JobError(
        name,
        value,
        cause=f"{trained} trained a model that reads structure, which can't be turned off later",
        cure="Keep structure_inputs: true, which also accepts rows without structure, or start from a "
        "checkpoint of a model without structure",
    )
