"""What of a corpus is kept, on which side of the split, in which domain: seen as a whole, decided once.

No text is read: ids, lineages, times and provenance are enough. Sides go by lineage (split.py); the same
text in two repositories is kept in the one that the corpus names first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
from pydantic import JsonValue

from curriculum.corpus.split import (
    WHOLE_REPOSITORIES,
    Lineage,
    clusters,
    held_out,
)
from schemas.corpus import CorpusSpec
from schemas.document import SELECTION_SCHEMA

REVISION = 1
"""Raised when the same documents give another selection."""
WHOLE_FILES = "^v[23]_"
"""Families whose provenance is the lineage's own file; those of graphs name other files as context."""
DOMAIN = "general"
ROWS_PER_GROUP = 100_000
KEY = ("family", "repository", "document_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentsOf:
    """The documents of one family in one repository: a folder of part-*.parquet."""

    repository: str
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What a selection decided, in documents; `joined` are (family, unit) that had to join val."""

    documents: int
    repeated: int
    """Rows whose id a document of the same repository has already."""
    kept: int
    val: int
    rejected: tuple[tuple[str, int], ...]
    joined: tuple[tuple[str, str], ...]
    families_without_val: tuple[str, ...]

    def report(self) -> dict[str, JsonValue]:
        """As a manifest carries it."""
        return {
            "documents": self.documents,
            "repeated": self.repeated,
            "kept": self.kept,
            "val": self.val,
            "rejected": dict(self.rejected),
            "joined_val": [f"{family}: {unit}" for family, unit in self.joined],
            "families_without_val": list(self.families_without_val),
        }


def ingredients(corpus: CorpusSpec) -> dict[str, JsonValue]:
    """What of a corpus decides a selection, beside its documents."""
    return {
        "repositories": [repository.name for repository in corpus.repositories],
        "val_fraction": corpus.val_fraction,
    }


def select(documents: Sequence[DocumentsOf], corpus: CorpusSpec, file: Path) -> Summary:
    """Write the selection of all `documents` to `file`, as SELECTION_SCHEMA says, sorted by its key.

    Memory: some 200 bytes a document while it is sorted; what breaks first at 10⁸ documents.
    """
    order = {repository.name: i for i, repository in enumerate(corpus.repositories)}
    rows = _rows(documents, order)
    listed = _unique(rows)
    lineages = _lineages(rows)
    sides, joined = _sides(listed, lineages, clusters(lineages, _sharing(rows)), corpus)
    decided = _decide(listed, sides, list(order))
    pq.write_table(
        decided.select(SELECTION_SCHEMA.names).to_arrow().cast(SELECTION_SCHEMA),
        file,
        compression="zstd",
        row_group_size=ROWS_PER_GROUP,
    )
    return _summary(decided, joined)


def _rows(documents: Sequence[DocumentsOf], order: dict[str, int]) -> pl.LazyFrame:
    """One row a document: what the decisions rest on."""
    frames = []
    for each in documents:
        assert each.repository in order, f"{each.repository} is not in the corpus"
        frames.append(
            pl.scan_parquet(each.path / "part-*.parquet")
            .select("document_id", "family", "timestamp", "lineage", "provenance")
            .with_columns(
                repository=pl.lit(each.repository),
                order=pl.lit(order[each.repository], dtype=pl.Int32),
            )
        )
    return pl.concat(frames)


def _unique(rows: pl.LazyFrame) -> pl.DataFrame:
    """One row a document and repository, with the lineage that it has first; `rows` counts it."""
    return (
        rows.group_by(KEY)
        .agg(
            pl.col("order").first(),
            pl.col("lineage").sort_by("timestamp", "lineage").first(),
            pl.col("timestamp").min(),
            pl.len().alias("rows"),
        )
        .sort(KEY)
        .collect(engine="streaming")
    )


def _lineages(rows: pl.LazyFrame) -> list[Lineage]:
    found = (
        rows.group_by("lineage")
        .agg(pl.col("repository").first(), pl.col("order").min(), pl.col("timestamp").min())
        .collect(engine="streaming")
    )
    return [
        Lineage(name=name, repository=repository, order=order, since=since)
        for name, repository, order, since in found.sort("lineage").iter_rows()
    ]


def _sharing(rows: pl.LazyFrame) -> Iterator[tuple[str, str]]:
    """Pairs of lineages that share a blob: the first in the alphabet with each of the others."""
    blobs = (
        rows.filter(pl.col("family").str.contains(WHOLE_FILES))
        .select("lineage", pl.col("provenance").list.eval(pl.element().struct.field("blob")))
        .explode("provenance")
        .drop_nulls()
        .unique()
    )
    pairs = (
        blobs.with_columns(first=pl.col("lineage").min().over("provenance"))
        .filter(pl.col("first") != pl.col("lineage"))
        .select("first", "lineage")
        .unique()
        .sort("first", "lineage")
        .collect(engine="streaming")
    )
    return pairs.iter_rows()


def _sides(
    listed: pl.DataFrame,
    lineages: Sequence[Lineage],
    oldest: Mapping[str, Lineage],
    corpus: CorpusSpec,
) -> tuple[pl.DataFrame, tuple[tuple[str, str], ...]]:
    """(lineage, split, straddles) of all lineages, and the (family, unit) that had to join val.

    Only whole repositories can have a cluster on both sides; then its val members straddle.
    """
    whole = len(corpus.repositories) >= WHOLE_REPOSITORIES
    units = {each.name: each.repository if whole else oldest[each.name].name for each in lineages}
    val, joined = held_out(_units(listed, units), val_fraction=corpus.val_fraction)
    sides = pl.DataFrame(
        [(each.name, oldest[each.name].name, units[each.name] in val) for each in lineages],
        schema={"lineage": pl.String, "oldest": pl.String, "val": pl.Boolean},
        orient="row",
    )
    straddles = pl.col("val") & ~pl.col("val").all().over("oldest")
    split = pl.when("val").then(pl.lit("val")).otherwise(pl.lit("train"))
    return sides.with_columns(straddles=straddles, split=split), joined


def _units(listed: pl.DataFrame, units: Mapping[str, str]) -> dict[str, list[str]]:
    """The units of each family, in the order of families."""
    found: dict[str, list[str]] = {}
    pairs = listed.select("family", "lineage").unique().sort("family", "lineage")
    for family, lineage in pairs.iter_rows():
        found.setdefault(family, []).append(units[lineage])
    return found


def _decide(listed: pl.DataFrame, sides: pl.DataFrame, repositories: list[str]) -> pl.DataFrame:
    """The selection's columns, and `rows`."""
    names = pl.lit(pl.Series(repositories, dtype=pl.String))
    first = pl.col("order").filter(~pl.col("straddles")).min().over("document_id")
    marked = listed.join(sides, on="lineage", how="left", validate="m:1").with_columns(first=first)
    duplicate = pl.col("order") > pl.col("first")
    straddles = pl.col("straddles")
    return marked.with_columns(
        keep=~(straddles | duplicate),
        reason=pl.when(straddles)
        .then(pl.lit("other_side"))
        .when(duplicate)
        .then(pl.lit("duplicate")),
        rule=pl.when(straddles)
        .then(pl.lit("a copy of the file is in train"))
        .when(duplicate)
        .then(pl.lit("the same text is kept once")),
        evidence=pl.when(straddles)
        .then(pl.col("oldest"))
        .when(duplicate)
        .then(names.gather(pl.col("first"))),
        domain=pl.lit(DOMAIN),
    ).sort(KEY)


def _summary(decided: pl.DataFrame, joined: tuple[tuple[str, str], ...]) -> Summary:
    kept = decided.filter("keep")
    val = kept.filter(pl.col("split") == "val")
    rejected = decided.filter(~pl.col("keep")).group_by("reason").len().sort("reason")
    without = set(decided["family"].unique()) - set(val["family"].unique())
    return Summary(
        documents=decided.height,
        repeated=int(decided["rows"].sum()) - decided.height,
        kept=kept.height,
        val=val.height,
        rejected=tuple(rejected.iter_rows()),
        joined=joined,
        families_without_val=tuple(sorted(without)),
    )
