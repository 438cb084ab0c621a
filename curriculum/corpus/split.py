"""Rule of the split: no file and no copy of one is on both sides.

    lineage   repository:path, through renames
    cluster   lineages that share a byte-equal blob or much of their text (shared_lines.py), and theirs:
              vendored copies, forks, moved files, files that were merged into others
    side      by the hash of the cluster's oldest lineage; with many repositories, of its repository

The oldest is the one whose repository the corpus names first, and in it the one that began first: what is
added to a corpus at its end, or to a history, takes the side of what was there.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WHOLE_REPOSITORIES = 20
"""Number of repositories from which on a repository is on one side as a whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """A lineage as the split needs it; `order` is its repository's place in the corpus."""

    name: str
    repository: str
    order: int
    since: int
    """Seconds UTC of its first document."""

    @property
    def age(self) -> tuple[int, int, str]:
        """Sorts the oldest first."""
        return self.order, self.since, self.name


def clusters(lineages: Iterable[Lineage], pairs: Iterable[tuple[str, str]]) -> dict[str, Lineage]:
    """The oldest lineage of each lineage's cluster, by name; `pairs` are names that share text.

    Memory is that of the lineages, not of the documents.
    """
    known = {lineage.name: lineage for lineage in lineages}
    parent = {name: name for name in known}
    for one, other in pairs:
        first, second = sorted(
            (known[_root(parent, one)], known[_root(parent, other)]), key=lambda each: each.age
        )
        parent[second.name] = first.name
    return {name: known[_root(parent, name)] for name in known}


def hash_fraction(unit: str) -> float:
    """Hash a unit to a number in [0, 1), the same for ever; below val_fraction is val."""
    return int.from_bytes(hashlib.sha256(unit.encode()).digest()[:7]) / 256**7


def side_fraction(lineage: str, repositories: int) -> float:
    """Hash a file to a number, below val_fraction is val: by its lineage, or among many by its repository."""
    is_whole = repositories >= WHOLE_REPOSITORIES
    return hash_fraction(lineage.partition(":")[0] if is_whole else lineage)


def held_out(
    units: Mapping[str, Sequence[str]], *, val_fraction: float
) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """The units in val, and the (family, unit) that had to join so that the family has any.

    `units` are those of each family. A family with a single unit keeps it in train.
    """
    val = {unit for each in units.values() for unit in each if hash_fraction(unit) < val_fraction}
    joined: list[tuple[str, str]] = []
    for family, own in units.items():
        if val.isdisjoint(own) and len(set(own)) > 1:
            lowest = min(own, key=lambda unit: (hash_fraction(unit), unit))
            val.add(lowest)
            joined.append((family, lowest))
    return frozenset(val), tuple(joined)


def held_out_alone(
    commits: Sequence[frozenset[str]], val: frozenset[str], *, val_fraction: float
) -> tuple[str, ...]:
    """The units that join val, lowest hash first, so that enough commits lie in it whole.

    `commits` are the units that each commit changed. A document of a commit that changed units on both
    sides is lost. Where that leaves val without any, it gets its fraction of all commits from those that
    changed one unit alone, and one at least; train keeps one at least.

    >>> commits = [frozenset("a"), frozenset("ab"), frozenset("b"), frozenset("c"), frozenset("c")]
    >>> held_out_alone(commits, frozenset(), val_fraction=0.4)
    ('c',)
    >>> held_out_alone(commits, frozenset("a"), val_fraction=0.4)
    ()
    """
    if any(changed <= val for changed in commits):
        return ()
    wanted, held = max(1, val_fraction * len(commits)), 0
    alone = Counter(next(iter(changed)) for changed in commits if len(changed) == 1)
    joined: list[str] = []
    candidates = sorted(alone.keys() - val, key=lambda unit: (hash_fraction(unit), unit))
    for unit in candidates[: len(alone) - 1]:
        if held >= wanted:
            break
        held += alone[unit]
        joined.append(unit)
    return tuple(joined)


def _root(parent: dict[str, str], name: str) -> str:
    """The root of a name's tree, halving the path on the way."""
    while parent[name] != name:
        parent[name] = parent[parent[name]]
        name = parent[name]
    return name
