"""SVG elements, and marks inside tables: bars, lanes, bands, strips and masks.

Positions are attributes of elements, because the content security policy of the pages forbids style
attributes. Marks in tables are positioned in percent of the width, so that they fit any page. Strips and
masks have tokens as their unit of length.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from curriculum.inspection.formats import number, percent
from dashboards.html import escaped, trusted
from dashboards.palette import family_class

NAMED_FROM = 0.13
"""Share of the width; bands that are narrower show only their number."""
NUMBERED_FROM = 0.055
"""Share of the row; documents that are smaller have no number in the mask."""

Spans = Sequence[tuple[int, int]]
"""Ranges of tokens, one per document of a row: first token and the token after the last."""


def element(name: str, *inner: str, **attributes: str | float) -> Markup:
    """Return an SVG or HTML element.

    Texts and attributes are escaped. Elements in `inner` are inserted unchanged.

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
    """Format a share of the width as a position or length in percent.

    >>> at(0.8)
    '80.00%'
    """
    return f"{100 * share:.2f}%"


def picture(*inner: str, label: str, **attributes: str | float) -> Markup:
    """Return an SVG picture; screen readers read its `label`."""
    return element("svg", *inner, role="img", aria_label=label, **attributes)


def stretched(size: tuple[int, int], *inner: str, label: str, **attributes: str | float) -> Markup:
    """Return an SVG picture whose coordinates run from 0 to `size`, and which is stretched to any size."""
    box = "0 0 {} {}".format(*size)
    return picture(*inner, viewBox=box, preserveAspectRatio="none", label=label, **attributes)


def hidden(*inner: str, **attributes: str | float) -> Markup:
    """Return an SVG picture that screen readers skip."""
    return element("svg", *inner, aria_hidden="true", **attributes)


def _rect(start: float, width: float, *inner: str, **attributes: str | float) -> Markup:
    return element("rect", *inner, x=at(start), width=at(width), height="100%", **attributes)


def bar(
    end: float, *, of: float = 1.0, start: float = 0.0, look: str = "", limit: float | None = None
) -> Markup:
    """Return a bar from `start` to `end` on an axis from 0 to `of`.

    If `limit` is given, the bar has a mark there, and its class says whether `end` exceeds the limit.
    """
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
    """Return a bar of several parts side by side; the background shows where they don't fill the width."""
    drawn, start = [], 0.0
    for part in parts:
        if part.share > 0:
            title = [element("title", part.title)] if part.title else []
            drawn.append(_rect(start, part.share, *title, class_=part.look))
        start += part.share
    return picture(*drawn, class_="bar", label=label)


def dumbbell(planned: float, realised: float | None, *, of: float, look: str) -> Markup:
    """Return a lane on an axis from 0 to `of`: a ring marks the planned share, a dot the realised share."""
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
    """A table line with a name, a dumbbell of planned and realised share, and figures.

    It is rendered by templates/parts.html.
    """

    name: str
    how: str
    family: str
    planned: float
    realised: float | None = None
    more: tuple[str, ...] = ()
    """Further figures, which follow the shares."""

    @property
    def look(self) -> str:
        """CSS class that gives the line the colour of its family."""
        return family_class(self.family)

    @property
    def figures(self) -> tuple[str, ...]:
        """Texts of a table row: the planned and the realised share in percent, then the texts of `more`."""
        realised = "" if self.realised is None else percent(self.realised)
        return (percent(self.planned), realised, *self.more)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingShares:
    """The share line of a serving, and the share lines of its domains, which have an axis of their own."""

    own: ShareLine
    domains: tuple[ShareLine, ...] = ()
    end: float = 1.0
    """Share at the end of the axis of the domains."""


def axis(labels: Sequence[str], look: str = "scale") -> Markup:
    """Return labels at equal distances over the whole width."""
    last = len(labels) - 1
    texts = []
    for place, label in enumerate(labels):
        anchor = "start" if place == 0 else "end" if place == last else "middle"
        x = f"{100 * place / last:g}%"
        texts.append(element("text", label, x=x, y=11, class_=anchor, text_anchor=anchor))
    return hidden(*texts, class_=look)


def share_axis(of: float) -> Markup:
    """Return an axis of shares from 0 to `of`, with labels in percent."""
    return axis([f"{of * place:g}%" for place in (0, 50, 100)])


def share_end(shares: Iterable[float], step: float) -> float:
    """Return the end of an axis that fits all shares: the largest share, rounded up to a multiple of `step`.

    >>> share_end([0.31, 0.2], 0.25), share_end([], 0.1), share_end([1.0], 0.25)
    (0.5, 0.1, 1.0)
    """
    largest = max(shares, default=0.0)
    return min(1.0, max(step, math.ceil(largest / step - 1e-9) * step))


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """A numbered section of the width, such as a phase; a share of it is filled, from the left."""

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
    """Return the number of a band at its centre; a wide band also gets its name."""
    is_wide = band.end - band.start >= NAMED_FROM
    name = [element("tspan", f" {band.name}", class_="name")] if is_wide else []
    return element("text", str(band.number), *name, x=at((band.start + band.end) / 2), y=13)


MIN_SPAN = 0.004
"""Minimum width of a span, as a share of the axis."""


def time_line(start: float, end: float, *, look: str, title: str, mark: float | None) -> Markup:
    """Return a lane of a time axis with a bar from `start` to `end`, and a diamond at `mark`.

    All positions are shares of the width.
    """
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
    """Return a row as a strip that is `length` tokens long and stretches to any width."""
    return stretched((length, 1), *inner, class_=f"strip {name}", label=label)


def document_strip(spans: Spans, length: int) -> Markup:
    """Return a row as a strip with one colour per document; positions outside of `spans` are padding."""
    # Attributes have no quotes, because a row may have thousands of documents.
    drawn = "".join(f"<rect x={start} width={end - start} />" for start, end in spans)
    label = f"{number(len(spans), 'document')} in one row"
    return strip("documents", length, trusted(drawn), label=label)


def mask(spans: Spans, length: int, *, small: bool = False) -> Markup:
    """Return a picture of the attention mask of a row, one triangle per document.

    A token reads the tokens in its line of the picture: lines are queries, columns are keys.

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
    """Yield the numbers of the larger documents, each at the centre of the document's triangle."""
    size = length * 0.031
    for index, (start, end) in enumerate(spans):
        if end - start >= NUMBERED_FROM * length:
            x, y = start + (end - start) / 3, start + (end - start) * 2 / 3 + size / 3
            yield element("text", str(index), x=f"{x:.0f}", y=f"{y:.0f}", font_size=f"{size:.0f}")
