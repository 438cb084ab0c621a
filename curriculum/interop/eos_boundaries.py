"""Document boundaries inferred from EOS, which happens only if the user gives `--boundaries eos`.

    input_ids   [a b EOS c d EOS e PAD]      doc_starts   [0 3 6]

A document ends with EOS, and the next token begins a document. The start of a row also begins a document,
even if the row continues a document of another row. No token is predicted across such a boundary: where the
loss mask scores such a token, the mask is cleared. Inferred boundaries and cleared targets are counted.

If EOS also ends the turns of conversations, the turns are mistaken for documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from curriculum.packing.boundaries import Int64s, RowLayout, Values
from curriculum.packing.packed_rows import RowBatch, lists, target_ids
from schemas.errors import SchemaError
from schemas.packed_row import RowFormat
from schemas.reports import ImportReport

Boundaries = Literal["eos"]
"""Token from which boundaries that aren't stored are inferred."""
OPTION = "--boundaries"
BY_EOS = f"{OPTION} eos"
STORED = ("doc_starts", "doc_ids")
STORE = "Store it in the rows, or seq_lengths, cu_seqlens or position_ids"
_DEPENDENT = ("loss_token_count", "context_histogram")
"""Columns that depend on boundaries and mask; they are dropped and counted again."""


def require_eos(
    stored: Sequence[str], eos_id: int | None, *, bos_marks_documents: bool, name: str
) -> None:
    """Raise if boundaries can't or needn't be inferred from EOS.

    They needn't if a column of `stored` or BOS marks documents. They can't if `eos_id` is None.

    Raises:
        SchemaError: names the file or the option.
    """
    known = next((column for column in STORED if column in stored), None)
    if known is not None:
        raise SchemaError(
            name,
            f"column {known}",
            cause=f"it says where documents begin, so {BY_EOS} has nothing to stand in for",
            cure=f"Leave {OPTION} out, or the column",
        )
    if bos_marks_documents:
        raise SchemaError(
            BY_EOS,
            cause="the tokenizer's BOS begins every document, so the BOS in the rows marks documents already",
            cure=f"Leave {OPTION} out; or, if documents have no BOS, give --document-tokens eos",
        )
    if eos_id is None:
        raise SchemaError(
            BY_EOS,
            cause="the tokenizer has no EOS, or --document-tokens says that documents don't end with EOS",
            cure="Give --document-tokens eos if documents end with EOS; otherwise store doc_starts",
        )


def with_starts(columns: RowBatch) -> RowBatch:
    """Return the rows with a column doc_starts, inferred from EOS.

    It contains position 0 and each position after an EOS, up to the valid token count.
    """
    ids, eos = columns.input_ids, columns.row_format.eos_id
    begins = np.ones(ids.shape, dtype=np.bool_)
    begins[:, 1:] = ids[:, :-1] == eos
    begins &= np.arange(ids.shape[1]) < columns.valid_counts()[:, None]
    starts = np.nonzero(begins)[1].astype(np.int32)
    array = lists(pa.array(starts), begins.sum(axis=1), pa.int32())
    return RowBatch(
        row_format=columns.row_format, table=columns.table.append_column("doc_starts", array)
    )


def cleared(columns: RowBatch, layout: RowLayout) -> RowBatch:
    """Return the rows with the loss mask cleared at the last token of each document.

    target_ids changes accordingly. Columns that depend on the mask or the boundaries are dropped.
    """
    mask = columns.loss_mask.copy()
    mask.reshape(-1)[layout.flat_start + layout.lengths - 1] = 0
    row_lengths = np.full(len(columns), columns.row_format.row_length)
    changed = {"loss_mask": lists(pa.array(mask.reshape(-1)), row_lengths, pa.uint8())}
    if columns.has("target_ids"):
        targets = target_ids(columns.input_ids, mask, columns.row_format.pad_id)
        changed["target_ids"] = lists(pa.array(targets.reshape(-1)), row_lengths, pa.int32())
    table = columns.table
    for name, array in changed.items():
        table = table.set_column(table.column_names.index(name), name, array)
    known = [name for name in _DEPENDENT if name in table.column_names]
    return RowBatch(row_format=columns.row_format, table=table.drop_columns(known))


@dataclass(kw_only=True, slots=True)
class EosCounts:
    """Number of boundaries inferred from EOS, and number of targets cleared at these boundaries."""

    behind_eos: int = 0
    cleared: int = 0

    def add(self, before: RowBatch, after: pa.Table) -> None:
        """Count the boundaries inferred in some rows, and the targets cleared there.

        `before` are the rows as stored, and `after` are the same rows with inferred boundaries.
        """
        documents: Values = after["num_docs"].to_numpy()
        self.behind_eos += int(documents.sum()) - len(before)
        scored: Values = after["loss_token_count"].to_numpy()
        self.cleared += int(before.loss_mask.sum(dtype=np.int64)) - int(scored.sum())

    def report(self) -> ImportReport:
        """Return the counts as part of an import's report."""
        return ImportReport(boundaries_from_eos=self.behind_eos, cleared=self.cleared)


def edges_of(ids: Values, eos_id: int, at_once: int) -> Int64s:
    """Return the edges [documents + 1] of documents that follow one another in `ids` and end with EOS.

    The edges are 0, each index after an EOS, and len(ids). `at_once` ids are compared at a time.
    """
    behind = [
        first + np.flatnonzero(ids[first : first + at_once] == eos_id) + 1
        for first in range(0, len(ids), at_once)
    ]
    return np.unique(np.concatenate([[0], *behind, [len(ids)]])).astype(np.int64)


def cure_of(stored: Sequence[str], row_format: RowFormat) -> str:
    """Return advice for rows without boundaries: store boundaries, or infer them from EOS if possible."""
    ambiguous = row_format.eos_id == row_format.pad_id and "valid_token_count" not in stored
    if row_format.eos_id is None or ambiguous:
        return STORE
    return f"{STORE}; or, if each EOS ends a document, say {BY_EOS}"
