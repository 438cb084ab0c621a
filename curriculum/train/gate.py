"""Gate of a phase: the rule that ends it before its budget."""

from collections.abc import Sequence

from schemas.diet import AdvanceWhen
from schemas.job import Figure


def opens(rule: AdvanceWhen | None, *, valid_tokens: int, bits: Sequence[float]) -> str | None:
    """Return the reason to end the phase, or None; `bits` is val_bpb at each evaluation, before step 0 first.

    A rule of 0.002 over 3 evaluations opens on 1.500, 1.4995, 1.499, 1.4985 and not on the first three.
    """
    if rule is None or (rule.min_tokens is None and rule.val_bpb is None):
        return None
    if rule.min_tokens is not None and valid_tokens < rule.min_tokens:
        return None
    reasons = [f"{valid_tokens} of {rule.min_tokens} tokens"] if rule.min_tokens else []
    if rule.val_bpb is not None:
        over = rule.val_bpb.over_evaluations
        if len(bits) <= over:
            return None
        gained = bits[-1 - over] - bits[-1]
        if gained >= rule.val_bpb.stops_improving_by:
            return None
        reasons.append(
            f"val_bpb fell by {gained:.4f} over {over} evaluation{'' if over == 1 else 's'}"
        )
    return ", ".join(reasons)


def gate_bits(figures: Sequence[Figure], phase: str) -> list[float]:
    """val_bpb of a phase's own weighted mean, evaluation by evaluation."""
    return [
        figure.val_bpb
        for figure in figures
        if (figure.kind, figure.phase, figure.family) == ("phase", phase, "*")
    ]
