"""Context documents of sampled commits: about how many each gives, and in which domains.

A commit of whose functions some lie on the other side of the split gives none to train on. The domain of a
document is taken to be that of the files it touched, since more commits are read than walked.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from curriculum import frames
from curriculum.corpus.survey import in_sample
from curriculum.families.context import BUDGET
from curriculum.stages.selection import Decisions, decisions
from curriculum.store import Artefact

WALKED_BYTES = 100_000_000
"""Bytes of trees that are parsed for a sample of one percent: half a minute on a core."""
COMMIT_BYTES = 1_000_000
"""Cost of a commit's documents beside its tree, as bytes to parse."""
FEWEST_GRAPHS = 4
SIZES_SCHEMA = pl.Schema({"unit": pl.String, "domain": pl.String, "size": pl.Float64})
"""Columns by sampled commit and domain: about how many documents it gives; one without any has no row."""


def sizes_of(touched: pl.DataFrame, sides: pl.DataFrame, domains: pl.DataFrame) -> pl.DataFrame:
    """A table of SIZES_SCHEMA, sorted.

    `touched` is as TOUCHED_SCHEMA, `sides` has lineage and split, `domains` unit, lineage and domain. A
    document has room for BUDGET bytes of functions; a commit that touched few gives one all the same.
    """
    meant = touched.filter(pl.col("bytes") > 0).join(sides, on="lineage", how="left")
    whole = pl.col("bytes").sum().over("unit")
    return (
        meant.filter((pl.col("split") == "train").all().over("unit"))
        .join(domains, on=["unit", "lineage"], how="inner")
        .with_columns(size=pl.col("bytes") / whole * pl.max_horizontal(1.0, whole / BUDGET))
        .group_by("unit", "domain")
        .agg(pl.col("size").sum())
        .sort("unit", "domain")
        .select(SIZES_SCHEMA.names())
    )


def commits_to_walk(sizes: pl.DataFrame, share: float, *, tree_bytes: int) -> list[str]:
    """The commits whose graphs are walked, in the order of the sample.

    Between two of them most of a tree may have changed, so their number follows from its size.
    """
    number = int(share / 0.01 * WALKED_BYTES) // (tree_bytes + COMMIT_BYTES)
    return in_sample(sizes["unit"].unique(), 0.0, fewest=max(FEWEST_GRAPHS, number))


def domains_of(documents: Sequence[Artefact], selection: Artefact) -> pl.DataFrame:
    """(unit, lineage, domain) of some documents of files, each pair of the first two once."""
    found = [pl.DataFrame(schema=dict.fromkeys(("unit", "lineage", "domain"), pl.String))]
    for each in documents:
        rows = frames.scan(each.files(), ["provenance", "lineage"]).select(
            pl.col("provenance").list.first().struct.field("commit").alias("unit"), "lineage"
        )
        picked = decisions(selection, each)
        domains = pl.Series("domain", list(_named(picked)), dtype=pl.String)
        found.append(rows.collect().with_columns(domains))
    return pl.concat(found).unique(["unit", "lineage"], keep="last", maintain_order=True)


def _named(picked: Decisions) -> Iterator[str]:
    return (picked.domains[int(code)] for code in picked.domain)
