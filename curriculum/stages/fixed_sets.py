"""Documents of the fixed sets: the same validation texts for every phase, diet and tokenizer."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from curriculum import parquet
from curriculum.corpus.decisions import Decisions
from curriculum.packing.held_out_order import order_by_lineage
from curriculum.stages.row_sources import RowSource
from schemas.corpus import CorpusSpec
from schemas.document import Side
from schemas.families import VERSIONS_FAMILY, reads_commits
from schemas.held_out import MIN_DOCUMENTS
from schemas.objectives import FIXED_SETS, FixedSet

SET_BYTES = 1 << 19
"""Maximum total size in bytes of the documents of a set."""
SIDES: Mapping[FixedSet, Side] = {"anchor": "val", "unseen": "unseen", "later": "later"}


def sets_of(corpus: CorpusSpec, family: str = VERSIONS_FAMILY) -> tuple[FixedSet, ...]:
    """Return the fixed sets for which a corpus has held out documents of a family.

    Graph families have neither unseen repositories nor commits after the corpus's date.
    """
    of_files = not reads_commits(family)
    held_out: Mapping[FixedSet, bool] = {
        "anchor": True,
        "unseen": bool(corpus.unseen) and of_files,
        "later": corpus.later is not None and of_files,
    }
    return tuple(name for name in FIXED_SETS if held_out[name])


def documents_of_set(
    name: FixedSet, sources: Sequence[RowSource], chosen: Sequence[Decisions]
) -> list[npt.NDArray[np.bool_]]:
    """Return, for each artefact, a mask of its documents that are in the fixed set `name`.

    These are kept documents of the set's split, spread over lineages. Documents larger than
    1 / MIN_DOCUMENTS of the set are only used if the others don't fill it.
    """
    places: dict[str, tuple[int, int, int]] = {}
    lineages: dict[str, str] = {}
    for at, source in enumerate(sources):
        table = parquet.read_table(source.documents.shards(), columns=["num_bytes"])
        sizes, picked = table["num_bytes"].to_numpy(), chosen[at]
        for row in np.flatnonzero(picked.kept_on(SIDES[name])).tolist():
            document = picked.document_ids[row].decode()
            places[document] = int(sizes[row]), at, row
            lineages[document] = picked.lineages[int(picked.lineage[row])]
    masks = [np.zeros(len(decided.kept), dtype=np.bool_) for decided in chosen]
    room, largest = SET_BYTES, SET_BYTES // MIN_DOCUMENTS
    listed = [places[document] for document in order_by_lineage(lineages)]
    for size, at, row in sorted(listed, key=lambda place: place[0] > largest):
        if size <= room:
            room -= size
            masks[at][row] = True
    return masks
