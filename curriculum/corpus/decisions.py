"""Decisions of a selection about each document: whether it is kept, its side of the split, its domain."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import frames, parquet
from curriculum.corpus.select import KEPT_NAME, SELECTION_NAME, SIDES_NAME
from curriculum.store import Artefact
from schemas.document import Side
from schemas.errors import StoreError

HELD_OUT_FILES: tuple[Side, ...] = ("val", "unseen")
"""Sides whose files have no version in the training set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decisions:
    """Decisions about the documents of one artefact; all arrays are [documents], in row order.

    If a document occurs twice in the artefact, only its first row counts as kept.
    """

    kept: npt.NDArray[np.bool_]
    side: npt.NDArray[np.str_]
    domain: npt.NDArray[np.int64]
    """Domain of each document as an index into `domains`."""
    domains: tuple[str, ...]
    lineage: npt.NDArray[np.int64]
    """Lineage of each document as an index into `lineages`."""
    lineages: tuple[str, ...]
    document_ids: npt.NDArray[np.bytes_]

    def kept_on(self, side: Side) -> npt.NDArray[np.bool_]:
        """Return True for each kept document on `side` of the split, [documents]."""
        found: npt.NDArray[np.bool_] = self.kept & (self.side == side)
        return found

    @property
    def is_held_out_file(self) -> npt.NDArray[np.bool_]:
        """True for documents of files on the sides val and unseen, but not later, [documents]."""
        return np.isin(self.side, HELD_OUT_FILES)


def decisions(selection: Artefact, documents: Artefact) -> Decisions:
    """Return the decisions of `selection` about the documents of one artefact.

    Needs about 120 bytes of memory per document.

    Raises:
        StoreError: if the selection lacks a document; names the first one.
    """
    labels = documents.manifest.labels
    chosen = parquet.read_table(
        selection.path / SELECTION_NAME,
        columns=["document_id", "keep", "split", "domain", "lineage"],
        filters=[("family", "=", labels["family"]), ("repository", "=", labels["repository"])],
    )
    ids = _ids(parquet.read_table(documents.shards(), columns=["document_id"]))
    domain, domains = _coded(chosen["domain"])
    lineage, lineages = _coded(chosen["lineage"])
    found = _places(_ids(chosen), ids, selection, documents)
    first = np.zeros(len(ids), dtype=np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    return Decisions(
        kept=_column(chosen, "keep").astype(np.bool_)[found] & first,
        side=_column(chosen, "split")[found],
        domain=domain[found],
        domains=domains,
        lineage=lineage[found],
        lineages=lineages,
        document_ids=ids,
    )


def _coded(names: Any) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return each name as an index into the sorted distinct names, and these distinct names."""
    listed = names.to_pylist()
    known = {name: code for code, name in enumerate(sorted(set(listed)))}
    return np.array([known[name] for name in listed], dtype=np.int64), tuple(known)


def train_ids(kept: Artefact, documents: Artefact) -> set[str]:
    """Return the ids of an artefact's documents that are kept on side train."""
    labels = documents.manifest.labels
    wanted = [("family", labels["family"]), ("repository", labels["repository"])]
    chosen = parquet.read_table(
        kept.path / KEPT_NAME,
        columns=["document_id"],
        filters=[
            (name, "=", value) for name, value in (*wanted, ("keep", True), ("split", "train"))
        ],
    )
    return {str(name) for name in chosen["document_id"].to_pylist()}


def read_sides(selection: Artefact) -> pl.DataFrame:
    """Return the side of each lineage, as a table with the columns lineage and split."""
    return frames.read(selection.path / SIDES_NAME)


def held_out_files(selection: Artefact) -> frozenset[str]:
    """Return all lineages on the sides val and unseen."""
    sides = parquet.read_table(
        selection.path / SIDES_NAME, columns=["lineage"], filters=[("split", "in", HELD_OUT_FILES)]
    )
    return frozenset(str(lineage) for lineage in sides["lineage"].to_pylist())


def _places(
    chosen: npt.NDArray[np.bytes_],
    ids: npt.NDArray[np.bytes_],
    selection: Artefact,
    documents: Artefact,
) -> npt.NDArray[np.int64]:
    """Return the row of each document in the selection, [documents].

    `chosen` are the ids in the selection, which are sorted; `ids` are those of the documents.
    """
    found = np.searchsorted(chosen, ids)
    lacking = found == len(chosen)
    lacking[~lacking] = chosen[found[~lacking]] != ids[~lacking]
    if lacking.any():
        raise StoreError(
            str(selection.path),
            f"document {ids[lacking][0].decode()}",
            cause=f"{documents.path} contains it, but the selection of these documents does not",
            cure="One of the two was changed: move both out of the workspace and build again",
        )
    return found


def _ids(table: Any) -> npt.NDArray[np.bytes_]:
    return np.array(table["document_id"].to_pylist(), dtype="S32")


def _column(table: Any, name: str) -> npt.NDArray[Any]:
    return np.array(table[name].to_pylist())
