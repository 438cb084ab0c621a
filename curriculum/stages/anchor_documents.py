"""Documents of the anchor: the same held-out texts for every phase, diet and tokenizer."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from curriculum import parquet
from curriculum.corpus.decisions import Decisions
from curriculum.packing.held_out_order import spread
from curriculum.stages.row_sources import RowSource
from schemas.held_out import MIN_DOCUMENTS

ANCHOR_BYTES = 1 << 19
"""Bytes of all of its documents."""


def anchored(
    sources: Sequence[RowSource], chosen: Sequence[Decisions]
) -> list[npt.NDArray[np.bool_]]:
    """Flag the documents of the anchor, by artefact: kept held-out ones, spread over lineages.

    Those that would take more than one in MIN_DOCUMENTS of its bytes come last.
    """
    places: dict[str, tuple[int, int, int]] = {}
    lineages: dict[str, str] = {}
    for at, source in enumerate(sources):
        table = parquet.read_table(source.documents.shards(), columns=["num_bytes"])
        sizes, picked = table["num_bytes"].to_numpy(), chosen[at]
        for row in np.flatnonzero(picked.kept & picked.val).tolist():
            document = picked.document_ids[row].decode()
            places[document] = int(sizes[row]), at, row
            lineages[document] = picked.lineages[int(picked.lineage[row])]
    masks = [np.zeros(len(each.kept), dtype=np.bool_) for each in chosen]
    room, largest = ANCHOR_BYTES, ANCHOR_BYTES // MIN_DOCUMENTS
    listed = [places[document] for document in spread(lineages)]
    for size, at, row in sorted(listed, key=lambda place: place[0] > largest):
        if size <= room:
            room -= size
            masks[at][row] = True
    return masks
