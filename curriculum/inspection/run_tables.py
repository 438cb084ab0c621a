"""Tables of runs and their figures, shared by the terminal and pages."""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from curriculum.inspection.formats import Line, count, duration, interval, paired, percent
from curriculum.inspection.paired import Place
from curriculum.inspection.runs import change, measured_on
from curriculum.train.document_sums import PairedChange
from schemas.job import Figure, Report
from schemas.objectives import FIXED_SETS, FixedSet
from schemas.study import study_words

Changes = Mapping[Place, PairedChange]
NO_CHANGES: Changes = MappingProxyType({})
"""Changes for a run that stored no documents."""


def run_line(report: Report, sets: Sequence[FixedSet] = FIXED_SETS) -> Line:
    """Return a table row for a run: val_bpb before and after, fixed sets, tokens, time, and why it ended."""
    return {
        "phase": report.phase,
        "attempt": report.attempt,
        "val_bpb": change(report, "phase"),
        "held out": measured_on(report),
        **{name: change(report, name) for name in sets},
        "tokens": count(report.tokens.valid),
        "steps": report.steps,
        "context": "" if report.mean_context is None else f"{report.mean_context:,.0f}",
        "tokens/s": f"{report.tokens_per_second:,.0f}",
        "time": duration(report.seconds),
        "evaluating": ""
        if report.evaluation_seconds is None
        else duration(report.evaluation_seconds),
        "stopped": report.stopped,
    }


def run_lines(reports: Sequence[Report]) -> list[Line]:
    """Return one table row per run. Columns for fixed sets and studies appear only if a run has them."""
    measured = [name for name in FIXED_SETS if any(change(report, name) for report in reports)]
    lines = [run_line(report, measured) for report in reports]
    if not any(report.study for report in reports):
        return lines
    return [
        {**line, "study": study_words(report.study)}
        for line, report in zip(lines, reports, strict=True)
    ]


def machine_line(report: Report) -> Line:
    """Return a table row with device, throughput and cost of a run; a cell is empty if unknown."""
    context, masking = report.mean_context, report.masking_cost
    return {
        "device": f"{report.device}, {report.backend}",
        "GPU hours": f"{report.gpu_seconds / 3600:,.2f}" if report.gpu_seconds else "",
        "cost": "" if report.cost is None else f"{report.cost:,.2f}",
        "mean context": "" if context is None else f"{context:,.0f} tokens",
        "attention density": _share(report.attention_density),
        "masked MFU": _share(report.masked_mfu),
        "MFU unmasked": _share(report.causal_mfu),
        "without packing": _saved(report),
        "masked ÷ unmasked": ""
        if masking is None
        else f"{masking.ratio:.2f} over {count(masking.positions)} positions, rows of {masking.row_length:,}",
    }


def _share(share: float | None) -> str:
    return "" if share is None else percent(share)


def _saved(report: Report) -> str:
    """Return a text on what packing saved: the additional positions, time and cost with one document per row.

    _saved(report) ->
    '2.1 × the positions, 3 min more, 0.42 more'
    """
    if not report.padded_positions or not report.tokens.positions:
        return ""
    times = report.padded_positions / report.tokens.positions
    saved = f"{times:,.1f} × the positions, {duration((times - 1) * report.seconds)} more"
    return saved if report.cost is None else f"{saved}, {(times - 1) * report.cost:,.2f} more"


def figure_lines(report: Report, changes: Changes = NO_CHANGES) -> Iterator[Line]:
    """Yield one table row per evaluation of a run: its figures before and after the run.

    The change on shared documents follows, if `changes` has it.
    """
    measured: defaultdict[Place, deque[Figure]] = defaultdict(deque)
    for figure in report.before:
        measured[figure.place].append(figure)
    for after in report.after:
        place = after.place
        # Figures of several row lengths or bases have the same place, but they always come in the same order.
        before = measured[place].popleft() if measured[place] else None
        yield {
            "set": after.set,
            "phase": after.phase,
            "family": after.family,
            "domain": after.domain,
            "before": f"{before.val_bpb:.3f}" if before else "",
            "after": f"{after.val_bpb:.3f}",
            "interval": interval(after.low, after.high, is_sure=after.is_sure),
            "documents": after.documents,
            "lineages": after.lineages,
            "change": paired(changes[place]) if place in changes else "",
        }


def set_lines(report: Report, changes: Changes, phase: str) -> list[Line]:
    """Return one table row per set of a phase, or no rows if the phase has only one set."""
    means: list[Line] = [
        {name: value for name, value in line.items() if name not in ("phase", "family", "domain")}
        for line in figure_lines(report, changes)
        if (line["phase"], line["family"]) == (phase, "*")
    ]
    return means if len(means) > 1 else []
