"""Estimated supply of tokens before a build: by family, row length, repository and domain.

A sample of each repository's commits is built in a temporary store. The counts of the sample are then scaled
up to all commits, with the sizes of changes that the git log gives.

    sampled_documents.py  documents of sampled commits and conversations
    sampled_corpus.py     the sample of all repositories, selected and tokenized, and what its commits touched
    shown_text.py         lines of text in the sample, and an estimate of which are new
    measure.py            tokens of the documents of each sampled commit
    scaling.py            totals of all commits from those of the sample
    ratios.py             the estimate for one family, row length and score, by ratios
    estimate.py           the estimate of a whole corpus, cached as one artefact per kind of rows
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
