"""`curriculum diet check`: compare the tokens that a diet requests with the tokens that are available."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from curriculum.inspection.formats import count
from curriculum.mixing.diet_files import warnings
from curriculum.mixing.phase_faults import repeated_changes, unmeasured_imports
from curriculum.mixing.resolve import structure_faults
from curriculum.mixing.token_budgets import TokenBudgets
from curriculum.pipeline.checks import (
    CheckedPlan,
    check_plan,
    diet_budgets,
    dry_build,
    plan_estimate,
    shortages,
)
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.training_time import (
    HOUR,
    Speed,
    last_speed,
)
from curriculum.store import Store
from curriculum.supply import DocumentKind, Estimate
from flows.cli.checked_diet import CheckedServing, checked_servings
from flows.cli.console import ACCENT, BAD, GOOD, out, print_json, warn
from flows.cli.diet_tables import print_tables, training_work
from flows.cli.progress_bars import watching
from flows.cli.supply import counted
from flows.settings.contexts import context_of
from flows.settings.trust import shadows
from schemas.study import study_remark


def check(config: RunConfig, *, share: float, as_json: bool) -> bool:
    """Compare every serving of a diet with the tokens of its built rows, or else with an estimate.

    The last printed line is the verdict. Returns True if all phases have enough tokens.

    Raises:
        CurriculumError: if the diet contradicts itself; nothing has been read then.
    """
    plan = resolve_plan(config, dry=True)
    context = context_of(warn=warn)

    def estimated(kinds: Sequence[DocumentKind]) -> Estimate:
        task = plan_estimate(plan, kinds, share)
        with watching() as watch:
            return counted(task, Store(plan.store.root), config.corpus.workers, watch)

    built = dry_build(plan, [phase.name for phase in plan.phases], context)
    found = check_plan(plan, built, estimated)
    faults = [str(phase.fault) for phase in found.phases if phase.fault]
    servings = [*checked_servings(found)]
    read = diet_budgets(plan, found)
    speed = last_speed(plan, context.resources)
    remarks = [*_remarks(found, read)]
    if as_json:
        print_json(
            _answer(plan, found, servings, read, speed) | {"faults": faults, "warnings": remarks}
        )
    else:
        print_tables(plan, found, servings, built, read, speed)
    if plan.diet.study is not None:
        warn(study_remark(plan.diet.study))
    for line in (*unmeasured_imports(plan.phases), *repeated_changes(plan.phases)):
        warn(line)
    for line in warnings(config.specialist, structure_faults(plan.phases), config.workspace):
        warn(line)
    for line in (*remarks, *faults):
        warn(line)
    if not as_json:
        out.print(_unfit(plan, found) if faults else _fit(plan, found, read), soft_wrap=True)
    return not faults


def _remarks(found: CheckedPlan, read: TokenBudgets) -> Iterator[str]:
    """Yield remarks on a diet with enough tokens: reduced shares, and text that repeats too often."""
    for phase in found.phases:
        if phase.fault is None:
            yield from shortages(phase)
    if read.is_often:
        within = (
            f"Lower token_budget to {budget_option(read.largest)}, drop"
            if read.largest
            else "No token budget fits this limit: drop"
        )
        about = "" if found.is_whole else "By the estimate, "
        yield (
            f"{about}{'each' if about else 'Each'} distinct token is scored "
            f"{read.points[-1].repetition:.1f} times over all phases; max_token_repetition is "
            f"{read.limit:g}. {within} a serving that shows the same text, or enlarge the corpus"
        )


def _fit(plan: RunPlan, found: CheckedPlan, read: TokenBudgets) -> Text:
    """Return the verdict on a diet with enough tokens; it names phases whose shares differ from the diet."""
    diet, names = plan.diet, ", ".join(phase.name for phase in plan.phases)
    cut = [phase.phase.name for phase in found.phases if any(one.is_short for one in phase.held)]
    remarks = (
        *([f"shares in {', '.join(cut)} differ from the diet"] if cut else []),
        *(["repetition exceeds the limit"] if read.is_often else []),
    )
    return Text(
        f"✓ {diet.specialist} trains {diet.model} on {count(diet.token_budget)} tokens of corpus "
        f"{plan.corpus.name}: {names}{'; but ' if remarks else ''}{', and '.join(remarks)}",
        ACCENT if remarks else GOOD,
    )


def _unfit(plan: RunPlan, found: CheckedPlan) -> Text:
    """Return the verdict on a diet with too few tokens; it names the largest token budget that fits."""
    budgets, budget = found.supply.budgets(), plan.diet.token_budget
    asked = f"✗ {plan.diet.specialist}: not enough tokens for a budget of {count(budget)}"
    below = ", ".join(phase.phase.name for phase in found.phases if phase.is_below_a_step)
    if budgets.smallest is None or budgets.largest is None:
        cure = "no token budget fits: enlarge the corpus or change the servings above"
    elif budget < budgets.smallest:
        cure = (
            f"the budget is too small for one step of {below}; smallest budget that fits: "
            f"--token-budget {budget_option(budgets.smallest)}"
        )
    else:
        cure = f"largest budget that fits: --token-budget {budget_option(budgets.largest)}"
    return Text(f"{asked}; {cure}", BAD)


def budget_option(tokens: int) -> str:
    """Format a number of tokens as a value of the option --token-budget.

    >>> budget_option(1_234_000), budget_option(917)
    ('1234K', '917')
    """
    return f"{tokens // 1000}K" if tokens >= 1000 and tokens % 1000 == 0 else str(tokens)


def _answer(
    plan: RunPlan,
    found: CheckedPlan,
    servings: Sequence[CheckedServing],
    read: TokenBudgets,
    speed: Speed | None,
) -> dict[str, object]:
    budgets = found.supply.budgets()
    return {
        "specialist": plan.diet.specialist,
        "token_budget": plan.diet.token_budget,
        "servings": servings,
        "phases": [
            {
                "phase": check.phase.name,
                "tokens": check.phase.tokens,
                "steps": check.whole.steps if check.whole else None,
                "tokens_of_steps": check.whole.tokens if check.whole else None,
                "is_counted": check.is_counted and not check.is_estimate,
            }
            for check in found.phases
        ],
        "token_budgets": read.points,
        "is_estimate": not found.is_whole,
        "max_token_repetition": plan.diet.max_token_repetition,
        "largest_within_max_token_repetition": read.largest,
        "hours": speed.gpu_seconds(training_work(plan)) / HOUR if speed else None,
        "speed": speed,
        "fits": not any(check.fault for check in found.phases),
        "smallest_token_budget": budgets.smallest,
        "largest_token_budget": budgets.largest,
        "shadows": shadows(plan.store.root),
    }
