"""The colours of structure, the same in the terminal and on pages; documents have those of flows/show.py."""

from dataclasses import dataclass

from schemas.structure import STRUCTURE_CODES


@dataclass(frozen=True, kw_only=True, slots=True)
class Shade:
    """One colour for a terminal of any background, a white page and a black page."""

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
"""By the names of STRUCTURE_CODES."""

NAMES: tuple[str, ...] = tuple(sorted(STRUCTURE_CODES, key=STRUCTURE_CODES.__getitem__))
"""The name of each code."""
assert tuple(SHADES) == NAMES


def shade(code: int) -> Shade:
    """The colour of a structure code; a code that this version doesn't know has that of `other`."""
    return SHADES[NAMES[code] if 0 <= code < len(NAMES) else "other"]
