"""Documents of whole commits whose target shows a file that is left out as a copy.

If a commit changes such a file and other files, the commit's document is lost. In most cases such a commit
updates a bundled library.
"""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from curriculum import frames, parquet
from curriculum.corpus.document_folders import DocumentFolder

TARGET_KINDS = ("target", "changes")


def left_out_targets(documents: Iterable[DocumentFolder], left_out: pl.DataFrame) -> pl.DataFrame:
    """Return one row per lost document: family, repository, document_id, reason, evidence.

    Args:
        documents: Documents of one family.
        left_out: Table of files that are left out: lineage, reason, evidence.
    """
    tables = [
        _targets(parquet.shards_of(folder.path)).with_columns(repository=pl.lit(folder.repository))
        for folder in documents
    ]
    return (
        pl.concat(tables)
        .join(left_out.lazy(), on="lineage")
        .group_by("family", "repository", "document_id")
        .agg(pl.col("reason", "evidence").sort_by("lineage").first())
        .collect(engine="streaming")
    )


def _targets(files: list[Path]) -> pl.LazyFrame:
    """Return a row (family, document_id, lineage) for each file that a document's target shows."""
    kind = pl.element().struct.field("kind")
    sources = pl.col("parts").list.eval(
        pl.element().filter(kind.is_in(TARGET_KINDS)).struct.field("source")
    )
    return (
        frames.scan(files, ["family", "document_id", "parts", "provenance"])
        .select("family", "document_id", "provenance", source=sources.list.unique())
        .explode("source")
        .filter(pl.col("source") >= 0)
        .select(
            "family",
            "document_id",
            lineage=pl.col("provenance").list.get(pl.col("source")).struct.field("lineage"),
        )
    )
