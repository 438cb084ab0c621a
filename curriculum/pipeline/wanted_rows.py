"""Data sets of rows that the servings of a phase want."""

from curriculum.mixing.resolve import ResolvedPhase
from curriculum.stages import RowsSpec


def wanted_of(phase: ResolvedPhase) -> list[list[RowsSpec]]:
    """The data sets of each serving in the servings' order, one a variant."""
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
            )
            for variant in range(serving.variants)
        ]
        for serving in phase.servings
    ]


def data_sets(phase: ResolvedPhase) -> list[RowsSpec]:
    """Data sets of all servings, each once."""
    return list(dict.fromkeys(each for variants in wanted_of(phase) for each in variants))
