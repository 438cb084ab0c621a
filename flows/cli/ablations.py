"""`curriculum ablate`: arms trained one after another, and the table of verdicts."""

from collections.abc import Sequence
from pathlib import Path

from curriculum.ablations.ablate import ablate
from curriculum.ablations.arms import load_ablation
from curriculum.ablations.outcome_tables import arm_lines, claim_lines, outcome_warnings
from curriculum.ablations.planned_arms import PlannedArm, train_arm
from curriculum.pipeline.execute import here
from curriculum.store import Artefact
from dashboards.ablation_page import write_ablation
from flows.cli.carried_out import require_machine
from flows.cli.console import MUTED, out, print_line, table, warn
from flows.cli.progress_bars import watching
from flows.settings.contexts import context_of
from schemas.ablation import MIN_SEEDS


def run(file: Path, home: Path, repositories: Sequence[str]) -> bool:
    """Train all arms of an ablation and print its verdicts; return False where it has none."""
    require_machine()
    spec = load_ablation(file)
    with watching() as watch:
        context = context_of(watch, warn=warn)

        def train(planned: PlannedArm) -> tuple[Artefact, ...]:
            arm = planned.arm
            words = f"arm {arm.name}, seed {arm.seed}: {planned.number} of {planned.total}"
            print_line(words, MUTED)
            return train_arm(planned, here(context), context)

        outcome, made = ablate(spec, file, home, context, repositories=repositories, train=train)
    out.print(table(arm_lines(outcome)))
    out.print(table(claim_lines(outcome)))
    for line in outcome_warnings(outcome):
        warn(line)
    print_line(f"ablation {made.path}", MUTED)
    print_line(f"page {write_ablation(home, made)}", MUTED)
    return outcome.is_sound and len(spec.seeds) >= MIN_SEEDS
