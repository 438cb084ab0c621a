"""Fitting of documents to a row length T; nothing is ever truncated.

Each document has one of these outcomes:

    whole      the document fits
    elided     elidable parts are removed, those of the highest rank first, with one comment line in each gap
    divided    it still doesn't fit: cut at part borders, else at line starts, else between characters
    routed     it still doesn't fit, and its family may not be divided: left to longer rows
    straddles  its target contains text from the other split: it is in no rows
    refused    a conversation that the chat template can't mark
    too_long   a conversation longer than a row; conversations are never divided
    dropped    it has no text

Context from held-out files is always removed from training documents, even if the row has room. A held-out
document keeps its context; `targets_alone` then means that only its target may be scored. Each division
begins with BOS; only the last one ends with EOS. Every byte of a document is either in exactly one text piece
of its encodings or counted as elided; therefore, headers are not repeated in divisions.

    encoded_documents.py  inputs and outputs of fitting, and counts by outcome
    fit.py                fits one document; encoded_turns.py fits one conversation
    document_batch.py     documents from an artefact's columns, with the split of their context
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
