"""Tokens that a diet reads of several token budgets: valid, scored and distinct tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from curriculum.mixing.diet_check import DietSupply
from curriculum.mixing.repetition import TokenCount
from curriculum.mixing.strata import Taken

POINTS = 10
_PRECISION = 200
"""The largest budget is found to one part in so many."""


class TokenCounter(Protocol):
    """Count of the tokens of drawn rows."""

    def count(self, taken: Taken) -> TokenCount:
        """Count the tokens of rows, given by their number of each artefact and domain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetTokens:
    """About what all phases of a diet read of a token budget."""

    token_budget: int
    valid_tokens: int
    scored_tokens: int
    distinct_tokens: int
    repetition: float
    """Scored ÷ distinct tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBudgets:
    """A diet at ten token budgets up to its own, and the largest that keeps to max_token_repetition."""

    points: tuple[BudgetTokens, ...]
    """Those budgets that can be served."""
    limit: float
    largest: int | None
    """The largest budget within the limit; None where every budget is beyond it or can't be served."""

    @property
    def is_often(self) -> bool:
        """Return True if the diet scores a distinct token more often than its limit, on average."""
        return bool(self.points) and self.points[-1].repetition > self.limit


def count_budgets(supply: DietSupply, read: TokenCounter, limit: float) -> TokenBudgets:
    """Return what a diet reads at ten budgets; `read` has the tokens of all its rows."""
    return TokenBudgets(
        points=tuple(_points(supply, read)), limit=limit, largest=_largest(supply, read, limit)
    )


def _points(supply: DietSupply, read: TokenCounter) -> Iterator[BudgetTokens]:
    for at in range(1, POINTS + 1):
        budget = supply.budget * at // POINTS
        if found := _counted(supply, read, budget):
            yield BudgetTokens(
                token_budget=budget,
                valid_tokens=sum(supply.tokens_of(budget)),
                scored_tokens=found.scored,
                distinct_tokens=found.distinct,
                repetition=found.repetition,
            )


def _largest(supply: DietSupply, read: TokenCounter, limit: float) -> int | None:
    def is_within(budget: int) -> bool:
        found = _counted(supply, read, budget)
        return found is not None and found.repetition <= limit

    budgets = supply.budgets()
    if budgets.smallest is None or budgets.largest is None or not is_within(budgets.smallest):
        return None
    low, high = budgets.smallest, budgets.largest
    if is_within(high):
        return high
    while high - low > max(1, low // _PRECISION):
        middle = (low + high) // 2
        low, high = (middle, high) if is_within(middle) else (low, middle)
    return max(budgets.smallest, low // 1000 * 1000)


def _counted(supply: DietSupply, read: TokenCounter, budget: int) -> TokenCount | None:
    drawn = supply.rows_until(budget)
    return None if drawn is None else read.count(drawn)
