"""`curriculum diet check`: the tokens that a diet asks for against those that there are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.text import Text

from curriculum.inspection.formats import Line, count
from curriculum.mixing.check import (
    PhaseCheck,
    ServingCheck,
    SourceCheck,
    check_phase,
    largest_budget,
    source_checks,
    supposed_supply,
)
from curriculum.mixing.load import warnings
from curriculum.mixing.resolve import ResolvedPhase, structure_faults
from curriculum.mixing.supply import Supply, read_supply, unmeasured
from curriculum.pipeline.execute import PhaseBuilt, Scope, execute, here
from curriculum.pipeline.forecast import Speed, expected, last_speed
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.steps import tokenizing_of, tokens_per_step, wanted_of
from curriculum.stages import Built, RowSet
from curriculum.store import Artefact
from curriculum.supply import ALL, Estimate, Kind
from flows.cli.console import ACCENT, BAD, GOOD, MUTED, out, print_json, table, warn, watching
from flows.cli.supply import SupplyOptions, counted, doubtful, kind_of
from flows.settings.contexts import context_of
from flows.settings.trust import shadows

UNEVEN = 1.1
"""Ratio from which on a serving's domains are seen unevenly and one is named; rows aren't quite alike."""
Sets = tuple[RowSet, ...]
"""The rows of one serving, a set a variant."""


def check(config: RunConfig, *, share: float, as_json: bool) -> bool:
    """Hold every serving of a diet against the rows there are, or against an estimate of them.

    The last line is the verdict; returns True if every phase can be served.

    Raises:
        CurriculumError: for a diet that contradicts itself, before anything is read.
    """
    plan = resolve_plan(config, dry=True)
    step = tokens_per_step(plan)
    context = context_of(warn=warn)
    sets = {
        event.phase: _sets(plan.phase(event.phase), event.built)
        for event in execute(plan, here(context), Scope(until="build"), context)
        if isinstance(event, PhaseBuilt)
    }
    lacking = [
        phase.servings[at]
        for phase in plan.phases
        for at, found in enumerate(sets[phase.name])
        if _is_planned(found)
    ]
    found = _estimate(plan, sorted({kind_of(each) for each in lacking}), share)
    checks = [
        check_phase(phase, _supplies(phase, sets[phase.name], found), tokens_per_step=step)
        for phase in plan.phases
    ]
    built = {
        (phase.name, at): not _is_planned(rows)
        for phase in plan.phases
        for at, rows in enumerate(sets[phase.name])
    }
    faults = [str(each.fault) for each in checks if each.fault]
    fitting = largest_budget(checks, tokens_per_step=step)
    sources, speed = tuple(source_checks(checks)), last_speed(plan.store, plan.diet.model)
    if as_json:
        print_json(_as_json(plan, checks, faults, fitting, sources, speed, built))
    else:
        _show(plan, checks, found, sources, speed, built)
    for line in unmeasured(plan.phases):
        warn(line)
    for line in warnings(config.specialist, structure_faults(plan.phases), config.workspace):
        warn(line)
    for fault in faults:
        warn(fault)
    if not as_json:
        out.print(_unfit(plan, fitting) if faults else _fit(plan), soft_wrap=True)
    return not faults


def _fit(plan: RunPlan) -> Text:
    """Return the verdict on a diet that can be served."""
    diet, names = plan.diet, ", ".join(each.name for each in plan.phases)
    return Text(
        f"✓ {diet.specialist} trains {diet.model} on {count(diet.token_budget)} tokens of corpus "
        f"{plan.corpus.name}: {names}",
        GOOD,
    )


def _unfit(plan: RunPlan, fitting: int | None) -> Text:
    """Return the verdict on a diet that can't be served, with the largest budget that fits."""
    lowered = (
        "no token budget fits: enlarge the corpus or change the servings named above"
        if fitting is None
        else f"the largest that fits: --token-budget {budget_option(fitting)}"
    )
    asked = f"✗ {plan.diet.specialist} can't be served with {count(plan.diet.token_budget)} tokens"
    return Text(f"{asked}; {lowered}", BAD)


def budget_option(tokens: int) -> str:
    """Return a number of tokens as --token-budget takes it.

    >>> budget_option(1_234_000), budget_option(917)
    ('1234K', '917')
    """
    return f"{tokens // 1000}K" if tokens >= 1000 and tokens % 1000 == 0 else str(tokens)


def _sets(phase: ResolvedPhase, built: Built) -> list[Sets]:
    """The rows of each serving, built or planned."""
    return [tuple(built.rows_of(each) for each in variants) for variants in wanted_of(phase)]


def _is_planned(rows: Sets) -> bool:
    return any(each.train.planned for each in rows)


def _estimate(plan: RunPlan, kinds: Sequence[Kind], share: float) -> Estimate | None:
    """Estimate the supply of some kinds; None where all is built."""
    if not kinds:
        return None
    options = SupplyOptions(
        home=plan.config.workspace,
        corpus=plan.corpus,
        kinds=tuple(kinds),
        tokenizing=tokenizing_of(plan.diet),
        share=share,
        workers=plan.config.corpus.workers,
    )
    with watching() as watch:
        return counted(options, watch)


def _supplies(
    phase: ResolvedPhase, sets: Sequence[Sets], found: Estimate | None
) -> list[list[Supply]]:
    """Return the supplies of each serving, variant by variant; of an estimate the variants are alike."""
    supplies = []
    for serving, rows in zip(phase.servings, sets, strict=True):
        if not _is_planned(rows):
            supplies.append([_read(each.train) for each in rows])
            continue
        assert found is not None
        kind = kind_of(serving)
        amounts = {name: found.total(kind, name, serving.repositories)[0] for name in found.domains}
        supplies.append([supposed_supply(amounts, serving.row_length)] * serving.variants)
    return supplies


def _read(rows: Artefact) -> Supply:
    return read_supply(rows.files(), key=rows.key)


def _show(
    plan: RunPlan,
    checks: Sequence[PhaseCheck],
    found: Estimate | None,
    sources: Sequence[SourceCheck],
    speed: Speed | None,
    built: Mapping[tuple[str, int], bool],
) -> None:
    for each in checks:
        out.print(Text(each.phase.name, f"bold {ACCENT}"))
        if each.held:
            out.print(table(_held_lines(each, built, found)))
        out.print()
        for line in each.warnings:
            warn(f"{each.phase.name}: {line}")
    out.print(table(_source_lines(sources, plan.diet.max_source_repetition)))
    out.print()
    out.print(expected(plan.diet.token_budget, plan.diet.model, speed), soft_wrap=True)
    for note in found.notes if found else ():
        out.print(Text(note, MUTED), soft_wrap=True)


def _held_lines(
    check: PhaseCheck, built: Mapping[tuple[str, int], bool], found: Estimate | None
) -> Iterator[Line]:
    """A line a serving: what is asked, what there is, how often the domain is seen that is seen most.

    Where domains are seen unevenly, those of which too little is there have a line of their own.
    """
    for serving in check.phase.servings:
        own = [each for each in check.held if each.stratum.serving == serving]
        is_built = built[check.phase.name, serving.index]
        if own:
            yield _held_line(serving.title, own, is_built=is_built, found=found)
        for each in (each for each in own if each.is_short and _most(own)):
            title = f"  domain {each.stratum.domain}"
            yield _held_line(title, [each], is_built=is_built, found=found)


def _held_line(
    title: str, held: Sequence[ServingCheck], *, is_built: bool, found: Estimate | None
) -> Line:
    return {
        "serving": title,
        "asked": count(sum(each.asked for each in held)),
        "there": count(sum(each.available for each in held)),
        "from": "rows" if is_built else f"estimate {_doubt(found, held)}".rstrip(),
        "seen": f"{max(each.repetition for each in held):.2f}",
        "most of": _most(held),
        "at most": f"{held[0].limit:g}",
        "": "short" if any(each.is_short for each in held) else "",
    }


def _most(held: Sequence[ServingCheck]) -> str:
    """The domain that is seen most; empty where all are seen about alike."""
    most = max(held, key=lambda each: each.repetition)
    least = min(held, key=lambda each: each.repetition)
    return most.stratum.domain if most.repetition > UNEVEN * least.repetition else ""


def _doubt(found: Estimate | None, held: Sequence[ServingCheck]) -> str:
    assert found is not None
    serving = held[0].stratum.serving
    domain = held[0].stratum.domain if len(held) == 1 else ALL
    return doubtful(*found.total(kind_of(serving), domain, serving.repositories))


def _source_lines(sources: Sequence[SourceCheck], limit: float) -> Iterator[Line]:
    for each in sources:
        only = f" of {', '.join(each.repositories)}" if each.repositories else ""
        yield {
            "source files of": f"{each.domain}{only}",
            "asked": count(each.asked),
            "distinct": count(each.distinct),
            "seen about": f"{each.repetition:.1f}",
            "at most": f"{limit:g}",
            "": "often" if each.repetition > limit else "",
        }


def _imported(held: ServingCheck) -> str | None:
    rows = held.stratum.serving.imported
    return rows.name if rows else None


def _as_json(
    plan: RunPlan,
    checks: Sequence[PhaseCheck],
    faults: Sequence[str],
    fitting: int | None,
    sources: Sequence[SourceCheck],
    speed: Speed | None,
    built: Mapping[tuple[str, int], bool],
) -> dict[str, object]:
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
                "built": built[each.phase, each.stratum.serving.index],
                "repetition": round(each.repetition, 4),
                "max_repetition": each.limit,
                "short": each.is_short,
            }
            for check in checks
            for each in check.held
        ],
        "sources": [{**asdict(each), "repetition": round(each.repetition, 4)} for each in sources],
        "hours": (round(speed.device_hours(plan.diet.token_budget), 4) if speed else None),
        "speed": asdict(speed) if speed else None,
        "fits": not faults,
        "largest_token_budget": fitting,
        "faults": list(faults),
        "shadows": [*shadows(plan.store.root)],
    }
