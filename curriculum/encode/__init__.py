"""The one place where a document is fitted to a row length T; nothing is ever truncated.

    whole      it fits
    elided     parts that may go went, highest rank first, and one comment line stands in each gap
    divided    it still didn't fit: cut at part borders, else at line starts, else between characters
    routed     it still didn't fit, and its family may not be divided: it waits for a longer row
    straddles  its target has text from the other side of the split: it teaches nothing anywhere
    dropped    it has no text

Context from the other side of the split goes first, however much room there is.
Each division leads with BOS; only the last ends with EOS. Every byte of a document stands in exactly
one text piece of its encodings or is counted as elided, so a header is not repeated in divisions.

    documents.py   what goes in and what comes out
    fit.py         one document
    turns.py       one conversation
    fitting.py     which of the two
    sides.py       what of its context lies on the other side of the split
    structure.py   its structure, from bytes to tokens
    batch.py       documents as an artefact's columns hold them
    stream.py      all documents of an artefact
    counts.py      what became of them
"""

from curriculum.encode.counts import Counts
from curriculum.encode.documents import (
    ChunkCounts,
    Fitted,
    Outcome,
    StructureCounts,
    Tokenised,
)
from curriculum.encode.fit import Fitter, elided_parts, policy_of
from curriculum.encode.fitting import Fitting, fitter_of
from curriculum.encode.stream import Teach, encode_documents

REVISION = 3

__all__ = [
    "REVISION",
    "ChunkCounts",
    "Counts",
    "Fitted",
    "Fitter",
    "Fitting",
    "Outcome",
    "StructureCounts",
    "Teach",
    "Tokenised",
    "elided_parts",
    "encode_documents",
    "fitter_of",
    "policy_of",
]
