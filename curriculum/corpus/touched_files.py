"""Files in which each commit touched functions, derived from the documents of files.

A document shows that its commit touched a function of the file:

v3_simple   if a `repeated` span (lines added by a hunk) overlaps a `body` span
v2_simple   if it shows a new file, for which v3 has no document, with a `body` span
"""

import polars as pl

from curriculum import frames
from schemas.corpus import CODE

_WIDTH = 1 << 32
"""Distance between the offsets of consecutive documents, so that all offsets form one sorted column."""


def touched_files(rows: pl.LazyFrame) -> list[list[str]]:
    """Return for each commit the lineages of the files in which it touched a C or C++ function.

    `rows` are documents with family, language, lineage, timestamp, spans and provenance. Their spans are
    joined, at about 40 bytes each.
    """
    coded = (
        rows.filter(pl.col("language").is_in(sorted(CODE)))
        .with_columns(
            commit=frames.document_commit(),
            kinds=pl.col("spans").list.eval(pl.element().struct.field("kind")),
        )
        .filter(pl.col("kinds").list.contains("body"))
        .select("family", "lineage", "commit", "timestamp", "spans")
    )
    edits = coded.filter(family="v3_simple").with_row_index("document").collect(engine="streaming")
    first = pl.col("timestamp") == pl.col("timestamp").min().over("lineage")
    new = (
        coded.filter(first, family="v2_simple")
        .select("lineage", "commit")
        .join(edits.lazy(), on=["lineage", "commit"], how="anti")
    )
    files = pl.concat([_edited(edits.lazy()).select("lineage", "commit"), new]).unique()
    found = files.group_by("commit").agg(pl.col("lineage").sort()).sort("commit")
    return found.collect(engine="streaming")["lineage"].to_list()


def _edited(documents: pl.LazyFrame) -> pl.LazyFrame:
    """Return the documents in which added lines overlap the body of a function."""
    place = pl.col("document").cast(pl.Int64) * _WIDTH
    spans = (
        documents.explode("spans")
        .unnest("spans")
        .select(
            "lineage", "commit", "kind", start=place + pl.col("start"), end=place + pl.col("end")
        )
    )
    bodies = spans.filter(kind="body").select(body_start="start", body_end="end").sort("body_end")
    added = spans.filter(kind="repeated").sort("start")
    # Find the first body that ends after the start of the added lines.
    met = added.with_columns(at=pl.col("start") + 1).join_asof(
        bodies, left_on="at", right_on="body_end", strategy="forward"
    )
    return met.filter(pl.col("body_start") < pl.col("end"))
