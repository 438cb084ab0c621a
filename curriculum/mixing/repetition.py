"""Repetition of source files over all rows that plans took."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from curriculum import frames
from schemas.mixture import SourceRepetition

READ = ("domain", "document_ids", "doc_starts", "valid_token_count")
"""The columns of rows that are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtefactUse:
    """Rows that some plan took of one rows artefact in one domain."""

    key: str
    files: tuple[Path, ...]
    domain: str
    repetition: float
    """Times that a row is seen, on average."""


def source_repetition(
    draws: Sequence[ArtefactUse], documents: pl.LazyFrame, *, limit: float
) -> SourceRepetition:
    """Tokens seen of each lineage ÷ its distinct tokens, over all draws.

    `documents` has `document_id` and `lineage`. A lineage's distinct tokens are those of the rows
    artefact that holds most of it: inside one family every document is another text, while families
    say the same again. Rows of a domain count with their mean repetition. What breaks first at scale
    is the join's table of documents, some 100 bytes each.
    """
    # a text that stands in two repositories is one document, and counts for one of its lineages
    distinct = documents.group_by("document_id").agg(pl.col("lineage").min())
    seen = [_tokens_by_lineage(draw, distinct) for draw in draws]
    lineages = (
        pl.concat(seen)
        .group_by("lineage", "key", "domain")
        .agg(pl.col("tokens").first(), pl.col("seen").sum())
        .group_by("lineage", "key")
        .agg(pl.col("tokens").sum(), pl.col("seen").sum())
        .group_by("lineage")
        .agg(pl.col("tokens").max(), pl.col("seen").sum())
        .with_columns((pl.col("seen") / pl.col("tokens")).alias("repetition"))
        .sort(["repetition", "lineage"], descending=[True, False])
        .collect(engine="streaming")
    )
    top = lineages.head(10)
    # Sums of floats may differ in their last digits from run to run.
    return SourceRepetition(
        lineages=lineages.height,
        mean=round(float(lineages["seen"].sum()) / max(1, int(lineages["tokens"].sum())), 6),
        limit=limit,
        above=int((lineages["repetition"] > limit).sum()),
        most=tuple(
            (lineage, round(repetition, 6))
            for lineage, repetition in zip(top["lineage"], top["repetition"], strict=True)
        ),
    )


def warning(found: SourceRepetition) -> str | None:
    """Return a warning where source files are seen too often; None where they aren't."""
    if not found.above:
        return None
    lineage, times = found.most[0]
    return (
        f"{found.above} of {found.lineages} source files are seen more than {found.limit:g} times over "
        f"all servings and phases ({lineage} {times:g} times). Lower token_budget, drop a serving that "
        "renders the same commits, or enlarge the corpus"
    )


def _tokens_by_lineage(draw: ArtefactUse, documents: pl.LazyFrame) -> pl.LazyFrame:
    """Tokens that a rows artefact's domain holds of each lineage, and how many of them are seen."""
    ends = pl.col("doc_starts").list.slice(1).list.concat(pl.col("valid_token_count"))
    return (
        frames.scan(list(draw.files), READ)
        .filter(pl.col("domain") == draw.domain)
        .select(
            pl.col("document_ids").alias("document_id"),
            pl.col("doc_starts").alias("start"),
            ends.alias("end"),
        )
        .explode("document_id", "start", "end")
        .select("document_id", (pl.col("end") - pl.col("start")).cast(pl.Int64).alias("tokens"))
        .join(documents, on="document_id", how="inner")
        .group_by("lineage")
        .agg(pl.col("tokens").sum())
        .with_columns(
            pl.lit(draw.key).alias("key"),
            pl.lit(draw.domain).alias("domain"),
            (pl.col("tokens") * draw.repetition).alias("seen"),
        )
    )
