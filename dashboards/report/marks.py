"""The little pictures of the report. Places are percent of the width, so that they fit any page.

A page's policy forbids style attributes: what depends on data is said in attributes of SVG.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dashboards.html import escaped, quoted


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a bar: its share of the width, its class, what it says when pointed at."""

    share: float
    look: str
    title: str = ""


def bar(parts: Iterable[Part], *, label: str) -> str:
    """Parts side by side; what they leave is the ground."""
    drawn, at = "", 0.0
    for part in parts:
        if part.share > 0:
            drawn += (
                f'<rect class="{part.look}" x="{100 * at:.3f}%" width="{100 * part.share:.3f}%" '
                f'height="100%">{_title(part.title)}</rect>'
            )
        at += part.share
    return f'<svg class="bar" role="img" aria-label="{quoted(label)}">{drawn}</svg>'


def ring_and_dot(planned: float, realised: float | None, *, of: float, look: str) -> str:
    """Draw the planned value as a ring and the realised one as a dot, on a line that ends at `of`."""
    ring = f"{100 * planned / of:.2f}%"
    says = f"planned {planned:.1%}"
    dot = ""
    if realised is not None:
        at = f"{100 * realised / of:.2f}%"
        says += f", realised {realised:.1%}"
        dot = (
            f'<line class="off" x1="{ring}" x2="{at}" y1="50%" y2="50%"/>'
            f'<circle class="dot" cx="{at}" cy="50%" r="3.5"/>'
        )
    return (
        f'<svg class="lane {look}" role="img" aria-label="{says}">'
        '<line class="axis" x1="0" x2="100%" y1="50%" y2="50%"/>'
        f'{dot}<circle class="ring" cx="{ring}" cy="50%" r="6"/></svg>'
    )


def _title(text: str) -> str:
    return f"<title>{escaped(text)}</title>" if text else ""
