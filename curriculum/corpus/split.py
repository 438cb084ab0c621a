"""Rule of the split: a file and its copies are never on both sides.

    lineage   repository:path, through renames
    cluster   lineages that share a byte-equal blob or much of their text (shared_lines.py), transitively:
              vendored copies, forks, moved files, files that were merged into others
    stratum   clusters of one repository and language, with tests separate from other files

Clusters are assigned from oldest to newest. The age of a cluster is that of its oldest lineage: lineages of
the repository that the corpus lists first are older, and within a repository the first to appear. A cluster
goes to val for one of two reasons. Its hash may say so; this fills half of `val_fraction`. Or val lacks a
cluster of its stratum, its repository or the whole corpus. So a stratum gets its share as soon as the share
amounts to one cluster, and small strata fill theirs together.

Files of an unseen repository are on side unseen. If a cluster contains such files, its other files are on
side val, so that no training file shares much text with an unseen one. Documents of later commits are on side
later if their file is on side train.

A decision depends only on the cluster and older clusters. So appending to a corpus or a history changes no
earlier decision, with two exceptions: it may join two clusters, or move the first version of a file that is
read. Even then, clusters held out by hash stay in val.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from curriculum.corpus.disjoint_sets import DisjointSets

BY_HASH = 0.5
"""Fraction of val_fraction that hashes decide; the rest goes to groups that lack clusters in val."""
WHOLE_COMMITS = 0.5
"""Minimum fraction of all commits that must be complete in val, divided by val_fraction.

Many commits change files of both sides and are in neither.
"""
_TEST = re.compile(r"(?i:(?:^|[/_.-])(?:unit_?)?test(?:s|ing)?[/_.-])|[a-z]Tests?\.[a-z+]+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """A lineage with everything that decides its side.

    `order` is the position of its repository in the corpus.
    """

    name: str
    repository: str
    order: int
    since: int
    """Timestamp of the lineage's first document, in UTC seconds."""
    language: str = ""

    @property
    def age(self) -> tuple[int, int, str]:
        """Key that sorts lineages from oldest to newest."""
        return self.order, self.since, self.name

    @property
    def strata(self) -> tuple[tuple[str, ...], ...]:
        """The three groups of which val must have its share: stratum, repository, corpus."""
        is_test = _TEST.search(self.name.partition(":")[2]) is not None
        kind = "tests" if is_test else "files"
        return (self.repository, self.language, kind), (self.repository,), ()


def clusters(lineages: Iterable[Lineage], pairs: Iterable[tuple[str, str]]) -> dict[str, Lineage]:
    """Return for each lineage, by name, the oldest lineage of its cluster.

    `pairs` are the names of lineages that share text. Memory grows with the number of lineages, not of
    documents.
    """
    oldest = sorted(lineages, key=lambda lineage: lineage.age)
    numbers = {lineage.name: number for number, lineage in enumerate(oldest)}
    sets = DisjointSets(len(oldest))
    for one, other in pairs:
        sets.join(numbers[one], numbers[other])
    return {name: oldest[first] for name, first in zip(numbers, sets.firsts(), strict=True)}


def hash_fraction(unit: str) -> float:
    """Return a number in [0, 1) that depends only on the name of a cluster or lineage, and never changes."""
    return int.from_bytes(hashlib.sha256(unit.encode()).digest()[:7]) / 256**7


def clusters_beside_unseen(
    oldest: Mapping[str, Lineage], unseen: Collection[str]
) -> frozenset[str]:
    """Return the clusters that contain files of unseen repositories, named after their oldest lineages.

    A cluster is left out if it has more than half of the lineages of all other repositories, so that
    something remains to train on. Of such a cluster, only the text that it shares with unseen files is
    excluded from the loss.
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
    """Return the clusters in val, named after their oldest lineages.

    `oldest` maps each lineage to the oldest lineage of its cluster. A cluster with more than half of all
    lineages is in train, so that something remains to train on.
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
    """Return pairs (family, cluster) of clusters that must move to val so that val has one of every family.

    `units` are the clusters of each family's lineages. Clusters with a low hash move first. A cluster with
    more than half of a family's lineages moves only if there is no other. If a family has a single cluster,
    it stays in train.
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
    """Return the clusters that must move to val so that val has enough complete commits, lowest hash first.

    `commits` are the clusters that each commit changed. A commit that changed clusters on both sides loses
    its document. Val gets commits that changed a single cluster, until it has WHOLE_COMMITS × val_fraction of
    all commits, but at least one commit. Train keeps at least one of these clusters.

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
