"""Fit documents to a row length T; nothing is ever truncated.

    whole      it fits
    elided     elidable parts are gone, highest rank first, with one comment line in each gap
    divided    it still didn't fit: cut at part borders, else at line starts, else between characters
    routed     it still didn't fit, and its family may not be divided: left to longer rows
    straddles  its target has text from the other side of the split: it is in no rows
    refused    a conversation that the chat template can't mark
    too_long   a conversation that is longer than a row: it is never divided
    dropped    it has no text

Context of held-out files goes first from a document that is trained on, however much room there is. A
held-out document keeps its context: `targets_alone` says that nothing else of it may be scored.
Each division leads with BOS; only the last ends with EOS. Every byte of a document is in exactly one text
piece of its encodings or is counted as elided, so a header is not repeated in divisions.

    encoded_documents.py  values that go in and come out, and counts by outcome
    fit.py                one document; encoded_turns.py one conversation
    document_batch.py     documents as an artefact's columns hold them, with the side of their context
    stream.py             all documents of an artefact
"""

from curriculum.encode.document_batch import Split
from curriculum.encode.encoded_documents import (
    ChunkCounts,
    Counts,
    FitResult,
    Outcome,
    StructureCounts,
    TokenizedDocument,
)
from curriculum.encode.fit import Fitter, elided_parts, policy_of
from curriculum.encode.stream import ApplyObjective, encode_documents, fitter_of

REVISION = 4

__all__ = [
    "REVISION",
    "ApplyObjective",
    "ChunkCounts",
    "Counts",
    "FitResult",
    "Fitter",
    "Outcome",
    "Split",
    "StructureCounts",
    "TokenizedDocument",
    "elided_parts",
    "encode_documents",
    "fitter_of",
    "policy_of",
]
