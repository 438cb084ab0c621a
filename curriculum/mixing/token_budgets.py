"""Valid, scored and distinct tokens that a diet reads at several token budgets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from curriculum.mixing.diet_check import DietSupply
from curriculum.mixing.repetition import TokenCount
from curriculum.mixing.strata import Taken

POINTS = 10
_PRECISION = 200
"""The largest budget is found to within 1/_PRECISION of its value."""


class TokenCounter(Protocol):
    """Object that counts the tokens of drawn rows, such as ReadTokens."""

    def count(self, taken: Taken) -> TokenCount:
        """Count the tokens of drawn rows; `taken` is the number of rows per artefact and domain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetTokens:
    """Approximate numbers of tokens that all phases of a diet read together at one token budget."""

    token_budget: int
    valid_tokens: int
    scored_tokens: int
    distinct_tokens: int
    repetition: float
    """`scored_tokens` ÷ `distinct_tokens`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBudgets:
    """Tokens that a diet reads at ten token budgets, and the largest budget within its repetition limit.

    The largest of the ten budgets is the diet's own. The limit is max_token_repetition.
    """

    points: tuple[BudgetTokens, ...]
    """Those of the ten budgets that the rows can serve, ascending."""
    limit: float
    largest: int | None
    """Largest budget whose repetition is at most `limit`; None if no budget's is."""

    @property
    def is_often(self) -> bool:
        """True if the diet, at its own budget, repeats tokens more often than `limit` on average."""
        return bool(self.points) and self.points[-1].repetition > self.limit


def count_budgets(supply: DietSupply, read: TokenCounter, limit: float) -> TokenBudgets:
    """Return the tokens that a diet reads at ten budgets; `read` counts the tokens of drawn rows."""
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
