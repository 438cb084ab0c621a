"""Prediction, from the git log alone, of the files that a build will hold out for validation."""

from collections.abc import Mapping

import polars as pl

from curriculum.corpus.paths import language_of
from curriculum.corpus.split import Lineage, choose_val_clusters, clusters_for_whole_commits


def foreseen_val(surveys: Mapping[str, pl.DataFrame], *, val_fraction: float) -> frozenset[str]:
    """Return the lineages that a build's split is predicted to put into val.

    The prediction assumes that no lineage is a copy of another one: each lineage is its own cluster. The
    split of the sample can't be used instead: a sample contains few lineages, so its split chooses other
    ones.

    Args:
        surveys: Tables of SURVEY_SCHEMA, oldest changes first, by repository in corpus order.
        val_fraction: The corpus' val_fraction.
    """
    lineages = {
        name: Lineage(
            name=name,
            repository=repository,
            order=order,
            since=since,
            language=language_of(name.partition(":")[2], headers="cpp") or "",
        )
        for order, (repository, changes) in enumerate(surveys.items())
        for since, name in enumerate(changes["lineage"].unique(maintain_order=True))
    }
    commits = [
        frozenset(names)
        for changes in surveys.values()
        for names in changes.group_by("commit", maintain_order=True).agg("lineage")["lineage"]
    ]
    val = choose_val_clusters(lineages, val_fraction=val_fraction)
    return val.union(
        clusters_for_whole_commits(commits, val, val_fraction=val_fraction) if commits else ()
    )
