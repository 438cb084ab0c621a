"""Outcome of an ablation as table rows, for the terminal and for Prefect."""

from collections.abc import Sequence

from curriculum.ablations.ablate import JudgedClaim, Outcome
from curriculum.ablations.evidence import Trained
from curriculum.inspection.formats import Line, count
from schemas.ablation import CONTROL, FILE_VIEW, MIN_SEEDS, View, viewed_set
from schemas.objectives import FixedSet
from schemas.visible import one_line


def arm_lines(outcome: Outcome) -> list[Line]:
    """Return one row per arm and view, with means over seeds."""
    return [
        _arm_line(outcome, name, view)
        for name in dict.fromkeys(arm.arm for arm in outcome.arms)
        for view in outcome.arms[0].views
    ]


def _arm_line(outcome: Outcome, name: str, view: View) -> Line:
    """Return the table row of the arm `name` in one view.

    If there are several views, a column names the view, and only the row of the view `file` has counts.
    """
    own = [arm for arm in outcome.arms if arm.arm == name]
    trained: Line = {
        "arm": name,
        "seeds": len(own),
        "steps": own[0].steps,
        "positions": count(own[0].positions),
        "scored": count(sum(arm.scored for arm in own) / len(own)),
        "distinct": count(sum(arm.distinct[-1] for arm in own) / len(own)),
    }
    if view != FILE_VIEW:
        trained = dict.fromkeys(trained, "")
    views = {"view": view} if len(own[0].views) > 1 else {}
    sets = dict.fromkeys(held for held, _ in own[0].sets)
    return {**trained, **views, **{held: _mean(own, held, view) for held in sets}}


def _mean(own: Sequence[Trained], name: FixedSet, view: View) -> str:
    """Return val_bpb of a set in a view, averaged over seeds; "" if the set has no rows in the view."""
    if (name, view) not in own[0].sets:
        return ""
    return f"{sum(arm.val_bpb(name, view) for arm in own) / len(own):.3f}"


def claim_lines(outcome: Outcome) -> list[Line]:
    """Return one table row per claim, followed by the rows of the null and the control."""
    return [_claim_line(judged) for judged in outcome.judged]


def _claim_line(judged: JudgedClaim) -> Line:
    claim, found, documents = judged.claim, judged.found, judged.documents
    return {
        "claim": one_line(claim.claim),
        "arms": f"{claim.arm} − {claim.against}",
        "set": viewed_set(claim.set, claim.view),
        "difference": f"{found.mean:+.4f}",
        "over seeds": f"{found.low:+.4f} to {found.high:+.4f}",
        "over documents": f"{documents.low:+.4f} to {documents.high:+.4f}",
        "p": f"{judged.corrected:.3f}",
        "verdict": judged.verdict,
        "seeds needed": judged.needed or "",
    }


def equal_token_lines(outcome: Outcome) -> list[Line]:
    """Return one table row per claim whose two arms scored different numbers of distinct tokens."""
    return [
        {
            "claim": one_line(judged.claim.claim),
            "arms": f"{judged.claim.arm} − {judged.claim.against}",
            "set": judged.claim.set,
            "at distinct tokens": count(judged.equal_tokens.distinct),
            "difference": f"{judged.equal_tokens.found.mean:+.4f}",
            "over seeds": f"{judged.equal_tokens.found.low:+.4f} to {judged.equal_tokens.found.high:+.4f}",
        }
        for judged in outcome.claims
        if judged.equal_tokens is not None
    ]


def outcome_warnings(outcome: Outcome) -> list[str]:
    """Return warnings that readers of the tables need in order to understand them correctly."""
    found = []
    if outcome.null.verdict == "confirmed":
        found.append(
            "another order of the same rows changes val_bpb significantly, so chance may explain the claims, "
            "and no verdicts are given. Use more tokens or more held-out files"
        )
    if outcome.control.verdict != "confirmed":
        found.append(
            "a quarter of the tokens isn't significantly worse, so effects can't be detected at this size, "
            "and no verdicts are given. Use more tokens or more seeds"
        )
    if len(outcome.spec.seeds) < MIN_SEEDS:
        found.append(f"with fewer than {MIN_SEEDS} seeds, only {CONTROL} gets a verdict")
    return found
