"""Differences of two arms at the point where both had read equally many distinct tokens.

Arms train equally many steps, and yet one may see fewer distinct tokens, which it repeats more often. A
difference at equal distinct tokens says how much of the other difference that explains.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curriculum.ablations.evidence import Trained
from curriculum.ablations.verdicts import Difference, difference_of
from schemas.ablation import FILE_VIEW, Claim
from schemas.objectives import FixedSet

MAX_UNEQUAL = 0.1
"""Share by which distinct tokens of two arms may differ and count as equal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualTokensDifference:
    """A difference at equal distinct tokens, and how many these are, on average over seeds."""

    found: Difference
    distinct: float


def equal_tokens_difference(
    claim: Claim, pairs: Sequence[tuple[Trained, Trained]]
) -> EqualTokensDifference | None:
    """Return a claim's difference at equal distinct tokens; None where they are equal at the end.

    `pairs` are both arms, seed by seed. Other views than file have none: arms are measured there at their
    end only.
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
    """Return val_bpb of a set when an arm had read so many distinct tokens.

    Between two evaluations it is a straight line, and so are distinct tokens over the steps of a phase.
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
