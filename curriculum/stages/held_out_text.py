"""Check that no row contains text of files in another split."""

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
"""Side of a part of a document that comes from no file."""
Sides = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """End and side of each part of a document. Sides are 1 for held out, 0 for training, or GENERATED."""

    ends: npt.NDArray[np.int32]
    sides: Sides
    is_context: npt.NDArray[np.bool_]

    def between(self, start: int, end: int) -> slice:
        """Return the slice of the parts that overlap the bytes `[start, end)`."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        return slice(first, int(np.searchsorted(self.ends, end, side="left")) + 1)


def check_sides(
    rows: Artefact,
    documents: Sequence[Artefact],
    held_out: frozenset[str],
    token_bytes: npt.NDArray[np.int32],
) -> int:
    """Check that the text in each row comes from files of the row's split; return the number of pieces.

    A piece is a part of a document that lies in a row.

    The context of a validation document may come from training files if none of it is scored.

    Args:
        rows: Rows to check.
        documents: Documents that the rows were made of.
        held_out: Files that have no version in training.
        token_bytes: Number of bytes of each id.

    Raises:
        PackError: for the first piece whose text comes from the other split, unless the piece is context that
            isn't scored.

    Memory: six bytes per part of a document.
    """
    known = {name: parts for document in documents for name, parts in _parts(document, held_out)}
    checked = 0
    for file in rows.shards():
        for batch in parquet.File(file).iter_batches(batch_size=ROWS_AT_ONCE, columns=_CHECKED):
            for row in batch.to_pylist():
                checked += _check(row, known, token_bytes)
    return checked


_CHECKED = ["pack_id", "split", "input_ids", "loss_mask", "document_ids", "pieces"]


def _check(
    row: dict[str, Any], known: dict[str, _Parts], token_bytes: npt.NDArray[np.int32]
) -> int:
    own = int(row["split"] not in ("train", "later"))
    texts = [piece for piece in row["pieces"] if piece["kind"] == TEXT_PIECE]
    scored = np.array([0, *row["loss_mask"][:-1]], dtype=np.bool_)
    sizes = token_bytes[np.array(row["input_ids"])]
    for piece in texts:
        name = row["document_ids"][piece["doc"]]
        parts, tokens = known.get(name), slice(piece["token_start"], piece["token_end"])
        if parts is None:
            raise PackError(
                f"row {row['pack_id']}",
                f"document {name}",
                cause="the document is in none of the artefacts that these rows were made of",
                cure="Rebuild these rows",
            )
        shown = parts.between(piece["byte_start"], piece["byte_end"])
        is_own = np.isin(parts.sides[shown], (own, GENERATED))
        context = parts.is_context[shown]
        if own and context.any():
            is_own |= context
            ends = piece["byte_start"] + np.cumsum(sizes[tokens])
            of_part = np.searchsorted(parts.ends[shown], ends[scored[tokens]], side="left")
            is_own[of_part[context[of_part]]] = False
        if not is_own.all():
            raise PackError(
                f"row {row['pack_id']}",
                f"bytes {piece['byte_start']} to {piece['byte_end']} of document {name}",
                cause=(
                    f"some bytes come from a file in another split than {row['split']}, or are "
                    "scored context of a validation target"
                ),
                cure="Rebuild these rows",
            )
    return len(texts)


def _parts(documents: Artefact, held_out: frozenset[str]) -> list[tuple[str, _Parts]]:
    found = []
    columns = ["document_id", "parts", "provenance"]
    for file in documents.shards():
        for batch in parquet.File(file).iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
            for line in batch.to_pylist():
                side = [int(record["lineage"] in held_out) for record in line["provenance"]]
                ends = [part["end"] for part in line["parts"]]
                sides = [
                    side[part["source"]] if part["source"] >= 0 else GENERATED
                    for part in line["parts"]
                ]
                parts = _Parts(
                    ends=np.array(ends, dtype=np.int32),
                    sides=np.array(sides, dtype=np.int8),
                    is_context=np.array([part["kind"] == "context" for part in line["parts"]]),
                )
                found.append((line["document_id"], parts))
    return found
