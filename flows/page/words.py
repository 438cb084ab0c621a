"""How the report says times, figures and rules."""

import datetime

from curriculum.inspection.formats import count
from schemas.diet import AdvanceWhen

MINUS = "\N{MINUS SIGN}"


def gpu_hours(seconds: float) -> str:
    """Hours of one GPU.

    >>> gpu_hours(1_612_800), gpu_hours(5_000), gpu_hours(1_280_000_000)
    ('448 GPU hours', '1.4 GPU hours', '355,556 GPU hours')
    """
    hours = seconds / 3_600
    return f"{hours:,.0f} GPU hours" if hours >= 10 else f"{hours:.2g} GPU hours"


def moment(iso: str) -> str:
    """A point in time, in UTC, to the minute.

    >>> moment("2026-11-21T13:50:17+00:00")
    '21 Nov 2026, 13:50'
    """
    then = datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)
    return f"{then.day} {then:%b %Y, %H:%M}"


def bits(figure: float) -> str:
    """A figure in bits per byte.

    >>> bits(1.8071)
    '1.807'
    """
    return f"{figure:.3f}"


def difference(by: float) -> str:
    """How a figure changed, with its sign.

    >>> difference(-0.1179), difference(0.0021), difference(-0.0001)
    ('−0.118', '+0.002', '±0.000')
    """
    said = f"{abs(by):.3f}"
    if float(said) == 0:
        return f"±{said}"
    return f"{MINUS if by < 0 else '+'}{said}"


def rule(gate: AdvanceWhen | None) -> str:
    """Condition of a gate in words; empty where there is none.

    rule(gate) ->
    'val_bpb gains less than 0.002 over 3 evaluations, after 1G tokens'
    """
    if gate is None or (gate.val_bpb is None and gate.min_tokens is None):
        return ""
    after = f"after {count(gate.min_tokens)} tokens" if gate.min_tokens else ""
    if gate.val_bpb is None:
        return after
    by, over = gate.val_bpb.stops_improving_by, gate.val_bpb.over_evaluations
    said = f"val_bpb gains less than {by:g} over {over} evaluations"
    return f"{said}, {after}" if after else said
