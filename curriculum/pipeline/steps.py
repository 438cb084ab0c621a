"""The build and mix steps of a phase. Each step marks its artefact as current."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from curriculum.inspection.losses import require_documents
from curriculum.interop.huggingface import CARD_NAME, write_card
from curriculum.mixing.diet_files import name_diet_line
from curriculum.mixing.mix import mix
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.model.presets import preset
from curriculum.pipeline.attempts import mark_current
from curriculum.pipeline.context import Context
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.resume import OPTION, continued, left_out_before
from curriculum.pipeline.wanted_rows import data_sets, wanted_of
from curriculum.stages import (
    Built,
    Indexing,
    RowsSpec,
    Shard,
    Tokenizing,
    Workers,
    build,
    sample,
)
from curriculum.stages.tokens import foreign_tokenizer
from curriculum.store import Artefact
from curriculum.tokens.codec import Roles
from schemas.diet import TRAINED_TOKENIZER
from schemas.errors import MixtureError
from schemas.objectives import FixedSet
from schemas.progress import Progress


def build_phase(plan: RunPlan, phase: str, context: Context) -> Built:
    """Build the rows for the servings of a phase, and return them with everything that they are made of.

    Raises:
        CorpusError: if the corpus has no document for a serving. For a phase that renormalises shares, it
        is enough if one serving has documents. Dry runs don't raise.
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
    """Build the rows of several phases in one pass.

    The rows of each phase are the same as if it was built alone.
    """
    wanted = [data_set for phase in phases for data_set in data_sets(plan.phase(phase))]
    return _built(plan, list(dict.fromkeys(wanted)), (), context)


def build_measured(
    plan: RunPlan, measured: Sequence[RowsSpec], context: Context
) -> Mapping[RowsSpec, Mapping[FixedSet, Artefact]]:
    """Build the fixed sets in the formats of the data sets `measured`, with the tokenizer of a plan."""
    return _built(plan, (), measured, context).measured


def fixed_length(plan: RunPlan) -> int:
    """Return the row length of the fixed sets: the smallest row length in the phases file."""
    return min(length for spec in plan.specs.values() for length in spec.row_lengths)


def _built(
    plan: RunPlan, wanted: Sequence[RowsSpec], measured: Sequence[RowsSpec], context: Context
) -> Built:
    return build(
        plan.store,
        plan.corpus,
        wanted,
        fixed_length=fixed_length(plan),
        measured=measured,
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
    """Return the choice of the tokenizer in the diet of a plan.

    Raises:
        TokenizerError: if a given tokenizer isn't usable.
        StoreError: if a given tokenizer's artefact is damaged.
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
    """Build `number` documents of each family that a phase serves, for inspection before packing."""
    made = sample(
        plan.store,
        plan.corpus,
        data_sets(plan.phase(phase)),
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
    """Build the mixture of a phase: the selected rows in training order."""
    resolved = plan.phase(phase)
    resumed = plan.resume_point_of(resolved)
    progress = Progress(stage="mix", item=phase, done=0, total=1, unit="tasks")
    with name_diet_line(plan.config.specialist, plan.config.workspace):
        mixture = mix(
            plan.store,
            plan.diet,
            replace(resolved, without=excluded_rows(plan, resolved, built)),
            [
                [built.rows_of(variant).train for variant in variants]
                for variants in wanted_of(resolved)
            ],
            tokens_per_step=tokens_per_step(plan),
            seen=() if resumed else plan.seen_before(resolved),
            continued=continued(plan.store, resumed) if resumed else None,
            begins=lambda: context.watch(progress),
        )
    plan.keep("mixtures", resolved, mixture)
    if mixture.made:
        context.watch(replace(progress, done=1))
    return mixture


def excluded_rows(plan: RunPlan, phase: ResolvedPhase, built: Built) -> tuple[str, ...]:
    """Return the pack_ids to exclude: requested ones, and those that the run to continue excluded."""
    resumed = plan.resume_point_of(phase)
    before = left_out_before(plan.store, resumed) if resumed else ()
    rows = [built.rows_of(data_set).train for data_set in data_sets(phase)]
    asked = plan.without.packs_of(rows, built.documents)
    if resumed and plan.without and not asked and not plan.store.dry:
        raise MixtureError(
            OPTION,
            plan.config.resume.without_rows,
            cause=f"no row of {phase.name} is excluded by this value",
            cure="Use pack_ids of its plan, ids of its documents or one of their repositories",
        )
    return (*before, *asked)


def tokens_per_step(plan: RunPlan) -> int:
    """Return the tokens per step of the diet, or else of the model preset.

    The number is rounded up, so that a step has whole slots in every phase.
    """
    slots = math.lcm(*(phase.slot_length for phase in plan.phases))
    usual = preset(plan.diet.model).tokens_per_step
    return plan.diet.tokens_per_step or -(-usual // slots) * slots


def workers_of(plan: RunPlan) -> int:
    """Return the number of build processes."""
    return plan.config.corpus.workers or len(os.sched_getaffinity(0))
