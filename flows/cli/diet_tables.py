"""Tables that `curriculum diet check` prints for each phase, and the estimated training time."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from curriculum.inspection.build_tables import context_warnings
from curriculum.inspection.formats import alike, count
from curriculum.inspection.largest_files import (
    large_file_warning,
    phase_words,
)
from curriculum.inspection.runs import whole_steps
from curriculum.mixing.token_budgets import TokenBudgets
from curriculum.pipeline.checks import CheckedPlan
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.steps import tokens_per_step
from curriculum.pipeline.training_time import (
    NO_WORK,
    Speed,
    Workload,
    expected,
    workload_of,
)
from curriculum.stages import Built
from curriculum.supply import ALL
from flows.cli.checked_diet import (
    CheckedServing,
    held_out_of_phases,
    largest_files,
)
from flows.cli.console import ACCENT, MUTED, out, print_line, table, warn

SERVING_COLUMNS = (
    *("serving", "domain", "asked_tokens", "available_tokens", "source", "repetition"),
    *("most_repeated", "limit", "is_short"),
)
BUDGET_COLUMNS = (
    *("token_budget", "valid_tokens", "scored_tokens", "distinct_tokens", "repetition"),
)
SERVINGS_NOTE = (
    "repetition: number of times a phase uses a row of the serving; its limit is max_repetition "
    "of the phase."
)
BUDGETS_NOTE = (
    "Approximate tokens that all phases read for a token budget. distinct: tokens that follow the "
    "same 15 tokens in a document count once. repetition: scored ÷ distinct tokens; its limit is "
    "max_token_repetition of the diet."
)
ESTIMATE_NOTE = (
    "Rows that are not built are estimated: distinct tokens are the tokens of lines that no "
    "earlier document contains, and families are assumed to contain the same text of the same "
    "files."
)


def print_tables(
    plan: RunPlan,
    found: CheckedPlan,
    servings: Sequence[CheckedServing],
    built: Mapping[str, Built],
    read: TokenBudgets,
    speed: Speed | None,
) -> None:
    """Print requested and available tokens by phase, the token budgets that fit, and the training time."""
    for check in found.phases:
        out.print(Text(check.phase.name, f"bold {ACCENT}"))
        own = [line for line in servings if line.phase == check.phase.name]
        uneven = {line.serving for line in own if line.most_repeated}
        shown = [
            line for line in own if line.domain == ALL or (line.is_short and line.serving in uneven)
        ]
        if shown:
            out.print(table(shown, SERVING_COLUMNS))
        if check.whole is not None and check.fault is None:
            unused = whole_steps(
                check.whole.steps,
                found.supply.tokens_per_step,
                check.whole.tokens,
                check.phase.tokens,
            )
            if unused:
                out.print(Text(f"{'about ' * check.is_estimate}{unused}", MUTED))
        largest = largest_files(check, found, built)
        if words := phase_words(largest):
            print_line(words, MUTED)
        out.print()
        lines = (
            *check.warnings,
            large_file_warning(largest),
            *context_warnings(built[check.phase.name]),
        )
        for line in lines:
            if line is not None:
                warn(f"{check.phase.name}: {line}")
    for line in alike(
        (phase, held.warning()) for phase, held in held_out_of_phases(found, built, plan.store.root)
    ):
        warn(line)
    out.print(Text(SERVINGS_NOTE, MUTED))
    out.print()
    _print_budgets(read, is_estimate=not found.is_whole)
    out.print()
    out.print(expected(training_work(plan), plan.diet.model, speed), soft_wrap=True)
    for note in found.estimate.notes if found.estimate else ():
        print_line(note, MUTED)


def _print_budgets(read: TokenBudgets, *, is_estimate: bool) -> None:
    most = count(read.largest) if read.largest else "none"
    out.print(table(read.points, BUDGET_COLUMNS))
    out.print(
        Text(
            f"{BUDGETS_NOTE} Largest budget with a repetition of at most {read.limit:g}: {most}.",
            MUTED,
        )
    )
    if is_estimate:
        out.print(Text(ESTIMATE_NOTE, MUTED))


def training_work(plan: RunPlan) -> Workload:
    """Return the amount of work that training all phases from the start takes."""
    step = tokens_per_step(plan)
    phases = (workload_of(phase, phase.tokens, phase.tokens // step) for phase in plan.phases)
    return sum(phases, NO_WORK)
