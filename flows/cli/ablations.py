"""`curriculum ablate`: train the arms of an ablation one after another, and print its verdicts."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from curriculum.ablations.ablate import Outcome, ablate
from curriculum.ablations.arms import load_ablation
from curriculum.ablations.bundles import bundled_runs, write_bundle
from curriculum.ablations.outcome_tables import (
    arm_lines,
    claim_lines,
    equal_token_lines,
    outcome_warnings,
)
from curriculum.ablations.planned_arms import PlannedArm, train_arm
from curriculum.inspection.formats import count, number
from curriculum.pipeline.execute import run_in_process
from curriculum.store import Artefact
from dashboards.ablation_page import write_ablation
from flows.cli.carried_out import require_machine
from flows.cli.console import MUTED, out, print_line, table, warn
from flows.cli.progress_bars import watching
from flows.settings.contexts import context_of
from schemas.ablation import MIN_SEEDS


def run(file: Path, home: Path, repositories: Sequence[str]) -> bool:
    """Train all arms of an ablation and print the verdicts on its claims; return False without verdicts."""
    require_machine()
    spec = load_ablation(file)
    with watching() as watch:
        context = context_of(watch, warn=warn)

        def train(planned: PlannedArm) -> tuple[Artefact, ...]:
            _print_arm(planned)
            return train_arm(planned, run_in_process(context), context)

        outcome, made = ablate(spec, file, home, context, repositories=repositories, train=train)
    return _print(outcome, made, home)


def bundle(file: Path, home: Path, folder: Path, repositories: Sequence[str]) -> None:
    """Write the bundle with which another machine can train an ablation's arms.

    Also print the commands that train and that judge the arms.
    """
    require_machine()
    spec = load_ablation(file)
    with watching() as watch:
        context = context_of(watch, warn=warn)
        written = write_bundle(
            spec, file, home, folder, context, repositories=repositories, begun=_print_arm
        )
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print_line(f"{folder}: {number(len(written.arms), 'arm')}, {count(size)}B")
    print_line(
        f"Train on the other machine:  python -m curriculum.train.bundle {folder.name}", MUTED
    )
    words = ["curriculum", "ablate", str(file), "--collect", str(folder)]
    print_line(f"Then judge the runs here:    {shlex.join(words)}", MUTED)


def judge_bundle(file: Path, home: Path, folder: Path, repositories: Sequence[str]) -> bool:
    """Judge an ablation by the runs in its bundle and print the verdicts; return False without verdicts."""
    spec = load_ablation(file)
    runs = bundled_runs(spec, folder)
    with watching() as watch:
        context = context_of(watch, warn=warn)
        outcome, made = ablate(spec, file, home, context, repositories=repositories, train=runs)
    return _print(outcome, made, home)


def _print_arm(planned: PlannedArm) -> None:
    print_line(planned.title, MUTED)


def _print(outcome: Outcome, made: Artefact, home: Path) -> bool:
    """Print the tables of an outcome; return False if it has no verdicts."""
    out.print(table(arm_lines(outcome)))
    out.print(table(claim_lines(outcome)))
    if lines := equal_token_lines(outcome):
        out.print(table(lines))
    for line in outcome_warnings(outcome):
        warn(line)
    print_line(f"ablation {made.path}", MUTED)
    print_line(f"page {write_ablation(home, made)}", MUTED)
    return outcome.is_sound and len(outcome.spec.seeds) >= MIN_SEEDS
