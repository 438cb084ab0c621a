"""Timeline of the attempts at phases: a line an attempt, on one axis of time."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from curriculum.inspection.formats import duration, moment, number
from dashboards.html import escaped, quoted
from dashboards.report.facts import Facts, PhaseFacts
from dashboards.report.marks import phase as phase_colour

LEAST = 0.004
"""Least share of the width, for the shortest attempt."""
TICKS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """An attempt, from its beginning to its end."""

    name: str
    look: str
    begun: datetime.datetime
    ended: datetime.datetime
    how: str
    approved: datetime.datetime | None = None


def when(facts: Facts) -> str:
    """The attempts in the order of the phases; empty where it isn't known when one was trained."""
    lines = [line for each in facts.phases for line in _stretches(each, facts.written)]
    if not lines:
        return ""
    first = min(each.begun for each in lines)
    last = max((each.approved or each.ended) for each in lines)
    last = max(last, *(each.ended for each in lines))
    whole = max((last - first).total_seconds(), 1.0)
    drawn = "".join(_line(each, first, whole) for each in lines)
    diamond = " A diamond is an approval." if any(each.approved for each in lines) else ""
    return (
        '<section class="card" id="when"><h2>When</h2>'
        f"<p>{number(len(lines), 'attempt')} over {duration(whole)}, in UTC.{diamond}</p>"
        f'<div class="when">{drawn}<span></span><svg class="scale" aria-hidden="true">'
        f"{''.join(_ticks(first, whole))}</svg><span></span></div></section>"
    )


def _stretches(each: PhaseFacts, now: str) -> Iterator[Stretch]:
    for attempt in each.earlier:
        if attempt.begun:
            yield Stretch(
                name=each.name,
                look=f"{phase_colour(each.number)} earlier",
                begun=_at(attempt.begun),
                ended=_at(attempt.ended),
                how=f"attempt {attempt.number}, {attempt.report.stopped}",
            )
    if each.begun:
        running = not each.ended
        yield Stretch(
            name=each.name,
            look=f"{phase_colour(each.number)}{' is-running' if running else ''}",
            begun=_at(each.begun),
            ended=_at(each.ended or now),
            how="goes on" if running else each.report.stopped if each.report else "",
            approved=_at(each.approval.when) if each.approval else None,
        )


def _line(each: Stretch, first: datetime.datetime, whole: float) -> str:
    begun, ended = ((at - first).total_seconds() / whole for at in (each.begun, each.ended))
    width = max(ended - begun, LEAST)
    from_to = " to ".join(moment(at.isoformat()) for at in (each.begun, each.ended))
    said = f"{each.name}: {from_to}, {each.how}"
    took = duration((each.ended - each.begun).total_seconds())
    bar = f'x="{100 * min(begun, 1 - width):.2f}%" y="4" width="{100 * width:.2f}%" height="12" rx="2"'
    mark = ""
    if each.approved is not None:
        at = f"{100 * (each.approved - first).total_seconds() / whole:.2f}%"
        mark = f'<text class="approval" x="{at}" y="50%">\N{BLACK DIAMOND}</text>'
    return (
        f'<b class="{each.look}">{escaped(each.name)}</b><svg class="lane {each.look}" role="img" '
        f'aria-label="{quoted(said)}"><title>{escaped(said)}</title>'
        f'<line class="axis" x1="0" x2="100%" y1="50%" y2="50%"/><rect {bar}/>{mark}</svg>'
        f"<span>{took}<small>{escaped(each.how)}</small></span>"
    )


def _ticks(first: datetime.datetime, whole: float) -> Iterator[str]:
    for tick in range(TICKS + 1):
        then = first + datetime.timedelta(seconds=whole * tick / TICKS)
        look = "start" if tick == 0 else "end" if tick == TICKS else "mid"
        yield f'<text x="{100 * tick / TICKS:g}%" class="{look}" y="11">{_short(then, whole)}</text>'


def _short(then: datetime.datetime, whole: float) -> str:
    """A point in time as exactly as the axis is long.

    >>> then = datetime.datetime(2026, 11, 21, 13, 50, 17, tzinfo=datetime.UTC)
    >>> _short(then, 300), _short(then, 40_000), _short(then, 400_000), _short(then, 4_000_000)
    ('13:50:17', '13:50', '21 Nov, 13:50', '21 Nov')
    """
    if whole < 1_200:
        return f"{then:%H:%M:%S}"
    if whole < 86_400:
        return f"{then:%H:%M}"
    day = f"{then.day} {then:%b}"
    return day if whole > 10 * 86_400 else f"{day}, {then:%H:%M}"


def _at(iso: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)
