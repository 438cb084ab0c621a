"""Tables of `curriculum diet check`, phase by phase, and the time that training takes."""

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
    "repetition of a serving: how often its phase sees a row; its limit is max_repetition there."
)
BUDGETS_NOTE = (
    "About what all phases read of a token budget. distinct: a token counts once for the same 15 tokens "
    "before it in its document. repetition: scored ÷ distinct tokens; its limit is max_token_repetition of "
    "the diet."
)
ESTIMATE_NOTE = (
    "Rows that aren't built are estimated: distinct tokens are those of lines that no earlier document "
    "shows, and what families show of the same files is taken to be the same text."
)


def print_tables(
    plan: RunPlan,
    found: CheckedPlan,
    servings: Sequence[CheckedServing],
    built: Mapping[str, Built],
    read: TokenBudgets,
    speed: Speed | None,
) -> None:
    """Print what each phase asks for and is served, token budgets, and the time of training."""
    for each in found.phases:
        out.print(Text(each.phase.name, f"bold {ACCENT}"))
        own = [line for line in servings if line.phase == each.phase.name]
        uneven = {line.serving for line in own if line.most_repeated}
        shown = [
            line for line in own if line.domain == ALL or (line.is_short and line.serving in uneven)
        ]
        if shown:
            out.print(table(shown, SERVING_COLUMNS))
        if each.whole is not None and each.fault is None:
            unused = whole_steps(
                each.whole.steps, found.supply.tokens_per_step, each.whole.tokens, each.phase.tokens
            )
            if unused:
                out.print(Text(f"{'about ' * each.is_estimate}{unused}", MUTED))
        largest = largest_files(each, found, built)
        if words := phase_words(largest):
            print_line(words, MUTED)
        out.print()
        lines = (
            *each.warnings,
            large_file_warning(largest),
            *context_warnings(built[each.phase.name]),
        )
        for line in lines:
            if line is not None:
                warn(f"{each.phase.name}: {line}")
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
    out.print(Text(f"{BUDGETS_NOTE} The largest budget within {read.limit:g}: {most}.", MUTED))
    if is_estimate:
        out.print(Text(ESTIMATE_NOTE, MUTED))


def training_work(plan: RunPlan) -> Workload:
    """Return the work of training all phases from their beginning."""
    step = tokens_per_step(plan)
    phases = (workload_of(phase, phase.tokens, phase.tokens // step) for phase in plan.phases)
    return sum(phases, NO_WORK)
