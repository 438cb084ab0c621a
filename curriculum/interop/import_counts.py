"""Counts of imported rows by domain, and of documents whose pieces lie in several rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from schemas.reports import ImportedDomain, ImportReport

SUMS = (
    ("rows", "domain_count"),
    ("documents", "num_docs_sum"),
    ("tokens", "valid_token_count_sum"),
    ("scored_tokens", "loss_token_count_sum"),
)


class ImportCounts:
    """Running counts of imported rows; if `document_ids` are stored, they need 8 bytes per document."""

    def __init__(self, row_length: int, *, ids_are_stored: bool) -> None:
        self._row_length = row_length
        self._ids_are_stored = ids_are_stored
        self._sums: dict[str, dict[str, int]] = {}
        self._hashes: list[npt.NDArray[np.uint64]] = []

    def add(self, rows: pa.Table) -> None:
        """Add the rows to the counts."""
        names = ("num_docs", "valid_token_count", "loss_token_count")
        grouped = rows.select(["domain", *names]).group_by("domain")
        summed: Any = grouped.aggregate([("domain", "count"), *((name, "sum") for name in names)])
        for line in summed.to_pylist():
            sums = self._sums.setdefault(line["domain"], {})
            for ours, theirs in SUMS:
                sums[ours] = sums.get(ours, 0) + line[theirs]
        if self._ids_are_stored:
            ids = pl.Series(rows["document_ids"]).explode()
            self._hashes.append(ids.hash().to_numpy())

    def report(self) -> ImportReport:
        """Return the counts by domain with yields, and the number of documents in several pieces.

        Pieces of one document share its id. If ids aren't stored, every piece counts as a whole document.
        """
        domains = {
            domain: ImportedDomain(
                **sums,
                row_length=self._row_length,
                pack_yield=sums["tokens"] / (sums["rows"] * self._row_length),
            )
            for domain, sums in sorted(self._sums.items())
        }
        if not self._ids_are_stored:
            return ImportReport(domains=domains)
        pieces = np.unique(np.concatenate(self._hashes), return_counts=True)[1]
        return ImportReport(
            domains=domains,
            divided=int((pieces > 1).sum()),
            further_pieces=int(pieces.sum()) - len(pieces),
        )
