"""Elements of SVG, and marks that are a line of a list: bars, lanes, bands, strips and masks.

Positions are attributes, since the policy of a page forbids style attributes. They are percent of the width
where a picture is a line of a list, so that it fits any page; in strips and masks their unit is a token.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from curriculum.inspection.formats import number, percent
from dashboards.html import escaped, trusted
from dashboards.palette import family_class

NAMED_FROM = 0.13
"""Share of the width: narrower bands show their number only."""
NUMBERED_FROM = 0.055
"""Share of a row: smaller documents have no number in the mask."""

Spans = Sequence[tuple[int, int]]
"""The documents of a row: half-open token ranges, side by side."""


def element(name: str, *inner: str, **attributes: str | float) -> Markup:
    """An element of SVG or HTML; texts inside it and its attributes are escaped, elements inside are kept.

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
    """A position or a length as a share of the width.

    >>> at(0.8)
    '80.00%'
    """
    return f"{100 * share:.2f}%"


def picture(*inner: str, label: str, **attributes: str | float) -> Markup:
    """Return an SVG that a screen reader reads as its label."""
    return element("svg", *inner, role="img", aria_label=label, **attributes)


def stretched(size: tuple[int, int], *inner: str, label: str, **attributes: str | float) -> Markup:
    """Return a picture of a size in units of its own, which is drawn out to any width and height."""
    box = "0 0 {} {}".format(*size)
    return picture(*inner, viewBox=box, preserveAspectRatio="none", label=label, **attributes)


def hidden(*inner: str, **attributes: str | float) -> Markup:
    """Return an SVG that a screen reader passes over."""
    return element("svg", *inner, aria_hidden="true", **attributes)


def _rect(start: float, width: float, *inner: str, **attributes: str | float) -> Markup:
    return element("rect", *inner, x=at(start), width=at(width), height="100%", **attributes)


def bar(
    end: float, *, of: float = 1.0, start: float = 0.0, look: str = "", limit: float | None = None
) -> Markup:
    """Return a bar from `start` to `end` on a line of length `of`; the limit is a mark on it."""
    left, right = (min(place / of, 1.0) if of > 0 else 0.0 for place in (start, end))
    is_over = limit is not None and end > limit * (1 + 1e-9)
    inner = [_rect(left, right - left)]
    if limit is not None and limit <= of:
        x = at(limit / of)
        inner.append(element("line", class_="limit", x1=x, x2=x, y1=0, y2="100%"))
    return hidden(*inner, class_=f"bar {look}{' over' if is_over else ''}")


@dataclass(frozen=True, kw_only=True, slots=True)
class BarPart:
    """A part of a bar: its share of the width, its class, and its text for a pointer."""

    share: float
    look: str
    title: str = ""


def stacked_bar(parts: Iterable[BarPart], *, label: str) -> Markup:
    """Parts side by side; what they leave is the ground."""
    drawn, start = [], 0.0
    for part in parts:
        if part.share > 0:
            title = [element("title", part.title)] if part.title else []
            drawn.append(_rect(start, part.share, *title, class_=part.look))
        start += part.share
    return picture(*drawn, class_="bar", label=label)


def dumbbell(planned: float, realised: float | None, *, of: float, look: str) -> Markup:
    """Draw the planned share as a ring and the realised one as a dot, on a line that ends at `of`."""
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
    """A line of a name, a dumbbell and figures; templates/parts.html draws it."""

    name: str
    how: str
    family: str
    planned: float
    realised: float | None = None
    more: tuple[str, ...] = ()
    """Figures after those of the shares."""

    @property
    def look(self) -> str:
        """The class of its family."""
        return family_class(self.family)

    @property
    def figures(self) -> tuple[str, ...]:
        """The shares in percent, then all others."""
        realised = "" if self.realised is None else percent(self.realised)
        return (percent(self.planned), realised, *self.more)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingShares:
    """The line of a serving, and those of its domains on an axis of their own."""

    own: ShareLine
    domains: tuple[ShareLine, ...] = ()
    end: float = 1.0
    """The end of the domains' axis."""


def axis(labels: Sequence[str], look: str = "scale") -> Markup:
    """Labels at even distances, from the left end of a width to its right end."""
    last = len(labels) - 1
    texts = []
    for place, label in enumerate(labels):
        anchor = "start" if place == 0 else "end" if place == last else "middle"
        x = f"{100 * place / last:g}%"
        texts.append(element("text", label, x=x, y=11, class_=anchor, text_anchor=anchor))
    return hidden(*texts, class_=look)


def share_axis(of: float) -> Markup:
    """The axis above lanes and bars of shares that end at `of`, without needless digits."""
    return axis([f"{of * place:g}%" for place in (0, 50, 100)])


def share_end(shares: Iterable[float], step: float) -> float:
    """Return the end of an axis of shares: the largest share, rounded up to a step.

    >>> share_end([0.31, 0.2], 0.25), share_end([], 0.1), share_end([1.0], 0.25)
    (0.5, 0.1, 1.0)
    """
    largest = max(shares, default=0.0)
    return min(1.0, max(step, math.ceil(largest / step - 1e-9) * step))


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """A numbered part of a width, from one share of it to another; filled up to a share of itself."""

    number: int
    name: str
    start: float
    end: float
    look: str = ""
    filled: float = 0.0
    title: str = ""


def bands(drawn: Sequence[Band], *, label: str) -> Markup:
    """Bands side by side, each filled from its left end, and below them their numbers."""
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
    """Return the number of a band in its middle, with its name where there is room."""
    is_wide = band.end - band.start >= NAMED_FROM
    name = [element("tspan", f" {band.name}", class_="name")] if is_wide else []
    return element("text", str(band.number), *name, x=at((band.start + band.end) / 2), y=13)


MIN_SPAN = 0.004
"""Least share of the width, for the shortest span of a time line."""


def time_line(start: float, end: float, *, look: str, title: str, mark: float | None) -> Markup:
    """A span of an axis of time, and a diamond where something was decided; all in shares of the width."""
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
    """A row's tokens as a strip that is drawn out to any width."""
    return stretched((length, 1), *inner, class_=f"strip {name}", label=label)


def document_strip(spans: Spans, length: int) -> Markup:
    """A row as a strip, a colour a document; what is left is padding."""
    # Without quotes: there may be thousands.
    drawn = "".join(f"<rect x={start} width={end - start} />" for start, end in spans)
    label = f"{number(len(spans), 'document')} in one row"
    return strip("documents", length, trusted(drawn), label=label)


def mask(spans: Spans, length: int, *, small: bool = False) -> Markup:
    """Draw the attention mask: a triangle a document. Rows ask, columns are seen.

    >>> str(mask([(0, 3), (3, 5)], 5, small=True)).partition('">')[2]
    '<path d="M0 0v3h3z"/><path d="M3 3v2h2z"/></svg>'
    """
    drawn = [
        element("path", d=f"M{start} {start}v{end - start}h{end - start}z") for start, end in spans
    ]
    if not small:
        sizes = (end - start for start, end in spans)
        # Each square begins where the one before it ends.
        squares = "M0 0" + "".join(f"h{size}v{size}h-{size}zm{size} {size}" for size in sizes)
        boxes = element("g", element("path", d=squares), class_="boxes")
        drawn = [boxes, *drawn, *_mask_numbers(spans, length), element("path", class_="sees")]
    label = f"Attention mask of {number(len(spans), 'document')}"
    box = f"0 0 {length} {length}"
    return picture(*drawn, class_="mask", viewBox=box, label=label)


def _mask_numbers(spans: Spans, length: int) -> Iterator[Markup]:
    """The numbers of the larger documents, in the middle of their triangles."""
    size = length * 0.031
    for index, (start, end) in enumerate(spans):
        if end - start >= NUMBERED_FROM * length:
            x, y = start + (end - start) / 3, start + (end - start) * 2 / 3 + size / 3
            yield element("text", str(index), x=f"{x:.0f}", y=f"{y:.0f}", font_size=f"{size:.0f}")
