"""A row's strips and its attention mask, as SVG that is drawn from boundaries.

Nothing here grows with the square of a row's length, nor, beyond some bins, with the length itself.
A page's policy forbids style attributes, so places are attributes; units are tokens.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from curriculum.inspection.formats import number
from curriculum.inspection.rows import RowView
from dashboards.rows.table import scored
from schemas.structure import StructureChunk, StructureEdge

Spans = Sequence[tuple[int, int]]
"""The documents of a row: half-open token ranges, side by side."""
BINS = 480
"""Number of bins of a strip that is drawn token by token; more would be narrower than a pixel."""
NAMED_FROM = 0.055
"""Share of the row: smaller documents have no number in the mask."""


def documents(spans: Spans, length: int) -> str:
    """The row as a bar, a colour a document; what is left is padding."""
    drawn = "".join(f"<rect x={start} width={end - start} />" for start, end in spans)
    return _strip("documents", length, drawn, f"{number(len(spans), 'document')} side by side")


def loss(shown: RowView) -> str:
    """Draw the scored share of each stretch, as a step line that is filled."""
    shares = binned(scored(shown))
    size = -(-shown.length // BINS)
    path = "M0 1" + "".join(
        f"V{1 - share:.3g}H{min((at + 1) * size, shown.length)}"
        for at, share in _stepped(shares, end=len(shares))
    )
    said = f"{shown.row.scored:,} of {shown.length:,} tokens are scored"
    return _strip("loss", shown.length, f'<path d="{path}V1z"/>', said)


def structure(shown: RowView) -> str:
    """Draw the most frequent structure of each stretch; empty where the row has none."""
    if not shown.row.is_structured:
        return ""
    size = -(-shown.length // BINS)
    values = np.asarray(shown.row.structure_ids[: shown.row.valid], dtype=np.int64)
    most = [int(np.bincount(values[at : at + size]).argmax()) for at in range(0, len(values), size)]
    drawn, at = "", 0
    for code, run in itertools.groupby(most):
        width = min(sum(1 for _ in run) * size, len(values) - at)
        drawn += f'<rect class="k{code}" x="{at}" width="{width}" height="1"/>' if code else ""
        at += width
    return _strip("structure", shown.length, drawn, "what the code is")


def edges(chunks: Sequence[StructureChunk], links: Sequence[StructureEdge], length: int) -> str:
    """Calls and uses as arcs between the chunks that they join."""
    drawn = ""
    for each in links:
        first, last = (
            (chunks[end].start + chunks[end].end) // 2 for end in (each.source, each.target)
        )
        middle = (first + last) / 2
        drawn += (
            f'<path data-e="{each.source} {each.target}" d="M{first} 0Q{middle:g} 2 {last} 0"/>'
        )
    return _strip("edges", length, drawn, f"{len(links)} edges between chunks")


def binned(flags: npt.NDArray[np.bool_]) -> list[float]:
    """The share of set flags in each of at most `BINS` stretches of one size.

    >>> binned(np.array([True, True, False]))
    [1.0, 1.0, 0.0]
    """
    size = -(-len(flags) // BINS)
    starts = np.arange(0, len(flags), size)
    sums = np.add.reduceat(flags.astype(np.int64), starts)
    sizes = np.minimum(starts + size, len(flags)) - starts
    return [float(each) for each in sums / sizes]


def _stepped(shares: Sequence[float], *, end: int) -> Iterator[tuple[int, float]]:
    """The last bin of each run of one height, and that height."""
    for at, share in enumerate(shares):
        if at + 1 == end or f"{share:.3g}" != f"{shares[at + 1]:.3g}":
            yield at, share


def _strip(name: str, length: int, drawn: str, said: str) -> str:
    return (
        f'<svg class="strip {name}" viewBox="0 0 {length} 1" preserveAspectRatio="none" role="img" '
        f'aria-label="{said}">{drawn}</svg>'
    )


def mask(spans: Spans, length: int, *, small: bool = False) -> str:
    """Draw the attention mask: a triangle a document. Rows ask, columns are seen.

    >>> mask([(0, 3), (3, 5)], 5, small=True).partition('">')[2]
    '<path d="M0 0v3h3z"/><path d="M3 3v2h2z"/></svg>'
    """
    drawn = "".join(
        f'<path d="M{start} {start}v{end - start}h{end - start}z"/>' for start, end in spans
    )
    if not small:
        named = "".join(_numbers(spans, length))
        boxes = f'<g class="boxes"><path d="{_boxes(spans)}"/></g>'
        drawn = f'{boxes}{drawn}{named}<path class="sees"/>'
    said = f"Attention mask of {number(len(spans), 'document')}"
    return f'<svg class="mask" viewBox="0 0 {length} {length}" role="img" aria-label="{said}">{drawn}</svg>'


def _boxes(spans: Spans) -> str:
    """The square of each document; each begins where the one before it ends.

    >>> _boxes([(0, 3), (3, 5)])
    'M0 0h3v3h-3zm3 3h2v2h-2zm2 2'
    """
    sizes = (end - start for start, end in spans)
    return "M0 0" + "".join(f"h{size}v{size}h-{size}zm{size} {size}" for size in sizes)


def _numbers(spans: Spans, length: int) -> Iterator[str]:
    """The numbers of the larger documents, in the middle of their triangles."""
    size = length * 0.026
    for at, (start, end) in enumerate(spans):
        if end - start >= NAMED_FROM * length:
            x, y = start + (end - start) / 3, start + (end - start) * 2 / 3
            yield f'<text x="{x:.0f}" y="{y + size / 3:.0f}" font-size="{size:.0f}">{at}</text>'
