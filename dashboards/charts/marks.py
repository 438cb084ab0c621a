"""SVG elements, and marks inside tables: bars, lanes, bands, strips and masks.

Positions are attributes, because the content security policy of the pages forbids style attributes. Marks in
tables use percent of the width and fit any page; strips and masks use tokens as their unit.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from curriculum.inspection.formats import number, percent
from dashboards.html import escaped, trusted
from dashboards.palette import family_class

NAMED_FROM = 0.13
"""Share of the width; narrower bands show only their number."""
NUMBERED_FROM = 0.055
"""Share of the row; smaller documents have no number in the mask."""

Spans = Sequence[tuple[int, int]]
"""Documents of a row as adjacent half-open token ranges."""


def element(name: str, *inner: str, **attributes: str | float) -> Markup:
    """Return an SVG or HTML element; texts and attributes are escaped, nested elements are kept.

    >>> element("text", "a < b", x=1, text_anchor="end", class_="n")
    Markup('<text x="1" text-anchor="end" class="n">a &lt; b</text>')
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for key, value in attributes.items()
    )
    content = "".join(map(escaped, inner))
    return trusted(f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>")


def at(share: float) -> str:
    """Format a position or length, given as a share of the width.

    >>> at(0.8)
    '80.00%'
    """
    return f"{100 * share:.2f}%"


def picture(*inner: str, label: str, **attributes: str | float) -> Markup:
    """Return an SVG that screen readers announce by its label."""
    return element("svg", *inner, role="img", aria_label=label, **attributes)


def stretched(size: tuple[int, int], *inner: str, label: str, **attributes: str | float) -> Markup:
    """Return a picture with its own coordinate size, stretched to any width and height."""
    box = "0 0 {} {}".format(*size)
    return picture(*inner, viewBox=box, preserveAspectRatio="none", label=label, **attributes)


def hidden(*inner: str, **attributes: str | float) -> Markup:
    """Return an SVG that screen readers skip."""
    return element("svg", *inner, aria_hidden="true", **attributes)


def _rect(start: float, width: float, *inner: str, **attributes: str | float) -> Markup:
    return element("rect", *inner, x=at(start), width=at(width), height="100%", **attributes)


def bar(
    end: float, *, of: float = 1.0, start: float = 0.0, look: str = "", limit: float | None = None
) -> Markup:
    """Return a bar from `start` to `end` on a line of length `of`, with an optional mark at `limit`."""
    left, right = (min(place / of, 1.0) if of > 0 else 0.0 for place in (start, end))
    is_over = limit is not None and end > limit * (1 + 1e-9)
    inner = [_rect(left, right - left)]
    if limit is not None and limit <= of:
        x = at(limit / of)
        inner.append(element("line", class_="limit", x1=x, x2=x, y1=0, y2="100%"))
    return hidden(*inner, class_=f"bar {look}{' over' if is_over else ''}")


@dataclass(frozen=True, kw_only=True, slots=True)
class BarPart:
    """A part of a stacked bar: its share of the width, CSS class and tooltip."""

    share: float
    look: str
    title: str = ""


def stacked_bar(parts: Iterable[BarPart], *, label: str) -> Markup:
    """Return a stacked bar; the remaining width shows the background."""
    drawn, start = [], 0.0
    for part in parts:
        if part.share > 0:
            title = [element("title", part.title)] if part.title else []
            drawn.append(_rect(start, part.share, *title, class_=part.look))
        start += part.share
    return picture(*drawn, class_="bar", label=label)


def dumbbell(planned: float, realised: float | None, *, of: float, look: str) -> Markup:
    """Return a lane from 0 to `of` with the planned share as a ring and the realised share as a dot."""
    ring, label = at(planned / of), f"planned {percent(planned)}"
    drawn = [element("line", class_="axis", x1=0, x2="100%", y1="50%", y2="50%")]
    if realised is not None:
        dot = at(realised / of)
        label += f", realised {percent(realised)}"
        drawn += [
            element("line", class_="off", x1=ring, x2=dot, y1="50%", y2="50%"),
            element("circle", class_="dot", cx=dot, cy="50%", r=3.5),
        ]
    drawn.append(element("circle", class_="ring", cx=ring, cy="50%", r=6))
    return picture(*drawn, class_=f"lane {look}", label=label)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareLine:
    """A line with a name, a dumbbell and figures; templates/parts.html renders it."""

    name: str
    how: str
    family: str
    planned: float
    realised: float | None = None
    more: tuple[str, ...] = ()
    """Figures after the shares."""

    @property
    def look(self) -> str:
        """CSS class of the family."""
        return family_class(self.family)

    @property
    def figures(self) -> tuple[str, ...]:
        """Planned and realised share in percent, then the other figures."""
        realised = "" if self.realised is None else percent(self.realised)
        return (percent(self.planned), realised, *self.more)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingShares:
    """The share line of a serving, and those of its domains on their own axis."""

    own: ShareLine
    domains: tuple[ShareLine, ...] = ()
    end: float = 1.0
    """End of the axis of the domains."""


def axis(labels: Sequence[str], look: str = "scale") -> Markup:
    """Return labels at even distances from the left end to the right end of the width."""
    last = len(labels) - 1
    texts = []
    for place, label in enumerate(labels):
        anchor = "start" if place == 0 else "end" if place == last else "middle"
        x = f"{100 * place / last:g}%"
        texts.append(element("text", label, x=x, y=11, class_=anchor, text_anchor=anchor))
    return hidden(*texts, class_=look)


def share_axis(of: float) -> Markup:
    """Return the axis of shares from 0 to `of`, labelled in percent."""
    return axis([f"{of * place:g}%" for place in (0, 50, 100)])


def share_end(shares: Iterable[float], step: float) -> float:
    """Return the end of an axis of shares: the largest share, rounded up to a multiple of `step`.

    >>> share_end([0.31, 0.2], 0.25), share_end([], 0.1), share_end([1.0], 0.25)
    (0.5, 0.1, 1.0)
    """
    largest = max(shares, default=0.0)
    return min(1.0, max(step, math.ceil(largest / step - 1e-9) * step))


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """A numbered section of the width, filled from its left end up to a share of itself."""

    number: int
    name: str
    start: float
    end: float
    look: str = ""
    filled: float = 0.0
    title: str = ""


def bands(drawn: Sequence[Band], *, label: str) -> Markup:
    """Return bands side by side, with their numbers below."""
    groups = [
        element(
            "g",
            element("title", band.title),
            _rect(band.start, band.end - band.start, class_="ground"),
            _rect(band.start, (band.end - band.start) * band.filled, class_="fill"),
            element("line", x1=at(band.end), x2=at(band.end), y1=0, y2="100%"),
            class_=band.look,
        )
        for band in drawn
    ]
    return picture(*groups, class_="way", label=label) + hidden(
        *map(_band_number, drawn), class_="numbers"
    )


def _band_number(band: Band) -> Markup:
    """Return the number of a band at its centre, with the name if the band is wide enough."""
    is_wide = band.end - band.start >= NAMED_FROM
    name = [element("tspan", f" {band.name}", class_="name")] if is_wide else []
    return element("text", str(band.number), *name, x=at((band.start + band.end) / 2), y=13)


MIN_SPAN = 0.004
"""Minimum width of a span, as a share of the axis."""


def time_line(start: float, end: float, *, look: str, title: str, mark: float | None) -> Markup:
    """Return a span on a time axis, with a diamond at `mark`; all positions are shares of the width."""
    width = max(end - start, MIN_SPAN)
    drawn = [
        element("title", title),
        element("line", class_="axis", x1=0, x2="100%", y1="50%", y2="50%"),
        element("rect", x=at(min(start, 1 - width)), y=4, width=at(width), height=12, rx=2),
    ]
    if mark is not None:
        drawn.append(element("text", "\N{BLACK DIAMOND}", class_="approval", x=at(mark), y="50%"))
    return picture(*drawn, class_=f"lane {look}", label=title)


def strip(name: str, length: int, *inner: str, label: str) -> Markup:
    """Return the tokens of a row as a strip that stretches to any width."""
    return stretched((length, 1), *inner, class_=f"strip {name}", label=label)


def document_strip(spans: Spans, length: int) -> Markup:
    """Return a row as a strip with one colour per document; uncovered positions are padding."""
    # Attributes have no quotes, because a row may have thousands of documents.
    drawn = "".join(f"<rect x={start} width={end - start} />" for start, end in spans)
    label = f"{number(len(spans), 'document')} in one row"
    return strip("documents", length, trusted(drawn), label=label)


def mask(spans: Spans, length: int, *, small: bool = False) -> Markup:
    """Return the attention mask: one triangle per document; queries are rows, keys are columns.

    >>> str(mask([(0, 3), (3, 5)], 5, small=True)).partition('">')[2]
    '<path d="M0 0v3h3z"/><path d="M3 3v2h2z"/></svg>'
    """
    drawn = [
        element("path", d=f"M{start} {start}v{end - start}h{end - start}z") for start, end in spans
    ]
    if not small:
        sizes = (end - start for start, end in spans)
        # Each square starts at the end of the previous one.
        squares = "M0 0" + "".join(f"h{size}v{size}h-{size}zm{size} {size}" for size in sizes)
        boxes = element("g", element("path", d=squares), class_="boxes")
        drawn = [boxes, *drawn, *_mask_numbers(spans, length), element("path", class_="sees")]
    label = f"Attention mask of {number(len(spans), 'document')}"
    box = f"0 0 {length} {length}"
    return picture(*drawn, class_="mask", viewBox=box, label=label)


def _mask_numbers(spans: Spans, length: int) -> Iterator[Markup]:
    """Yield the numbers of the larger documents, at the centres of their triangles."""
    size = length * 0.031
    for index, (start, end) in enumerate(spans):
        if end - start >= NUMBERED_FROM * length:
            x, y = start + (end - start) / 3, start + (end - start) * 2 / 3 + size / 3
            yield element("text", str(index), x=f"{x:.0f}", y=f"{y:.0f}", font_size=f"{size:.0f}")
