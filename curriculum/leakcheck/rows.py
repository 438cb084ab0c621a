"""Rows on which a step is proven: adversarial lengths at the sizes of a job, and its own rows beside them.

A set of rows is documents only. Sets that differ in some documents' ids, structure or masks are written by
the same writer, so that a step over one can be held against the same step over another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.packing.spool import Spool, SpooledDocuments
from curriculum.packing.write import RowLabels, RowWriter
from curriculum.tokens import EncodedStructure, Encoding
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import RowFormat
from schemas.structure import LABEL_CODES, LARGEST_CODES, LARGEST_LEVEL, STRUCTURE_CODES

Int32s = npt.NDArray[np.int32]
Chosen = Callable[[int, int], bool]
"""Membership of a document, by number, in a set of documents of a row, by number."""
KEY = "0" * 64
"""Key of rows that belong to no artefact."""
PLAN = "plan.parquet"
MOST_CHUNKS = 8
"""Chunks of structure in a document at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of a row; arrays are [n] of its n tokens."""

    ids: Int32s
    loss_mask: npt.NDArray[np.uint8]
    structure: EncodedStructure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """The documents of rows of one length; all of them have structure, or none."""

    row_length: int
    vocab_size: int
    pad_id: int
    rows: tuple[tuple[Document, ...], ...]

    @property
    def structured(self) -> bool:
        """Return True if documents have structure."""
        return self.rows[0][0].structure is not None

    def changed(self, chosen: Chosen, *, seed: int) -> "Rows":
        """Other ids at every position of the chosen documents, and other structure of the same length."""
        chance = np.random.default_rng([seed, self.row_length])

        def change(document: Document) -> Document:
            n = len(document.ids)
            shift = chance.integers(1, max(self.vocab_size, 2), n)
            ids = ((document.ids + shift) % self.vocab_size).astype(np.int32)
            structure = random_structure(n, chance) if document.structure is not None else None
            return replace(document, ids=ids, structure=structure)

        return self._with(chosen, change)

    def muted(self, chosen: Chosen) -> "Rows":
        """The same rows with nothing to predict in the chosen documents."""
        return self._with(
            chosen, lambda each: replace(each, loss_mask=np.zeros_like(each.loss_mask))
        )

    def _with(self, chosen: Chosen, change: Callable[[Document], Document]) -> "Rows":
        rows = tuple(
            tuple(change(each) if chosen(row, at) else each for at, each in enumerate(documents))
            for row, documents in enumerate(self.rows)
        )
        return replace(self, rows=rows)

    def write(self, folder: Path) -> None:
        """Write the rows and a plan that takes each of them once, in this order, into a new folder."""
        spool = folder / "spool"
        spool.mkdir(parents=True)
        documents = [each for row in self.rows for each in row]
        with Spool(spool, structured=self.structured) as spooling:
            for number, document in enumerate(documents):
                spooling.append(_encoding(document, number))
        row_format = RowFormat(
            row_length=self.row_length,
            vocab_size=self.vocab_size,
            pad_id=self.pad_id,
            bos_id=None,
            eos_id=None,
        )
        labels = RowLabels(
            rows_key=KEY,
            family="leakcheck",
            objective="causal",
            variant=0,
            split="train",
            structured=self.structured,
        )
        starts = np.cumsum([0, *(len(row) for row in self.rows)])
        with RowWriter(folder, row_format=row_format, labels=labels, store_targets=False) as writer:
            writer.write(
                SpooledDocuments(spool), np.arange(len(documents)), starts, domain="leakcheck"
            )
        _write_plan(folder, self)


def _encoding(document: Document, number: int) -> Encoding:
    n = len(document.ids)
    return Encoding(
        document_id=f"{number:032x}",
        ids=document.ids,
        loss_mask=document.loss_mask,
        pieces=np.array([[0, 0, n, 0, n]], dtype=np.int32),
        structure=document.structure,
    )


def _write_plan(folder: Path, rows: Rows) -> None:
    planned = [
        {
            "position": at,
            "slot": at,
            "serving": 0,
            "stratum": 0,
            "row_length": rows.row_length,
            "rows_key": KEY,
            "shard": 0,
            "row": at,
            "pack_id": f"{KEY[:12]}-{at:010d}",
            "repetition": 0,
            "valid_tokens": sum(len(each.ids) for each in row),
        }
        for at, row in enumerate(rows.rows)
    ]
    pq.write_table(pa.Table.from_pylist(planned, PLAN_SCHEMA), folder / PLAN)


def random_rows(
    layouts: Sequence[Sequence[int]],
    *,
    row_length: int,
    vocab_size: int,
    structured: bool,
    seed: int,
) -> Rows:
    """Rows whose documents have these lengths, and ids over the whole vocabulary; all is scored."""
    chance = np.random.default_rng([seed, row_length])
    ends = (0, vocab_size - 1)

    def document(n: int) -> Document:
        ids = chance.integers(0, vocab_size, n).astype(np.int32)
        ids[n // 2] = ends[int(chance.integers(2))]
        mask = np.ones(n, dtype=np.uint8)
        mask[-1] = 0
        structure = random_structure(n, chance) if structured else None
        return Document(ids=ids, loss_mask=mask, structure=structure)

    return Rows(
        row_length=row_length,
        vocab_size=vocab_size,
        pad_id=0,
        rows=tuple(tuple(document(n) for n in lengths) for lengths in layouts),
    )


def random_structure(n: int, chance: np.random.Generator) -> EncodedStructure:
    """Codes, chunks and edges by chance for a document of n tokens."""
    limits = np.array([*LARGEST_CODES.values()])
    codes = chance.integers(0, limits + 1, (n, len(limits))).astype(np.uint8)
    count = int(chance.integers(1, min(n, MOST_CHUNKS) + 1))
    edges = np.sort(chance.choice(n, count, replace=False)) if n > 1 else np.zeros(1, dtype=int)
    ends = np.append(edges[1:], n)
    kinds = chance.integers(1, max(STRUCTURE_CODES.values()) + 1, count)
    levels = chance.integers(1, LARGEST_LEVEL + 1, count)
    return EncodedStructure(
        base_document_id="0" * 32,
        codes=codes,
        chunks=np.stack([edges, ends, kinds, levels], axis=1).astype(np.int32),
        call_edges=_random_edges(count, chance),
        type_edges=_random_edges(count, chance),
    )


def _random_edges(chunks: int, chance: np.random.Generator) -> Int32s:
    pairs = np.unique(chance.integers(0, chunks, (2 * chunks, 2)), axis=0)
    labels = chance.integers(1, max(LABEL_CODES.values()) + 1, (len(pairs), 1))
    return np.concatenate([pairs, labels], axis=1).astype(np.int32)
