"""Pictures of the report, bars, rings and dots, and its classes of colours.

A page's policy forbids style attributes: what depends on data is said in attributes of SVG.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dashboards.html import escaped, quoted
from dashboards.palette import document_style, family_colours
from schemas.families import FAMILIES

MOST_PHASES = 12
"""Number of phases with a shade of their own; later ones have that of the last."""


def family(name: str) -> str:
    """Return the class of a family's colour; empty for a family that only imported rows have."""
    return f"f{list(FAMILIES).index(name)}" if name in FAMILIES else ""


def phase(number: int) -> str:
    """The class of a phase's shade, by its number from 1 on."""
    return f"p{min(number, MOST_PHASES)}"


def properties(phases: int) -> str:
    """The style that gives the classes their colours, on light and on dark pages."""
    light = "".join(f"--f{at}:{pair[0]};" for at, pair in enumerate(family_colours().values()))
    dark = "".join(f"--f{at}:{pair[1]};" for at, pair in enumerate(family_colours().values()))
    families = "".join(f".f{at}{{--c:var(--f{at})}}" for at in range(len(family_colours())))
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{families}{document_style()}{''.join(_ramp(min(phases, MOST_PHASES)))}"
    )


def _ramp(phases: int) -> Iterator[str]:
    """Yield the ramp from pale to deep: the accent on the page's ground, then with the page's ink."""
    for number in range(1, phases + 1):
        deep = (number - 0.5) / phases
        mix = (
            f"var(--accent) {45 + 110 * deep:.0f}%,var(--card)"
            if deep < 0.5
            else f"var(--accent) {100 - 90 * (deep - 0.5):.0f}%,var(--ink)"
        )
        yield f".p{number}{{--c:color-mix(in oklab,{mix})}}"


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
