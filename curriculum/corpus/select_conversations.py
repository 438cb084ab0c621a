"""Selection of conversations and their side of the split, independent of documents of code.

Equal conversations are kept once, in the source that the corpus lists first. If lines with the same text
differ in their roles or in which answers are trained on, they contradict each other, and none of them is
kept. Conversations with the same id are on the same side, and so are equal texts under different ids.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
from pydantic import JsonValue

from curriculum import frames
from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.refused_licences import UNKNOWN_LICENCE
from curriculum.corpus.select import (
    SELECTION_NAME,
    SIDES_NAME,
    SelectionSummary,
    split_frame,
)
from curriculum.corpus.split import Lineage, choose_val_clusters, clusters, clusters_to_move
from curriculum.parquet import shards_of
from schemas.corpus import CHAT_DOMAIN, CorpusSpec
from schemas.document import SELECTION_SCHEMA, SIDES_SCHEMA
from schemas.families import CHAT_FAMILY

REVISION = 3
"""Revision of the selection; increase it when the same conversations give another selection."""
_PLACE = ("document_id", "order")


def conversation_ingredients(corpus: CorpusSpec) -> dict[str, JsonValue]:
    """Return the settings of the corpus that decide the selection of given conversations."""
    return {
        "conversations": [conversation.name for conversation in corpus.conversations],
        "val_fraction": corpus.val_fraction,
        **corpus.licences.not_usual(),
    }


def select_conversations(
    documents: Sequence[DocumentFolder], corpus: CorpusSpec, folder: Path
) -> SelectionSummary:
    """Write into `folder` the selection of all conversations and the sides of their lineages.

    Memory is about 200 bytes per conversation.
    """
    rows = _rows(documents, corpus)
    listed = (
        rows.with_columns(alike=pl.col("digest").n_unique().over("document_id") == 1)
        .group_by(_PLACE)
        .agg(pl.col("lineage", "repository", "alike", "refused").sort_by("number").first())
        .sort(_PLACE)
    )
    sides, joined = _splits(rows, listed, corpus)
    decided = _decided(listed, sides)
    for frame, schema, name in (
        (decided, SELECTION_SCHEMA, SELECTION_NAME),
        (sides.sort("lineage"), SIDES_SCHEMA, SIDES_NAME),
    ):
        table = frame.select(schema.names).to_arrow().cast(schema)
        pq.write_table(table, folder / name, compression="zstd")
    kept = decided.filter("keep")
    val = kept.filter(pl.col("split") == "val").height
    return SelectionSummary(
        documents=decided.height,
        repeated=rows.height - decided.height,
        kept=kept.height,
        val=val,
        rejected=tuple(decided.filter(~pl.col("keep")).group_by("reason").len().iter_rows()),
        joined=joined,
        families_without_val=() if val else (CHAT_FAMILY,),
    )


def _rows(documents: Sequence[DocumentFolder], corpus: CorpusSpec) -> pl.DataFrame:
    """Return one row per conversation, in reading order.

    `order` is the position of the conversation's source in the corpus.
    """
    licences = {source.name: source.licence for source in corpus.conversations}
    refused = {
        name: licence or UNKNOWN_LICENCE
        for name, licence in licences.items()
        if corpus.licences.refuses(licence)
    }
    tables = [
        frames.scan(shards_of(folder.path), ["document_id", "lineage", "provenance"]).select(
            "document_id",
            "lineage",
            digest=pl.col("provenance").list.first().struct.field("blob"),
            repository=pl.lit(folder.repository),
            order=pl.lit(order, dtype=pl.Int32),
            refused=pl.lit(refused.get(folder.repository), dtype=pl.String),
        )
        for order, folder in enumerate(documents)
    ]
    return pl.concat(tables).with_row_index("number").collect(engine="streaming")


def _splits(
    rows: pl.DataFrame, listed: pl.DataFrame, corpus: CorpusSpec
) -> tuple[pl.DataFrame, tuple[tuple[str, str], ...]]:
    """Return the side of each lineage (lineage, split), and the pairs (family, cluster) moved to val."""
    found = rows.group_by("lineage").agg(
        pl.col("repository").first(), pl.col("order").min(), pl.col("number").min()
    )
    lineages = [
        Lineage(name=name, repository=repository, order=order, since=number)
        for name, repository, order, number in found.sort("lineage").iter_rows()
    ]
    oldest = clusters(lineages, _sharing(rows))
    allowed = set(listed.filter(pl.col("refused").is_null())["lineage"])
    judged = {name: unit for name, unit in oldest.items() if name in allowed}
    val = choose_val_clusters(judged, val_fraction=corpus.val_fraction)
    joined = clusters_to_move({CHAT_FAMILY: [judged[name].name for name in sorted(allowed)]}, val)
    val = val.union(unit for _, unit in joined)
    return split_frame(oldest, val), joined


def _sharing(rows: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Return pairs of lineages with the same text."""
    return (
        rows.select("document_id", "lineage")
        .unique()
        .with_columns(first=pl.col("lineage").min().over("document_id"))
        .filter(pl.col("first") != pl.col("lineage"))
        .select("first", "lineage")
        .sort("first", "lineage")
        .iter_rows()
    )


def _decided(listed: pl.DataFrame, sides: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of the selection, given the conversations and the side of each lineage."""
    is_refused = pl.col("refused").is_not_null()
    allowed = pl.when(~is_refused).then("order")
    first = (pl.col("order") == allowed.min().over("document_id")).fill_null(value=False)
    holder = pl.col("repository").sort_by(allowed, nulls_last=True).first().over("document_id")
    refused = pl.when(is_refused)
    return (
        listed.join(sides, on="lineage", how="left", validate="m:1")
        .with_columns(
            keep=first & pl.col("alike"),
            family=pl.lit(CHAT_FAMILY),
            reason=refused.then(pl.lit("licence"))
            .when(~pl.col("alike"))
            .then(pl.lit("contradiction"))
            .when(~first)
            .then(pl.lit("duplicate")),
            rule=refused.then(pl.lit("the corpus takes the licence"))
            .when(~pl.col("alike"))
            .then(pl.lit("the same text has the same roles and weights"))
            .when(~first)
            .then(pl.lit("the same text is kept once")),
            evidence=refused.then("refused").when(~first | ~pl.col("alike")).then(holder),
            domain=pl.lit(CHAT_DOMAIN),
            domain_rule=pl.lit("every conversation"),
        )
        .sort("family", "repository", "document_id")
    )
