"""What there is to train on, before it is built: tokens by family, row length, repository and domain.

A sample of each repository's commits goes the way that a build would take, in a throw-away store; what
their documents give is scaled by what the log says of all commits.

    sample.py     documents of some commits
    talks.py      documents of some conversations
    touched.py    which of their functions they touched
    taken.py      the sample of all repositories, selected and tokenised
    measure.py    the tokens of each commit's documents
    scale.py      from a sample to the whole
    estimate.py   all of it together
"""

from curriculum.supply.estimate import ALL, Estimate, Line, Sampling, estimate
from curriculum.supply.measure import Kind

__all__ = ["ALL", "Estimate", "Kind", "Line", "Sampling", "estimate"]
