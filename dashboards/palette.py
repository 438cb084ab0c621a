"""Colours and typefaces of all pages, in light and in dark mode.

A colour has the same meaning on every page. Each family has its own hue; the accent colour marks controls and
selected things.
"""

from dataclasses import dataclass
from itertools import cycle
from typing import Literal, NamedTuple

from schemas.families import FAMILIES
from schemas.structure import STRUCTURE_CODES


class ColourPair(NamedTuple):
    """A colour in light mode and its counterpart in dark mode."""

    light: str
    dark: str


GROUND: dict[str, ColourPair] = {
    "page": ColourPair("#fafaf8", "#16181c"),
    "card": ColourPair("#ffffff", "#1c1f24"),
    "ink": ColourPair("#1d1f23", "#dfe1e6"),
    "soft": ColourPair("#66696f", "#969ba5"),
    "line": ColourPair("#e6e5e0", "#2b2f36"),
    "ground": ColourPair("#f0efea", "#262a31"),
    "hover": ColourPair("#f3f2ee", "#23272d"),
    "accent": ColourPair("#077295", "#5cc8e6"),
    "chosen": ColourPair("#e3f1f6", "#17323d"),
    "good": ColourPair("#267a4d", "#5cc48d"),
    "warn": ColourPair("#985900", "#e2ab52"),
    "bad": ColourPair("#c23b32", "#ef7d74"),
    "more": ColourPair("#ad4f12", "#ee9a5c"),
}
"""Colours of a page, by the name of their custom property."""

_FAMILY_HUES = (
    ColourPair("#2f6fd0", "#6ea3f5"),
    ColourPair("#7fa3dd", "#a9c6f7"),
    ColourPair("#16876b", "#3fbf9d"),
    ColourPair("#6bb59c", "#8bd8c0"),
    ColourPair("#4d8a2f", "#93cf6d"),
    ColourPair("#7a4fc4", "#b08cf0"),
    ColourPair("#b8418a", "#ee86c0"),
    ColourPair("#bd7610", "#e5ab4d"),
    ColourPair("#6b7078", "#a3a7b0"),
)
"""Hues of families in the order of the registry; related families have similar hues."""


def family_colours() -> dict[str, ColourPair]:
    """Return the colour of each family; if there are more families than hues, hues are used again."""
    return dict(zip(FAMILIES, cycle(_FAMILY_HUES), strict=False))


DOCUMENT_COLOURS = ("#5f87af", "#5fafaf", "#8f6fa8", "#a8ab4f", "#d7af3f", "#c8575a")
"""Colours of the documents of a row, used in turn; they are the same in both modes and in terminals."""

SANS = 'system-ui, -apple-system, "Segoe UI", Inter, "Noto Sans", "DejaVu Sans", sans-serif'
MONO = (
    'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", '
    "monospace"
)


def _themed(light: str, dark: str) -> str:
    """Return the CSS that chooses custom properties for light or dark mode by the reader's system setting."""
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def properties() -> str:
    """Return the custom properties with which the style of every page starts."""
    light = "".join(f"--{name}:{pair.light};" for name, pair in GROUND.items())
    dark = "".join(f"--{name}:{pair.dark};" for name, pair in GROUND.items())
    return _themed(f"{light}--sans:{SANS};--mono:{MONO};", dark)


def properties_of(scheme: Literal["light", "dark"]) -> str:
    """Return the custom properties of one colour scheme, for pictures outside of pages."""
    colours = "".join(f"--{name}:{getattr(pair, scheme)};" for name, pair in GROUND.items())
    return f":root{{{colours}--sans:{SANS};--mono:{MONO};}}"


def family_class(name: str) -> str:
    """Return the CSS class of a family; empty for a name that only imported rows have."""
    return name if name in FAMILIES else ""


MAX_SERIES = len(_FAMILY_HUES)


def series_class(number: int | None) -> str:
    """Return the CSS class of the series with a number; None means a single series, in the accent colour."""
    return "only" if number is None else f"s{number % MAX_SERIES}"


def series_style() -> str:
    """Return the CSS that colours series by their classes; the first series have the most distinct hues."""
    order = (0, 7, 5, 2, 6, 1, 3, 8, 4)
    light = "".join(f"--s{at}:{_FAMILY_HUES[hue].light};" for at, hue in enumerate(order))
    dark = "".join(f"--s{at}:{_FAMILY_HUES[hue].dark};" for at, hue in enumerate(order))
    classes = "".join(f".s{at}{{--c:var(--s{at})}}" for at in range(len(order)))
    return _themed(light, dark) + classes + ".only{--c:var(--accent)}"


def family_style() -> str:
    """Return the CSS that colours families by their classes."""
    light = "".join(f"--{name}:{pair.light};" for name, pair in family_colours().items())
    dark = "".join(f"--{name}:{pair.dark};" for name, pair in family_colours().items())
    classes = "".join(f".{name}{{--c:var(--{name})}}" for name in family_colours())
    return _themed(light, dark) + classes


MAX_PHASES = 12
"""Number of shades for phases; further phases share the last shade."""


def phase_class(number: int) -> str:
    """Return the CSS class of the phase with a number, counted from 1."""
    return f"p{min(number, MAX_PHASES)}"


def phase_style(phases: int) -> str:
    """Return the CSS that colours the classes of `phases` phases, from pale to deep shades of the accent."""
    classes = []
    shades = min(phases, MAX_PHASES)
    for number in range(1, shades + 1):
        deep = (number - 0.5) / shades
        mix = (
            f"var(--accent) {45 + 110 * deep:.0f}%,var(--card)"
            if deep < 0.5
            else f"var(--accent) {100 - 90 * (deep - 0.5):.0f}%,var(--ink)"
        )
        classes.append(f".p{number}{{--c:color-mix(in oklab,{mix})}}")
    return "".join(classes)


def document_style() -> str:
    """Return the CSS that colours the documents of a row by their position in the row.

    The documents need no classes, which saves bytes because a row may have thousands of documents.
    """
    classes = []
    for position, colour in enumerate(DOCUMENT_COLOURS, start=1):
        every = f"({len(DOCUMENT_COLOURS)}n+{position})"
        classes.append(
            f".documents>rect:nth-child{every},.mask>path:nth-of-type{every},"
            f".lines>tr:nth-child{every},.doc:nth-of-type{every}{{--c:{colour}}}"
        )
    return f".documents>rect{{height:1px}}{''.join(classes)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shade:
    """A colour in three versions: for terminals with any background, for light pages and for dark pages."""

    terminal: str
    light: str
    dark: str


SHADES: dict[str, Shade] = {
    "none": Shade(terminal="#808080", light="#85857f", dark="#7d7f86"),
    "other": Shade(terminal="#8a8f98", light="#5c6068", dark="#a3a7b0"),
    "preamble": Shade(terminal="#af8f3f", light="#8a6100", dark="#d9b44a"),
    "func_sig": Shade(terminal="#5f87d7", light="#1f5fd0", dark="#82aaff"),
    "func_body": Shade(terminal="#7f9fb5", light="#34506b", dark="#b4c9dc"),
    "class_decl": Shade(terminal="#9f7fd0", light="#7440bd", dark="#c3a1ff"),
    "class_member": Shade(terminal="#c0699f", light="#a4327c", dark="#f096cc"),
    "comment": Shade(terminal="#6f9f6f", light="#3d7a40", dark="#85bf85"),
    "typedef": Shade(terminal="#c8775a", light="#b04a1c", dark="#f09a74"),
    "namespace": Shade(terminal="#4fa5a0", light="#0b7573", dark="#5ccac4"),
}
"""Shade of each structure category, by its name in STRUCTURE_CODES."""

NAMES: tuple[str, ...] = tuple(sorted(STRUCTURE_CODES, key=STRUCTURE_CODES.__getitem__))
"""Names of the structure categories, in the order of their codes."""
assert tuple(SHADES) == NAMES


def shade(code: int) -> Shade:
    """Return the colour of a structure code; codes that aren't known have the colour of `other`."""
    return SHADES[NAMES[code] if 0 <= code < len(NAMES) else "other"]


def structure_style() -> str:
    """Return the CSS that colours structure by classes; a class is `k` followed by the structure code."""
    light = "".join(f"--c{code}:{shade.light};" for code, shade in enumerate(SHADES.values()))
    dark = "".join(f"--c{code}:{shade.dark};" for code, shade in enumerate(SHADES.values()))
    classes = "".join(f".k{code}{{--c:var(--c{code})}}" for code in range(len(SHADES)))
    return _themed(light, dark) + classes
