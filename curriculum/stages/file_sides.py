"""Files of a corpus with domain, size and split, so that users can inspect the validation set."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from curriculum import frames
from curriculum.corpus.select import SELECTION_NAME
from curriculum.parquet import shards_of
from curriculum.store import Artefact
from schemas.families import VERSIONS_FAMILY


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSide:
    """A file with all its versions across renames, which are all in the same split."""

    lineage: str
    """Repository and path, for example fmt:include/format.h."""
    domain: str
    """Domain that most of its versions have."""
    num_bytes: int
    """Total size in bytes of its kept versions."""
    is_val: bool

    @property
    def path(self) -> str:
        """Path of the file in its repository."""
        return self.lineage.partition(":")[2]


def file_sides(documents: Sequence[Artefact], selection: Artefact) -> tuple[FileSide, ...]:
    """Return the kept files of the training and the validation set, largest first.

    Graph families are ignored.
    """
    versions = [
        artefact for artefact in documents if artefact.manifest.labels["family"] == VERSIONS_FAMILY
    ]
    files = sorted(file for version in versions for file in shards_of(version.path))
    if not files:
        return ()
    decided = frames.read(
        selection.path / SELECTION_NAME,
        ["document_id", "family", "keep", "lineage", "split", "domain"],
    ).filter(
        pl.col("keep")
        & (pl.col("family") == VERSIONS_FAMILY)
        & pl.col("split").is_in(("train", "val"))
    )
    sizes = frames.scan(files, ["document_id", "num_bytes"]).unique("document_id").collect()
    found = (
        decided.join(sizes, on="document_id", how="inner")
        .group_by("lineage")
        .agg(
            pl.col("domain").mode().sort().first(),
            pl.col("num_bytes").sum(),
            is_val=(pl.col("split") == "val").any(),
        )
        .sort(["num_bytes", "lineage"], descending=[True, False])
    )
    return tuple(FileSide(**row) for row in found.iter_rows(named=True))
