"""Rule of the split: no file and no copy of one is on both sides.

    lineage   repository:path, through renames
    cluster   lineages that share a byte-equal blob or much of their text (shared_lines.py), and theirs:
              vendored copies, forks, moved files, files that were merged into others
    stratum   clusters of one repository and language, tests apart from other files

Clusters are judged from the oldest to the newest, by their oldest lineage: its repository is the one that the
corpus names first, and in it the lineage began first. A cluster is in val where its hash says so, which gives
half of `val_fraction`, or where val lacks a cluster of its stratum, repository or corpus so far. So a stratum
has its share as soon as that is one cluster, and small strata give theirs together.

Files of an unseen repository are in unseen. A cluster with some of them is not judged: its other files are in
val, so that no file that is trained on shares much text with an unseen one. Documents of later commits are in
later where their file is in train.

A decision rests on the cluster and on older ones alone. What is appended to a corpus or to a history changes
no earlier side, unless it joins two clusters or moves the first version of a file that is read; even then
clusters that their hash holds out stay in val.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from curriculum.corpus.disjoint_sets import DisjointSets

BY_HASH = 0.5
"""Share of val_fraction that hashes decide; the rest goes where val lacks some."""
WHOLE_COMMITS = 0.5
"""Share of val_fraction that val has of all commits at least: many commits change files of both sides."""
_TEST = re.compile(r"(?i:(?:^|[/_.-])(?:unit_?)?test(?:s|ing)?[/_.-])|[a-z]Tests?\.[a-z+]+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """A lineage as the split needs it; `order` is its repository's place in the corpus."""

    name: str
    repository: str
    order: int
    since: int
    """Seconds UTC of its first document."""
    language: str = ""

    @property
    def age(self) -> tuple[int, int, str]:
        """Sorts the oldest first."""
        return self.order, self.since, self.name

    @property
    def strata(self) -> tuple[tuple[str, ...], ...]:
        """The groups that each have their share of val: stratum, repository, corpus."""
        is_test = _TEST.search(self.name.partition(":")[2]) is not None
        kind = "tests" if is_test else "files"
        return (self.repository, self.language, kind), (self.repository,), ()


def clusters(lineages: Iterable[Lineage], pairs: Iterable[tuple[str, str]]) -> dict[str, Lineage]:
    """The oldest lineage of each lineage's cluster, by name; `pairs` are names that share text.

    Memory is that of the lineages, not of the documents.
    """
    oldest = sorted(lineages, key=lambda lineage: lineage.age)
    numbers = {lineage.name: number for number, lineage in enumerate(oldest)}
    sets = DisjointSets(len(oldest))
    for one, other in pairs:
        sets.join(numbers[one], numbers[other])
    return {name: oldest[first] for name, first in zip(numbers, sets.firsts(), strict=True)}


def hash_fraction(unit: str) -> float:
    """Hash a cluster or a lineage to a number in [0, 1), the same for ever."""
    return int.from_bytes(hashlib.sha256(unit.encode()).digest()[:7]) / 256**7


def beside_unseen(oldest: Mapping[str, Lineage], unseen: Collection[str]) -> frozenset[str]:
    """Return the clusters with files of unseen repositories, by the names of their oldest lineages.

    A cluster of more than half of the lineages of other repositories isn't among them, so that something is
    left to train on; then text that its files share is left unscored alone.
    """
    seen = Counter[str]()
    beside = set[str]()
    for name, unit in oldest.items():
        if name.partition(":")[0] in unseen:
            beside.add(unit.name)
        else:
            seen[unit.name] += 1
    return frozenset(name for name in beside if 2 * seen[name] <= seen.total())


def stratified(oldest: Mapping[str, Lineage], *, val_fraction: float) -> frozenset[str]:
    """Return the clusters in val, by the names of their oldest lineages.

    `oldest` are the oldest lineages of each lineage's cluster. A cluster of more than half of all lineages is
    in train, so that something is left to train on.
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


def joining(units: Mapping[str, Sequence[str]], val: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return the (family, cluster) that join val so that each family has some, lowest hashes first.

    `units` are the clusters of each family's lineages. A family with a single cluster keeps it in train, and
    a cluster of more than half of a family joins last.
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


def held_out_alone(
    commits: Sequence[frozenset[str]], val: frozenset[str], *, val_fraction: float
) -> tuple[str, ...]:
    """Return the clusters that join val, lowest hash first, so that enough commits lie in it whole.

    `commits` are the clusters that each commit changed. A document of a commit that changed clusters on both
    sides is lost. Val gets WHOLE_COMMITS of its fraction, one commit at least, from commits that changed one
    cluster alone; train keeps one of these clusters at least.

    >>> commits = [frozenset("a"), frozenset("ab"), frozenset("b"), frozenset("c"), frozenset("c")]
    >>> held_out_alone(commits, frozenset(), val_fraction=0.4)
    ('c',)
    >>> held_out_alone(commits, frozenset("a"), val_fraction=0.4)
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
