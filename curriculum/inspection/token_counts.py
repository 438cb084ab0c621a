"""Valid tokens of rows or mixtures, counted by document and origin, and differences of two counts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import polars as pl

from curriculum import parquet
from curriculum.inspection.lineage import inputs
from curriculum.mixing.mix import PLAN_NAME
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from schemas.errors import StoreError
from schemas.packed_row import unusual_options

ROWS = "rows"
KINDS = ("phase", "serving", "family", "domain", "repository", "licence")
"""Columns by which tokens can be counted."""
DOCUMENT_COLUMNS = (*KINDS, "document_id", "path", "commit", "lineage", "tokens")
NO_LICENCE, UNKNOWN = "none", "?"
"""Text for documents without a licence, and for the origin of deleted documents."""
_ORIGIN = ("document_id", "repository", "commit", "path", "licence", "lineage")
_COLUMNS = ("document_ids", "doc_starts", "valid_token_count", "domain")
_NOTHING = pl.DataFrame(
    schema={name: pl.Int64 if name == "tokens" else pl.String for name in DOCUMENT_COLUMNS}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidTokens:
    """Numbers of valid tokens in several artefacts of rows or mixtures together."""

    title: str
    artefacts: tuple[Artefact, ...]
    rows: int
    """Number of packed rows; a repeated row counts each time."""
    positions: int
    documents: pl.DataFrame
    """One row per document and serving, with DOCUMENT_COLUMNS."""

    @property
    def tokens(self) -> int:
        """Total number of valid tokens."""
        return int(self.documents["tokens"].sum())

    def by(self, kind: str) -> dict[str, int]:
        """Return the number of valid tokens grouped by `kind`: one of KINDS, document_id or lineage."""
        grouped = self.documents.group_by(kind, maintain_order=True).agg(pl.col("tokens").sum())
        return dict(grouped.iter_rows())


def counted(store: Store, title: str, artefacts: Sequence[Artefact]) -> ValidTokens:
    """Count the valid tokens of rows and mixtures by document. `title` is the name to display.

    Raises:
        StoreError: if rows that a mixture reads were deleted.
    """
    by_key = {artefact.key: artefact for artefact in store.artefacts()}
    parts = [part for artefact in artefacts for part in _parts(store, artefact, by_key)]
    return ValidTokens(
        title=title,
        artefacts=tuple(artefacts),
        rows=sum(rows for rows, _, _ in parts),
        positions=sum(rows * length for rows, length, _ in parts),
        documents=pl.concat([_NOTHING, *(documents for _, _, documents in parts)]),
    )


_Part: TypeAlias = tuple[int, int, pl.DataFrame]
"""Number of rows taken from an artefact, their length, and their documents."""


def _parts(store: Store, artefact: Artefact, by_key: Mapping[str, Artefact]) -> Iterator[_Part]:
    """Yield one part for each artefact of rows: all its rows, or those that the mixture selects."""
    if artefact.manifest.stage == ROWS:
        yield _part(store, artefact, None, phase="")
        return
    phase = artefact.manifest.labels["phase"]
    plan = _frame(artefact.path / PLAN_NAME, ("rows_key", "shard", "row"))
    for key in plan["rows_key"].unique(maintain_order=True):
        if key not in by_key:
            raise StoreError(
                str(artefact.path),
                f"rows {key[:KEY_DIGITS]}",
                cause="the plan draws on rows that are gone",
                cure="Build the phase again: the same key comes back",
            )
        yield _part(store, by_key[key], plan.filter(pl.col("rows_key") == key), phase=phase)


def _part(store: Store, rows: Artefact, plan: pl.DataFrame | None, *, phase: str) -> _Part:
    """Return all rows of an artefact, or the rows that `plan` selects; a repeated row counts each time."""
    labels, number, counts = rows.manifest.labels, 0, []
    for shard, file in enumerate(rows.shards()):
        lines = _frame(file, _COLUMNS).with_row_index("row")
        if plan is not None:
            taken = plan.filter(pl.col("shard") == shard).select(pl.col("row").cast(pl.UInt32))
            lines = taken.join(lines, on="row")
        number += len(lines)
        counts.append(_tokens(lines))
    family = f"{labels['family']} of {labels['base']}" if "base" in labels else labels["family"]
    options = unusual_options(labels)
    serving = f"{family} {labels['objective']} {labels['row_length']} {options}".rstrip()
    documents = (
        pl.concat([_NOTHING.select("document_id", "domain", "tokens"), *counts])
        .group_by("document_id", "domain", maintain_order=True)
        .agg(pl.col("tokens").sum())
        .filter(pl.col("tokens") > 0)
    )
    words = {"family": pl.lit(family), "serving": pl.lit(serving), "phase": pl.lit(phase)}
    known = _with_origins(store, rows, documents).with_columns(**words)
    return number, int(labels["row_length"]), known.select(DOCUMENT_COLUMNS)


def _tokens(lines: pl.DataFrame) -> pl.DataFrame:
    """Return one line per document and packed row, with the document's number of valid tokens in the row.

    If T is 8, a row with documents of 3 and 5 tokens and a row with one of 6 tokens give 3, 5 and 6.
    """
    starts = pl.col("doc_starts").list.head(pl.col("document_ids").list.len())
    ends = pl.concat_list(starts.list.slice(1), "valid_token_count")
    spans = lines.select(document_id="document_ids", domain="domain", start=starts, end=ends)
    tokens = (pl.col("end") - pl.col("start")).cast(pl.Int64).alias("tokens")
    return spans.explode("document_id", "start", "end").select("document_id", "domain", tokens)


def _with_origins(store: Store, rows: Artefact, counts: pl.DataFrame) -> pl.DataFrame:
    """Return `counts` with the origin of each document, or UNKNOWN if the documents were deleted."""
    made_of = inputs(store, rows, "documents")
    files = [file for artefact in made_of for file in parquet.shards_of(artefact.path)]
    nothing = pl.DataFrame(schema=dict.fromkeys(_ORIGIN, pl.String))
    known = pl.concat([nothing, *map(_origins, files)]).unique("document_id", keep="first")
    is_known = pl.col("repository").is_not_null()
    licence = (
        pl.when(is_known).then(pl.col("licence").fill_null(NO_LICENCE)).otherwise(pl.lit(UNKNOWN))
    )
    names = ("repository", "commit", "path", "lineage")
    return counts.join(known, on="document_id", how="left").with_columns(
        licence, *(pl.col(name).fill_null(UNKNOWN) for name in names)
    )


def _origins(file: Path) -> pl.DataFrame:
    """Return the origin of each document: the first provenance entry of its lineage, or the last entry."""
    entry = pl.col("provenance")
    own = entry.filter(entry.struct.field("lineage") == pl.col("lineage"))
    return (
        _frame(file, ("document_id", "licence", "lineage", "provenance"))
        .unique("document_id", keep="first")
        .explode("provenance")
        .group_by("document_id")
        .agg(
            pl.col("licence", "lineage").first(),
            *(
                pl.coalesce(source.first().struct.field(name) for source in (own, entry.reverse()))
                for name in ("repository", "commit", "path")
            ),
        )
        .select(pl.col(_ORIGIN).cast(pl.String))
    )


def _frame(file: Path, columns: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(parquet.read_table(file, columns=columns))


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenChange:
    """Number of valid tokens with a name before and after, and their shares of all tokens.

    A name that is missing on one side counts as 0.
    """

    name: str
    tokens_before: int
    share_before: float
    tokens_after: int
    share_after: float
    tokens_change: int
    share_change: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentChange:
    """Number of valid tokens of a document before and after, and the document's origin."""

    document_id: str
    family: str
    repository: str
    commit: str
    path: str
    licence: str
    lineage: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TotalChange:
    """A total over all rows before and after."""

    name: str
    before: float
    after: float
    change: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenDifference:
    """Differences of two token counts, called before and after."""

    before: str
    after: str
    """Title of each of the two counts."""
    paths_before: tuple[Path, ...]
    paths_after: tuple[Path, ...]
    """Artefacts of each of the two counts."""
    totals: tuple[TotalChange, ...]
    by: Mapping[str, tuple[TokenChange, ...]]
    """Changes by each of KINDS, the largest first."""
    documents: tuple[DocumentChange, ...]
    """Changes of all documents, the largest first. Unchanged documents are included."""


def difference(before: ValidTokens, after: ValidTokens) -> TokenDifference:
    """Compute the difference between two token counts."""
    old, new = _totals(before), _totals(after)
    return TokenDifference(
        before=before.title,
        after=after.title,
        paths_before=tuple(artefact.path for artefact in before.artefacts),
        paths_after=tuple(artefact.path for artefact in after.artefacts),
        totals=tuple(
            TotalChange(name=name, before=old[name], after=new[name], change=new[name] - old[name])
            for name in old
        ),
        by={kind: changes(before.by(kind), after.by(kind)) for kind in KINDS},
        documents=_document_changes(before, after),
    )


def _totals(side: ValidTokens) -> dict[str, float]:
    return {
        "tokens": side.tokens,
        "rows": side.rows,
        "documents": len(side.by("document_id")),
        "source_files": len(side.by("lineage")),
        "positions": side.positions,
        "padding_share": 1 - side.tokens / max(side.positions, 1),
    }


def _document_changes(before: ValidTokens, after: ValidTokens) -> tuple[DocumentChange, ...]:
    columns = [*list(DocumentChange.__dataclass_fields__)[:-2]]
    known: dict[str, dict[str, str]] = {
        line["document_id"]: line
        for side in (before, after)
        for line in side.documents.select(columns).to_dicts()
    }
    return tuple(
        DocumentChange(
            **known[change.name],
            tokens_before=change.tokens_before,
            tokens_after=change.tokens_after,
        )
        for change in changes(before.by("document_id"), after.by("document_id"))
    )


def changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[TokenChange, ...]:
    """Return one change for each name in one of the counts, the largest first.

    >>> [(c.name, c.tokens_change, c.share_change) for c in changes({"a": 3, "b": 1}, {"b": 4})]
    [('a', -3, -0.75), ('b', 3, 0.75)]
    """
    old, new = ({**dict.fromkeys([*before, *after], 0), **side} for side in (before, after))
    all_old, all_new = max(sum(old.values()), 1), max(sum(new.values()), 1)
    found = [
        TokenChange(
            name=name,
            tokens_before=old[name],
            share_before=old[name] / all_old,
            tokens_after=new[name],
            share_after=new[name] / all_new,
            tokens_change=new[name] - old[name],
            share_change=new[name] / all_new - old[name] / all_old,
        )
        for name in old
    ]
    return tuple(sorted(found, key=lambda change: (-abs(change.tokens_change), change.name)))
