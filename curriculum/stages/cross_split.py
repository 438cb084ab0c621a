"""Check that no row holds context from the other side of the split: every piece of every row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from curriculum import parquet
from curriculum.store import Artefact
from schemas.errors import PackError
from schemas.packed_row import TEXT_PIECE

ROWS_AT_ONCE = 64
GENERATED = -1
"""The side of a part that stands in no file."""
Sides = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """The parts of one document: where each ends, and its side: 1 val, 0 train or GENERATED."""

    ends: npt.NDArray[np.int32]
    sides: Sides

    def between(self, start: int, end: int) -> Sides:
        """The sides of the parts that hold some of the bytes `[start, end)`."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.ends, end, side="left")) + 1
        return self.sides[first:last]


def check_sides(rows: Artefact, documents: Sequence[Artefact], held_out: frozenset[str]) -> int:
    """The number of text pieces that were held against the sides of their files; all were on the row's.

    `documents` are what the rows were made of, `held_out` the files of val. Memory: five bytes a part of a
    document.

    Raises:
        PackError: with the first piece that comes from the other side.
    """
    known = {name: parts for each in documents for name, parts in _parts(each, held_out)}
    checked = 0
    for file in rows.files():
        wanted = ["pack_id", "split", "document_ids", "pieces"]
        for batch in parquet.File(file).iter_batches(batch_size=ROWS_AT_ONCE, columns=wanted):
            for row in batch.to_pylist():
                checked += _check(row, known)
    return checked


def _check(row: dict[str, Any], known: dict[str, _Parts]) -> int:
    own = int(row["split"] != "train")
    texts = [piece for piece in row["pieces"] if piece["kind"] == TEXT_PIECE]
    for piece in texts:
        name = row["document_ids"][piece["doc"]]
        sides = known[name].between(piece["byte_start"], piece["byte_end"])
        if not np.isin(sides, (own, GENERATED)).all():
            raise PackError(
                f"row {row['pack_id']}",
                f"bytes {piece['byte_start']} to {piece['byte_end']} of document {name}",
                cause=f"some come from a file on the other side than {row['split']}",
                cure="Build these rows anew",
            )
    return len(texts)


def _parts(documents: Artefact, held_out: frozenset[str]) -> list[tuple[str, _Parts]]:
    found = []
    columns = ["document_id", "parts", "provenance"]
    for file in documents.files():
        for batch in parquet.File(file).iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
            for line in batch.to_pylist():
                side = [int(each["lineage"] in held_out) for each in line["provenance"]]
                ends = [part["end"] for part in line["parts"]]
                sides = [
                    side[part["source"]] if part["source"] >= 0 else GENERATED
                    for part in line["parts"]
                ]
                parts = _Parts(
                    ends=np.array(ends, dtype=np.int32), sides=np.array(sides, dtype=np.int8)
                )
                found.append((line["document_id"], parts))
    return found
