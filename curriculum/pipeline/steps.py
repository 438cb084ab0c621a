"""The steps of a phase: build, mix, train. The artefact of each becomes current."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from curriculum import frames
from curriculum.inspection.losses import require_documents
from curriculum.inspection.runs import run_words
from curriculum.interop.huggingface import CARD_NAME, write_card
from curriculum.mixing.imported import completed
from curriculum.mixing.load import placed
from curriculum.mixing.mix import mix
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.model.backend_choice import Capabilities
from curriculum.model.presets import preset
from curriculum.pipeline import notifications
from curriculum.pipeline.attempts import mark_current, resumed_step
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.plan import RunPlan, require_backend
from curriculum.pipeline.resume import OPTION, continued, left_out_before
from curriculum.pipeline.run_config import command
from curriculum.stages import Built, Indexing, RowsSpec, Shard, Tokenizing, Workers, build, sample
from curriculum.stages.tokens import foreign_tokenizer
from curriculum.store import Artefact, Recipe
from curriculum.store.artefact import KEY_DIGITS
from curriculum.tokens.codec import Roles
from curriculum.train.launch.launcher import Launch
from curriculum.train.metric_writers import parse_writers
from schemas.diet import TRAINED_TOKENIZER
from schemas.errors import JobError, MixtureError
from schemas.families import ENRICHED_FAMILY, VERSIONS_FAMILY
from schemas.job import Evaluation, Job
from schemas.objectives import ANCHOR_SET
from schemas.progress import Progress

if TYPE_CHECKING:
    from curriculum.train.launch.gpu_slots import Machine

UNKNOWN = 0
"""The revision of a planned run of which only its plan and what it continues from are known."""


def build_phase(plan: RunPlan, phase: str, context: Context) -> Built:
    """The rows of a phase's servings, and all that they are made of.

    Raises:
        CorpusError: where the corpus leaves no document of a serving; a phase that renormalises shares
            needs one of any of its servings. A dry walk passes.
    """
    built = build_phases(plan, [phase], context)
    if not (plan.store.dry or built.missing):
        resolved = plan.phase(phase)
        served = [variants[0] for variants in wanted_of(resolved)]
        require_documents(built, served, all_of_them=resolved.on_shortage == "stop")
        length = f"+{plan.config.build.row_length}" if plan.config.build.row_length else ""
        name = f"{plan.mark_of('build', phase)}{length}+{plan.corpus.name}"
        is_new = mark_current(plan.store, name, built.artefacts())
        if is_new or not (plan.store.root / CARD_NAME).is_file():
            write_card(plan.store)
    return built


def build_phases(plan: RunPlan, phases: Sequence[str], context: Context) -> Built:
    """The rows of some phases' servings in one pass over the corpus; each phase's are the same alone."""
    wanted = [each for phase in phases for each in _data_sets(plan.phase(phase))]
    return build(
        plan.store,
        plan.corpus,
        list(dict.fromkeys(wanted)),
        anchor_length=min(length for spec in plan.specs.values() for length in spec.row_lengths),
        tokenizing=tokenizing_of(plan),
        indexing=_indexing(plan),
        workers=Workers(
            processes=workers_of(plan),
            ray=context.resources.ray,
            in_flight=plan.config.corpus.workers,
            shard=Shard.parse(plan.config.shard) if plan.config.shard else None,
        ),
        sources=plan.sources,
        watch=context.watch,
    )


def _indexing(plan: RunPlan) -> Indexing:
    asked = plan.config.build
    return Indexing(configure=asked.configure, unsandboxed=asked.unsandboxed)


def tokenizing_of(plan: RunPlan) -> Tokenizing:
    """Return the tokenizer that a diet asks for.

    Raises:
        TokenizerError, StoreError: for a given one that is refused.
    """
    diet, given = plan.diet, None
    if diet.tokenizer != TRAINED_TOKENIZER:
        roles = Roles(document_tokens=diet.document_tokens)
        given = foreign_tokenizer(
            plan.store,
            Path(diet.tokenizer),
            roles,
            unsandboxed=plan.config.build.unsandboxed,
        )
    return Tokenizing(
        given=given,
        vocab_size=diet.vocab_size,
        document_tokens=diet.document_tokens,
    )


def sample_phase(plan: RunPlan, phase: str, number: int, context: Context) -> tuple[Artefact, ...]:
    """Some documents of each family that a phase serves, to look at before anything is packed."""
    made = sample(
        plan.store,
        plan.corpus,
        _data_sets(plan.phase(phase)),
        number=number,
        indexing=_indexing(plan),
        sources=plan.sources,
        workers=Workers(processes=workers_of(plan)),
        watch=context.watch,
    )
    if not plan.store.dry:
        mark_current(plan.store, f"sample-{plan.corpus.name}-{phase}", made)
    return made


def mix_phase(plan: RunPlan, phase: str, built: Built, context: Context) -> Artefact:
    """The plan of a phase: which rows its specialist sees, in which order."""
    resolved = plan.phase(phase)
    resumed = plan.resume_point_of(resolved)
    progress = Progress(stage="mix", item=phase, done=0, total=1, unit="tasks")
    with placed(plan.config.specialist, plan.config.workspace):
        mixture = mix(
            plan.store,
            plan.diet,
            replace(resolved, without=excluded_rows(plan, resolved, built)),
            [[built.rows_of(each).train for each in variants] for variants in wanted_of(resolved)],
            tokens_per_step=tokens_per_step(plan),
            seen=() if resumed else plan.seen_before(resolved),
            continued=continued(plan.store, resumed) if resumed else None,
            documents=None if plan.store.dry else lambda: _lineages(built),
            begins=lambda: context.watch(progress),
        )
    plan.keep("mixtures", resolved, mixture)
    if mixture.made:
        context.watch(replace(progress, done=1))
    return mixture


def excluded_rows(plan: RunPlan, phase: ResolvedPhase, built: Built) -> tuple[str, ...]:
    """The pack_ids that a plan leaves out: what is asked, and what the run it continues left out."""
    resumed = plan.resume_point_of(phase)
    before = left_out_before(plan.store, resumed) if resumed else ()
    rows = [built.rows_of(each).train for each in _data_sets(phase)]
    asked = plan.without.packs_of(rows, built.documents)
    if resumed and plan.without and not asked and not plan.store.dry:
        raise MixtureError(
            OPTION,
            plan.config.resume.without_rows,
            cause=f"no row of {phase.name} is one of these or holds one",
            cure="Take pack_ids of its plan, ids of its documents or a repository of theirs",
        )
    return (*before, *asked)


def train_phase(
    plan: RunPlan,
    phase: str,
    built: Built,
    mixture: Artefact,
    context: Context,
    *,
    retrain: bool,
) -> Artefact:
    """The closed run of a phase, from the end of the phase before; its directory holds report.json.

    Raises:
        JobError: where the phase before has no run yet, training failed, or it was stopped.
    """
    resolved = plan.phase(phase)
    previous = None if plan.resume_point_of(resolved) else _previous(plan, resolved)
    if plan.store.dry and (mixture.planned or (previous and previous.planned)):
        return _planned(plan, resolved, _unknown_run(plan, resolved, mixture, previous))
    with notifications.training(plan, phase, context):
        run = _train(plan, resolved, built, mixture, previous, retrain=retrain, context=context)
    plan.keep("runs", resolved, run)
    return run


def _require_trainable(plan: RunPlan, job: Job) -> None:
    """Refuse what the processes that train would refuse, before they start."""
    from curriculum.train.validate import require_shared_rows

    require_shared_rows(job, job.processes)
    has = Capabilities.expected(job.device)
    require_backend(plan.diet, plan.phases, has, context=job.context_parallel)


def _train(
    plan: RunPlan,
    resolved: ResolvedPhase,
    built: Built,
    mixture: Artefact,
    previous: Artefact | None,
    *,
    retrain: bool,
    context: Context,
) -> Artefact:
    from curriculum.train.run import train
    from curriculum.train.run_directory import finished, run_recipe

    resources, store = context.resources, plan.store
    machine = machine_of(plan, resources)
    job = job_of(plan, resolved, built, mixture, previous, machine, gpu_price=resources.gpu_price)
    if store.dry:
        found = None if retrain else finished(store, job)
        if found is None:
            _require_trainable(plan, job)
        return found or _planned(plan, resolved, run_recipe(job))
    launch = Launch(
        slots=resources.slots_of(store.root),
        watch=context.watch,
        tell=context.log,
        stalled=notifications.stalled(plan, resolved.name, context),
        sbatch=resources.sbatch,
        trainer=context.permit(plan),
    )
    begun = resumed_step(store.path_of(run_recipe(job)))
    progress = Progress(
        stage="train", item=resolved.name, done=begun, total=job.steps, unit="steps"
    )
    if retrain or finished(store, job) is None:
        _require_trainable(plan, job)
        context.watch(progress)
    run = train(store, job, again=retrain, launch=launch)
    if run.artefact is None:
        raise JobError(
            f"phase {resolved.name}",
            run.report.stopped,
            cause=run.report.reason,
            cure="Run the same command again to continue from its last checkpoint",
        )
    if run.artefact.made:
        done = run.report.steps
        context.watch(replace(progress, done=done, total=done, note=run_words(run.report)))
    return run.artefact


def machine_of(plan: RunPlan, resources: Resources) -> "Machine":
    """Return the machine that the jobs of a plan ask for: this one, or one of Slurm."""
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
        machine = Machine.here(
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
    """The job of a phase, from the end of the `previous` run or the middle of the one it continues.

    Raises:
        JobError: for a plan without one whole step, another tokenizer, or structure that would go.
    """
    from curriculum.train.job import JobInputs, make_job

    resumed = plan.resume_point_of(resolved)
    if resumed and resumed.job.tokenizer.key != built.tokenizer.key:
        raise JobError(
            f"phase {resolved.name}",
            f"tokenizer {built.tokenizer.key[:KEY_DIGITS]}",
            cause=f"the run was trained with another one, {resumed.job.tokenizer.key[:KEY_DIGITS]}",
            cure="Keep corpus and tokenizer of the diet, or start a new run",
        )
    return make_job(
        completed(plan.diet, plan.imported),
        resolved.name,
        plan.specs[_spec_name(plan, resolved)],
        JobInputs(
            workspace=plan.store.root,
            plan=mixture,
            rows=tuple(built.rows_of(each).train for each in _data_sets(resolved)),
            tokenizer=built.tokenizer,
            previous=previous,
            middle=resumed.checkpoint if resumed else None,
        ),
        evaluations=_evaluations(plan, resolved, built),
        machine=machine,
        overrides=dict(plan.overrides),
    ).model_copy(update={"writers": parse_writers(plan.config.train.log), "gpu_price": gpu_price})


def _evaluations(plan: RunPlan, phase: ResolvedPhase, built: Built) -> list[Evaluation]:
    """List the evaluations of a phase: all validation rows of its servings, by objective, and the anchor."""
    from curriculum.train.evaluation_sets import (
        ANCHOR_SHARE,
        PHASE_SHARE,
        Validation,
        evaluation,
        evaluations_apart,
        validation_of,
        within,
    )

    root, held_out = plan.store.root, list[Validation]()
    apart: dict[str, list[Validation]] = {}
    for serving, variants in zip(phase.servings, wanted_of(phase), strict=True):
        found = built.rows_of(variants[0])
        if found.val is not None:
            held_out.append(validation_of(serving, found.val))
        for objective, rows in found.apart.items():
            apart.setdefault(objective, []).append(validation_of(serving, rows))
    anchor = Validation(family=VERSIONS_FAMILY, share=1.0, rows=built.anchor)
    budget = sum(each.tokens for each in plan.phases)
    fixed = within([evaluation(ANCHOR_SET, [anchor], workspace=root)], ANCHOR_SHARE * budget)
    if not held_out:
        return fixed
    # The anneal measures what the phase before it did, by the limit of that one.
    name = _spec_name(plan, phase)
    whole = evaluation(name, held_out, workspace=root)
    sets = [whole, *evaluations_apart(whole, apart, workspace=root)]
    return [*within(sets, PHASE_SHARE * plan.phase(name).tokens), *fixed]


def _previous(plan: RunPlan, phase: ResolvedPhase) -> Artefact | None:
    """The run that a phase continues from; None for the first."""
    before = plan.before(phase)
    if not before:
        return None
    run = plan.current("runs", before[-1])
    if run is None:
        raise JobError(
            f"phase {phase.name}",
            cause=f"it starts from {before[-1].name}, which has no finished run",
            cure=f"Run it first: {command('run', plan.config, '--phase', before[-1].name)}",
        )
    return run


def _unknown_run(
    plan: RunPlan, phase: ResolvedPhase, mixture: Artefact, previous: Artefact | None
) -> Recipe:
    """The recipe of a run of which only this is known yet: what it would read and continue isn't made."""
    branch = [("branch", plan.diet.branch)] if plan.diet.branch else []
    inputs = [mixture.as_input("plan"), *([previous.as_input("previous")] if previous else [])]
    return Recipe(
        stage="runs",
        labels=(("specialist", plan.diet.specialist), *branch, ("phase", phase.name)),
        revision=UNKNOWN,
        inputs=tuple(inputs),
    )


def _planned(plan: RunPlan, phase: ResolvedPhase, recipe: Recipe) -> Artefact:
    run = plan.store.produce([recipe], lambda _: None)[0]
    plan.keep("runs", phase, run)
    return run


def wanted_of(phase: ResolvedPhase) -> list[list[RowsSpec]]:
    """The data sets of each serving in the servings' order, one a variant."""
    return [
        [
            RowsSpec(
                family=serving.family,
                base=serving.base or "",
                objective=serving.objective,
                variant=variant,
                row_length=serving.row_length,
                repositories=serving.repositories,
                imported=serving.imported,
                packer=serving.packer,
            )
            for variant in range(serving.variants)
        ]
        for serving in phase.servings
    ]


def _data_sets(phase: ResolvedPhase) -> list[RowsSpec]:
    """Data sets of all servings, each once."""
    return list(dict.fromkeys(each for variants in wanted_of(phase) for each in variants))


def tokens_per_step(plan: RunPlan) -> int:
    """The diet's; else the preset's, raised to whole slots of every phase: it is the same in all."""
    slots = math.lcm(*(phase.slot_length for phase in plan.phases))
    usual = preset(plan.diet.model).tokens_per_step
    return plan.diet.tokens_per_step or -(-usual // slots) * slots


def workers_of(plan: RunPlan) -> int:
    """Processes that build."""
    return plan.config.corpus.workers or len(os.sched_getaffinity(0))


def _lineages(built: Built) -> pl.LazyFrame:
    """The lineage of each document that is kept; structure is kept where its base is."""
    selected = [built.selection, *built.selections.values()]
    enriched = [
        each for each in built.documents if each.manifest.labels["family"] == ENRICHED_FAMILY
    ]
    names = ["document_id", "lineage"]
    kept = [
        frames.scan(each.path / "selection.parquet", [*names, "keep"]).filter("keep").select(names)
        for each in selected
    ]
    return pl.concat([*kept, *(frames.scan(each.files(), names) for each in enriched)])


def _spec_name(plan: RunPlan, phase: ResolvedPhase) -> str:
    """The anneal continues under the last phase's spec."""
    return plan.diet.phases[-1].phase if phase.is_anneal else phase.name
