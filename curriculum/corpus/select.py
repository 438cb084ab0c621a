"""Selection over a whole corpus: which documents are kept, and on which side of the split.

Documents with the same source text are duplicates: the oldest is kept, in the repository that the corpus
lists first. Of near-duplicate files one is kept (near_copies.py). The other files give no documents and no
targets, but contexts may still show them. Only versions of files are read as text, to find files that share
much of it. Domains are assigned later (domains.py), so that changed domain rules change nothing here.

The documents of files decide the sides. Documents of graphs are selected later, each family separately, on
the existing sides. So they never change a selection that has already been packed.

split.py defines the rule for sides; decisions.py reads the decisions back.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import get_args

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from curriculum import frames, parquet
from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.file_texts import read_shown, read_versions
from curriculum.corpus.left_out_targets import left_out_targets
from curriculum.corpus.near_copies import find_near_copies
from curriculum.corpus.other_corpora import LEFT_OUT_FILES_NAME, OtherCorpus
from curriculum.corpus.refused_licences import refused_documents
from curriculum.corpus.shared_lines import lineages_with_shared_text
from curriculum.corpus.split import (
    Lineage,
    choose_val_clusters,
    clusters,
    clusters_beside_unseen,
    clusters_for_whole_commits,
    clusters_to_move,
    hash_fraction,
)
from curriculum.corpus.touched_files import touched_files
from schemas.corpus import CorpusSpec
from schemas.document import KEPT_SCHEMA, LEFT_OUT_FILES_SCHEMA, SIDES_SCHEMA, Side
from schemas.reports import CopyClusterReport, SelectionReport

REVISION = 10
"""Revision of the selection; increase it when the same documents give another selection or split."""
KEPT_NAME, SELECTION_NAME, SIDES_NAME = "kept.parquet", "selection.parquet", "sides.parquet"
GRAPHS = "graphs"
"""Name in reports for all families that read whole commits.

A document of such a family is used only if the functions that its commit touched are in files of one side. So
val needs files that some commits changed without changing others.
"""
ROWS_PER_GROUP = 100_000
_FIRST = ("document_id", "repository", "lineage")
KEY = ("family", "repository", "document_id")
_COLUMNS = (
    "document_id",
    "content_id",
    "family",
    "language",
    "timestamp",
    "num_bytes",
    "lineage",
    "parts",
    "spans",
    "provenance",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFiles:
    """Result of the selection of files: paths of the sides and of the files left out, and all versions."""

    sides: Path
    left_out: Path
    versions: Sequence[DocumentFolder]


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionSummary:
    """Numbers of documents in a selection.

    `joined` are the pairs (family, cluster) that were moved to val.
    """

    documents: int
    repeated: int
    """Number of rows whose document id occurs in an earlier row of the same repository."""
    kept: int
    val: int
    unseen: int = 0
    later: int = 0
    rejected: tuple[tuple[str, int], ...]
    joined: tuple[tuple[str, str], ...]
    families_without_val: tuple[str, ...]
    copy_clusters: tuple[CopyClusterReport, ...] = ()

    def report(self) -> SelectionReport:
        """Return the numbers for the manifest of the selection."""
        return SelectionReport(
            documents=self.documents,
            repeated=self.repeated,
            kept=self.kept,
            val=self.val,
            unseen=self.unseen,
            later=self.later,
            rejected=dict(self.rejected),
            joined_val=tuple(f"{family}: {unit}" for family, unit in self.joined),
            families_without_val=self.families_without_val,
            copy_clusters=self.copy_clusters,
        )


def ingredients(corpus: CorpusSpec) -> dict[str, JsonValue]:
    """Return the settings of the corpus that decide a selection of given documents."""
    never_trained: dict[str, JsonValue] = {
        "unseen": [*sorted(corpus.unseen)],
        "later": corpus.trained_before,
    }
    return {
        "repositories": [repository.name for repository in corpus.repositories],
        "val_fraction": corpus.val_fraction,
        **{name: value for name, value in never_trained.items() if value},
        **corpus.licences.not_usual(),
    }


def select(
    documents: Sequence[DocumentFolder],
    corpus: CorpusSpec,
    folder: Path,
    *,
    known: KnownFiles | None = None,
    others: Sequence[OtherCorpus] = (),
) -> SelectionSummary:
    """Write into `folder` the decisions about `documents` and the sides of their files.

    Files with a copy in one of the corpora `others` give no documents.

    If the sides of files are `known`, they stay. Files that only contexts show get a new side. A file is on
    side val if it shares text with a held-out file. Otherwise it is on the side of a known file with the same
    bytes, and without such a file on a side by hash.

    Memory is about 200 bytes per document during the sort, which limits a corpus to about 10⁸ documents, plus
    up to 300 MB of line hashes.
    """
    order = {repository.name: i for i, repository in enumerate(corpus.repositories)}
    rows = _rows(documents, order)
    refused = refused_documents(rows, KEY, corpus.licences)
    listed = _unique(rows).join(refused, on=KEY, how="left", validate="1:1", maintain_order="left")
    joined: tuple[tuple[str, str], ...] = ()
    large: tuple[CopyClusterReport, ...] = ()
    if known is None:
        lineages = _lineages(rows)
        copies = find_near_copies(rows, documents, folder, others=others)
        sharing = chain(_sharing(rows), _sharing_text(documents), copies.pairs)
        oldest = clusters(lineages, sharing)
        commits = touched_files(rows.filter(_is_trainable(corpus)))
        sides, joined = _splits(listed.filter(_is_trainable(corpus)), oldest, commits, corpus)
        left_out, large = copies.left_out, copies.large
        _write(left_out, LEFT_OUT_FILES_SCHEMA, folder / LEFT_OUT_FILES_NAME)
        copied = listed.select(*KEY, "lineage").join(left_out, on="lineage")
    else:
        sides = _extended(rows, documents, known, corpus)
        copied = left_out_targets(documents, frames.read(known.left_out))
    sided = _sided(listed, sides, corpus)
    decided = _select(sided, copied.select(*KEY, "reason", "evidence"))
    _write(decided, KEPT_SCHEMA, folder / KEPT_NAME)
    _write(sides.sort("lineage"), SIDES_SCHEMA, folder / SIDES_NAME)
    return _summary(decided, joined, large)


def _write(frame: pl.DataFrame, schema: pa.Schema, file: Path) -> None:
    table = frame.select(schema.names).to_arrow().cast(schema)
    pq.write_table(table, file, compression="zstd", row_group_size=ROWS_PER_GROUP)


def _rows(documents: Sequence[DocumentFolder], order: dict[str, int]) -> pl.LazyFrame:
    """Return one row per document, with the columns that decide its selection."""
    tables = []
    for document in documents:
        assert document.repository in order, f"{document.repository} is not in the corpus"
        tables.append(
            frames.scan(parquet.shards_of(document.path), _COLUMNS).with_columns(
                repository=pl.lit(document.repository),
                order=pl.lit(order[document.repository], dtype=pl.Int32),
            )
        )
    return pl.concat(tables)


def _unique(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per document and repository, with the document's first lineage.

    `rows` is the number of rows that the document has in the repository.
    """
    return (
        rows.group_by(KEY)
        .agg(
            pl.col("order").first(),
            pl.col("content_id").first().str.head(15).str.to_integer(base=16).alias("content"),
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
        .agg(
            pl.col("repository").first(),
            pl.col("order").min(),
            pl.col("timestamp").min().alias("since"),
            pl.col("language").sort_by("timestamp", "language").first(),
        )
        .rename({"lineage": "name"})
        .collect(engine="streaming")
    )
    return [Lineage(**lineage) for lineage in found.sort("name").iter_rows(named=True)]


def _cited(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the distinct (lineage, blob, commit) that the provenance of documents names."""
    return (
        rows.select("provenance")
        .explode("provenance")
        .drop_nulls()
        .select(
            pl.col("provenance").struct.field(name).alias(name)
            for name in ("lineage", "blob", "commit")
        )
        .unique()
    )


def _sharing(rows: pl.LazyFrame) -> Iterator[tuple[str, str]]:
    """Yield pairs of lineages that share a blob.

    If several lineages share a blob, the alphabetically first is paired with each of the others.
    """
    pairs = (
        _cited(rows)
        .with_columns(first=pl.col("lineage").min().over("blob"))
        .filter(pl.col("first") != pl.col("lineage"))
        .select("first", "lineage")
        .unique()
        .sort("first", "lineage")
        .collect(engine="streaming")
    )
    return pairs.iter_rows()


def _sharing_text(documents: Sequence[DocumentFolder]) -> Iterator[tuple[str, str]]:
    """Return pairs of lineages that share much of their text, counting all versions with documents."""
    return lineages_with_shared_text(
        chain.from_iterable(read_versions(repository.path) for repository in documents)
    )


def _splits(
    listed: pl.DataFrame,
    oldest: Mapping[str, Lineage],
    commits: Sequence[Sequence[str]],
    corpus: CorpusSpec,
) -> tuple[pl.DataFrame, tuple[tuple[str, str], ...]]:
    """Return the side of each lineage (lineage, split), and the pairs (family, cluster) moved to val.

    `listed` are the documents that training may use; `commits` are the lineages that each commit changed.
    """
    units = _units(listed, oldest)
    beside = clusters_beside_unseen(oldest, corpus.unseen)
    allowed = {name for names in units.values() for name in names} - beside
    judged = {name: unit for name, unit in oldest.items() if unit.name in allowed}
    val = choose_val_clusters(judged, val_fraction=corpus.val_fraction) | beside
    joined = clusters_to_move(units, val)
    val = val.union(unit for _, unit in joined)
    changed = [frozenset(oldest[name].name for name in names) for names in commits]
    more = clusters_for_whole_commits(changed, val, val_fraction=corpus.val_fraction)
    val, joined = val.union(more), (*joined, *((GRAPHS, unit) for unit in more))
    return split_frame(oldest, val, corpus.unseen), joined


def split_frame(
    oldest: Mapping[str, Lineage], val: Set[str], unseen: Set[str] = frozenset()
) -> pl.DataFrame:
    """Return the side of each lineage (lineage, split).

    `val` are the clusters in val, and `unseen` are the unseen repositories.
    """

    def side(name: str, unit: Lineage) -> Side:
        if name.partition(":")[0] in unseen:
            return "unseen"
        return "val" if unit.name in val else "train"

    return pl.DataFrame(
        [(name, side(name, unit)) for name, unit in oldest.items()],
        schema={"lineage": pl.String, "split": pl.String},
        orient="row",
    )


def _is_trainable(corpus: CorpusSpec) -> pl.Expr:
    """Return an expression that is true unless a repository is unseen or a commit is later."""
    is_seen = ~pl.col("repository").is_in(sorted(corpus.unseen))
    return is_seen & ~_is_later(corpus)


def _is_later(corpus: CorpusSpec) -> pl.Expr:
    before = corpus.trained_before
    return pl.lit(value=False) if before is None else pl.col("timestamp") >= before


def _sided(listed: pl.DataFrame, sides: pl.DataFrame, corpus: CorpusSpec) -> pl.DataFrame:
    """Return the documents with their side.

    It is the side of their file, except for documents of later commits on side train, which are on side
    later.
    """
    is_later = (pl.col("split") == "train") & _is_later(corpus)
    return listed.join(sides, on="lineage", how="left", validate="m:1").with_columns(
        split=pl.when(is_later).then(pl.lit("later")).otherwise("split")
    )


def _extended(
    rows: pl.LazyFrame, documents: Sequence[DocumentFolder], known: KnownFiles, corpus: CorpusSpec
) -> pl.DataFrame:
    """Return the side (lineage, split) of all known lineages and of lineages that only contexts show."""
    sides = frames.read(known.sides)
    # A copy of a file from an unseen repository must be held out, too.
    held_out = sides.with_columns(pl.col("split").replace("unseen", "val"))
    cited = _cited(rows).select("lineage", "blob").unique().collect(engine="streaming")
    blobs = cited.join(held_out, on="lineage").group_by("blob").agg(pl.col("split").max())
    strange = cited.join(sides, on="lineage", how="anti").join(blobs, on="blob", how="left")
    copies = strange.group_by("lineage").agg(pl.col("split").max()).sort("lineage")
    near = _near_val(
        documents, known, frozenset(held_out.filter(split="val")["lineage"]), set(copies["lineage"])
    )
    fractions = map(hash_fraction, copies["lineage"])
    hashed = ["val" if fraction < corpus.val_fraction else "train" for fraction in fractions]
    added = copies.select(
        "lineage",
        split=pl.when(pl.col("lineage").is_in(near))
        .then(pl.lit("val"))
        .otherwise(pl.coalesce("split", pl.Series("hashed", hashed, dtype=pl.String))),
    )
    return pl.concat([sides, added])


def _near_val(
    documents: Sequence[DocumentFolder], known: KnownFiles, val: Set[str], strange: Set[str]
) -> list[str]:
    """Return those of the files `strange` whose text, as contexts show it, overlaps with a file in `val`.

    Files that overlap with such a file count as well.
    """
    if not strange:
        return []
    versions = chain.from_iterable(read_versions(repository.path) for repository in known.versions)
    held_out = ((lineage, text) for lineage, text in versions if lineage in val)
    shown = chain.from_iterable(read_shown(repository.path, strange) for repository in documents)
    lineages = [
        Lineage(name=name, repository="", order=int(name in strange), since=0)
        for name in (*val, *strange)
    ]
    oldest = clusters(lineages, lineages_with_shared_text(chain(held_out, shown)))
    return sorted(name for name in strange if oldest[name].name in val)


def _units(listed: pl.DataFrame, oldest: Mapping[str, Lineage]) -> dict[str, list[str]]:
    """Return the cluster of each lineage of a family, by family in alphabetical order."""
    found: dict[str, list[str]] = {}
    pairs = listed.filter(pl.col("refused").is_null()).select("family", "lineage").unique()
    pairs = pairs.sort("family", "lineage")
    for family, lineage in pairs.iter_rows():
        found.setdefault(family, []).append(oldest[lineage].name)
    return found


def _select(sided: pl.DataFrame, left_out: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of the selection, and `rows`.

    `left_out` are the documents of near copies, with the columns KEY, reason and evidence.
    """
    near = left_out.rename({"reason": "near", "evidence": "near_evidence"})
    marked = sided.join(near, on=KEY, how="left", validate="1:1")
    is_refused, is_near = (pl.col(name).is_not_null() for name in ("refused", "near"))
    firsts = (
        marked.filter(~(is_refused | is_near))
        .sort("order", "timestamp", "lineage", "document_id")
        .unique(["family", "content"], keep="first", maintain_order=True)
        .select("family", "content", *(pl.col(name).alias(f"first_{name}") for name in _FIRST))
    )
    marked = marked.join(firsts, on=["family", "content"], how="left", validate="m:1")
    is_first = pl.all_horizontal(pl.col(name) == pl.col(f"first_{name}") for name in _FIRST[:2])
    duplicate = ~is_first.fill_null(value=True)
    decided = [
        _because(is_refused, pl.lit("licence"), "the corpus takes the licence", "refused"),
        _because(is_near, pl.col("near"), "near copies of a file are kept once", "near_evidence"),
        _because(
            duplicate,
            pl.lit("duplicate"),
            "the same source text is kept once",
            "first_lineage",
        ),
    ]
    return (
        marked.with_columns(decision=pl.coalesce(decided))
        .with_columns(keep=pl.col("decision").is_null())
        .unnest("decision")
        .sort(KEY)
    )


def _because(holds: pl.Expr, reason: pl.Expr, rule: str, evidence: str) -> pl.Expr:
    """Return an expression for (reason, rule, evidence) where `holds` is true, and null elsewhere."""
    against = pl.struct(reason=reason, rule=pl.lit(rule), evidence=pl.col(evidence))
    return pl.when(holds).then(against)


def _summary(
    decided: pl.DataFrame,
    joined: tuple[tuple[str, str], ...],
    large: tuple[CopyClusterReport, ...],
) -> SelectionSummary:
    kept = decided.filter("keep")
    on = {side: kept.filter(split=side) for side in get_args(Side)}
    rejected = decided.filter(~pl.col("keep")).group_by("reason").len().sort("reason")
    without = set(decided["family"].unique()) - set(on["val"]["family"].unique())
    return SelectionSummary(
        documents=decided.height,
        repeated=int(decided["rows"].sum()) - decided.height,
        kept=kept.height,
        val=on["val"].height,
        unseen=on["unseen"].height,
        later=on["later"].height,
        rejected=tuple(rejected.iter_rows()),
        joined=joined,
        families_without_val=tuple(sorted(without)),
        copy_clusters=large,
    )
