"""Estimated supply of tokens before a build: by family, row length, repository and domain.

A sample of each repository's commits is built in a temporary store; its counts are scaled to all commits by
what the log says about them.

    sampled_documents.py  documents of sampled commits and conversations
    sampled_corpus.py     the sample of all repositories, selected and tokenized, and what its commits touched
    shown_text.py         lines that the sample shows, and which of them are shown for the first time
    measure.py            tokens of the documents of each sampled commit
    scaling.py            totals of all commits from those of the sample
    ratios.py             the estimate of one kind of rows, by ratios
    estimate.py           the estimate of a whole corpus; estimates per kind of rows are cached as artefacts
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
