"""Documents that a proof trains on: random ones with lengths that expose leaks, and those of a job's plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum import parquet
from curriculum.tokens.encoding import EncodedStructure, Encoding
from curriculum.train.plan_reader import PlanReader
from schemas.job import Job, ModelSpec
from schemas.structure import (
    LABEL_CODES,
    MAX_CODES,
    MAX_LEVEL,
    STRUCTURE_CODES,
    STRUCTURE_COLUMNS,
    STRUCTURE_TOKENS,
)

Int32s = npt.NDArray[np.int32]
MAX_CHUNKS = 8
"""Maximum number of structure chunks in a document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofDocument:
    """Document of n tokens, as arrays of length n."""

    ids: Int32s
    loss_mask: npt.NDArray[np.uint8]
    structure: EncodedStructure | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_scored(self) -> bool:
        """True if at least one token of the document is a target."""
        return bool(self.loss_mask.any())

    def encoding(self, number: int) -> Encoding:
        """Return the document in the form that the row writer takes. Its id is derived from `number`."""
        n = len(self)
        return Encoding(
            document_id=f"{number:032x}",
            ids=self.ids,
            loss_mask=self.loss_mask,
            pieces=np.array([[0, 0, n, 0, n]], dtype=np.int32),
            structure=self.structure,
        )

    def first(self, n: int) -> "ProofDocument":
        """Return the first n tokens as a document, with the structure chunks that end within them."""
        if len(self) <= n:
            return self
        mask = self.loss_mask[:n].copy()
        mask[-1] = 0
        structure = None if self.structure is None else _first_of(self.structure, n)
        return ProofDocument(ids=self.ids[:n], loss_mask=mask, structure=structure)


def _first_of(structure: EncodedStructure, n: int) -> EncodedStructure:
    count = int((structure.chunks[:, 1] <= n).cumprod().sum())
    calls, types = (
        edges[(edges[:, 0] < count) & (edges[:, 1] < count)]
        for edges in (structure.call_edges, structure.type_edges)
    )
    return replace(
        structure,
        codes=structure.codes[:n],
        chunks=structure.chunks[:count],
        call_edges=calls,
        type_edges=types,
    )


ProofSteps = Sequence[Sequence[ProofDocument]]
"""Documents of each step. Documents are numbered across all steps."""
LATER_LONGEST = 256
"""Maximum length of a document in all steps except the first."""
MANY = 1_030
"""Number of documents in a step of short documents. It exceeds 1,024, so that ten bits can't number them."""


def proof_documents(spec: ModelSpec, *, longest: int, steps: int = 4, seed: int = 0) -> ProofSteps:
    """Return random documents whose lengths expose leaks. The longest document has `longest` tokens.

    Ids come from the whole vocabulary. The first step has documents of 1, 2, 3, 127, 128 and 129 tokens and
    one of `longest`. The other steps have random lengths.
    """
    chance = np.random.default_rng([seed, longest])
    edges = [length for length in (2, 3, 127, 128, 129) if length < longest]
    later = min(max(longest // 4, 3), LATER_LONGEST)
    lengths = [[longest, *edges, 1, 1]]
    lengths += [[int(length) for length in chance.integers(2, later, 5)] for _ in range(steps - 1)]
    return _with_lengths(spec, lengths, chance)


def many_documents(spec: ModelSpec, *, seed: int = 0) -> ProofSteps:
    """Return one step of more than 1,024 documents of 1 to 5 tokens."""
    chance = np.random.default_rng([seed, MANY])
    lengths = [1, 1, *(int(length) for length in chance.integers(2, 6, MANY))]
    return _with_lengths(spec, [lengths], chance)


def _with_lengths(
    spec: ModelSpec, lengths: Sequence[Sequence[int]], chance: np.random.Generator
) -> ProofSteps:
    return tuple(
        tuple(_random_document(spec, length, chance) for length in of_step) for of_step in lengths
    )


def _random_document(spec: ModelSpec, length: int, chance: np.random.Generator) -> ProofDocument:
    """Return a random document with its first and last targets and about half of the others scored."""
    ids = chance.integers(0, spec.vocab_size, length).astype(np.int32)
    ids[length // 2] = (0, spec.vocab_size - 1)[int(chance.integers(2))]
    mask = (chance.random(length) < 0.5).astype(np.uint8)
    mask[:3] = 1
    mask[-2:] = 1
    mask[-1] = 0
    structure = random_structure(length, chance) if spec.structure else None
    return ProofDocument(ids=ids, loss_mask=mask, structure=structure)


def random_structure(n: int, chance: np.random.Generator) -> EncodedStructure:
    """Return random structure for a document of n tokens: codes, chunks and edges."""
    limits = np.array([*MAX_CODES.values()])
    codes = chance.integers(0, limits + 1, (n, len(limits))).astype(np.uint8)
    count = int(chance.integers(1, min(n, MAX_CHUNKS) + 1))
    edges = np.sort(chance.choice(n, count, replace=False)) if n > 1 else np.zeros(1, dtype=int)
    ends = np.append(edges[1:], n)
    kinds = chance.integers(1, max(STRUCTURE_CODES.values()) + 1, count)
    levels = chance.integers(1, MAX_LEVEL + 1, count)
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


def planned_documents(
    job: Job, workspace: Path, *, longest: int, positions: int
) -> tuple[ProofDocument, ...]:
    """Return the first documents of a job's plan: at most `longest` tokens each, `positions` tokens in total.

    pyarrow reads the documents, not the loader. All of them have structure if the job's model reads
    structure.
    """
    found: list[ProofDocument] = []
    room = positions
    for row in _planned_rows(job, workspace):
        for document in row:
            if room < 2:
                return tuple(found)
            kept = document.first(min(longest, room))
            found.append(kept)
            room -= len(kept)
    return tuple(found)


def _planned_rows(job: Job, workspace: Path) -> Iterator[tuple[ProofDocument, ...]]:
    folders = {source.key: workspace / source.path for source in job.rows}
    plan = PlanReader(workspace / job.plan)
    seen: set[str] = set()
    for position in range(len(plan)):
        planned = plan.at(position)
        if planned.pack_id in seen:
            continue
        seen.add(planned.pack_id)
        file = parquet.shards_of(folders[planned.rows_key])[planned.shard]
        yield tuple(_documents(_row(file, planned.row), structured=job.model.structure))


_COLUMNS = ("input_ids", "loss_mask", "doc_starts", "valid_token_count")
_STRUCTURE = [field.name for field in STRUCTURE_COLUMNS]


def _row(file: Path, row: int) -> dict[str, Any]:
    """Read one row of a Parquet file, decoding only the row group that contains the row."""
    with parquet.File(file) as opened:
        names = [name for name in (*_COLUMNS, *_STRUCTURE) if name in opened.schema_arrow.names]
        for group in range(opened.num_row_groups):
            rows = opened.metadata.row_group(group).num_rows
            if row < rows:
                table: pa.Table = opened.read_row_group(group, columns=names, use_threads=False)
                return {name: table[name][row] for name in names}
            row -= rows
    raise AssertionError("a plan names rows that are there: the job's parts fit together")


def _documents(row: dict[str, Any], *, structured: bool) -> Iterator[ProofDocument]:
    ids, mask = (row[name].values.to_numpy() for name in ("input_ids", "loss_mask"))
    edges = np.append(row["doc_starts"].values.to_numpy(), row["valid_token_count"].as_py())
    for number, (start, end) in enumerate(pairwise(edges)):
        structure = _structure(row, number, start, end) if structured else None
        yield ProofDocument(ids=ids[start:end], loss_mask=mask[start:end], structure=structure)


def _structure(row: dict[str, Any], number: int, start: int, end: int) -> EncodedStructure:
    """Return the structure of the document at `start` to `end`, with positions counted from its start.

    If the row has no structure, the result is all zeros.
    """
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
