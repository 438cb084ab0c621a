"""Rows of a job's plan as documents, to stand beside adversarial rows."""

from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from curriculum import parquet
from curriculum.leakcheck.rows import Document, Int32s, Rows
from curriculum.store.verify import reading_pages
from curriculum.tokens import EncodedStructure
from curriculum.train.batch import PlanReader
from schemas.job import Job
from schemas.structure import STRUCTURE_COLUMNS, STRUCTURE_TOKENS

_COLUMNS = ["input_ids", "loss_mask", "doc_starts", "valid_token_count"]
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
        file = sorted(folders[planned.rows_key].glob("part-*.parquet"))[planned.shard]
        yield tuple(_documents(_row(file, planned.row), like))


def _row(file: Path, row: int) -> dict[str, Any]:
    """The columns of one row; of the file only its row group is read."""
    with reading_pages(file), parquet.File(file, page_checksum_verification=True) as opened:
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
