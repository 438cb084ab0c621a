"""The classes of families, and the colours of phases: one ramp, in their order."""

from collections.abc import Iterator

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
