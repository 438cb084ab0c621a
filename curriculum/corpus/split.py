"""Rule of the split: a file and its copies are never on both sides.

    lineage   repository:path, through renames
    cluster   lineages that share a byte-equal blob or much of their text (shared_lines.py), transitively:
              vendored copies, forks, moved files, files that were merged into others
    stratum   clusters of one repository and language, with tests separate from other files

Clusters are assigned from oldest to newest. A cluster's age is that of its oldest lineage: the repository
that the corpus lists first, then the earliest lineage in it. A cluster goes to val if its hash says so, which
fills half of `val_fraction`, or if val still lacks a cluster of its stratum, repository or corpus. So a
stratum gets its share as soon as that amounts to one cluster, and small strata fill theirs together.

Files of an unseen repository are in unseen. A cluster that contains such files is not assigned: its other
files are in val, so that no training file shares much text with an unseen one. Documents of later commits
are in later if their file is in train.

A decision depends only on the cluster and older clusters. Appending to a corpus or a history changes no
earlier side, unless it joins two clusters or moves the first version of a file that is read; even then,
clusters held out by hash stay in val.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from curriculum.corpus.disjoint_sets import DisjointSets

BY_HASH = 0.5
"""Share of val_fraction that is decided by hash; the rest fills groups that lack val."""
WHOLE_COMMITS = 0.5
"""Minimum share of all commits in val, as a share of val_fraction: many commits change files of both
sides."""
_TEST = re.compile(r"(?i:(?:^|[/_.-])(?:unit_?)?test(?:s|ing)?[/_.-])|[a-z]Tests?\.[a-z+]+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """A lineage with all that decides its side; `order` is its repository's position in the corpus."""

    name: str
    repository: str
    order: int
    since: int
    """Timestamp of its first document, in UTC seconds."""
    language: str = ""

    @property
    def age(self) -> tuple[int, int, str]:
        """Sort key: oldest first."""
        return self.order, self.since, self.name

    @property
    def strata(self) -> tuple[tuple[str, ...], ...]:
        """Groups that each get their share of val: stratum, repository, corpus."""
        is_test = _TEST.search(self.name.partition(":")[2]) is not None
        kind = "tests" if is_test else "files"
        return (self.repository, self.language, kind), (self.repository,), ()


def clusters(lineages: Iterable[Lineage], pairs: Iterable[tuple[str, str]]) -> dict[str, Lineage]:
    """Map each lineage's name to the oldest lineage of its cluster; `pairs` are names that share text.

    Memory grows with the lineages, not with the documents.
    """
    oldest = sorted(lineages, key=lambda lineage: lineage.age)
    numbers = {lineage.name: number for number, lineage in enumerate(oldest)}
    sets = DisjointSets(len(oldest))
    for one, other in pairs:
        sets.join(numbers[one], numbers[other])
    return {name: oldest[first] for name, first in zip(numbers, sets.firsts(), strict=True)}


def hash_fraction(unit: str) -> float:
    """Hash the name of a cluster or lineage to a number in [0, 1); never changes."""
    return int.from_bytes(hashlib.sha256(unit.encode()).digest()[:7]) / 256**7


def clusters_beside_unseen(
    oldest: Mapping[str, Lineage], unseen: Collection[str]
) -> frozenset[str]:
    """Return the clusters with files of unseen repositories, by the names of their oldest lineages.

    A cluster with more than half of the lineages of seen repositories is excluded, so that something remains
    to train on; then only the text that its files share with unseen ones is excluded from the loss.
    """
    seen = Counter[str]()
    beside = set[str]()
    for name, unit in oldest.items():
        if name.partition(":")[0] in unseen:
            beside.add(unit.name)
        else:
            seen[unit.name] += 1
    return frozenset(name for name in beside if 2 * seen[name] <= seen.total())


def choose_val_clusters(oldest: Mapping[str, Lineage], *, val_fraction: float) -> frozenset[str]:
    """Return the clusters in val, by the names of their oldest lineages.

    `oldest` maps each lineage to the oldest one of its cluster. A cluster with more than half of all lineages
    is in train, so that something remains to train on.
    """
    sizes = Counter(lineage.name for lineage in oldest.values())
    units = {lineage.name: lineage for lineage in oldest.values()}
    seen: Counter[tuple[str, ...]] = Counter()
    held: Counter[tuple[str, ...]] = Counter()
    val: set[str] = set()
    for unit in sorted(units.values(), key=lambda unit: unit.age):
        seen.update(unit.strata)
        is_owed = any(val_fraction * seen[group] - held[group] >= 1 for group in unit.strata)
        is_hashed = hash_fraction(unit.name) < BY_HASH * val_fraction
        if (is_owed or is_hashed) and 2 * sizes[unit.name] <= len(oldest):
            held.update(unit.strata)
            val.add(unit.name)
    return frozenset(val)


def clusters_to_move(
    units: Mapping[str, Sequence[str]], val: frozenset[str]
) -> tuple[tuple[str, str], ...]:
    """Return the (family, cluster) that move to val so that every family has a cluster there.

    The lowest hash is chosen first. `units` are the clusters of each family's lineages. A family with a
    single cluster keeps it in train, and a cluster with more than half of a family's lineages is chosen last.
    """
    joined: dict[str, str] = {}
    for family, own in units.items():
        sizes = Counter(own)
        if len(sizes) > 1 and val.isdisjoint(sizes) and joined.keys().isdisjoint(sizes):
            unit = min(
                sizes, key=lambda name: (2 * sizes[name] > len(own), hash_fraction(name), name)
            )
            joined[unit] = family
    return tuple((family, unit) for unit, family in joined.items())


def clusters_for_whole_commits(
    commits: Sequence[frozenset[str]], val: frozenset[str], *, val_fraction: float
) -> tuple[str, ...]:
    """Return the clusters that move to val, lowest hash first, so that val has enough complete commits.

    `commits` are the clusters that each commit changed. A commit that changed clusters on both sides loses
    its document. Val gets WHOLE_COMMITS of its fraction, at least one commit, from commits that changed a
    single cluster; train keeps at least one of these clusters.

    >>> commits = [frozenset("a"), frozenset("ab"), frozenset("b"), frozenset("c"), frozenset("c")]
    >>> clusters_for_whole_commits(commits, frozenset(), val_fraction=0.4)
    ('c',)
    >>> clusters_for_whole_commits(commits, frozenset("a"), val_fraction=0.4)
    ()
    """
    wanted = max(1, WHOLE_COMMITS * val_fraction * len(commits))
    held = sum(changed <= val for changed in commits)
    alone = Counter(next(iter(changed)) for changed in commits if len(changed) == 1)
    joined: list[str] = []
    candidates = sorted(alone.keys() - val, key=lambda unit: (hash_fraction(unit), unit))
    for unit in candidates[: len(alone) - 1]:
        if held >= wanted:
            break
        held += alone[unit]
        joined.append(unit)
    return tuple(joined)
