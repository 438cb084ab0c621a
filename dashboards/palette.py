"""The one visual language of all pages: colours on a light ground and on a dark one, and typefaces.

A colour means the same thing on every page: a family has one hue, the accent marks what can be pressed
or is chosen, and nothing else is coloured.
"""

from itertools import cycle
from typing import NamedTuple

from schemas.families import FAMILIES


class Pair(NamedTuple):
    """One colour on a light page and on a dark one."""

    light: str
    dark: str


GROUND: dict[str, Pair] = {
    "page": Pair("#fafaf8", "#16181c"),
    "card": Pair("#ffffff", "#1c1f24"),
    "ink": Pair("#1d1f23", "#dfe1e6"),
    "soft": Pair("#6c6f76", "#8f949e"),
    "line": Pair("#e6e5e0", "#2b2f36"),
    "ground": Pair("#f0efea", "#262a31"),
    "hover": Pair("#f3f2ee", "#23272d"),
    "accent": Pair("#0a7ea4", "#5cc8e6"),
    "chosen": Pair("#e3f1f6", "#17323d"),
    "good": Pair("#2c8a57", "#5cc48d"),
    "warn": Pair("#b46a00", "#e2ab52"),
    "bad": Pair("#c23b32", "#ef7d74"),
    "more": Pair("#c8601a", "#ee9a5c"),
}
"""What a page is made of, by the names of its custom properties."""

_FAMILY_HUES = (
    Pair("#2f6fd0", "#6ea3f5"),
    Pair("#7fa3dd", "#a9c6f7"),
    Pair("#16876b", "#3fbf9d"),
    Pair("#6bb59c", "#8bd8c0"),
    Pair("#7a4fc4", "#b08cf0"),
    Pair("#b8418a", "#ee86c0"),
    Pair("#bd7610", "#e5ab4d"),
    Pair("#6b7078", "#a3a7b0"),
)
"""Hues of families in the order of the registry; made of the same text has the same hue."""


def family_colours() -> dict[str, Pair]:
    """Colours by family; more families than hues begin with the first hue again."""
    return dict(zip(FAMILIES, cycle(_FAMILY_HUES), strict=False))


DOCUMENT_COLOURS = ("#5f87af", "#5fafaf", "#8f6fa8", "#a8ab4f", "#d7af3f", "#c8575a")
"""Of the documents of a row, in turn; the same on any ground, so that terminals have them too."""

SANS = 'system-ui, -apple-system, "Segoe UI", Inter, "Noto Sans", "DejaVu Sans", sans-serif'
MONO = (
    'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", '
    "monospace"
)


def properties() -> str:
    """The custom properties that every page's style begins with; dark where the reader's system is."""
    fonts = f"--sans:{SANS};--mono:{MONO};"
    light = "".join(f"--{name}:{pair.light};" for name, pair in GROUND.items())
    dark = "".join(f"--{name}:{pair.dark};" for name, pair in GROUND.items())
    return (
        f":root{{{light}{fonts}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    )
