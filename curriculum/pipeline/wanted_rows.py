"""Data sets of rows that the servings of a phase need."""

from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.stages import RowsSpec
from curriculum.stages.row_sources import Beside
from schemas.families import FAMILIES


def wanted_of(phase: ResolvedPhase) -> list[list[RowsSpec]]:
    """Return the data sets of each serving, one per variant; servings are in order."""
    return [
        [
            RowsSpec(
                family=serving.family,
                base=serving.base or "",
                objective=serving.objective,
                variant=variant,
                row_length=serving.row_length,
                repositories=serving.repositories,
                imported=serving.imported,
                packer=serving.packer,
                score=serving.score,
                beside=_beside(serving, phase),
            )
            for variant in range(serving.variants)
        ]
        for serving in phase.servings
    ]


def data_sets(phase: ResolvedPhase) -> list[RowsSpec]:
    """Return the data sets of all servings, without repetition."""
    return list(dict.fromkeys(variant for variants in wanted_of(phase) for variant in variants))


def _beside(serving: ResolvedServing, phase: ResolvedPhase) -> Beside | None:
    """Return the family whose documents show some commits in place of those of a serving."""
    if serving.both or serving.imported is not None:
        return None
    preferred = [
        other
        for other in phase.servings
        if other.imported is None and FAMILIES[other.flat_family].stand_in == serving.flat_family
    ]
    if not preferred:
        return None
    named = [other.repositories for other in preferred]
    repositories = sorted({name for names in named for name in names}) if all(named) else ()
    return Beside(family=preferred[0].flat_family, repositories=tuple(repositories))
