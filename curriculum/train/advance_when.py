"""Rule that may end a phase before its budget is used. pipeline/gates.py checks the gate after a run."""

from collections.abc import Sequence

from schemas.diet import AdvanceWhen, StopsImproving
from schemas.job import Figure
from schemas.objectives import FIXED_SETS, PHASE_SET


def gate_reason(
    rule: AdvanceWhen | None, *, valid_tokens: int, bits: Sequence[float]
) -> str | None:
    """Return the reason to end the phase now, or None. `bits` has val_bpb of all evaluations since step 0.

    Example: a rule ends the phase once val_bpb falls by less than 0.002 over 3 evaluations. It ends the phase
    after 1.500, 1.4995, 1.499, 1.4985, but not after the first three values.
    """
    if rule is None or (rule.min_tokens is None and rule.val_bpb is None):
        return None
    if rule.min_tokens is not None and valid_tokens < rule.min_tokens:
        return None
    reasons = [f"{valid_tokens} of {rule.min_tokens} tokens"] if rule.min_tokens else []
    if rule.val_bpb is not None:
        fell = fall(bits, rule.val_bpb)
        if fell is None or fell >= rule.val_bpb.stops_improving_by:
            return None
        reasons.append(fall_words(fell, rule.val_bpb))
    return ", ".join(reasons)


def fall(bits: Sequence[float], asked: StopsImproving) -> float | None:
    """Return how much val_bpb fell over the last evaluations, or None if there were too few evaluations.

    `asked.over_evaluations` is the number of evaluations.
    """
    over = asked.over_evaluations
    return bits[-1 - over] - bits[-1] if len(bits) > over else None


def fall_words(fell: float, asked: StopsImproving) -> str:
    """Describe how much val_bpb fell: val_bpb fell by 0.0011 over 3 evaluations."""
    over = asked.over_evaluations
    return f"{asked.what} fell by {fell:.4f} over {over} evaluation{'' if over == 1 else 's'}"


def gate_bits(
    figures: Sequence[Figure], phase: str, rule: AdvanceWhen | None = None
) -> list[float]:
    """Return val_bpb of a set at each evaluation.

    It is the set that the rule names, or else the phase's own set. The list is empty if the set has too few
    documents for a reliable result. Then a rule on val_bpb never ends the phase.
    """
    return [figure.val_bpb for figure in gate_figures(figures, phase, rule) if figure.is_sure]


def gate_figures(
    figures: Sequence[Figure], phase: str, rule: AdvanceWhen | None = None
) -> list[Figure]:
    """Return the figures of a set at each evaluation.

    It is the set that the rule names, or else the phase's own set. The rule may name an objective that has no
    set, because the phase trains on nothing else. Then the result is also about the phase's own set.
    """
    asked = rule.val_bpb.set if rule is not None and rule.val_bpb is not None else PHASE_SET
    return _means(figures, asked, phase) or _means(figures, PHASE_SET, phase)


def _means(figures: Sequence[Figure], name: str, phase: str) -> list[Figure]:
    place = (name, name if name in FIXED_SETS else phase, "*")
    return [figure for figure in figures if (figure.set, figure.phase, figure.family) == place]
