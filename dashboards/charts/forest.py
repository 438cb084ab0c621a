"""Forest plots: each effect has a lane with its intervals; all lanes share one scale.

Positions are in percent of the width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from dashboards.charts import plots
from dashboards.charts.marks import at, element, hidden, picture
from dashboards.charts.plots import Scale

BELOW = 10
"""Distance in pixels from the bar to the thin line below it."""
ROOM = 0.06
"""Margin at each end of a scale, as a share of its range."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """A difference between two arms with two intervals; `delta` is the smallest difference that matters."""

    mean: float
    low: float
    high: float
    low_below: float
    """Lower end of the second interval, which is drawn as a thin line below the bar of the first."""
    high_below: float
    delta: float
    claimed: Literal["lower", "higher"] | None
    """Direction of the difference that was claimed; None if the comparison has no direction."""
    label: str
    """Text for screen readers."""


def scale_of(effects: Sequence[Effect]) -> Scale:
    """Return a scale that contains all intervals of the effects, 0, and ±delta of each effect.

    >>> one = Effect(mean=0.03, low=0.01, high=0.05, low_below=0.02, high_below=0.04, delta=0.01,
    ...              claimed="lower", label="")
    >>> [label for _, label in scale_of([one]).ticks]
    ['0.00', '0.02', '0.04']
    """
    ends = [
        end
        for effect in effects
        for end in (
            effect.low,
            effect.high,
            effect.low_below,
            effect.high_below,
            effect.delta,
            -effect.delta,
        )
    ]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = ROOM * (high - low)
    return plots.within(low - room, high + room)


def effect_lane(effect: Effect, scale: Scale) -> Markup:
    """Return the lane of an effect.

    It shows the mean, both intervals, a line at zero, the band of ±delta, and the direction that was claimed.
    Intervals are cut at the ends of the scale; a triangle marks the cut.
    """
    left, right = _place(-effect.delta, scale), _place(effect.delta, scale)
    drawn = [
        element("rect", class_="delta", x=at(left), width=at(right - left), height="100%"),
        element("line", class_="zero", **_upright(0.0, scale)),
        *_interval("seeds", effect.low, effect.high, scale),
        *_interval("documents", effect.low_below, effect.high_below, scale, below=BELOW),
    ]
    if scale.low <= effect.mean <= scale.high:
        drawn.append(element("circle", cx=at(_place(effect.mean, scale)), cy="50%", r=4.5))
    if effect.claimed is not None:
        is_left = effect.claimed == "lower"
        words = f"\N{LEFTWARDS ARROW} claimed {effect.claimed}" if is_left else ""
        words = words or f"claimed {effect.claimed} \N{RIGHTWARDS ARROW}"
        anchor = "start" if is_left else "end"
        x = at(0.0 if is_left else 1.0)
        drawn.append(element("text", words, class_="claimed", x=x, y=11, text_anchor=anchor))
    return picture(*drawn, class_="effect-lane", label=effect.label)


def effect_axis(scale: Scale) -> Markup:
    """Return the axis of a scale, to be placed below the lanes."""
    texts = [
        element("text", label, x=at(plots.across(scale, value)), y=11, text_anchor="middle")
        for value, label in scale.ticks
    ]
    return hidden(*texts, class_="effect-axis")


def _interval(
    look: str, low: float, high: float, scale: Scale, *, below: int = 0
) -> Iterator[Markup]:
    if high >= scale.low and low <= scale.high:
        start, end = at(_place(low, scale)), at(_place(high, scale))
        lower = f"translate(0 {below})"
        yield element("line", class_=look, x1=start, x2=end, y1="50%", y2="50%", transform=lower)
    arrow: dict[str, str | float] = {"class_": look, "y": "50%", "dy": below + 4}
    if low < scale.low:
        yield element("text", "\N{BLACK LEFT-POINTING TRIANGLE}", x=0, **arrow)
    if high > scale.high:
        right = "\N{BLACK RIGHT-POINTING TRIANGLE}"
        yield element("text", right, x="100%", text_anchor="end", **arrow)


def _upright(value: float, scale: Scale) -> dict[str, str | float]:
    x = at(_place(value, scale))
    return {"x1": x, "x2": x, "y1": 0, "y2": "100%"}


def _place(value: float, scale: Scale) -> float:
    """Return the position of a value as a share of the width; values outside of the scale get its ends."""
    return min(1.0, max(0.0, plots.across(scale, value)))
