"""Check of a diet against the rows that there are, before anything is mixed."""

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
    within,
)
from curriculum.mixing.row_supply import Supply
from curriculum.mixing.strata import Stratum, Taken, demand, within_supply, without_rows
from schemas.errors import MixtureError

MAX_PLANNED = 1 << 20
"""Rows up to which a phase is planned to count its steps; those of longer ones are divided out."""
MAX_TOKENS = 1 << 60
"""More than any budget."""
HALF_FULL = 2
"""A step of rows that aren't built may hold fewer tokens than the estimate's full rows by this factor:
whole documents packed best-fit leave rows half full at worst."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingCheck:
    """One serving in one domain: what is asked of it and what there is."""

    phase: str
    stratum: Stratum
    asked: int
    """Valid tokens."""
    limit: float
    """max_repetition of the phase."""

    @property
    def available(self) -> int:
        """Valid tokens of one pass."""
        return self.stratum.tokens

    @property
    def repetition(self) -> float:
        """Times that each row is seen."""
        return self.asked / self.available

    @property
    def is_short(self) -> bool:
        """Return True if that is more often than the phase allows."""
        return self.repetition > self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseSupply:
    """A phase with the rows of its servings, one supply a variant."""

    phase: ResolvedPhase
    supplies: Sequence[Sequence[Supply]]
    is_estimate: bool = False
    """True if some of them aren't built, or aren't known of a phase before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCheck:
    """A phase held against its rows."""

    phase: ResolvedPhase
    held: tuple[ServingCheck, ...]
    served: tuple[Stratum, ...]
    """The same strata with the shares that they get; empty where the phase can't be served."""
    fault: MixtureError | None
    """Reason why it can't be served, with the cure."""
    warnings: tuple[str, ...]
    whole: WholeSteps | None
    """Whole steps within its tokens; None where it can't be served."""
    is_counted: bool
    """True if the steps were counted on a plan, rather than divided out."""
    is_estimate: bool
    """True if some of its rows aren't built."""

    @property
    def is_below_a_step(self) -> bool:
        """Return True if its tokens don't reach the end of its first step."""
        return self.whole is not None and not self.whole.steps

    @property
    def is_certain(self) -> bool:
        """Return True if a run would find the same; an estimate is sure of a phase far below a step."""
        return not self.is_estimate or self.is_below_a_step


def below_any_step(
    phase: ResolvedPhase, tokens_of: Callable[[int], Sequence[int]], tokens_per_step: int
) -> MixtureError | None:
    """Return the error of a phase that has fewer tokens than a step of half full rows; None for another.

    Nothing needs to be known of its rows. `tokens_of` gives the tokens of all phases at some token budget.
    """
    if phase.tokens * HALF_FULL >= tokens_per_step:
        return None
    smallest = _border(lambda budget: min(tokens_of(budget)) >= tokens_per_step, 0)
    return MixtureError(
        f"phase {phase.name}",
        f"{phase.tokens:,} tokens",
        cause=f"one step has {tokens_per_step:,} row positions, and rows are half full at least",
        cure=f"Raise token_budget to {smallest:,}, with which every phase has a step, or lower "
        "tokens_per_step",
        location=phase.location,
    )


Fit = Literal["small", "fits", "large"]
"""A budget with too little for a step of some phase; one that fits; one with more than there is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budgets:
    """The smallest and the largest token budget of a diet that fit; None where none does."""

    smallest: int | None
    largest: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DietSupply:
    """Phases in their order, with the rows that there are, at any number of tokens."""

    listed: tuple[PhaseSupply, ...]
    tokens_of: Callable[[int], Sequence[int]]
    """Tokens of each phase at some token budget."""
    budget: int
    """The present one."""
    tokens_per_step: int
    seed: int
    taken: Taken = field(default_factory=dict)
    """Rows that plans before the first phase took."""

    def check(self) -> tuple[PhaseCheck, ...]:
        """Hold each phase against its rows; nothing is raised."""
        asked = [_asked(each) for each in self.listed]
        tokens = self.tokens_of(self.budget)
        found = self._steps(asked, tokens, count_all=True)
        is_small = any(each is not None and not each.whole.steps for each in found)
        smallest = self.budgets().smallest if is_small else None
        return tuple(
            self._checked(each, own, steps, smallest)
            for each, own, steps in zip(self.listed, asked, found, strict=True)
        )

    def rows_until(self, budget: int) -> Taken | None:
        """Return about how many rows are drawn until the end of a budget; None where it can't be served."""
        tokens, taken = self.tokens_of(budget), dict(self.taken)
        served = self._served([_asked(each) for each in self.listed], tokens)
        if served is None:
            return None
        for strata, amount in zip(served, tokens, strict=True):
            for each in strata:
                _draw(taken, each, amount)
        return taken

    def budgets(self) -> Budgets:
        """The budgets that fit.

        The smallest is the least above a present one that is too small; the largest is in whole thousands
        where that fits too. Of rows that aren't built the smallest fits however full they will be.
        """
        asked = [_asked(each) for each in self.listed]

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
        if any(each.fault for each in asked):
            return None
        if any(self._step_fault(each.phase) for each in self.listed):
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
        """The strata of each phase with their shares; None where one asks for more than there is."""
        served = [
            _served(each.phase, own, amount)
            for each, own, amount in zip(self.listed, asked, tokens, strict=True)
        ]
        kept = [each for each in served if not isinstance(each, MixtureError)]
        return kept if len(kept) == len(served) else None

    def _steps(
        self, asked: Sequence["_Asked"], tokens: Sequence[int], *, count_all: bool
    ) -> list["_Steps | None"]:
        """The whole steps of each phase, after the rows that the phases before took.

        They are counted where a phase, or one after it, may be below a step; `count_all` also counts those
        of all plans of moderate length.
        """
        taken, found = dict(self.taken), list[_Steps | None]()
        below = [amount < self.tokens_per_step for amount in tokens]
        for at, (each, own, amount) in enumerate(zip(self.listed, asked, tokens, strict=True)):
            served = _served(each.phase, own, amount)
            if isinstance(served, MixtureError) or self._step_fault(each.phase):
                found.append(None)
                continue
            rows = amount / min(one.row_length for one in each.phase.servings)
            if any(below[at:]) or (count_all and rows <= MAX_PLANNED):
                totals = self._planned(each, _continued(served, taken), amount)
                found.append(_Steps(whole=totals.whole, is_counted=True))
                _take(taken, served, totals)
            else:
                found.append(_Steps(whole=self._divided(each, served, amount), is_counted=False))
        return found

    def _planned(self, each: PhaseSupply, strata: Sequence[Stratum], tokens: int) -> Totals:
        slot = each.phase.slot_length
        planner = Planner(strata, each.supplies, slot_length=slot, seed=self.seed)
        rows = tokens // min(one.serving.row_length for one in strata)
        pieces = within(
            planner.pieces(min(rows, ROW_GROUP)),
            budget=tokens,
            slots_per_step=self.tokens_per_step // slot,
            max_steps=each.phase.max_steps(tokens, self.tokens_per_step),
        )
        return count_plan(pieces, strata, each.supplies)

    def _divided(self, each: PhaseSupply, strata: Sequence[Stratum], tokens: int) -> WholeSteps:
        slot = each.phase.slot_length
        slots_per_token = math.fsum(one.served * one.slots_per_token(slot) for one in strata)
        of_a_step = self.tokens_per_step / slot / slots_per_token
        steps = each.phase.max_steps(tokens, self.tokens_per_step)
        steps = int(tokens / of_a_step) if steps is None else steps
        return WholeSteps(steps=steps, tokens=round(steps * of_a_step), first=round(of_a_step))

    def _step_fault(self, phase: ResolvedPhase) -> MixtureError | None:
        try:
            check_step(phase, self.tokens_per_step)
        except MixtureError as found:
            return found
        return None

    def _checked(
        self, each: PhaseSupply, asked: "_Asked", steps: "_Steps | None", smallest: int | None
    ) -> PhaseCheck:
        phase = each.phase
        served = _served(phase, asked, phase.tokens)
        fault = served if isinstance(served, MixtureError) else self._step_fault(phase)
        warnings = [*without_rows(phase, asked.strata)]
        if fault is None and steps is not None and not steps.whole.steps:
            first = steps.whole.first
            least = first / HALF_FULL if each.is_estimate else first
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
            is_estimate=each.is_estimate,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """Demand of a phase on its rows, at any number of tokens."""

    strata: tuple[Stratum, ...]
    fault: MixtureError | None
    """The error of a serving without rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Steps:
    whole: WholeSteps
    is_counted: bool


def _asked(each: PhaseSupply) -> _Asked:
    endless = replace(each.phase, max_repetition=math.inf, tokens=max(each.phase.tokens, 1))
    strata: tuple[Stratum, ...] = ()
    try:
        strata = demand(replace(endless, on_shortage="renormalise"), each.supplies)
        demand(endless, each.supplies)
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
    """Strata of which these rows came before."""
    return tuple(
        replace(
            each,
            variants=tuple(
                replace(one, drawn_before=taken.get((one.key, each.domain), 0))
                for one in each.variants
            ),
        )
        for each in strata
    )


def _take(taken: dict[tuple[str, str], int], strata: Sequence[Stratum], totals: Totals) -> None:
    """Add the rows that a plan took, those that it passed over among them."""
    for each, rows, passed in zip(strata, totals.rows_of, totals.passed_of, strict=True):
        for variant, number in zip(each.variants, rows + passed, strict=True):
            place = (variant.key, each.domain)
            taken[place] = taken.get(place, 0) + int(number)


def _draw(taken: dict[tuple[str, str], int], stratum: Stratum, tokens: int) -> None:
    """Add about as many rows as a stratum has of so many tokens, pass after pass over its variants."""
    per_row = sum(each.tokens for each in stratum.variants) / sum(
        each.available for each in stratum.variants
    )
    places = [(each.key, stratum.domain) for each in stratum.variants]
    sizes = [len(variant.rows) for variant in stratum.variants]
    # Passes over all variants leave their order as it is, so that they needn't be walked one by one.
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
    """A number above `below` where something holds that doesn't one before; beyond MAX_TOKENS if nowhere.

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
