"""Difference between two arms after they have read equally many distinct tokens.

All arms train equally many steps, but one of them may read fewer distinct tokens and repeat them more often.
The difference at equal distinct tokens shows how much of the final difference is due to repetition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curriculum.ablations.evidence import Trained
from curriculum.ablations.verdicts import Difference, difference_of
from schemas.ablation import FILE_VIEW, Claim
from schemas.objectives import FixedSet

MAX_UNEQUAL = 0.1
"""Maximum relative difference between two numbers of distinct tokens that count as equal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualTokensDifference:
    """Difference at equal distinct tokens, and the number of these tokens, averaged over seeds."""

    found: Difference
    distinct: float


def equal_tokens_difference(
    claim: Claim, pairs: Sequence[tuple[Trained, Trained]]
) -> EqualTokensDifference | None:
    """Compute a claim's difference at equal distinct tokens.

    The result is None if both arms end with equally many distinct tokens. `pairs` has both arms for each
    seed. Only the view `file` has such a difference, because the other views are measured only at the end of
    training.
    """
    read = np.array([[arm.distinct[-1], against.distinct[-1]] for arm, against in pairs])
    more, fewer = read.max(axis=1), read.min(axis=1)
    if claim.view != FILE_VIEW or (more <= fewer * (1 + MAX_UNEQUAL)).all():
        return None
    differences = [
        val_bpb_at(arm, claim.set, tokens) - val_bpb_at(against, claim.set, tokens)
        for (arm, against), tokens in zip(pairs, fewer.tolist(), strict=True)
    ]
    found = difference_of(differences, claim.delta)
    return EqualTokensDifference(found=found, distinct=float(fewer.mean()))


def val_bpb_at(arm: Trained, name: FixedSet, distinct: float) -> float:
    """Return val_bpb of a set at the moment when an arm had read `distinct` distinct tokens.

    val_bpb is interpolated linearly between evaluations. The number of distinct tokens is interpolated
    linearly over the steps of each phase.
    """
    tokens, bits = [], []
    before = 0
    for report, after in zip(arm.reports, arm.distinct, strict=True):
        for figure in report.history:
            if figure.set == name:
                tokens.append(before + (after - before) * figure.step / report.steps)
                bits.append(figure.val_bpb)
        before = after
    return float(np.interp(distinct, tokens, bits))
