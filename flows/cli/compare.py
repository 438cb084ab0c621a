"""`curriculum compare`: runs side by side, or specialists phase by phase."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from curriculum.inspection.formats import (
    Line,
    bits,
    count,
    difference,
    duration,
    held_out_words,
    interval,
    number,
    percent,
)
from curriculum.inspection.formats import paired as change_words
from curriculum.inspection.runs import (
    OTHER_ROWS,
    ComparedRun,
    MeasuredPair,
    Setting,
    Shared,
    change,
    measured_pairs,
    setting_differences,
    shared_strata,
)
from curriculum.pipeline.forecast import money
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.document_sums import PairedChange
from flows.cli.compared_runs import Group, groups
from flows.cli.console import ACCENT, MUTED, out, plain_table, print_json, table
from schemas.errors import JobError
from schemas.held_out import HeldOutCount
from schemas.job import Figure, set_title
from schemas.objectives import PHASE_SET
from schemas.specialist import spelled
from schemas.study import study_words
from schemas.visible import one_line

MOST_LINES = 16
"""Lines of each table, unless all are asked for."""
ABSENT = "–"
LONGEST_HEAD = 24
"""Characters of the name of a run at the head of a column; longer ones are told apart by their keys."""


def compare(home: Path, what: Sequence[str], *, full: bool = False, as_json: bool = False) -> None:
    """Print what sets runs apart.

    Raises:
        JobError: for fewer than two, and for what is no run.
    """
    if len(what) < 2:
        raise JobError(
            "compare",
            *what,
            cause="there is nothing to compare it with",
            cure="Name two runs or more, or two specialists",
        )
    found = groups(home, what)
    if as_json:
        said = {"groups": [_as_json(each) for each in found]}
        print_json(said)
        return
    for piece in _shown(found, full=full):
        out.print(piece, soft_wrap=isinstance(piece, Text))


def _shown(found: Sequence[Group], *, full: bool) -> Iterator[RenderableType]:
    yield table(_without_empty([_run_line(side) for group in found for side in group.runs]))
    for group in found:
        if len(group.runs) < 2:
            continue
        titles = _titles(group.runs)
        if group.phase:
            yield Text(f"\n{group.phase}", f"bold {ACCENT}")
        brief = bool(group.phase) and not full
        yield from _settings(setting_differences(group.runs), titles, full=full)
        yield from _figures(measured_pairs(group.runs), titles, brief=brief, full=full)
        if not brief:
            yield from _shares(shared_strata(group.runs), titles, full=full)


def _titles(compared: Sequence[ComparedRun]) -> list[str]:
    """Return the heads of their columns: names, or keys where names are long or the same."""
    asked = [one_line(each.title) for each in compared]
    if len({*asked}) == len(asked) and max(map(len, asked)) <= LONGEST_HEAD:
        return asked
    return [each.job.run_key[:KEY_DIGITS] for each in compared]


def _run_line(side: ComparedRun) -> Line:
    job, report = side.job, side.report
    way = spelled((job.specialist, job.branch))
    if report is None:
        val_bpb = bits(side.beat.val_bpb) if side.beat and side.beat.val_bpb else ""
        tokens = count(side.beat.valid_tokens) if side.beat else ""
        speed = f"{side.beat.tokens_per_second:,.0f}" if side.beat else ""
        cells = (val_bpb, "", tokens, speed, "", "", "", side.state)
    else:
        cells = (
            change(report, "phase"),
            change(report, "anchor"),
            count(report.tokens.valid),
            f"{report.tokens_per_second:,.0f}",
            duration(report.seconds),
            f"{report.gpu_seconds / 3600:,.2f}" if report.gpu_seconds else "",
            money(report.cost),
            f"{report.stopped}, {number(report.steps, 'step')}",
        )
    names = ("val_bpb", "anchor", "tokens", "tokens/s", "time", "GPU hours", "cost", "stopped")
    return {
        "run": one_line(way),
        "phase": one_line(job.phase),
        "key": job.run_key[:KEY_DIGITS],
        **dict(zip(names, cells, strict=True)),
        "study": study_words(job.study),
    }


def _without_empty(lines: Sequence[Line]) -> Iterator[Line]:
    """Lines without the columns that say nothing in any of them."""
    for line in lines:
        yield {name: value for name, value in line.items() if any(each[name] for each in lines)}


def _settings(
    found: Sequence[Setting], titles: Sequence[str], *, full: bool
) -> Iterator[RenderableType]:
    yield ""
    if not found:
        yield Text("No setting differs.", MUTED)
        return
    most = None if full else MOST_LINES
    drawn = plain_table("setting", *titles)
    for each in found[:most]:
        cells = (Text(one_line(value)) if value else Text(ABSENT, MUTED) for value in each.values)
        drawn.add_row(Text(one_line(each.name)), *cells)
    yield drawn
    if len(found) > len(found[:most]):
        yield Text(f"… {len(found) - MOST_LINES:,} more (--full)", MUTED)


def _figures(
    found: Sequence[MeasuredPair], titles: Sequence[str], *, brief: bool, full: bool
) -> Iterator[RenderableType]:
    """val_bpb with intervals; of two runs also what it changed by, on the same documents where it can."""
    worth = [each for each in found if each.place[2] == "*" or (not brief and each.is_shared)]
    listed = [*found] if full else worth[:MOST_LINES]
    if not listed:
        return
    is_paired = any(each.paired for each in listed)
    counted = ["documents"] if is_paired else []
    last = ["difference", *counted, "verdict"] if len(titles) == 2 else ["verdict"]
    last.insert(0, "held out")
    where = () if brief else ("family", "domain")
    heads = [head for title in titles for head in (title, "interval")]
    drawn = plain_table("val_bpb", *where, *heads, *last, dropped_first=("interval", *last))
    drawn.columns[0].no_wrap = True
    for column in drawn.columns[1 + len(where) : -1]:
        column.justify = "right"
    for each in listed:
        which, phase, family, domain = each.place
        title = phase if which == PHASE_SET else set_title(which, phase)
        name = title if family == "*" else f"  {title}"
        rest = [] if brief else ["", ""] if family == "*" else [family, domain]
        best = min((figure.val_bpb for figure in each.figures if figure), default=0.0)
        cells = (
            cell for figure in each.figures for cell in _figure(figure, best, is_mean=family == "*")
        )
        drawn.add_row(
            Text(name, "bold" if family == "*" else ""),
            *map(Text, rest),
            *cells,
            _held_out(each),
            *_verdict(each, two=len(titles) == 2, paired=is_paired),
        )
    yield ""
    yield drawn
    if len(found) > len(listed) and not brief:
        yield Text(f"… {len(found) - len(listed):,} more (--full)", MUTED)


def _figure(figure: Figure | None, best: float, *, is_mean: bool) -> tuple[Text, Text]:
    """A figure and its interval."""
    if figure is None:
        return Text(ABSENT, MUTED), Text()
    style = "bold" if is_mean and figure.val_bpb == best else ""
    return Text(bits(figure.val_bpb), style), Text(
        interval(figure.low, figure.high, is_sure=figure.is_sure), MUTED
    )


def _held_out(each: MeasuredPair) -> Text:
    """Documents and lineages of the last run that has the figure."""
    last = next(figure for figure in reversed(each.figures) if figure)
    return Text(held_out_words(last), MUTED)


def _verdict(each: MeasuredPair, *, two: bool, paired: bool) -> Iterator[Text]:
    first, last = each.figures[0], each.figures[-1]
    if not two:
        yield Text("" if each.same_rows else OTHER_ROWS, "yellow")
        return
    gap = last.val_bpb - first.val_bpb if first and last else None
    if each.paired is not None:
        yield Text(change_words(each.paired))
        yield Text(f"{each.paired.count.documents:,}", MUTED)
    else:
        yield Text("" if gap is None else difference(gap))
        yield from [Text()] if paired else []
    styles = {"lower": ACCENT, "higher": ACCENT, OTHER_ROWS: "yellow"}
    yield Text(each.verdict, styles.get(each.verdict, MUTED))


def _shares(
    found: Sequence[Shared], titles: Sequence[str], *, full: bool
) -> Iterator[RenderableType]:
    if not found:
        return
    drawn = plain_table("serving", "domain", *titles)
    for column in drawn.columns[2:]:
        column.justify = "right"
    most = None if full else MOST_LINES
    ranked = sorted(found, key=lambda each: -max(_realised(each)))
    for each in ranked[:most]:
        drawn.add_row(*map(Text, each.place), *_share_cells(each))
    yield ""
    yield drawn
    if len(ranked) > len(ranked[:most]):
        yield Text(f"… {len(ranked) - MOST_LINES:,} more (--full)", MUTED)


def _realised(each: Shared) -> list[float]:
    pairs = zip(each.strata, each.totals, strict=True)
    return [stratum.tokens / max(total, 1) if stratum else 0.0 for stratum, total in pairs]


def _share_cells(each: Shared) -> Iterator[Text]:
    for stratum, share in zip(each.strata, _realised(each), strict=True):
        if stratum is None:
            yield Text(ABSENT, MUTED)
        else:
            yield Text.assemble(percent(share), (f"  of {percent(stratum.share)} planned", MUTED))


def _as_json(group: Group) -> dict[str, object]:
    return {
        "phase": group.phase or None,
        "runs": [_run_json(each) for each in group.runs],
        "settings": [
            {"name": each.name, "values": list(each.values)}
            for each in setting_differences(group.runs)
        ],
        "figures": [_figure_json(each) for each in measured_pairs(group.runs)],
        "shares": [_share_json(each) for each in shared_strata(group.runs)],
    }


def _run_json(side: ComparedRun) -> dict[str, object]:
    job, report = side.job, side.report
    left = report.model_dump(mode="json", exclude={"before", "after", "history"}) if report else {}
    return {
        **left,
        "what": side.title,
        "specialist": spelled((job.specialist, job.branch)),
        "phase": job.phase,
        "attempt": job.attempt,
        "key": job.run_key,
        "path": str(side.path),
        "is_open": report is None,
        "heartbeat": side.beat.model_dump(mode="json") if side.beat else None,
    }


_OF_A_FIGURE = ("step", "val_bpb", "low", "high", *HeldOutCount.model_fields, "is_sure")


def _change_json(change: PairedChange) -> dict[str, object]:
    span = {"change": change.change, "low": change.low, "high": change.high}
    return span | change.count.model_dump() | {"is_sure": change.count.is_sure}


def _figure_json(each: MeasuredPair) -> dict[str, object]:
    name, phase, family, domain = each.place
    return {
        "set": name,
        "phase": phase,
        "family": family,
        "domain": domain,
        "same_rows": each.same_rows,
        "paired": _change_json(each.paired) if each.paired else None,
        "verdict": each.verdict,
        "values": [
            {name: getattr(figure, name) for name in _OF_A_FIGURE} if figure else None
            for figure in each.figures
        ],
    }


def _share_json(each: Shared) -> dict[str, object]:
    serving, domain = each.place
    values = [
        {
            "planned": stratum.share,
            "realised": realised,
            "tokens": stratum.tokens,
            "repetition": stratum.repetition,
        }
        if stratum
        else None
        for stratum, realised in zip(each.strata, _realised(each), strict=True)
    ]
    return {"serving": serving, "domain": domain, "values": values}
