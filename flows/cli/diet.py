"""`curriculum diet check`: the tokens that a diet asks for against those that there are."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from curriculum.inspection.formats import alike, count
from curriculum.inspection.held_out import ExpectedServing, HeldOut, expected_held_out, held_out
from curriculum.inspection.largest_files import (
    large_file_warning,
    phase_shares,
    phase_words,
    shares_of,
)
from curriculum.inspection.runs import whole_steps
from curriculum.mixing.check import PhaseCheck, ServingCheck, source_checks
from curriculum.mixing.load import warnings
from curriculum.mixing.phase_faults import unmeasured
from curriculum.mixing.resolve import structure_faults
from curriculum.pipeline.checks import (
    CheckedPlan,
    check_plan,
    dry_build,
    kind_of,
    plan_estimate,
    shortages,
)
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import tokens_per_step
from curriculum.pipeline.training_time import (
    HOUR,
    NO_WORK,
    Speed,
    Workload,
    expected,
    last_speed,
    workload_of,
)
from curriculum.stages import Built
from curriculum.store import Store
from curriculum.supply import ALL, Estimate, Kind
from flows.cli.console import ACCENT, BAD, GOOD, MUTED, out, print_json, table, warn
from flows.cli.progress_bars import watching
from flows.cli.supply import counted
from flows.cli.supply_tables import doubtful
from flows.settings.contexts import context_of
from flows.settings.trust import shadows
from schemas.study import study_remark

Checked = Mapping[str, Any]
"""A line of what is asked and available, as tables and JSON have it."""
UNEVEN = 1.1
"""Ratio from which on a serving's domains are seen unevenly and one is named; rows aren't quite alike."""


SERVING_COLUMNS = (
    *("serving", "domain", "asked_tokens", "available_tokens", "source", "repetition"),
    *("most_repeated", "limit", "is_short"),
)
SOURCE_COLUMNS = (
    *("source_files_of", "asked_tokens", "distinct_tokens", "repetition", "limit", "is_often"),
)
COLUMNS_NOTE = (
    "repetition of a serving: how often a row is seen in its phase; its limit is max_repetition of the "
    "phase. repetition of source files: about how often their code is seen in all phases and forms; its "
    "limit is max_source_repetition of the diet."
)


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
    servings = [*_checked_servings(found)]
    sources = [*_checked_sources(found, plan.diet.max_source_repetition)]
    speed = last_speed(plan, context.resources)
    remarks = [*_remarks(plan, found, sources)]
    if as_json:
        print_json(
            _answer(plan, found, servings, sources, speed) | {"faults": faults, "warnings": remarks}
        )
    else:
        _print_tables(plan, found, servings, built, sources, speed)
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


def _remarks(plan: RunPlan, found: CheckedPlan, sources: Sequence[Checked]) -> Iterator[str]:
    """Yield what follows for a diet that can be served: smaller shares, and source files read too often."""
    for each in found.phases:
        if each.fault is None:
            yield from shortages(each)
    if often := [source for source in sources if source["is_often"]]:
        listed = ", ".join(
            f"{one['source_files_of']} {one['repetition']:.1f} times" for one in often
        )
        yield (
            f"Source files are read more often than max_source_repetition, {often[0]['limit']:g}, over "
            f"all phases: about {listed}. Lower token_budget or the share of these domains, or "
            "enlarge the corpus"
        )


def _fit(plan: RunPlan, found: CheckedPlan, *, sources: Sequence[Checked]) -> Text:
    """Return the verdict on a diet that can be served, with what it is served otherwise than asked."""
    diet, names = plan.diet, ", ".join(each.name for each in plan.phases)
    cut = [each.phase.name for each in found.phases if any(one.is_short for one in each.held)]
    often = [source["source_files_of"] for source in sources if source["is_often"]]
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


def _answer(
    plan: RunPlan,
    found: CheckedPlan,
    servings: Sequence[Checked],
    sources: Sequence[Checked],
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
        "sources": sources,
        "hours": speed.gpu_seconds(training_work(plan)) / HOUR if speed else None,
        "speed": speed,
        "fits": not any(check.fault for check in found.phases),
        "smallest_token_budget": budgets.smallest,
        "largest_token_budget": budgets.largest,
        "shadows": shadows(plan.store.root),
    }


def _print_tables(
    plan: RunPlan,
    found: CheckedPlan,
    servings: Sequence[Checked],
    built: Mapping[str, Built],
    sources: Sequence[Checked],
    speed: Speed | None,
) -> None:
    """Print what each phase asks for and is served, source files, and the time of training."""
    for each in found.phases:
        out.print(Text(each.phase.name, f"bold {ACCENT}"))
        own = [line for line in servings if line["phase"] == each.phase.name]
        uneven = {line["serving"] for line in own if line["most_repeated"]}
        shown = [
            line
            for line in own
            if line["domain"] == ALL or (line["is_short"] and line["serving"] in uneven)
        ]
        if shown:
            out.print(table(shown, SERVING_COLUMNS))
        if each.whole is not None and each.fault is None:
            unused = whole_steps(
                each.whole.steps, found.supply.tokens_per_step, each.whole.tokens, each.phase.tokens
            )
            if unused:
                out.print(Text(f"{'about ' * each.is_estimate}{unused}", MUTED))
        largest = _largest_files(each, found, built)
        if words := phase_words(largest):
            out.print(Text(words, MUTED), soft_wrap=True)
        out.print()
        for line in (*each.warnings, large_file_warning(largest)):
            if line is not None:
                warn(f"{each.phase.name}: {line}")
    for line in alike(
        (phase, held.warning()) for phase, held in _held_out(found, built, plan.store.root)
    ):
        warn(line)
    out.print(table(sources, SOURCE_COLUMNS))
    out.print(Text(COLUMNS_NOTE, MUTED))
    out.print()
    out.print(expected(training_work(plan), plan.diet.model, speed), soft_wrap=True)
    for note in found.estimate.notes if found.estimate else ():
        out.print(Text(note, MUTED), soft_wrap=True)


def _largest_files(
    check: PhaseCheck, found: CheckedPlan, built: Mapping[str, Built]
) -> list[tuple[str, float]]:
    """The files with most of a phase's tokens: of what is built, else of the estimate's sample."""
    shares = shares_of(built[check.phase.name])
    if not shares and found.estimate is not None:
        shares = found.estimate.shares
    return phase_shares(check.phase, shares)


def _held_out(
    found: CheckedPlan, built: Mapping[str, Built], workspace: Path
) -> Iterator[tuple[str, HeldOut]]:
    """Yield the held-out documents of each phase: those of its rows, else about those of the estimate."""
    for each in found.phases:
        servings, sets = each.phase.servings, [first for first, *_ in found.sets[each.phase.name]]
        held = held_out(servings, sets, built[each.phase.name], workspace=workspace)
        if held is None and found.estimate is not None:
            expected_ones = [
                ExpectedServing(
                    kind=kind_of(one), share=one.share, factors=dict(one.domains) or None
                )
                for one in servings
                if one.imported is None
            ]
            held = expected_held_out(found.estimate, expected_ones)
        if held is not None:
            yield each.phase.name, held


def _checked_servings(found: CheckedPlan) -> Iterator[Checked]:
    """Yield each serving of each phase as a whole, of domain `*`, then in each of its domains."""
    for check in found.phases:
        for serving in check.phase.servings:
            held = [one for one in check.held if one.stratum.serving == serving]
            is_built = found.is_built(check.phase.name, serving.index)
            for domain, own in ((ALL, held), *((one.stratum.domain, [one]) for one in held)):
                if own:
                    yield _checked(domain, own, None if is_built else found.estimate)


def _checked(domain: str, held: Sequence[ServingCheck], found: Estimate | None) -> Checked:
    serving, only = held[0].stratum.serving, held[0].stratum.domain if len(held) == 1 else ALL
    doubt = doubtful(*found.total(kind_of(serving), only, serving.repositories)) if found else ""
    return {
        "phase": held[0].phase,
        "serving": serving.title,
        "family": serving.family,
        "imported": serving.imported.name if serving.imported else None,
        "objective": serving.objective,
        "row_length": serving.row_length,
        "domain": domain,
        "asked_tokens": sum(one.asked for one in held),
        "available_tokens": sum(one.available for one in held),
        "source": f"estimate {doubt}".rstrip() if found else "rows",
        "repetition": max(one.repetition for one in held),
        "most_repeated": _most(held),
        "limit": held[0].limit,
        "is_short": any(one.is_short for one in held),
    }


def _checked_sources(found: CheckedPlan, limit: float) -> Iterator[Checked]:
    """Yield how often the source files of each domain are seen, and of named repositories."""
    for source in source_checks(found.phases):
        yield {
            "source_files_of": source.title,
            "domain": source.domain,
            "repositories": source.repositories,
            "asked_tokens": source.asked,
            "distinct_tokens": source.distinct,
            "repetition": source.repetition,
            "limit": limit,
            "is_often": source.repetition > limit,
        }


def _most(held: Sequence[ServingCheck]) -> str:
    most = max(held, key=lambda one: one.repetition)
    least = min(held, key=lambda one: one.repetition)
    return most.stratum.domain if most.repetition > UNEVEN * least.repetition else ""


def training_work(plan: RunPlan) -> Workload:
    """Return the work of training all phases from their beginning."""
    step = tokens_per_step(plan)
    phases = (workload_of(each, each.tokens, each.tokens // step) for each in plan.phases)
    return sum(phases, NO_WORK)
