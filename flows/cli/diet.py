"""`curriculum diet check`: the tokens that a diet asks for against those that there are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from curriculum.inspection.formats import Line, alike, count
from curriculum.inspection.held_out import (
    ExpectedServing,
    HeldOut,
    expected_held_out,
    held_out,
)
from curriculum.inspection.largest_files import (
    large_file_warning,
    phase_shares,
    phase_words,
    shares_of,
)
from curriculum.inspection.runs import whole_steps
from curriculum.mixing.check import PhaseCheck, ServingCheck, SourceCheck, source_checks
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
from flows.cli.console import ACCENT, BAD, GOOD, MUTED, out, print_json, table, warn, watching
from flows.cli.supply import counted, doubtful
from flows.settings.contexts import context_of
from flows.settings.trust import shadows
from schemas.study import study_remark

UNEVEN = 1.1
"""Ratio from which on a serving's domains are seen unevenly and one is named; rows aren't quite alike."""


COLUMNS_NOTE = (
    "asked, available and distinct count tokens. repetition: how often a row is seen in its phase; its "
    "limit is max_repetition of the phase. read about: how often the code of source files is seen in all "
    "phases and forms; its limit is max_source_repetition of the diet."
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
    sources, speed = tuple(source_checks(found.phases)), last_speed(plan, context.resources)
    remarks = [*_remarks(plan, found, sources)]
    if as_json:
        print_json(_as_json(plan, found, faults, remarks, sources, speed))
    else:
        _show(plan, found, built, sources, speed)
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


def _show(
    plan: RunPlan,
    found: CheckedPlan,
    built: Mapping[str, Built],
    sources: Sequence[SourceCheck],
    speed: Speed | None,
) -> None:
    for each in found.phases:
        out.print(Text(each.phase.name, f"bold {ACCENT}"))
        if each.held:
            out.print(table(_held_lines(each, found)))
        if each.whole is not None and each.fault is None:
            unused = whole_steps(
                each.whole.steps,
                found.supply.tokens_per_step,
                each.whole.tokens,
                each.phase.tokens,
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
    out.print(table(_source_lines(sources, plan.diet.max_source_repetition)))
    out.print(Text(COLUMNS_NOTE, MUTED))
    out.print()
    out.print(expected(_work(plan), plan.diet.model, speed), soft_wrap=True)
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


def _held_lines(check: PhaseCheck, checked: CheckedPlan) -> Iterator[Line]:
    """A line a serving: what is asked, what there is, how often the domain is seen that is seen most.

    Where domains are seen unevenly, those of which too little is there have a line of their own.
    """
    for serving in check.phase.servings:
        own = [each for each in check.held if each.stratum.serving == serving]
        is_built = checked.is_built(check.phase.name, serving.index)
        found = None if is_built else checked.estimate
        if own:
            yield _held_line(serving.title, own, found=found)
        for each in (each for each in own if each.is_short and _most(own)):
            yield _held_line(f"  domain {each.stratum.domain}", [each], found=found)


def _held_line(title: str, held: Sequence[ServingCheck], *, found: Estimate | None) -> Line:
    """A line of what is asked and there, in rows, or by the estimate that is `found`."""
    return {
        "serving": title,
        "asked": count(sum(each.asked for each in held)),
        "available": count(sum(each.available for each in held)),
        "from": "rows" if found is None else f"estimate {_doubt(found, held)}".rstrip(),
        "repetition": f"{max(each.repetition for each in held):.2f}",
        "most repeated": _most(held),
        "limit": f"{held[0].limit:g}",
        "": "short" if any(each.is_short for each in held) else "",
    }


def _most(held: Sequence[ServingCheck]) -> str:
    """The domain that is seen most; empty where all are seen about alike."""
    most = max(held, key=lambda each: each.repetition)
    least = min(held, key=lambda each: each.repetition)
    return most.stratum.domain if most.repetition > UNEVEN * least.repetition else ""


def _doubt(found: Estimate, held: Sequence[ServingCheck]) -> str:
    serving = held[0].stratum.serving
    domain = held[0].stratum.domain if len(held) == 1 else ALL
    return doubtful(*found.total(kind_of(serving), domain, serving.repositories))


def _source_lines(sources: Sequence[SourceCheck], limit: float) -> Iterator[Line]:
    for each in sources:
        yield {
            "source files of": each.title,
            "asked": count(each.asked),
            "distinct": count(each.distinct),
            "read about": f"{each.repetition:.1f}",
            "limit": f"{limit:g}",
            "": "often" if each.repetition > limit else "",
        }


def _work(plan: RunPlan) -> Workload:
    """Return the work of training all phases from their beginning."""
    step = tokens_per_step(plan)
    phases = (workload_of(each, each.tokens, each.tokens // step) for each in plan.phases)
    return sum(phases, NO_WORK)


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
        "hours": round(speed.gpu_seconds(_work(plan)) / HOUR, 4) if speed else None,
        "speed": asdict(speed) if speed else None,
        "fits": not faults,
        "smallest_token_budget": budgets.smallest,
        "largest_token_budget": budgets.largest,
        "faults": list(faults),
        "warnings": list(remarks),
        "shadows": [*shadows(plan.store.root)],
    }
