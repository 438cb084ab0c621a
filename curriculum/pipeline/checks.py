"""Check of a plan against its rows, or against an estimate for rows that aren't built."""

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from curriculum.mixing.diet_check import DietSupply, PhaseCheck, PhaseSupply, below_any_step
from curriculum.mixing.diet_files import placed_shortage
from curriculum.mixing.mix import rows_taken
from curriculum.mixing.repetition import ReadTokens
from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing, phase_tokens
from curriculum.mixing.row_supply import Supply, estimate_supply, read_supply
from curriculum.mixing.token_budgets import TokenBudgets, count_budgets
from curriculum.pipeline.context import Context
from curriculum.pipeline.estimated_tokens import EstimatedRows, EstimatedTokens
from curriculum.pipeline.execute import Scope, execute, run_in_process, selected
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.resume import continued
from curriculum.pipeline.run_config import command
from curriculum.pipeline.steps import excluded_rows, tokenizing_of, tokens_per_step
from curriculum.pipeline.wanted_rows import wanted_of
from curriculum.stages import Built, RowSet
from curriculum.stages.indexes import indexes_for
from curriculum.store import Artefact, Store
from curriculum.supply import DocumentKind, Estimate, EstimateTask, known_estimate
from schemas.errors import MixtureError
from schemas.families import CHAT_FAMILY

USUAL_SHARE = 0.01
"""Share of a repository's commits that an estimate reads by default."""
Sets = tuple[RowSet, ...]
"""Rows of one serving, one RowSet per variant."""
Estimated = Callable[[Sequence[DocumentKind]], Estimate | None]
"""Function that returns the estimate for some kinds of rows, or None if it is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedPlan:
    """Phases of a plan, compared with their rows."""

    supply: DietSupply
    phases: tuple[PhaseCheck, ...]
    sets: Mapping[str, tuple[Sets, ...]]
    """Rows of each serving, by phase."""
    estimate: Estimate | None
    """Estimate for rows that aren't built; None if all rows are built, or if it is unknown."""
    unknown: Mapping[str, tuple[ResolvedServing, ...]]
    """Phases that couldn't be checked, each with the servings whose supply of rows is unknown."""
    below_a_step: tuple[MixtureError, ...]
    """Errors of phases that couldn't be checked, but are too small for one step whatever their rows."""

    @property
    def is_whole(self) -> bool:
        """True if all rows are built."""
        return self.estimate is None and not self.unknown

    def is_built(self, phase: str, serving: int) -> bool:
        """Return True if the rows of a serving are built."""
        return not is_planned(self.sets[phase][serving])

    @property
    def refusal(self) -> MixtureError | None:
        """Error with which a run would certainly end, or None if there is none."""
        certain = [phase.fault for phase in self.phases if phase.fault and phase.is_certain]
        return next(iter([*certain, *self.below_a_step]), None)


def check_plan(plan: RunPlan, built: Mapping[str, Built], estimated: Estimated) -> CheckedPlan:
    """Compare the phases of a dry plan, in order, with the rows of a dry build.

    Faults are part of the result and aren't raised.
    """
    assert plan.store.dry
    phases = [
        replace(phase, without=excluded_rows(plan, phase, built[phase.name]))
        for phase in map(plan.phase, built)
    ]
    sets = {phase.name: _sets(phase, built[phase.name]) for phase in phases}
    kinds = [
        kind_of(serving)
        for phase in phases
        for serving, rows in zip(phase.servings, sets[phase.name], strict=True)
        if is_planned(rows)
    ]
    found = estimated(sorted(set(kinds))) if kinds else None
    known = frozenset[DocumentKind]() if found is None else found.kinds
    unknown = {
        phase.name: lacking
        for phase in phases
        if (lacking := tuple(_lacking(phase, sets[phase.name], known)))
    }
    listed = [phase for phase in phases if phase.name not in unknown]
    supply = _supply(plan, listed, sets, found, is_whole=not unknown)
    return CheckedPlan(
        supply=supply,
        phases=tuple(_placed(plan, phase) for phase in supply.check()),
        sets=sets,
        estimate=found,
        unknown=unknown,
        below_a_step=tuple(_below_a_step(plan, unknown)),
    )


def _below_a_step(plan: RunPlan, names: Collection[str]) -> Iterator[MixtureError]:
    """Yield an error for each phase that is too small for one step, except for phases that resume a run."""
    tokens_of = functools.partial(phase_tokens, plan.diet)
    for phase in map(plan.phase, names):
        if plan.resume_point_of(phase):
            continue
        if fault := below_any_step(phase, tokens_of, tokens_per_step(plan)):
            yield placed_shortage(plan.config.specialist, fault, plan.config.workspace)


def _placed(plan: RunPlan, check: PhaseCheck) -> PhaseCheck:
    """Return the check of a phase. If it has a fault, the fault also names file and line of the diet."""
    if check.fault is None:
        return check
    fault = placed_shortage(plan.config.specialist, check.fault, plan.config.workspace)
    return replace(check, fault=fault)


def diet_budgets(plan: RunPlan, found: CheckedPlan) -> TokenBudgets:
    """Return how many tokens a diet would read at several budgets.

    The estimate stands in for rows that aren't built.
    """
    servings = [
        (serving, rows)
        for check in found.phases
        for serving, rows in zip(check.phase.servings, found.sets[check.phase.name], strict=True)
    ]
    built = [row.train for _, rows in servings if not is_planned(rows) for row in rows]
    without = {pack for phase in found.phases for pack in phase.phase.without}
    exact = ReadTokens(built, seed=plan.diet.order_seed, without=sorted(without))
    if found.estimate is None:
        return count_budgets(found.supply, exact, plan.diet.max_token_repetition)
    estimated = (
        EstimatedRows(
            key=row.train.key,
            row_length=serving.row_length,
            lines=found.estimate.lines_of(kind_of(serving), serving.repositories),
        )
        for serving, rows in servings
        if is_planned(rows)
        for row in rows
    )
    read = EstimatedTokens(estimated, exact)
    return count_budgets(found.supply, read, plan.diet.max_token_repetition)


def known_supply(plan: RunPlan, built: Mapping[str, Built]) -> CheckedPlan:
    """Check the phases of a dry plan against built rows and cached estimates. No history is read."""

    def known(kinds: Sequence[DocumentKind]) -> Estimate | None:
        return known_estimate(plan_estimate(plan, kinds, USUAL_SHARE), plan.store)

    return check_plan(plan, built, known)


def dry_build(plan: RunPlan, names: Sequence[str], context: Context) -> dict[str, Built]:
    """Return what builds of the phases `names` would give, with existing and planned artefacts."""
    events = (
        event
        for name in names
        for event in execute(
            plan, run_in_process(context), Scope(until="build", phase=name), context
        )
    )
    return {event.phase: event.built for event in events if event.built is not None}


def require_steps(plan: RunPlan, scope: Scope, context: Context) -> None:
    """Raise, before a build, if some phase certainly has too few tokens for one step.

    Rows that aren't built are assumed to be half full, which is the worst case of packing.

    Raises:
        MixtureError: naming the phase and the smallest token budget that is sufficient.
    """
    step, names = tokens_per_step(plan), selected(plan, scope)
    if all(plan.phase(name).tokens >= step for name in names):
        return
    dry = replace(plan, store=Store(plan.store.root, dry=True), planned={})
    built = dry_build(replace(dry, resume=None), names, context)
    found = check_plan(dry, built, lambda _: None)
    if found.refusal is not None:
        raise found.refusal


def supply_warnings(plan: RunPlan, found: CheckedPlan, names: Collection[str]) -> Iterator[str]:
    """Yield warnings for the phases `names` that have too few rows, with the consequences."""
    for check in (phase for phase in found.phases if phase.phase.name in names):
        yield from shortages(check)
        if check.fault is not None and not check.is_certain:
            yield f"by the estimate, this will be refused: {check.fault}"
        for line in check.warnings:
            yield f"{check.phase.name}: {line}"
    unknown = {name: found.unknown[name] for name in names if name in found.unknown}
    if unknown:
        titles = dict.fromkeys(
            serving.title for servings in unknown.values() for serving in servings
        )
        yield (
            f"{', '.join(unknown)}: the supply of {', '.join(titles)} is unknown; estimate it with "
            f"`{command('diet check', plan.config)}`"
        )


def shortages(check: PhaseCheck) -> Iterator[str]:
    """Yield one sentence for each serving with too few rows.

    The sentence states the requested tokens, the available tokens, and the consequence.
    """
    phase = check.phase
    how = f"{phase.name}: {'by the estimate, ' if check.is_estimate else ''}"
    for serving in phase.servings:
        own = [supply for supply in check.held if supply.stratum.serving.index == serving.index]
        short = [supply for supply in own if supply.is_short]
        if own and not short:
            continue
        share = math.fsum(supply.stratum.share for supply in short) if own else serving.share
        asked = round(share * phase.tokens)
        there = sum(supply.available for supply in short)
        most = round(phase.max_repetition * there)
        domains = ", ".join(supply.stratum.domain for supply in short)
        where = f", domain {domains}" if len(short) < len(own) else ""
        have = (
            f"{there:,} available, {most:,} at max_repetition {phase.max_repetition:g}"
            if there
            else "no rows are available"
        )
        about = "about " if check.is_estimate and there else ""
        yield (
            f"{how}{serving.title}{where}: {asked:,} tokens requested, {about}{have}; "
            f"{_consequence(check, serving.index)}"
        )


def _consequence(check: PhaseCheck, serving: int) -> str:
    if not check.served:
        return "the phase will be refused"
    share = check.phase.servings[serving].share
    served = math.fsum(
        stratum.served for stratum in check.served if stratum.serving.index == serving
    )
    return f"its share of {share:.3g} becomes {served:.3g}, and the other shares grow"


def kind_of(serving: ResolvedServing) -> DocumentKind:
    """Return the kind of rows that a serving needs."""
    family = serving.base or serving.family
    score = "all" if family == CHAT_FAMILY else serving.score
    return DocumentKind(family=family, row_length=serving.row_length, score=score)


def plan_estimate(plan: RunPlan, kinds: Sequence[DocumentKind], share: float) -> EstimateTask:
    """Return the task that estimates `kinds` of rows in a plan's corpus, reading a `share` of its commits."""
    return EstimateTask.from_corpus(
        plan.corpus,
        kinds,
        tokenizing=tokenizing_of(plan),
        share=share,
        sources=plan.sources,
        indexes=indexes_for(plan.store, plan.corpus, {kind.family for kind in kinds}, plan.sources),
    )


def is_planned(rows: Sets) -> bool:
    """Return True if some of the rows aren't built."""
    return any(row.train.planned for row in rows)


def _sets(phase: ResolvedPhase, built: Built) -> tuple[Sets, ...]:
    return tuple(
        tuple(built.rows_of(variant) for variant in variants) for variants in wanted_of(phase)
    )


def _lacking(
    phase: ResolvedPhase, sets: Sequence[Sets], known: frozenset[DocumentKind]
) -> Iterator[ResolvedServing]:
    """Yield the servings of a phase whose rows are neither built nor estimated."""
    for serving, rows in zip(phase.servings, sets, strict=True):
        if is_planned(rows) and kind_of(serving) not in known:
            yield serving


def _supply(
    plan: RunPlan,
    listed: Sequence[ResolvedPhase],
    sets: Mapping[str, tuple[Sets, ...]],
    found: Estimate | None,
    *,
    is_whole: bool,
) -> DietSupply:
    """Return the phases with their supplies, without rows that a continued run has already read."""
    names = [phase.name for phase in plan.phases]
    places = [names.index(phase.name) for phase in listed]
    resumed = continued(plan.store, plan.resume) if plan.resume else None
    spent = [resumed.tokens if resumed and plan.resume_point_of(phase) else 0 for phase in listed]

    def tokens_of(budget: int) -> list[int]:
        tokens = phase_tokens(plan.diet, budget)
        return [max(0, tokens[at] - used) for at, used in zip(places, spent, strict=True)]

    rows = [variant.train for name in sets for variants in sets[name] for variant in variants]
    seen = resumed.seen if resumed else plan.seen_before(listed[0]) if listed else ()
    return DietSupply(
        listed=tuple(
            PhaseSupply(
                phase=replace(phase, tokens=tokens),
                supplies=_supplies(phase, sets[phase.name], found),
                is_estimate=not is_whole or any(map(is_planned, sets[phase.name])),
            )
            for phase, tokens in zip(listed, tokens_of(plan.diet.token_budget), strict=True)
        ),
        tokens_of=tokens_of,
        budget=plan.diet.token_budget,
        tokens_per_step=tokens_per_step(plan),
        seed=plan.diet.order_seed,
        taken=rows_taken(seen, [rows]),
    )


def _supplies(
    phase: ResolvedPhase, sets: Sequence[Sets], found: Estimate | None
) -> list[list[Supply]]:
    """Return the supplies of each serving, one per variant. The estimate is the same for all variants."""
    supplies = []
    for serving, rows in zip(phase.servings, sets, strict=True):
        if not is_planned(rows):
            supplies.append([_read(row.train, phase.without) for row in rows])
            continue
        assert found is not None
        kind = kind_of(serving)
        amounts = {name: found.total(kind, name, serving.repositories)[0] for name in found.domains}
        supplies.append(
            [estimate_supply(amounts, serving.row_length, key=row.train.key) for row in rows]
        )
    return supplies


def _read(rows: Artefact, without: Sequence[str]) -> Supply:
    return read_supply(rows.shards(), key=rows.key, without=without)
