"""Supply of tokens before anything is built: by family, row length, repository and domain.

A sample of each repository's commits goes the way that a build would take, in a throw-away store; its counts
are scaled by what the log says of all commits.

    sample.py           documents of some commits, and of some conversations
    sampled_corpus.py   the sample of all repositories, selected and tokenized, and what its commits touched
    ratios.py           tokens of each commit's documents, and the estimate of one kind of rows by ratios
    estimate.py         the estimate of a whole corpus, whose kinds of rows are artefacts of a workspace
"""

from curriculum.supply.estimate import Estimate, EstimateTask, estimate, known_estimate
from curriculum.supply.ratios import ALL, Kind, Sampling, SupplyLine

__all__ = [
    "ALL",
    "Estimate",
    "EstimateTask",
    "Kind",
    "Sampling",
    "SupplyLine",
    "estimate",
    "known_estimate",
]
