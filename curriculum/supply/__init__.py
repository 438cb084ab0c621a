"""Supply of tokens before anything is built: by family, row length, repository and domain.

A sample of each repository's commits goes the way that a build would take, in a throw-away store; its counts
are scaled by what the log says of all commits.

    sampled_documents.py  documents of some commits, and of some conversations
    sampled_corpus.py     the sample of all repositories, selected and tokenized, and what its commits touched
    shown_text.py         lines that the sample shows, and which of them nothing shows before
    measure.py            tokens of the documents of each sampled commit
    scaling.py            totals of all commits from those of some
    ratios.py             the estimate of one kind of rows by ratios
    estimate.py           the estimate of a whole corpus, whose kinds of rows are artefacts of a workspace
"""

from curriculum.supply.estimate import Estimate, EstimateTask, estimate, known_estimate
from curriculum.supply.measure import DocumentKind
from curriculum.supply.ratios import ALL, SampledShare, SupplyLine

__all__ = [
    "ALL",
    "DocumentKind",
    "Estimate",
    "EstimateTask",
    "SampledShare",
    "SupplyLine",
    "estimate",
    "known_estimate",
]
