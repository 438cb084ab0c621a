"""Check of a diet against the available rows, before anything is mixed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from curriculum.mixing.resolve import ResolvedPhase
from curriculum.mixing.row_plan import (
    ROW_GROUP,
    Planner,
    Totals,
    WholeSteps,
    check_step,
    count_plan,
    less_than_a_step,
    take_whole_steps,
)
from curriculum.mixing.row_supply import Supply
from curriculum.mixing.strata import Stratum, Taken, demand, missing_domains, within_supply
from schemas.errors import MixtureError

MAX_PLANNED = 1 << 20
"""Maximum number of rows in a phase whose steps are counted on a plan.

The steps of a longer phase are computed from the average step.
"""
MAX_TOKENS = 1 << 60
"""Number of tokens above any token budget."""
HALF_FULL = 2
"""Factor by which rows that aren't built yet may hold fewer tokens than full rows.

An estimate assumes full rows. Best-fit packing of whole documents leaves rows at least half full.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingCheck:
    """Demand and supply of one serving in one domain."""

    phase: str
    stratum: Stratum
    asked: int
    """Number of valid tokens that the diet asks for."""
    limit: float
    """The phase's max_repetition."""

    @property
    def available(self) -> int:
        """Valid tokens that one pass over the rows gives."""
        return self.stratum.tokens

    @property
    def repetition(self) -> float:
        """Number of times that each row must be read to meet the demand."""
        return self.asked / self.available

    @property
    def is_short(self) -> bool:
        """True if rows must be read more often than the phase's max_repetition allows."""
        return self.repetition > self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseSupply:
    """A phase with the available rows of its servings.

    `supplies` has one sequence per serving, with one Supply per variant of the serving.
    """

    phase: ResolvedPhase
    supplies: Sequence[Sequence[Supply]]
    is_estimate: bool = False
    """True if some rows aren't built yet, or the rows that earlier phases take aren't known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCheck:
    """Result of checking a phase against its available rows."""

    phase: ResolvedPhase
    held: tuple[ServingCheck, ...]
    served: tuple[Stratum, ...]
    """The strata with the shares that they get; empty if the phase can't be served."""
    fault: MixtureError | None
    """The error, if the phase can't be served."""
    warnings: tuple[str, ...]
    whole: WholeSteps | None
    """Whole steps within the phase's tokens; None if the phase can't be served."""
    is_counted: bool
    """True if the steps were counted on a plan rather than computed by division."""
    is_estimate: bool
    """True if some rows aren't built yet."""

    @property
    def is_below_a_step(self) -> bool:
        """True if the phase has fewer tokens than its first training step needs."""
        return self.whole is not None and not self.whole.steps

    @property
    def is_certain(self) -> bool:
        """True if a run is sure to give the same result.

        A check of rows that aren't built yet is certain only if the phase has fewer tokens than one step.
        """
        return not self.is_estimate or self.is_below_a_step


def below_any_step(
    phase: ResolvedPhase, tokens_of: Callable[[int], Sequence[int]], tokens_per_step: int
) -> MixtureError | None:
    """Return an error if `phase` can't fill one step even with half-full rows, else None.

    The check needs no rows: it assumes that rows are at least half full. `tokens_of` returns the tokens of
    all phases at a given token budget.
    """
    if phase.tokens * HALF_FULL >= tokens_per_step:
        return None
    smallest = _border(lambda budget: min(tokens_of(budget)) >= tokens_per_step, 0)
    return MixtureError(
        f"phase {phase.name}",
        f"{phase.tokens:,} tokens",
        cause=f"one step has {tokens_per_step:,} row positions, and rows are at least half full",
        cure=f"Raise token_budget to {smallest:,}, with which every phase has a step, or lower "
        "tokens_per_step",
        location=phase.location,
    )


Fit = Literal["small", "fits", "large"]
"""Result of trying a budget: below one step of some phase, within limits, or above the supply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budgets:
    """The smallest and the largest token budget that fit a diet; None if no budget fits."""

    smallest: int | None
    largest: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DietSupply:
    """All phases of a diet in order with their available rows, to be checked at any token budget."""

    listed: tuple[PhaseSupply, ...]
    tokens_of: Callable[[int], Sequence[int]]
    """Function that returns the tokens of each phase at a token budget."""
    budget: int
    """The diet's current token budget."""
    tokens_per_step: int
    seed: int
    taken: Taken = field(default_factory=dict)
    """Number of rows that plans took before the first of these phases."""

    def check(self) -> tuple[PhaseCheck, ...]:
        """Check each phase against its rows; faults are returned, not raised."""
        asked = [_asked(supply) for supply in self.listed]
        tokens = self.tokens_of(self.budget)
        found = self._steps(asked, tokens, count_all=True)
        is_small = any(steps is not None and not steps.whole.steps for steps in found)
        smallest = self.budgets().smallest if is_small else None
        return tuple(
            self._checked(supply, own, steps, smallest)
            for supply, own, steps in zip(self.listed, asked, found, strict=True)
        )

    def rows_until(self, budget: int) -> Taken | None:
        """Return approximately how many rows the phases draw at `budget`; None if it can't be served."""
        tokens, taken = self.tokens_of(budget), dict(self.taken)
        served = self._served([_asked(supply) for supply in self.listed], tokens)
        if served is None:
            return None
        for strata, amount in zip(served, tokens, strict=True):
            for stratum in strata:
                _draw(taken, stratum, amount)
        return taken

    def budgets(self) -> Budgets:
        """Return the smallest and the largest token budget that fit all phases.

        If the current budget is too small, `smallest` is the next larger budget that fits. `largest` is
        rounded down to whole thousands if the rounded budget still fits. If rows aren't built yet, `smallest`
        fits whatever part of their positions will be filled.
        """
        asked = [_asked(supply) for supply in self.listed]

        def fit(budget: int) -> Fit | None:
            return self._fit(asked, self.tokens_of(budget))

        def is_large(budget: int) -> bool:
            return self._served(asked, self.tokens_of(budget)) is None

        if (now := fit(self.budget)) is None:
            return Budgets(smallest=None, largest=None)
        smallest = _border(lambda at: fit(at) != "small", self.budget if now == "small" else 0)
        if fit(smallest) != "fits":
            return Budgets(smallest=None, largest=None)
        largest = _border(is_large, smallest) - 1
        whole = largest // 1000 * 1000
        return Budgets(smallest=smallest, largest=whole if fit(whole) == "fits" else largest)

    def _fit(self, asked: Sequence["_Asked"], tokens: Sequence[int]) -> Fit | None:
        if any(demanded.fault for demanded in asked):
            return None
        if any(self._step_fault(supply.phase) for supply in self.listed):
            return None
        if self._served(asked, tokens) is None:
            return "large"
        if min(tokens) >= self.tokens_per_step:
            return "fits"
        steps = self._steps(asked, tokens, count_all=False)
        return "fits" if all(step and step.whole.steps for step in steps) else "small"

    def _served(
        self, asked: Sequence["_Asked"], tokens: Sequence[int]
    ) -> list[tuple[Stratum, ...]] | None:
        """Return the strata of each phase with the shares that they get; None if a supply is exceeded."""
        served = [
            _served(supply.phase, own, amount)
            for supply, own, amount in zip(self.listed, asked, tokens, strict=True)
        ]
        kept = [strata for strata in served if not isinstance(strata, MixtureError)]
        return kept if len(kept) == len(served) else None

    def _steps(
        self, asked: Sequence["_Asked"], tokens: Sequence[int], *, count_all: bool
    ) -> list["_Steps | None"]:
        """Return the whole steps of each phase, given that earlier phases have taken their rows.

        If this phase or a later one may have less than one step, the steps of the phase are counted on a
        plan. With `count_all`, the steps of every phase of up to MAX_PLANNED rows are counted too. The steps
        of all other phases are computed by division.
        """
        taken, found = dict(self.taken), list[_Steps | None]()
        below = [amount < self.tokens_per_step for amount in tokens]
        for at, (supply, own, amount) in enumerate(zip(self.listed, asked, tokens, strict=True)):
            served = _served(supply.phase, own, amount)
            if isinstance(served, MixtureError) or self._step_fault(supply.phase):
                found.append(None)
                continue
            rows = amount / min(one.row_length for one in supply.phase.servings)
            if any(below[at:]) or (count_all and rows <= MAX_PLANNED):
                totals = self._planned(supply, _continued(served, taken), amount)
                found.append(_Steps(whole=totals.whole, is_counted=True))
                _take(taken, served, totals)
            else:
                found.append(_Steps(whole=self._divided(supply, served, amount), is_counted=False))
        return found

    def _planned(self, supply: PhaseSupply, strata: Sequence[Stratum], tokens: int) -> Totals:
        slot = supply.phase.slot_length
        planner = Planner(strata, supply.supplies, slot_length=slot, seed=self.seed)
        rows = tokens // min(one.serving.row_length for one in strata)
        pieces = take_whole_steps(
            planner.pieces(min(rows, ROW_GROUP)),
            budget=tokens,
            slots_per_step=self.tokens_per_step // slot,
            max_steps=supply.phase.max_steps(tokens, self.tokens_per_step),
        )
        return count_plan(pieces, strata, supply.supplies)

    def _divided(self, supply: PhaseSupply, strata: Sequence[Stratum], tokens: int) -> WholeSteps:
        slot = supply.phase.slot_length
        slots_per_token = math.fsum(one.served * one.slots_per_token(slot) for one in strata)
        of_a_step = self.tokens_per_step / slot / slots_per_token
        steps = supply.phase.max_steps(tokens, self.tokens_per_step)
        steps = int(tokens / of_a_step) if steps is None else steps
        return WholeSteps(steps=steps, tokens=round(steps * of_a_step), first=round(of_a_step))

    def _step_fault(self, phase: ResolvedPhase) -> MixtureError | None:
        try:
            check_step(phase, self.tokens_per_step)
        except MixtureError as found:
            return found
        return None

    def _checked(
        self, supply: PhaseSupply, asked: "_Asked", steps: "_Steps | None", smallest: int | None
    ) -> PhaseCheck:
        phase = supply.phase
        served = _served(phase, asked, phase.tokens)
        fault = served if isinstance(served, MixtureError) else self._step_fault(phase)
        warnings = [*missing_domains(phase, asked.strata)]
        if fault is None and steps is not None and not steps.whole.steps:
            first = steps.whole.first
            least = first / HALF_FULL if supply.is_estimate else first
            if phase.tokens < least:
                fault = less_than_a_step(
                    phase,
                    first,
                    tokens_per_step=self.tokens_per_step,
                    cure="Lower tokens_per_step or enlarge the corpus: no token_budget fits"
                    if smallest is None
                    else f"Raise token_budget to {smallest:,}, the smallest that fits every phase, or "
                    "lower tokens_per_step",
                )
            else:
                warnings.append(
                    f"{phase.tokens:,} tokens may be less than one step of {self.tokens_per_step:,} "
                    "positions: its rows aren't built, so it isn't known how full they are"
                )
        return PhaseCheck(
            phase=phase,
            held=tuple(
                ServingCheck(
                    phase=phase.name,
                    stratum=one,
                    asked=round(one.share * phase.tokens),
                    limit=phase.max_repetition,
                )
                for one in asked.strata
            ),
            served=() if isinstance(served, MixtureError) else served,
            fault=fault,
            warnings=tuple(warnings),
            whole=steps.whole if steps else None,
            is_counted=bool(steps and steps.is_counted),
            is_estimate=supply.is_estimate,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """Strata that a phase asks for, independent of the phase's number of tokens."""

    strata: tuple[Stratum, ...]
    fault: MixtureError | None
    """The error, if a serving has no rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Steps:
    whole: WholeSteps
    is_counted: bool


def _asked(supply: PhaseSupply) -> _Asked:
    endless = replace(supply.phase, max_repetition=math.inf, tokens=max(supply.phase.tokens, 1))
    strata: tuple[Stratum, ...] = ()
    try:
        strata = demand(replace(endless, on_shortage="renormalise"), supply.supplies)
        demand(endless, supply.supplies)
    except MixtureError as found:
        return _Asked(strata=strata, fault=found)
    return _Asked(strata=strata, fault=None)


def _served(phase: ResolvedPhase, asked: _Asked, tokens: int) -> tuple[Stratum, ...] | MixtureError:
    if asked.fault is not None:
        return asked.fault
    try:
        return within_supply(replace(phase, tokens=tokens), asked.strata)
    except MixtureError as found:
        return found


def _continued(strata: Sequence[Stratum], taken: Taken) -> tuple[Stratum, ...]:
    """Return the strata with `drawn_before` set to the rows that earlier phases have taken."""
    return tuple(
        replace(
            stratum,
            variants=tuple(
                replace(one, drawn_before=taken.get((one.key, stratum.domain), 0))
                for one in stratum.variants
            ),
        )
        for stratum in strata
    )


def _take(taken: dict[tuple[str, str], int], strata: Sequence[Stratum], totals: Totals) -> None:
    """Add to `taken` the rows that a plan took or skipped."""
    for stratum, rows, passed in zip(strata, totals.rows_of, totals.passed_of, strict=True):
        for variant, number in zip(stratum.variants, rows + passed, strict=True):
            place = (variant.key, stratum.domain)
            taken[place] = taken.get(place, 0) + int(number)


def _draw(taken: dict[tuple[str, str], int], stratum: Stratum, tokens: int) -> None:
    """Add to `taken` about as many rows of `stratum` as `tokens` need.

    The variants are read in turn, one whole pass after another.
    """
    per_row = sum(variant.tokens for variant in stratum.variants) / sum(
        variant.available for variant in stratum.variants
    )
    places = [(variant.key, stratum.domain) for variant in stratum.variants]
    sizes = [len(variant.rows) for variant in stratum.variants]
    # Rounds in which every variant is read once don't change which variant comes next. So all complete rounds
    # are added at once.
    rounds, left = divmod(round(stratum.served * tokens / per_row), sum(sizes))
    for place, size in zip(places, sizes, strict=True):
        taken[place] = taken.get(place, 0) + rounds * size
    while left:
        passes = [taken.get(place, 0) // size for place, size in zip(places, sizes, strict=True)]
        at = passes.index(min(passes))
        seen = taken.get(places[at], 0)
        taken[places[at]] = seen + min(left, sizes[at] - seen % sizes[at])
        left -= taken[places[at]] - seen


def _border(holds: Callable[[int], bool], below: int) -> int:
    """Return the first number above `below` at which `holds` becomes true.

    The number is over MAX_TOKENS if `holds` is true nowhere below it.

    >>> _border(lambda at: at >= 917, 0), _border(lambda at: at >= 4, 3)
    (917, 4)
    """
    low, high = below, max(2 * below, below + 1)
    while not holds(high):
        if high > MAX_TOKENS:
            return high
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
