"""Documents whose code has a licence that the corpus doesn't accept."""

import polars as pl

from schemas.corpus import USUAL_LICENCES, LicencesSpec

UNKNOWN_LICENCE = "unknown"


def refused_documents(
    rows: pl.LazyFrame, key: tuple[str, ...], licences: LicencesSpec
) -> pl.DataFrame:
    """Return documents in which a source outside of the context has a licence that isn't accepted.

    `rows` are documents with parts and provenance. The result has the columns `key` and `refused`, which is
    the licence. If there are several such licences, it is the alphabetically first.
    """
    if licences == USUAL_LICENCES:
        return pl.DataFrame(schema=dict.fromkeys((*key, "refused"), pl.String))
    part, source = pl.element().struct.field("source"), pl.element().struct.field("licence")
    is_context = pl.element().struct.field("kind") == "context"
    cited = (
        rows.select(
            *key,
            context=pl.col("parts").list.eval(pl.when(is_context).then(part)).list.drop_nulls(),
            refused=pl.col("provenance").list.eval(source.fill_null(UNKNOWN_LICENCE)),
            source=pl.int_ranges(0, pl.col("provenance").list.len()),
        )
        .explode("refused", "source")
        .drop_nulls("refused")
        .filter(~pl.col("source").is_in(pl.col("context")))
        .select(*key, "refused")
        .unique()
        .collect(engine="streaming")
    )
    names = [
        name
        for name in cited["refused"].unique()
        if licences.refuses(None if name == UNKNOWN_LICENCE else name)
    ]
    refused = cited.filter(pl.col("refused").is_in(names))
    return refused.group_by(key).agg(pl.col("refused").min())
