"""Whose phases a name means, be it `templates`, `templates.demo` or `templates/demo/syntax`."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from curriculum.diets.load import diet_names, load_diet
from curriculum.store import Artefact, Store, read_mark
from schemas.errors import StoreError

Way = tuple[str, str | None]
"""A specialist and its branch, if it has one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """A specialist and branch; all of its phases, or one."""

    way: Way
    phase: str | None

    def has(self, artefact: Artefact) -> bool:
        """Whether a run or a mixture is of it."""
        phase = artefact.manifest.labels["phase"]
        return way_of(artefact) == self.way and self.phase in (None, phase)


def way_of(artefact: Artefact) -> Way:
    """The specialist and branch of a run or a mixture."""
    labels = artefact.manifest.labels
    return labels["specialist"], labels.get("branch")


def named(home: Path, what: str, ways: Collection[Way]) -> Named | None:
    """Whose a name is, of some that there are; a diet's name stands for its specialist and branch.

    A specialist's name alone means the one without a branch, or the only branch that there is.

    Raises:
        StoreError: where there are several branches and no word of which.
    """
    first, *rest = what.split("/")
    if first in diet_names(home) and (own := _way_of_diet(home, first)) in ways:
        way = own
    elif rest and (first, rest[0]) in ways:
        way = (first, rest.pop(0))
    else:
        branches = [way for way in ways if way[0] == first]
        if not branches:
            return None
        if len(branches) > 1 and (first, None) not in branches:
            listed = ", ".join(sorted("/".join(filter(None, each)) for each in branches))
            raise StoreError(what, listed, cause="several branches are meant", cure="Name one")
        way = (first, None) if (first, None) in branches else branches[0]
    if len(rest) > 1:
        return None
    return Named(way=way, phase=rest[0] if rest else None)


def current(store: Store, stage: str) -> list[Artefact]:
    """The runs or mixtures that stand for their phases, each phase's newest, in the order of phases."""
    marked = {
        store.root / line
        for file in (store.root / "current").glob(f"{stage}-*.txt")
        for line in read_mark(file)
    }
    by_phase: dict[tuple[Way, str], Artefact] = {}
    there = sorted(
        store.artefacts(stage), key=lambda each: (each.path in marked, each.manifest.created)
    )
    for each in there:
        by_phase[way_of(each), each.manifest.labels["phase"]] = each
    return sorted(by_phase.values(), key=lambda each: each.manifest.created)


def _way_of_diet(home: Path, name: str) -> Way:
    diet = load_diet(name, home=home)
    return diet.specialist, diet.branch
