"""Retention: each evaluation after each phase, learnt or forgotten."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.inspection.formats import bits, difference
from dashboards.html import escaped, quoted
from dashboards.report.colours import phase as phase_colour
from dashboards.report.curves import ANCHOR
from dashboards.report.facts import Facts, PhaseFacts, mean_of
from schemas.job import Figure

LEVELS = 5
LEAST = 0.02
"""Bits per byte that have the deepest tint at least, so that noise has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A figure after a phase; `by` is its distance from what it is held against, None for none."""

    figure: Figure
    by: float | None
    own: bool = False
    """True if it is of the phase that was just trained."""


Row = Sequence[Cell | None]


def matrix(facts: Facts) -> str:
    """A line an evaluation, a column a state of the model: the start, then after each phase."""
    done = [each for each in facts.phases if each.report is not None and each.report.after]
    if not done:
        return ""
    rows = [
        (each, _row(each.name, at, done))
        for at, each in enumerate(done)
        if each.evaluation == each.name
    ]
    most = _most([row for _, row in rows])
    anchor = _anchor(done)
    head = "".join(
        f'<th class="n {phase_colour(each.number)}" scope="col" title="after {quoted(each.name)}">'
        f'<b class="number">{each.number}</b></th>'
        for each in done
    )
    lines = [_line("anchor", ANCHOR, anchor, _most([anchor]))]
    lines += [_line(phase_colour(each.number), each.name, row, most) for each, row in rows]
    return (
        '<table class="kept"><thead><tr><th scope="col">after</th>'
        f'<th class="n" scope="col">start</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _row(name: str, at: int, done: Sequence[PhaseFacts]) -> Row:
    """The figures of one phase: before it was trained, at its end, and after each that came later."""
    row: list[Cell | None] = [None] * (len(done) + 1)
    own: Figure | None = None
    for number, each in enumerate(done):
        assert each.report is not None
        if number == at:
            before = mean_of(each.report.before, name)
            row[number] = Cell(figure=before, by=None) if before else None
        after = mean_of(each.report.after, name)
        if after is not None and number >= at:
            is_own = number == at
            own = after if is_own else own
            by = None if is_own or own is None else after.val_bpb - own.val_bpb
            row[number + 1] = Cell(figure=after, by=by, own=is_own)
    return row


def _anchor(done: Sequence[PhaseFacts]) -> Row:
    """The anchor after each phase, held against the phase before."""
    first = done[0].report
    assert first is not None
    last = mean_of(first.before, ANCHOR)
    row: list[Cell | None] = [Cell(figure=last, by=None) if last else None]
    for each in done:
        assert each.report is not None
        now = mean_of(each.report.after, ANCHOR)
        by = now.val_bpb - last.val_bpb if now and last else None
        row.append(Cell(figure=now, by=by) if now else None)
        last = now or last
    return row


def _most(rows: Sequence[Row]) -> float:
    changes = [abs(cell.by) for row in rows for cell in row if cell and cell.by is not None]
    return max([LEAST, *changes])


def _line(look: str, name: str, row: Row, most: float) -> str:
    cells = "".join(_table_cell(cell, most) for cell in row)
    return f'<tr class="{look}"><th scope="row"><i></i>{escaped(name)}</th>{cells}</tr>'


def _table_cell(cell: Cell | None, most: float) -> str:
    if cell is None:
        return "<td></td>"
    figure = cell.figure
    looks = (
        ["n", tint(cell.by, most)] if cell.by is not None else ["n", "own" if cell.own else "soft"]
    )
    by = f"<small>{difference(cell.by)}</small>" if cell.by is not None else ""
    title = f"{figure.low:.3f} to {figure.high:.3f}, over {figure.scored_bytes:,} bytes"
    return f'<td class="{" ".join(looks)}" title="{title}">{bits(figure.val_bpb)}{by}</td>'


def tint(by: float, most: float) -> str:
    """Return the tint of a change: l1 to l5 for learnt, f1 to f5 for forgotten.

    >>> tint(-0.1, 0.1), tint(0.021, 0.1), tint(0.0, 0.1)
    ('less5', 'more2', 'same')
    """
    level = min(LEVELS, math.ceil(LEVELS * abs(by) / most - 1e-9))
    if float(f"{by:.3f}") == 0 or level == 0:
        return "same"
    return f"{'less' if by < 0 else 'more'}{level}"
