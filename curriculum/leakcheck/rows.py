"""Rows on which a step is proven: adversarial lengths at the sizes of a job, and its own rows beside them.

A set of rows is documents only. Sets that differ in some documents' ids, structure or masks are written
by the same writer, so that a step over one can be compared with the same step over another. A `RowsFile`
reads rows past the loader: the measure for batches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from curriculum import parquet
from curriculum.packing.spool import Spool, SpooledDocuments
from curriculum.packing.write import RowLabels, RowWriter
from curriculum.parquet import reading_pages
from curriculum.tokens import EncodedStructure, Encoding
from curriculum.train.plan_reader import PlanReader
from schemas.job import Job, ModelSpec
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import RowFormat
from schemas.structure import (
    LABEL_CODES,
    LARGEST_CODES,
    LARGEST_LEVEL,
    STRUCTURE_CODES,
    STRUCTURE_COLUMNS,
    STRUCTURE_TOKENS,
)

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
            "attention_pairs": sum(len(each.ids) * (len(each.ids) + 1) // 2 for each in row),
        }
        for at, row in enumerate(rows.rows)
    ]
    pq.write_table(pa.Table.from_pylist(planned, PLAN_SCHEMA), folder / PLAN)


def random_rows(spec: ModelSpec, row_length: int, layouts: Sequence[Sequence[int]]) -> Rows:
    """Rows whose documents have these lengths, and ids over a model's whole vocabulary; all is scored."""
    chance = np.random.default_rng([1, row_length])
    ends = (0, spec.vocab_size - 1)

    def document(n: int) -> Document:
        ids = chance.integers(0, spec.vocab_size, n).astype(np.int32)
        ids[n // 2] = ends[int(chance.integers(2))]
        mask = np.ones(n, dtype=np.uint8)
        mask[-1] = 0
        structure = random_structure(n, chance) if spec.structure else None
        return Document(ids=ids, loss_mask=mask, structure=structure)

    return Rows(
        row_length=row_length,
        vocab_size=spec.vocab_size,
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


_COLUMNS = ["input_ids", "loss_mask", "doc_starts", "valid_token_count"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsFile:
    """All rows of a folder in the order of its file; R rows of T tokens."""

    ids: Tensor
    """int32 [R, T]."""
    mask: Tensor
    """bool [R, T]: the scored positions."""
    documents: Tensor
    """int64 [R, T]: the number of the document in its row; −1 in padding."""

    @staticmethod
    def read(folder: Path) -> "RowsFile":
        """Read the first shard with pyarrow alone."""
        table = parquet.read_table(parquet.shards_of(folder)[0], _COLUMNS)
        ids = np.stack([each.values.to_numpy() for each in table["input_ids"]])
        mask = np.stack([each.values.to_numpy() for each in table["loss_mask"]])
        documents = np.full(ids.shape, -1, dtype=np.int64)
        for row, valid in enumerate(table["valid_token_count"].to_numpy()):
            edges = np.append(table["doc_starts"][row].values.to_numpy(), valid)
            documents[row, :valid] = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        return RowsFile(
            ids=torch.from_numpy(ids),
            mask=torch.from_numpy(mask.astype(bool)),
            documents=torch.from_numpy(documents),
        )


_STRUCTURE = [each.name for each in STRUCTURE_COLUMNS]
_SHIFT = 7919
"""The step between ids, where a plan with few rows gives them again."""


def planned_rows(
    job: Job, workspace: Path, like: Rows, count: int
) -> tuple[tuple[Document, ...], ...]:
    """The first rows of the plan with the row length of `like`; of a plan with fewer, again with other ids.

    They are read with pyarrow, past the loader. Documents have structure where those of `like` have.
    """
    found: list[tuple[Document, ...]] = []
    while len(found) < count:
        before = len(found)
        found += [
            tuple(_shifted(each, before * _SHIFT, like.vocab_size) for each in row)
            for row in islice(_rows(job, workspace, like), count - before)
        ]
        if len(found) == before:
            break
    return tuple(found)


def _shifted(document: Document, by: int, vocab_size: int) -> Document:
    ids = ((document.ids.astype(np.int64) + by) % vocab_size).astype(np.int32)
    return Document(ids=ids, loss_mask=document.loss_mask, structure=document.structure)


def _rows(job: Job, workspace: Path, like: Rows) -> Iterator[tuple[Document, ...]]:
    folders = {each.key: workspace / each.path for each in job.rows}
    plan = PlanReader(workspace / job.plan)
    seen: set[str] = set()
    for position in range(len(plan)):
        planned = plan.at(position)
        if planned.row_length != like.row_length or planned.pack_id in seen:
            continue
        seen.add(planned.pack_id)
        file = parquet.shards_of(folders[planned.rows_key])[planned.shard]
        yield tuple(_documents(_row(file, planned.row), like))


def _row(file: Path, row: int) -> dict[str, Any]:
    """The columns of one row; of the file only its row group is read."""
    with reading_pages(file), parquet.File(file) as opened:
        names = [each for each in (*_COLUMNS, *_STRUCTURE) if each in opened.schema_arrow.names]
        for group in range(opened.num_row_groups):
            rows = opened.metadata.row_group(group).num_rows
            if row < rows:
                table: pa.Table = opened.read_row_group(group, columns=names, use_threads=False)
                return {name: table[name][row] for name in names}
            row -= rows
    raise AssertionError("a plan names rows that are there: the job's parts fit together")


def _documents(row: dict[str, Any], like: Rows) -> Iterator[Document]:
    ids, mask = (row[name].values.to_numpy() for name in ("input_ids", "loss_mask"))
    edges = np.append(row["doc_starts"].values.to_numpy(), row["valid_token_count"].as_py())
    for number, (start, end) in enumerate(pairwise(edges)):
        structure = _structure(row, number, start, end) if like.structured else None
        yield Document(ids=ids[start:end], loss_mask=mask[start:end], structure=structure)


def _structure(row: dict[str, Any], number: int, start: int, end: int) -> EncodedStructure:
    """The structure of one document, counted from its first token; zeros in rows that have none."""
    none = np.zeros((0, 3), dtype=np.int32)
    if _STRUCTURE[0] not in row:
        return EncodedStructure(
            base_document_id="0" * 32,
            codes=np.zeros((end - start, len(STRUCTURE_TOKENS)), dtype=np.uint8),
            chunks=np.zeros((0, 4), dtype=np.int32),
            call_edges=none,
            type_edges=none,
        )
    codes = [row[name].values.to_numpy()[start:end] for name in STRUCTURE_TOKENS]
    chunks = _fields(row, "chunk_boundaries", ("start", "end", "kind", "dep_level", "doc"))
    mine = np.flatnonzero(chunks[:, 4] == number)
    first, after = (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (0, 0)
    calls, types = (
        _within(_fields(row, name, ("source", "target", "label")), first, after)
        for name in ("call_edges", "type_edges")
    )
    return EncodedStructure(
        base_document_id="0" * 32,
        codes=np.stack(codes, axis=1),
        chunks=chunks[mine, :4] - np.array([start, start, 0, 0], dtype=np.int32),
        call_edges=calls,
        type_edges=types,
    )


def _within(edges: Int32s, first: int, after: int) -> Int32s:
    kept = edges[(edges[:, 0] >= first) & (edges[:, 0] < after)]
    return kept - np.array([first, first, 0], dtype=np.int32)


def _fields(row: dict[str, Any], column: str, names: tuple[str, ...]) -> Int32s:
    items = row[column].values
    return np.stack([items.field(name).to_numpy() for name in names], axis=1)
