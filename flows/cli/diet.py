"""`curriculum diet check`: the tokens that a diet asks for against those that there are."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.text import Text

from curriculum.inspection.formats import count
from curriculum.mixing.check import ServingCheck, SourceCheck, source_checks
from curriculum.mixing.load import warnings
from curriculum.mixing.phase_faults import unmeasured
from curriculum.mixing.resolve import structure_faults
from curriculum.pipeline.checks import CheckedPlan, check_plan, dry_build, plan_estimate, shortages
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.training_time import HOUR, Speed, last_speed
from curriculum.store import Store
from curriculum.supply import Estimate, Kind
from flows.cli.console import ACCENT, BAD, GOOD, out, print_json, warn
from flows.cli.diet_tables import print_tables, training_work
from flows.cli.progress_bars import watching
from flows.cli.supply import counted
from flows.settings.contexts import context_of
from flows.settings.trust import shadows
from schemas.study import study_remark


def check(config: RunConfig, *, share: float, as_json: bool) -> bool:
    """Hold every serving of a diet against the rows there are, or against an estimate of them.

    The last line is the verdict; returns True if every phase can be served.

    Raises:
        CurriculumError: for a diet that contradicts itself, before anything is read.
    """
    plan = resolve_plan(config, dry=True)
    context = context_of(warn=warn)

    def estimated(kinds: Sequence[Kind]) -> Estimate:
        task = plan_estimate(plan, kinds, share)
        with watching() as watch:
            return counted(task, Store(plan.store.root), config.corpus.workers, watch)

    built = dry_build(plan, [each.name for each in plan.phases], context)
    found = check_plan(plan, built, estimated)
    faults = [str(each.fault) for each in found.phases if each.fault]
    sources, speed = tuple(source_checks(found.phases)), last_speed(plan, context.resources)
    remarks = [*_remarks(plan, found, sources)]
    if as_json:
        print_json(_as_json(plan, found, faults, remarks, sources, speed))
    else:
        print_tables(plan, found, built, sources, speed)
    if plan.diet.study is not None:
        warn(study_remark(plan.diet.study))
    for line in unmeasured(plan.phases):
        warn(line)
    for line in warnings(config.specialist, structure_faults(plan.phases), config.workspace):
        warn(line)
    for line in (*remarks, *faults):
        warn(line)
    if not as_json:
        out.print(
            _unfit(plan, found) if faults else _fit(plan, found, sources=sources), soft_wrap=True
        )
    return not faults


def _remarks(plan: RunPlan, found: CheckedPlan, sources: Sequence[SourceCheck]) -> Iterator[str]:
    """Yield what follows for a diet that can be served: smaller shares, and source files read too often."""
    for each in found.phases:
        if each.fault is None:
            yield from shortages(each)
    limit = plan.diet.max_source_repetition
    if often := _often(sources, limit):
        listed = ", ".join(f"{each.title} {each.repetition:.1f} times" for each in often)
        yield (
            f"Source files are read more often than max_source_repetition, {limit:g}, over all phases: "
            f"about {listed}. Lower token_budget or the share of these domains, or enlarge the corpus"
        )


def _often(sources: Sequence[SourceCheck], limit: float) -> list[SourceCheck]:
    return [each for each in sources if each.repetition > limit]


def _fit(plan: RunPlan, found: CheckedPlan, *, sources: Sequence[SourceCheck]) -> Text:
    """Return the verdict on a diet that can be served, with what it is served otherwise than asked."""
    diet, names = plan.diet, ", ".join(each.name for each in plan.phases)
    cut = [each.phase.name for each in found.phases if any(one.is_short for one in each.held)]
    often = [each.title for each in _often(sources, diet.max_source_repetition)]
    remarks = (
        *([f"shares differ from the diet's in {', '.join(cut)}"] if cut else []),
        *([f"source files of {', '.join(often)} are read too often"] if often else []),
    )
    return Text(
        f"✓ {diet.specialist} trains {diet.model} on {count(diet.token_budget)} tokens of corpus "
        f"{plan.corpus.name}: {names}{'; but ' if remarks else ''}{', and '.join(remarks)}",
        ACCENT if remarks else GOOD,
    )


def _unfit(plan: RunPlan, found: CheckedPlan) -> Text:
    """Return the verdict on a diet that can't be served, with the nearest budget that fits."""
    budgets, budget = found.supply.budgets(), plan.diet.token_budget
    asked = f"✗ {plan.diet.specialist} can't be served with {count(budget)} tokens"
    below = ", ".join(each.phase.name for each in found.phases if each.is_below_a_step)
    if budgets.smallest is None or budgets.largest is None:
        cure = "no token budget fits: enlarge the corpus or change what is named above"
    elif budget < budgets.smallest:
        cure = (
            f"too few for one step of {below}; the smallest that fits: "
            f"--token-budget {budget_option(budgets.smallest)}"
        )
    else:
        cure = f"the largest that fits: --token-budget {budget_option(budgets.largest)}"
    return Text(f"{asked}; {cure}", BAD)


def budget_option(tokens: int) -> str:
    """Return a number of tokens as --token-budget takes it.

    >>> budget_option(1_234_000), budget_option(917)
    ('1234K', '917')
    """
    return f"{tokens // 1000}K" if tokens >= 1000 and tokens % 1000 == 0 else str(tokens)


def _imported(held: ServingCheck) -> str | None:
    rows = held.stratum.serving.imported
    return rows.name if rows else None


def _as_json(
    plan: RunPlan,
    found: CheckedPlan,
    faults: Sequence[str],
    remarks: Sequence[str],
    sources: Sequence[SourceCheck],
    speed: Speed | None,
) -> dict[str, object]:
    budgets = found.supply.budgets()
    return {
        "specialist": plan.diet.specialist,
        "token_budget": plan.diet.token_budget,
        "servings": [
            {
                "phase": each.phase,
                "family": each.stratum.serving.family,
                "imported": _imported(each),
                "objective": each.stratum.serving.objective,
                "row_length": each.stratum.serving.row_length,
                "domain": each.stratum.domain,
                "asked": each.asked,
                "there": each.available,
                "built": found.is_built(each.phase, each.stratum.serving.index),
                "repetition": round(each.repetition, 4),
                "max_repetition": each.limit,
                "short": each.is_short,
            }
            for check in found.phases
            for each in check.held
        ],
        "phases": [
            {
                "phase": each.phase.name,
                "tokens": each.phase.tokens,
                "steps": each.whole.steps if each.whole else None,
                "tokens_of_steps": each.whole.tokens if each.whole else None,
                "counted": each.is_counted and not each.is_estimate,
            }
            for each in found.phases
        ],
        "sources": [{**asdict(each), "repetition": round(each.repetition, 4)} for each in sources],
        "hours": round(speed.gpu_seconds(training_work(plan)) / HOUR, 4) if speed else None,
        "speed": asdict(speed) if speed else None,
        "fits": not faults,
        "smallest_token_budget": budgets.smallest,
        "largest_token_budget": budgets.largest,
        "faults": list(faults),
        "warnings": list(remarks),
        "shadows": [*shadows(plan.store.root)],
    }
