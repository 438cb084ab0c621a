"""Tables of `curriculum diet check`: of each phase, of source files; held-out documents and time."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.text import Text

from curriculum.inspection.formats import Line, alike, count
from curriculum.inspection.held_out import ExpectedServing, HeldOut, expected_held_out, held_out
from curriculum.inspection.largest_files import (
    large_file_warning,
    phase_shares,
    phase_words,
    shares_of,
)
from curriculum.inspection.runs import whole_steps
from curriculum.mixing.check import PhaseCheck, ServingCheck, SourceCheck
from curriculum.pipeline.checks import CheckedPlan, kind_of
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.steps import tokens_per_step
from curriculum.pipeline.training_time import NO_WORK, Speed, Workload, expected, workload_of
from curriculum.stages import Built
from curriculum.supply import ALL, Estimate
from flows.cli.console import ACCENT, MUTED, out, table, warn
from flows.cli.supply_tables import doubtful

UNEVEN = 1.1
"""Ratio from which on a serving's domains are seen unevenly and one is named; rows aren't quite alike."""


COLUMNS_NOTE = (
    "asked, available and distinct count tokens. repetition: how often a row is seen in its phase; its "
    "limit is max_repetition of the phase. read about: how often the code of source files is seen in all "
    "phases and forms; its limit is max_source_repetition of the diet."
)


def print_tables(
    plan: RunPlan,
    found: CheckedPlan,
    built: Mapping[str, Built],
    sources: Sequence[SourceCheck],
    speed: Speed | None,
) -> None:
    """Print what each phase asks for and is served, source files, and the time of training."""
    for each in found.phases:
        out.print(Text(each.phase.name, f"bold {ACCENT}"))
        if each.held:
            out.print(table(_held_lines(each, found)))
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
    out.print(table(_source_lines(sources, plan.diet.max_source_repetition)))
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


def training_work(plan: RunPlan) -> Workload:
    """Return the work of training all phases from their beginning."""
    step = tokens_per_step(plan)
    phases = (workload_of(each, each.tokens, each.tokens // step) for each in plan.phases)
    return sum(phases, NO_WORK)
