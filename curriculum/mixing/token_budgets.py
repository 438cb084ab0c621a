"""Valid, scored and distinct tokens that a diet reads at several token budgets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from curriculum.mixing.diet_check import DietSupply
from curriculum.mixing.repetition import TokenCount
from curriculum.mixing.strata import Taken

POINTS = 10
_PRECISION = 200
"""The largest budget is found to a precision of one part in this many."""


class TokenCounter(Protocol):
    """Counter of the tokens of drawn rows."""

    def count(self, taken: Taken) -> TokenCount:
        """Count the tokens of rows, given the number of rows per artefact and domain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetTokens:
    """Approximate number of tokens that all phases of a diet read at one token budget."""

    token_budget: int
    valid_tokens: int
    scored_tokens: int
    distinct_tokens: int
    repetition: float
    """Scored ÷ distinct tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBudgets:
    """A diet at ten token budgets up to its own, and the largest budget within max_token_repetition."""

    points: tuple[BudgetTokens, ...]
    """Budgets that can be served."""
    limit: float
    largest: int | None
    """Largest budget within the limit; None if there is none."""

    @property
    def is_often(self) -> bool:
        """True if the diet scores a distinct token more often than its limit, on average."""
        return bool(self.points) and self.points[-1].repetition > self.limit


def count_budgets(supply: DietSupply, read: TokenCounter, limit: float) -> TokenBudgets:
    """Return what a diet reads at ten budgets; `read` counts the tokens of its rows."""
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
