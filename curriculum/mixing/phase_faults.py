"""Faults of a diet that show only with its corpus and imported rows: unknown domains, unmeasured gates."""

from collections.abc import Collection, Iterator, Sequence

from curriculum.mixing.resolve import DietFault, ResolvedPhase
from schemas.errors import DietFieldError
from schemas.families import EDIT_FAMILY, FAMILIES
from schemas.mistakes import nearest
from schemas.objectives import FixedSet


def domain_faults(phases: Sequence[ResolvedPhase], known: Collection[str]) -> Iterator[DietFault]:
    """Yield a fault for each domain that a serving names but that doesn't exist.

    A domain exists if it is in `known`, the domains of the corpus' rules, or if the serving's imported rows
    have it.
    """
    for at, phase in enumerate(phases):
        for serving in phase.servings:
            there = known if serving.imported is None else serving.imported.domains
            for name in sorted({name for name, _ in serving.domains} - {"*", *there}):
                yield DietFault(
                    location=("phases", at, "servings", serving.index, "domains", name),
                    value=f"{phase.name}: {serving.title}: domains.{name}",
                    cause="the corpus has no such domain"
                    if serving.imported is None
                    else "no imported row has that domain",
                    cure=nearest(name, there),
                )


def unmeasured_imports(phases: Sequence[ResolvedPhase]) -> Iterator[str]:
    """Yield a sentence for each name of imported rows that have no held-out rows to measure them."""
    listed = [serving.imported for phase in phases for serving in phase.servings]
    for name in dict.fromkeys(rows.name for rows in listed if rows and rows.measured_by is None):
        yield (
            f"{name}: no rows of split val were imported under this name, so val_bpb says nothing of it. "
            f"Import some: curriculum import PATH --split val --name {name}"
        )


def repeated_changes(phases: Sequence[ResolvedPhase]) -> Iterator[str]:
    """Yield a sentence if the phases serve the same changes of files in two families."""
    served = {
        serving.base or serving.family
        for phase in phases
        for serving in phase.servings
        if serving.imported is None
    }
    others = [name for name in FAMILIES if FAMILIES[name].edits_only and name in served]
    others = [name for name in others if name != EDIT_FAMILY]
    if EDIT_FAMILY in served and others:
        yield (
            f"{' and '.join(others)} and {EDIT_FAMILY} show the same added lines, so many of their tokens "
            f"count as repeated. Serve {EDIT_FAMILY} alone, or compare the distinct tokens that "
            "`curriculum build` prints"
        )


def check_gates(phases: Sequence[ResolvedPhase], fixed: Sequence[FixedSet]) -> None:
    """Raise if a gate waits for val_bpb of a set that the phase can't measure.

    The phase doesn't have the set, or the set has no held-out rows. `fixed` are the corpus' sets that are
    measured in every phase.

    Raises:
        DietError: naming the phase.
    """
    for at, phase in enumerate(phases):
        rule = phase.advance_when
        if rule is None or rule.val_bpb is None:
            continue
        asked, location = rule.val_bpb.set, ("phases", at, "advance_when", "val_bpb")
        sets = (*phase.sets, *fixed)
        if asked not in sets:
            raise DietFieldError(
                f"phase {phase.name}",
                f"advance_when.val_bpb.set = {asked!r}",
                location=(*location, "set"),
                cause="the phase serves no rows of that objective, and the corpus has no such set",
                cure=f"Use {' or '.join(sets)}",
            )
        rows = {serving.imported for serving in phase.servings}
        is_blind = all(imported is not None and imported.measured_by is None for imported in rows)
        if is_blind and asked not in fixed:
            raise DietFieldError(
                f"phase {phase.name}",
                "advance_when.val_bpb",
                location=location,
                cause="all its rows were imported, and no rows of split val were imported with them",
                cure="Import rows under the same name with --split val, or remove val_bpb",
            )
