"""The colours of families, fixed over all pages, and those of phases: one ramp, in their order."""

from collections.abc import Iterator

from schemas.document import FAMILIES

FAMILY_COLOURS: dict[str, tuple[str, str]] = {
    "v2_simple": ("#2f6fd0", "#6ea3f5"),
    "v2_doxygen": ("#7fa3dd", "#a9c6f7"),
    "v3_simple": ("#16876b", "#3fbf9d"),
    "v3_doxygen": ("#6bb59c", "#8bd8c0"),
    "v4_context_graph": ("#7a4fc4", "#b08cf0"),
    "v5_clang_graph": ("#b8418a", "#ee86c0"),
    "v6_enriched": ("#bd7610", "#e5ab4d"),
    "chat": ("#6b7078", "#a3a7b0"),
}
"""On a light page and on a dark one; what is made of the same text has the same hue."""
assert tuple(FAMILY_COLOURS) == FAMILIES

MOST_PHASES = 12
"""That have a shade of their own; later ones have that of the last."""


def family(name: str) -> str:
    """The class of a family's colour."""
    return f"f{FAMILIES.index(name)}"


def phase(number: int) -> str:
    """The class of a phase's shade, by its number from 1 on."""
    return f"p{min(number, MOST_PHASES)}"


def properties(phases: int) -> str:
    """The style that gives the classes their colours, on light and on dark pages."""
    light = "".join(f"--f{at}:{pair[0]};" for at, pair in enumerate(FAMILY_COLOURS.values()))
    dark = "".join(f"--f{at}:{pair[1]};" for at, pair in enumerate(FAMILY_COLOURS.values()))
    families = "".join(f".f{at}{{--c:var(--f{at})}}" for at in range(len(FAMILY_COLOURS)))
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{families}{''.join(_ramp(min(phases, MOST_PHASES)))}"
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
