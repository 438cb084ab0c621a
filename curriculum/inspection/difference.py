"""Differences between the tokens of two mixtures or sets of rows."""

from collections.abc import Mapping
from dataclasses import dataclass

from curriculum.inspection.token_counts import KINDS, TokenCounts


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Valid tokens of one thing before and after; 0 where it isn't there."""

    name: str
    before: int
    after: int
    share_before: float
    share_after: float

    @property
    def tokens(self) -> int:
        """Valid tokens more."""
        return self.after - self.before

    @property
    def share(self) -> float:
        """Growth of its share."""
        return self.share_after - self.share_before


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """All that changes."""

    before: TokenCounts
    after: TokenCounts
    by: Mapping[str, tuple[Change, ...]]
    """Changes by KINDS, largest first."""
    documents: tuple[Change, ...]
    """Changes by document_id, largest first; unchanged ones too."""

    @property
    def come(self) -> list[Change]:
        """Documents that are in the second only."""
        return [each for each in self.documents if not each.before]

    @property
    def go(self) -> list[Change]:
        """Documents that are in the first only."""
        return [each for each in self.documents if not each.after]

    @property
    def stay(self) -> list[Change]:
        """Documents of both."""
        return [each for each in self.documents if each.before and each.after]


def difference(before: TokenCounts, after: TokenCounts) -> Difference:
    """Compute the difference between two token counts."""
    return Difference(
        before=before,
        after=after,
        by={kind: changes(before.by(kind), after.by(kind)) for kind in KINDS},
        documents=changes(before.by("document_id"), after.by("document_id")),
    )


def changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Change, ...]:
    """A change for each name, the largest first.

    >>> [(each.name, each.tokens, each.share) for each in changes({"a": 3, "b": 1}, {"b": 4})]
    [('a', -3, -0.75), ('b', 3, 0.75)]
    """
    all_before, all_after = max(sum(before.values()), 1), max(sum(after.values()), 1)
    names = dict.fromkeys([*before, *after])
    found = [
        Change(
            name=name,
            before=before.get(name, 0),
            after=after.get(name, 0),
            share_before=before.get(name, 0) / all_before,
            share_after=after.get(name, 0) / all_after,
        )
        for name in names
    ]
    return tuple(sorted(found, key=lambda each: (-abs(each.tokens), each.name)))
