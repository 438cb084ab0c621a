"""Supply of a mixture: the small columns of packed rows, and how often each source file is seen."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import frames
from curriculum.store.verify import read_pages
from schemas.errors import SchemaError
from schemas.mixture import SourceRepetition

KEY_DIGITS = 12
INDEX_DIGITS = 10
"""pack_id is `<first 12 digits of the rows' key>-<index, 10 digits>`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """The rows of one serving, by their number over all shards; 14 bytes a row."""

    key: str
    domains: tuple[str, ...]
    """Sorted."""
    domain: npt.NDArray[np.int16]
    """[n], index into domains."""
    valid_tokens: npt.NDArray[np.int32]
    """[n]"""
    pack_index: npt.NDArray[np.int64]
    """[n], the digits after the dash of pack_id."""
    shard_starts: npt.NDArray[np.int64]
    """[shards + 1], the number of each shard's first row, and of all rows."""
    left_out: npt.NDArray[np.bool_] | None = None
    """[n], rows that no plan may take; None for none."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.valid_tokens)

    def rows_of(self, domain: str) -> npt.NDArray[np.int64]:
        """The numbers of the rows of one domain, ascending, those among them that are left out."""
        return np.flatnonzero(self.domain == self.domains.index(domain))

    def tokens_of(self, domain: str) -> int:
        """The valid tokens of one domain in rows that aren't left out."""
        rows = self.rows_of(domain)
        there = rows if self.left_out is None else rows[~self.left_out[rows]]
        return int(self.valid_tokens[there].sum(dtype=np.int64))


def read_supply(files: Sequence[Path], *, key: str, without: Collection[str] = ()) -> Supply:
    """The supply in the shards of a rows artefact, in shard order; `without` are pack_ids to leave out.

    Raises:
        SchemaError: for a pack_id that isn't of these rows.
    """
    names: dict[str, int] = {}
    shards = [_read_shard(file, key, names) for file in files]
    order = sorted(names)
    ranks = np.empty(len(order), dtype=np.int16)
    ranks[[names[name] for name in order]] = np.arange(len(order), dtype=np.int16)
    codes = np.concatenate([np.empty(0, np.int16), *(shard[0] for shard in shards)])
    indices = np.concatenate([np.empty(0, np.int64), *(shard[2] for shard in shards)])
    return Supply(
        key=key,
        domains=tuple(order),
        domain=ranks[codes],
        valid_tokens=np.concatenate([np.empty(0, np.int32), *(shard[1] for shard in shards)]),
        pack_index=indices,
        shard_starts=np.cumsum([0, *(len(shard[0]) for shard in shards)], dtype=np.int64),
        left_out=np.isin(indices, _indices(without, key)) if without else None,
    )


def pack_ids(keys: pl.Series, indices: npt.NDArray[np.int64]) -> pl.Series:
    """The pack_ids of rows, from the full key of each and its index.

    >>> pack_ids(pl.Series(["ab" * 32]), np.array([17])).to_list()
    ['abababababab-0000000017']
    """
    digits = pl.Series(indices).cast(pl.String).str.zfill(INDEX_DIGITS)
    return keys.str.head(KEY_DIGITS) + "-" + digits


def _indices(packs: Collection[str], key: str) -> npt.NDArray[np.int64]:
    """The indices of those pack_ids that are of these rows."""
    mine = [each for each in packs if each.startswith(f"{key[:KEY_DIGITS]}-")]
    return np.array([int(each[KEY_DIGITS + 1 :]) for each in mine], dtype=np.int64)


def _read_shard(
    file: Path, key: str, names: dict[str, int]
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    table = read_pages(file, ["pack_id", "domain", "valid_token_count"])
    frame = pl.DataFrame(pl.from_arrow(table))
    for name in frame["domain"].unique(maintain_order=True):
        names.setdefault(name, len(names))
    prefix = f"{key[:KEY_DIGITS]}-"
    packs = frame["pack_id"]
    indices = packs.str.tail(INDEX_DIGITS).cast(pl.Int64, strict=False)
    right = packs.str.starts_with(prefix) & indices.is_not_null()
    if not right.all():
        at = int((~right).arg_max() or 0)
        raise SchemaError(
            f"row {at} of {file.name}",
            f"pack_id {packs[at]!r}",
            cause=f"the rows' pack_ids begin with {prefix}",
            cure="Build the rows again",
        )
    return (
        frame["domain"].replace_strict(names, return_dtype=pl.Int16).to_numpy(),
        frame["valid_token_count"].cast(pl.Int32).to_numpy(),
        indices.to_numpy(),
    )


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
    return SourceRepetition(
        lineages=lineages.height,
        mean=_rounded(float(lineages["seen"].sum()) / max(1, int(lineages["tokens"].sum()))),
        limit=limit,
        above=int((lineages["repetition"] > limit).sum()),
        most=tuple(
            (lineage, _rounded(repetition))
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
        frames.stream(list(draw.files), READ)
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


def _rounded(value: float) -> float:
    """Sums of floats may differ in their last digits from run to run."""
    return round(value, 6)
