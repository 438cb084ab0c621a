"""Near copies among the files of a corpus; of each set of copies, all but one are left out.

    signatures   of the oldest and newest version of each file with documents     signatures.py
    candidates   pairs of signatures with a band in common                        near_pairs.py
    clusters     files linked by pairs whose exact similarity is high             copy_clusters.py

The original of a copy may be a version that isn't read. So copies are also found by blob ids, among all
versions that the histories ever had.

In each cluster, one repository is the upstream: the one that had most of the shared versions first, else the
one with the oldest file (a lineage may be older than its current content). In the upstream, each group keeps
its oldest file; other repositories keep no file of the cluster. If the corpus excludes other corpora, files
with a copy in one of them are left out first.

All documents of a file are treated alike. A file that has diverged from its original is still left out if its
oldest or newest version is a copy.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import frames
from curriculum.corpus.copy_clusters import (
    LARGE_SHINGLES,
    CopyClusters,
    Join,
    ShingleSpool,
    jaccard,
    min_large_similarity,
)
from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.file_histories import blob_mark, read_histories
from curriculum.corpus.file_texts import read_chosen
from curriculum.corpus.near_pairs import candidate_pairs, large_pairs
from curriculum.corpus.other_corpora import OTHER_CORPUS, OtherCorpus, find_in_other_corpora
from curriculum.corpus.shingles import shingles
from curriculum.corpus.signatures import SIGNATURES_NAME, SignatureWriter, SignedVersion
from schemas.document import LEFT_OUT_FILES_SCHEMA
from schemas.families import VERSIONS_FAMILY
from schemas.reports import CopyClusterReport

Int64s = npt.NDArray[np.int64]

LARGE_CLUSTER, LARGE_SHARE = 50, 0.05
"""A cluster is reported if it has at least LARGE_CLUSTER lineages and more than LARGE_SHARE of all bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NearCopies:
    """Files that are left out as near copies, and the clusters of copies."""

    left_out: pl.DataFrame
    """Table of the files that are left out: lineage, reason and evidence; sorted by lineage."""
    pairs: tuple[tuple[str, str], ...]
    """Pairs of lineages that are in the same cluster: the first lineage with each of the others."""
    large: tuple[CopyClusterReport, ...] = ()


def find_near_copies(
    rows: pl.LazyFrame,
    documents: Sequence[DocumentFolder],
    draft: Path,
    *,
    others: Sequence[OtherCorpus] = (),
) -> NearCopies:
    """Write signatures of files into the folder `draft`, and find the near copies among the files.

    Args:
        rows: Documents with document_id, family, lineage, repository, order, timestamp, num_bytes and
            provenance.
        documents: Folders of all documents.
        draft: Output folder. For a time it also contains up to twice the bytes of the candidates' texts.
        others: Corpora whose files are left out.
    """
    histories = read_histories(folder.path for folder in documents)
    files = _files(rows, histories.select("lineage", "born"))
    signatures = draft / SIGNATURES_NAME
    with SignatureWriter(signatures) as writer:
        for version in _versions(files, documents):
            writer.add(version)
    signed = frames.read(signatures, ["lineage", "document_id", "shingles"])
    clusters = CopyClusters(repositories=files["order"].to_list())
    clusters.join(_verbatim_pairs(files, signed, histories), lambda _: 1.0)
    _join_similar(clusters, files, signed, documents, draft)
    marked = files.with_columns(
        cluster=pl.Series(clusters.clusters.roots(), dtype=pl.Int64),
        group=pl.Series(clusters.groups.roots(), dtype=pl.Int64),
    )
    return NearCopies(
        left_out=_files_left_out(
            marked, _first_versions(marked, histories), find_in_other_corpora(signatures, others)
        ),
        pairs=_pairs(marked),
        large=tuple(_large(marked, clusters)),
    )


def _files(rows: pl.LazyFrame, births: pl.DataFrame) -> pl.DataFrame:
    """Return one row per file with its first and last version and its first timestamp, sorted by lineage."""
    blob = blob_mark(pl.col("provenance").list.first().struct.field("blob"))
    by_age = pl.col("document_id").sort_by("timestamp", "document_id")
    return (
        rows.filter(family=VERSIONS_FAMILY)
        .group_by("lineage")
        .agg(
            pl.col("repository").first(),
            pl.col("order").min(),
            pl.col("timestamp").min(),
            pl.col("num_bytes").sum(),
            oldest=by_age.first(),
            newest=by_age.last(),
            oldest_blob=blob.sort_by("timestamp", "document_id").first(),
            newest_blob=blob.sort_by("timestamp", "document_id").last(),
        )
        .sort("lineage")
        .collect(engine="streaming")
        .join(births, on="lineage", how="left", maintain_order="left")
    )


def _versions(files: pl.DataFrame, folders: Iterable[DocumentFolder]) -> Iterator[SignedVersion]:
    """Yield the oldest and the newest version of each file, in the order of documents."""
    for folder in folders:
        own = files.filter(repository=folder.repository)
        yield from _read(
            folder,
            own.select("lineage", document_id=pl.concat_list("oldest", "newest")).explode(
                "document_id"
            ),
        )


def _read(folder: DocumentFolder, wanted: pl.DataFrame) -> Iterator[SignedVersion]:
    """Yield the versions in `folder` that the rows of `wanted` (lineage, document_id) name, each once."""
    remaining = set(wanted.select("lineage", "document_id").iter_rows())
    for lineage, document_id, text in read_chosen(folder.path, {name for _, name in remaining}):
        if (lineage, document_id) in remaining:
            remaining.discard((lineage, document_id))
            yield SignedVersion(lineage=lineage, document_id=document_id, shingles=shingles(text))


def _verbatim_pairs(
    files: pl.DataFrame, signed: pl.DataFrame, histories: pl.DataFrame
) -> list[tuple[int, int]]:
    """Return pairs of files from two repositories with byte-equal versions.

    The signed version of the first file equals any version that the second file ever had. Of several such
    files, the second is the oldest.
    """
    numbered = files.with_row_index("number")
    versions = (
        numbered.join(signed, on="lineage", how="semi")
        .select("number", "order", blob=pl.concat_list("oldest_blob", "newest_blob"))
        .explode("blob")
    )
    known = (
        histories.join(numbered, on="lineage")
        .select("born", pl.col("number", "order").name.suffix("_known"), blob="blobs")
        .explode("blob")
    )
    return (
        versions.join(known, on="blob")
        .filter(pl.col("order") != pl.col("order_known"))
        .group_by("number")
        .agg(pl.col("number_known").sort_by("born", "number_known").first())
        .sort("number")
        .rows()
    )


def _join_similar(
    clusters: CopyClusters,
    files: pl.DataFrame,
    signed: pl.DataFrame,
    folders: Iterable[DocumentFolder],
    draft: Path,
) -> None:
    """Join files in `clusters` if their signed versions are similar."""
    owners = files["lineage"].search_sorted(signed["lineage"]).to_numpy().astype(np.int64)
    orders = files["order"].to_numpy()[owners]
    pairs = candidate_pairs(draft / SIGNATURES_NAME, len(owners))
    pairs = pairs[owners[pairs[:, 0]] != owners[pairs[:, 1]]]
    sizes = signed["shingles"].to_numpy().astype(np.int64)
    large = large_pairs(draft / SIGNATURES_NAME, sizes >= LARGE_SHINGLES)
    large = large[orders[large[:, 0]] != orders[large[:, 1]]]
    minima = min_large_similarity(sizes[large[:, 0]], sizes[large[:, 1]])
    with tempfile.TemporaryFile(dir=draft) as file:
        spool = ShingleSpool(file)
        chosen = signed.with_row_index("number")[np.unique(np.concatenate([pairs, large]))]
        _spool(spool, chosen.join(files.select("lineage", "repository"), on="lineage"), folders)

        def similarity(pair: Int64s) -> float:
            one, other = pair.tolist()
            return jaccard(spool.read(one), spool.read(other))

        clusters.join(owners[pairs].tolist(), lambda number: similarity(pairs[number]))
        clusters.join(
            owners[large].tolist(),
            lambda number: similarity(large[number]),
            min_across=lambda number: minima[number],
        )


def _spool(spool: ShingleSpool, chosen: pl.DataFrame, folders: Iterable[DocumentFolder]) -> None:
    """Read the versions in `chosen` a second time, and add their shingles to `spool`."""
    for folder in folders:
        own = chosen.filter(repository=folder.repository)
        numbers = {
            (lineage, document_id): number
            for lineage, document_id, number in own.select(
                "lineage", "document_id", "number"
            ).iter_rows()
        }
        for version in _read(folder, own) if numbers else ():
            spool.add(numbers[version.lineage, version.document_id], version.shingles)


def _first_versions(marked: pl.DataFrame, histories: pl.DataFrame) -> pl.DataFrame:
    """Return a table with the columns cluster, order and firsts.

    `firsts` is the number of shared versions of a cluster that the repository at position `order` had first.
    """
    return (
        histories.join(marked.select("lineage", "cluster", "order"), on="lineage")
        .explode("blobs", "since")
        .group_by("cluster", "blobs")
        .agg(pl.col("order").sort_by("since", "order").first(), n=pl.col("order").n_unique())
        .filter(pl.col("n") > 1)
        .group_by("cluster", "order")
        .agg(firsts=pl.len())
    )


def _files_left_out(
    marked: pl.DataFrame, firsts: pl.DataFrame, elsewhere: dict[str, str]
) -> pl.DataFrame:
    held = pl.DataFrame(
        {"lineage": list(elsewhere), "evidence": list(elsewhere.values())},
        schema={"lineage": pl.String, "evidence": pl.String},
    ).with_columns(reason=pl.lit(OTHER_CORPUS))
    ranked = (
        marked.join(held, on="lineage", how="anti")
        .join(firsts, on=["cluster", "order"], how="left")
        .with_columns(later=-pl.col("firsts").cast(pl.Int64).fill_null(0))
        .sort("later", "born", "order", "timestamp", "lineage", nulls_last=True)
    )
    upstream = pl.col("order") == pl.col("order").first().over("cluster")
    kept = (
        pl.when(upstream)
        .then(pl.col("lineage").first().over("cluster", "group"))
        .otherwise(pl.col("lineage").first().over("cluster"))
    )
    copies = ranked.with_columns(evidence=kept, reason=pl.lit("near_duplicate")).filter(
        pl.col("evidence") != pl.col("lineage")
    )
    names = LEFT_OUT_FILES_SCHEMA.names
    return pl.concat([held.select(names), copies.select(names)]).sort("lineage")


def _pairs(marked: pl.DataFrame) -> tuple[tuple[str, str], ...]:
    pairs = marked.with_columns(first=pl.col("lineage").first().over("cluster")).filter(
        pl.col("first") != pl.col("lineage")
    )
    return tuple(pairs.select("first", "lineage").iter_rows())


def _large(marked: pl.DataFrame, clusters: CopyClusters) -> Iterator[CopyClusterReport]:
    """Yield reports on the large clusters, largest first."""
    total = max(1, marked["num_bytes"].sum())
    sizes = (
        marked.group_by("cluster")
        .agg(pl.len().alias("lineages"), share=pl.col("num_bytes").sum() / total)
        .filter(pl.col("lineages") >= LARGE_CLUSTER, pl.col("share") > LARGE_SHARE)
        .sort(["share", "cluster"], descending=[True, False])
    )
    for cluster, lineages, share in sizes.iter_rows():
        join: Join = clusters.largest_joins[cluster]
        yield CopyClusterReport(
            lineages=lineages,
            share=share,
            first=marked["lineage"][join.first],
            second=marked["lineage"][join.second],
            similarity=join.similarity,
        )
