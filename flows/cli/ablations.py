"""`curriculum ablate`: arms trained one after another, and the table of verdicts."""

from collections.abc import Sequence
from pathlib import Path

from curriculum.ablations.ablate import JudgedClaim, Outcome, ablate
from curriculum.ablations.arms import Arm, load_ablation
from curriculum.inspection.formats import Line, count
from flows.cli.carried_out import require_machine
from flows.cli.console import MUTED, out, print_line, table, warn
from flows.cli.progress_bars import watching
from flows.settings.contexts import context_of
from schemas.ablation import CONTROL, MIN_SEEDS
from schemas.visible import one_line


def run(file: Path, home: Path, repositories: Sequence[str]) -> bool:
    """Train all arms of an ablation and print its verdicts; return False where it has none."""
    require_machine()
    spec = load_ablation(file)
    with watching() as watch:

        def begun(arm: Arm, number: int, total: int) -> None:
            print_line(f"arm {arm.name}, seed {arm.seed}: {number} of {total}", MUTED)

        outcome, made = ablate(
            spec,
            file,
            home,
            context_of(watch, warn=warn),
            repositories=repositories,
            begun=begun,
        )
    out.print(table([_arm_line(outcome, name) for name in _names(outcome)]))
    out.print(table([_claim_line(judged) for judged in outcome.judged]))
    for line in _warnings(outcome):
        warn(line)
    print_line(f"ablation {made.path}", MUTED)
    return outcome.is_sound and len(spec.seeds) >= MIN_SEEDS


def _names(outcome: Outcome) -> list[str]:
    return [*dict.fromkeys(each.arm for each in outcome.arms)]


def _arm_line(outcome: Outcome, name: str) -> Line:
    """An arm: the means over its seeds."""
    own = [each for each in outcome.arms if each.arm == name]
    sets = own[0].sets
    return {
        "arm": name,
        "seeds": len(own),
        "steps": own[0].steps,
        "positions": count(own[0].positions),
        "scored": count(sum(each.scored for each in own) / len(own)),
        **{held: f"{sum(each.val_bpb(held) for each in own) / len(own):.3f}" for held in sets},
    }


def _claim_line(judged: JudgedClaim) -> Line:
    claim, found, documents = judged.claim, judged.found, judged.documents
    return {
        "claim": one_line(claim.claim),
        "arms": f"{claim.arm} − {claim.against}",
        "set": claim.set,
        "difference": f"{found.mean:+.4f}",
        "over seeds": f"{found.low:+.4f} to {found.high:+.4f}",
        "over documents": f"{documents.low:+.4f} to {documents.high:+.4f}",
        "p": f"{judged.corrected:.3f}",
        "verdict": judged.verdict,
        "seeds needed": judged.needed or "",
    }


def _warnings(outcome: Outcome) -> list[str]:
    """Sentences that a reader of the table must know."""
    found = []
    if outcome.null.verdict == "confirmed":
        found.append(
            "another order of the same rows changes val_bpb surely: chance is larger here than the claims, "
            "and there are no verdicts. Take more tokens or more held-out files"
        )
    if outcome.control.verdict != "confirmed":
        found.append(
            "a quarter of the tokens isn't surely worse: nothing can be told at this size, and there are no "
            "verdicts. Take more tokens or more seeds"
        )
    if len(outcome.spec.seeds) < MIN_SEEDS:
        found.append(f"fewer than {MIN_SEEDS} seeds give no verdict but that of {CONTROL}")
    return found
