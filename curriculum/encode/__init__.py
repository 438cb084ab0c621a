"""The one place where a document is fitted to a row length T; nothing is ever truncated.

    whole      it fits
    elided     parts that may go went, highest rank first, and one comment line stands in each gap
    divided    it still didn't fit: cut at part borders, else at line starts, else between tokens
    routed     it still didn't fit, and its family may not be divided: it waits for a longer row
    dropped    it has no text

Each division leads with BOS; only the last ends with EOS. Every byte of a document stands in exactly
one text piece of its encodings or is counted as elided, so a header is not repeated in divisions.

    documents.py   what goes in and what comes out
    fit.py         one document
    stream.py      all documents of an artefact
"""

from curriculum.encode.documents import Counts, Fitted, Outcome, Spans, Tokenised
from curriculum.encode.fit import Fitter, Policy, elided_parts, policy_of
from curriculum.encode.stream import encode_documents

REVISION = 1

__all__ = [
    "REVISION",
    "Counts",
    "Fitted",
    "Fitter",
    "Outcome",
    "Policy",
    "Spans",
    "Tokenised",
    "elided_parts",
    "encode_documents",
    "policy_of",
]
