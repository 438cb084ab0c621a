"""`curriculum compare`: compare runs side by side, or specialists phase by phase."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.comparison import (
    ComparedRun,
    MeasuredPair,
    measured_pairs,
    setting_differences,
    shared_strata,
)
from curriculum.inspection.formats import bits, difference, paired
from curriculum.inspection.runs import change
from curriculum.store.artefact import KEY_DIGITS
from flows.cli.compared_runs import ComparedRuns, groups
from flows.cli.console import ACCENT, MUTED, out, print_json, table
from schemas.errors import JobError
from schemas.job import Figure
from schemas.specialist import format_reference
from schemas.study import study_words
from schemas.visible import one_line

MAX_LINES = 16
"""Maximum number of lines per table without --full."""
MAX_HEAD = 24
"""Maximum characters of a run's name as a column heading; longer names are replaced by keys."""
RUN_COLUMNS = (
    *("specialist", "phase", "key", "val_bpb", "anchor", "tokens", "tokens_per_second", "seconds"),
    *("gpu_seconds", "cost", "steps", "stopped", "state", "study"),
)
PLACE, COUNTS = ("set", "phase", "family", "domain"), ("documents", "lineages", "verdict")


def compare(home: Path, what: Sequence[str], *, full: bool = False, as_json: bool = False) -> None:
    """Print the differences between runs.

    Raises:
        JobError: for fewer than two runs, or a name that isn't a run.
    """
    if len(what) < 2:
        raise JobError(
            "compare",
            *what,
            cause="a comparison needs at least two runs",
            cure="Name two or more runs, or two specialists",
        )
    found = groups(home, what)
    if as_json:
        print_json({"groups": [_compared(group) for group in found]})
        return
    out.print(table([_outcome(side) for group in found for side in group.runs], RUN_COLUMNS))
    for group in found:
        for piece in _shown(group, full=full) if len(group.runs) > 1 else ():
            out.print(piece, soft_wrap=isinstance(piece, Text))


def _compared(group: ComparedRuns) -> Mapping[str, object]:
    """Return the differences within a group of runs, as --json prints them."""
    return {
        "phase": group.phase or None,
        "runs": [_outcome(side) for side in group.runs],
        "settings": setting_differences(group.runs),
        "figures": measured_pairs(group.runs),
        "shares": shared_strata(group.runs),
    }


def _outcome(side: ComparedRun) -> Mapping[str, object]:
    """Return the metrics of a run, with its report or, if it is unfinished, its last heartbeat."""
    job, report, progress = side.job, side.report, side.progress
    beat = progress and progress.beat
    end = report or beat
    return {
        "title": side.title,
        "specialist": format_reference((job.specialist, job.branch)),
        "phase": job.phase,
        "key": job.run_key,
        "attempt": job.attempt,
        "path": side.path,
        "state": f"{progress.state}: {progress.why}" if progress else "",
        "val_bpb": change(report, "phase") if report else beat and beat.val_bpb,
        "anchor": change(report, "anchor") if report else None,
        "tokens": report.tokens.valid if report else progress and progress.valid_tokens,
        "tokens_per_second": end and end.tokens_per_second,
        "seconds": report and report.seconds,
        "gpu_seconds": report and (report.gpu_seconds or None),
        "cost": report and report.cost,
        "steps": report.steps if report else progress and progress.steps,
        "stopped": report.stopped if report else progress and progress.stopped,
        "study": study_words(job.study),
        "report": report,
        "heartbeat": beat,
    }


def _shown(group: ComparedRuns, *, full: bool) -> Iterator[RenderableType]:
    """Yield tables of the differences within a group of runs.

    The phase of a specialist gets only two tables, of settings and of weighted means, unless `full` is set.
    """
    titles, limit = _titles(group.runs), None if full else MAX_LINES
    is_brief = bool(group.phase) and not full
    if group.phase:
        yield Text(f"\n{group.phase}", f"bold {ACCENT}")
    yield ""
    if settings := setting_differences(group.runs):
        yield table(settings, heads={"values": titles}, limit=limit)
    else:
        yield Text("No setting differs.", MUTED)
    figures = [pair for pair in measured_pairs(group.runs) if full or _is_worth(pair, is_brief)]
    if figures:
        gap = "paired" if any(pair.paired for pair in figures) else "bpb_change"
        columns = (*(PLACE[:2] if is_brief else PLACE), "figures", gap, *COUNTS)
        lines = [_line(pair, gap) for pair in figures]
        dropped = ("lineages", "documents", gap)
        yield ""
        yield table(lines, columns, heads={"figures": titles}, limit=limit, dropped_first=dropped)
    shares = [] if is_brief else shared_strata(group.runs)
    if shares:
        yield ""
        yield table(shares, heads={"shares": titles}, limit=limit)


def _line(pair: MeasuredPair, gap: str) -> Mapping[str, object]:
    """Return a table line with the metrics of all runs and the difference between two.

    The difference has no interval if it is based on too few documents.
    """
    if (same := pair.paired) is not None:
        words = paired(same) if same.count.is_sure else difference(same.change)
    else:
        words = "" if pair.bpb_change is None else difference(pair.bpb_change)
        words += ", unpaired" if words and gap == "paired" else ""
    return {
        **{name: getattr(pair, name) for name in (*PLACE, *COUNTS)},
        "figures": tuple(figure and _figure_words(figure) for figure in pair.figures),
        gap: words,
    }


def _figure_words(figure: Figure) -> str:
    said = bits(figure.val_bpb)
    return f"{said} ({bits(figure.low)} to {bits(figure.high)})" if figure.is_sure else said


def _is_worth(pair: MeasuredPair, is_brief: bool) -> bool:
    """Return True if `pair` is shown without --full: a weighted mean, or a stratum that several runs have."""
    return pair.family == "*" or (not is_brief and sum(map(bool, pair.figures)) > 1)


def _titles(compared: Sequence[ComparedRun]) -> list[str]:
    """Return the column headings of runs: their names, or their keys if names are too long or not unique."""
    asked = [one_line(side.title) for side in compared]
    if len({*asked}) == len(asked) and max(map(len, asked)) <= MAX_HEAD:
        return asked
    return [side.job.run_key[:KEY_DIGITS] for side in compared]
