"""Packings: ways to arrange the same documents into rows, files, micro-batches and interruptions.

The documents of each training step are fixed; a packing determines everything else.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.leakcheck.proof_documents import LATER_LONGEST, ProofDocument, ProofSteps
from curriculum.model.masks import BLOCK
from curriculum.packing import best_fit
from curriculum.packing.row_writer import RowLabels, RowWriter
from curriculum.packing.spool import Spool, SpooledDocuments
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import ROW_MULTIPLE, RowFormat

PLAN = "plan.parquet"
MULTIPLE = max(ROW_MULTIPLE, BLOCK)
"""Number that every row length is a multiple of, since block masks need whole blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedRow:
    """Row of a packing: its length, its data set, and the numbers of its documents in order."""

    row_length: int
    documents: tuple[int, ...]
    data_set: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """Rows of each step, and everything else that may differ between trainings on the same documents."""

    name: str
    steps: tuple[tuple[PackedRow, ...], ...]
    micro_positions: int
    shard_rows: int | None = None
    """Rows per file; None writes all rows of a data set to one file."""
    stores_doc_ids: bool = True
    evaluate_every: int | None = None
    """Steps between evaluations; None disables evaluation."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; None writes one checkpoint after the last step."""
    resume_after: int | None = None
    """Step after which the run is stopped and resumed; None disables the stop."""

    def __str__(self) -> str:
        return f"{self.name!r} ({self.positions:,} positions)"

    @property
    def row_length(self) -> int:
        """Length of the first row."""
        return self.steps[0][0].row_length

    @property
    def positions(self) -> int:
        """Number of row positions in all steps."""
        return sum(row.row_length for step in self.steps for row in step)

    @property
    def data_sets(self) -> dict[tuple[int, int], tuple[PackedRow, ...]]:
        """Rows of each data set in the order of the steps, by (row length, number of the data set)."""
        found: dict[tuple[int, int], list[PackedRow]] = {}
        for row in (row for step in self.steps for row in step):
            found.setdefault((row.row_length, row.data_set), []).append(row)
        return {key: tuple(rows) for key, rows in found.items()}


def data_set_key(row_length: int, number: int) -> str:
    """Return a made-up key of 64 digits for a data set. The first 12 digits differ between data sets."""
    return f"{row_length:08d}{number:04d}".ljust(64, "0")


def data_set_path(row_length: int, number: int) -> str:
    """Return the folder of a data set in the proof's workspace."""
    return f"rows-{row_length}-{number}"


def pack_id(place: tuple[int, int], row: int) -> str:
    """Return the pack_id of row number `row` in the data set `place`, a (row length, number)."""
    return f"{data_set_key(*place)[:12]}-{row:010d}"


def packings(steps: ProofSteps, row_length: int) -> tuple[Packing, ...]:
    """Return six packings of the same documents; the first one is the reference.

    `row_length` is the row length in the first step. It is a multiple of MULTIPLE, and no document is longer.
    Rows of later steps have half this length, at most LATER_ROWS. They are longer only if a document of the
    step needs it.
    """
    T = row_length
    return (
        _reference(steps, T),
        Packing(
            name="one document per row",
            steps=_laid(steps, T, _alone),
            micro_positions=4 * T,
        ),
        Packing(
            name="one micro-batch",
            steps=_laid(steps, T, lambda documents, length: _first_fit(documents, length, seed=3)),
            micro_positions=1 << 30,
            checkpoint_every=2,
            resume_after=2,
        ),
        Packing(
            name="rows twice as long",
            steps=_laid(steps, T, _at_double_length),
            micro_positions=2 * T,
        ),
        Packing(
            name="shuffled, two data sets, files of two rows",
            steps=_in_two_data_sets(
                _laid(steps, T, lambda documents, length: _first_fit(documents, length, seed=1))
            ),
            micro_positions=4 * T,
            shard_rows=2,
            checkpoint_every=1,
            evaluate_every=1,
        ),
        Packing(
            name="two row lengths, without doc_ids",
            steps=_laid(steps, T, _mixed),
            micro_positions=2 * T,
            stores_doc_ids=False,
            evaluate_every=3,
            resume_after=1,
            checkpoint_every=1,
        ),
    )


def _reference(steps: ProofSteps, T: int) -> Packing:
    return Packing(name="best fit", steps=_laid(steps, T, _best_fit), micro_positions=T)


MANY_LENGTH = 512
"""Row length for packings of many documents for our models."""


def many_packings(steps: ProofSteps, row_length: int = MANY_LENGTH) -> tuple[Packing, ...]:
    """Return two packings of a step with many documents: several short micro-batches, and a single one."""
    return (
        _reference(steps, row_length),
        Packing(
            name="rows twice as long, one micro-batch",
            steps=_laid(steps, row_length, _at_double_length),
            micro_positions=1 << 30,
        ),
    )


LATER_ROWS = 2 * LATER_LONGEST
"""Maximum row length of all steps except the first."""
ALONE = 24
"""Number of documents in a step that each get a row to themselves."""
Numbered = Sequence[tuple[int, ProofDocument]]
Rows = list[tuple[int, list[int]]]
"""Pairs of a row's length and the numbers of its documents."""


def _laid(
    steps: ProofSteps, row_length: int, lay: Callable[[Numbered, int], Rows]
) -> tuple[tuple[PackedRow, ...], ...]:
    """Arrange the scored documents of each step into rows with `lay`, then add the unscored documents."""
    found, first = [], 0
    for documents in steps:
        later = max(min(row_length // 2, LATER_ROWS), *map(len, documents))
        length = row_length if first == 0 else rounded(later)
        numbered = list(enumerate(documents, start=first))
        first += len(documents)
        lengths = {number: len(document) for number, document in numbered}
        scored = [(number, document) for number, document in numbered if document.is_scored]
        rows = lay(scored, length)
        for number, document in numbered:
            if not document.is_scored:
                _append_unscored(rows, number, lengths)
        found.append(
            tuple(PackedRow(row_length=T, documents=tuple(numbers)) for T, numbers in rows)
        )
    return tuple(found)


def _append_unscored(rows: Rows, number: int, lengths: dict[int, int]) -> None:
    """Append the unscored document `number` to the first row with room, or extend the last row.

    An unscored document gets no row to itself, since the loader refuses rows without a target.
    """
    for at, (T, numbers) in enumerate(rows):
        if sum(lengths[member] for member in numbers) + lengths[number] <= T:
            numbers.append(number)
            return
        if at == len(rows) - 1:
            # Extend the last row, since every packing must contain every document.
            rows[at] = (T + rounded(lengths[number]), [*numbers, number])
            return


def _alone(documents: Numbered, row_length: int) -> Rows:
    """Give each of the first ALONE documents the shortest row that holds it; pack the others first-fit."""
    alone = [(rounded(len(document)), [number]) for number, document in documents[:ALONE]]
    return alone + _first_fit(documents[ALONE:], row_length, seed=5)


def rounded(length: int) -> int:
    """Return the smallest row length that holds `length` tokens."""
    return -(-length // MULTIPLE) * MULTIPLE


def _best_fit(documents: Numbered, row_length: int) -> Rows:
    lengths = np.array([len(document) for _, document in documents], dtype=np.int64)
    ties = np.arange(len(lengths), dtype=np.uint64)
    plan = best_fit.plan(lengths, row_length, ties, seed=0)
    return [
        (row_length, [documents[int(at)][0] for at in plan.order[start:end]])
        for start, end in pairwise(plan.row_starts)
    ]


def _first_fit(documents: Numbered, row_length: int, *, seed: int) -> Rows:
    order = np.random.default_rng(seed).permutation(len(documents))
    rows: list[tuple[int, list[int]]] = []
    room: list[int] = []
    for number, document in (documents[int(at)] for at in order):
        length = len(document)
        at = next((at for at, left in enumerate(room) if left >= length), len(rows))
        if at == len(rows):
            rows.append((row_length, []))
            room.append(row_length)
        rows[at][1].append(number)
        room[at] -= length
    return rows


def _at_double_length(documents: Numbered, row_length: int) -> Rows:
    return _first_fit(documents, 2 * row_length, seed=2)


def _mixed(documents: Numbered, row_length: int) -> Rows:
    """Pack every second document into rows of twice the length, and arrange the others like `_alone`."""
    return _first_fit(documents[::2], 2 * row_length, seed=4) + _alone(documents[1::2], row_length)


def _in_two_data_sets(
    steps: tuple[tuple[PackedRow, ...], ...],
) -> tuple[tuple[PackedRow, ...], ...]:
    return tuple(
        tuple(replace(row, data_set=at % 2) for at, row in enumerate(rows)) for rows in steps
    )


def write(
    packing: Packing, steps: ProofSteps, workspace: Path, *, vocab_size: int, structured: bool
) -> None:
    """Write the data sets of a packing, and the plan that reads them step by step."""
    documents = [document for step in steps for document in step]
    for (row_length, number), rows in packing.data_sets.items():
        _write_data_set(
            [[documents[document] for document in row.documents] for row in rows],
            workspace / data_set_path(row_length, number),
            packing,
            labels=RowLabels(
                rows_key=data_set_key(row_length, number),
                family="leakcheck",
                objective="causal",
                variant=0,
                split="train",
                structured=structured,
            ),
            row_format=RowFormat(
                row_length=row_length, vocab_size=vocab_size, pad_id=0, bos_id=None, eos_id=None
            ),
        )
    pq.write_table(
        pa.Table.from_pylist(list(_planned(packing, documents)), PLAN_SCHEMA), workspace / PLAN
    )


def _write_data_set(
    rows: Sequence[Sequence[ProofDocument]],
    folder: Path,
    packing: Packing,
    *,
    labels: RowLabels,
    row_format: RowFormat,
) -> None:
    spool = folder / "spool"
    spool.mkdir(parents=True)
    documents = [document for row in rows for document in row]
    with Spool(spool, structured=labels.structured) as spooling:
        for number, document in enumerate(documents):
            spooling.append(document.encoding(number))
    starts = np.cumsum([0, *(len(row) for row in rows)])
    sizes = (
        {}
        if packing.shard_rows is None
        else {"shard_tokens": packing.shard_rows * row_format.row_length}
    )
    with RowWriter(
        folder, row_format=row_format, labels=labels, store_targets=False, **sizes
    ) as writer:
        writer.write(SpooledDocuments(spool), np.arange(len(documents)), starts, domain="leakcheck")
    if not packing.stores_doc_ids:
        for file in parquet.shards_of(folder):
            table = parquet.read_table(file)
            pq.write_table(table.drop_columns(["doc_ids"]), file, write_page_checksum=True)


def _planned(
    packing: Packing, documents: Sequence[ProofDocument]
) -> Iterator[dict[str, int | str]]:
    """Yield the lines of the plan: one slot per step; the rows of a data set come in file order."""
    seen: dict[tuple[int, int], int] = {}
    position = 0
    for step, rows in enumerate(packing.steps):
        for row in rows:
            place = row.row_length, row.data_set
            at = seen.get(place, 0)
            seen[place] = at + 1
            shard_rows = packing.shard_rows or len(packing.data_sets[place])
            lengths = [len(documents[number]) for number in row.documents]
            yield {
                "position": position,
                "slot": step,
                "serving": 0,
                "stratum": 0,
                "row_length": row.row_length,
                "rows_key": data_set_key(*place),
                "shard": at // shard_rows,
                "row": at % shard_rows,
                "pack_id": pack_id(place, at),
                "repetition": 0,
                "valid_tokens": sum(lengths),
                "attention_pairs": sum(length * (length + 1) // 2 for length in lengths),
            }
            position += 1
