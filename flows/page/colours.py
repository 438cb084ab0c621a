"""The classes of families, and the colours of phases: one ramp, in their order."""

from collections.abc import Iterator

from dashboards.palette import DOCUMENT_COLOURS, FAMILY_COLOURS
from schemas.document import FAMILIES

MOST_PHASES = 12
"""That have a shade of their own; later ones have that of the last."""


def family(name: str) -> str:
    """The class of a family's colour."""
    return f"f{FAMILIES.index(name)}"


def phase(number: int) -> str:
    """The class of a phase's shade, by its number from 1 on."""
    return f"p{min(number, MOST_PHASES)}"


def document(index: int) -> str:
    """The class of the colour of a row's document."""
    return f"d{index % len(DOCUMENT_COLOURS)}"


def of_documents() -> str:
    """The style that gives the classes of documents their colours, the same on any page."""
    return "".join(f".d{at}{{--c:{each}}}" for at, each in enumerate(DOCUMENT_COLOURS))


def properties(phases: int) -> str:
    """The style that gives the classes their colours, on light and on dark pages."""
    light = "".join(f"--f{at}:{pair[0]};" for at, pair in enumerate(FAMILY_COLOURS.values()))
    dark = "".join(f"--f{at}:{pair[1]};" for at, pair in enumerate(FAMILY_COLOURS.values()))
    families = "".join(f".f{at}{{--c:var(--f{at})}}" for at in range(len(FAMILY_COLOURS)))
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{families}{of_documents()}{''.join(_ramp(min(phases, MOST_PHASES)))}"
    )


def _ramp(phases: int) -> Iterator[str]:
    """From pale to deep: the accent on the page's ground, then with the page's ink."""
    for number in range(1, phases + 1):
        deep = (number - 0.5) / phases
        mix = (
            f"var(--accent) {45 + 110 * deep:.0f}%,var(--card)"
            if deep < 0.5
            else f"var(--accent) {100 - 90 * (deep - 0.5):.0f}%,var(--ink)"
        )
        yield f".p{number}{{--c:color-mix(in oklab,{mix})}}"
