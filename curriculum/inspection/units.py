"""Units of figures, by the words in their names, so that a figure has the same format everywhere."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from curriculum.inspection.formats import MINUS, bits, count, duration, money, percent
from curriculum.store.artefact import KEY_DIGITS
from schemas.visible import one_line

UNITS: Mapping[str, Callable[[float], str]] = {
    "tokens": count,
    "bytes": lambda amount: f"{count(amount)}B",
    "share": percent,
    "bpb": bits,
    "seconds": duration,
    "cost": money,
    "repetition": lambda times: f"{times:.2f}",
}
"""Format for each word in a name: that of `tokens` also applies to `valid_tokens` and `tokens_before`."""
CHANGE = "change"
"""Word in the names of figures that have a sign. Such a figure is left empty if it is 0."""
DIGEST = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}")
"""Pattern of keys, commits and document ids. Tables show only as many digits as other commands need."""


def cell_text(name: str, value: Any) -> str:
    """Return the text of a table cell for the value of a field; empty for None, False and empty lists.

    >>> cell_text("valid_tokens", 22_100), cell_text("tokens_change", -300), cell_text("share", 0.5)
    ('22.1k', '−300', '50.0%')
    >>> cell_text("row_length", 4096), cell_text("key", "0" * 64), cell_text("is_short", True)
    ('4,096', '000000000000', 'yes')
    """
    match value:
        case None | False:
            return ""
        case True:
            return "yes"
        case int() | float():
            return _figure(name.split("_"), value)
        case str():
            return value[:KEY_DIGITS] if DIGEST.fullmatch(value) else one_line(value)
        case tuple() | list():
            return ", ".join(cell_text(name, part) for part in value)
        case _:
            return one_line(str(value))


def _figure(words: list[str], value: float) -> str:
    unit = next((UNITS[word] for word in words if word in UNITS), plain)
    if CHANGE not in words:
        return unit(value)
    said = unit(abs(value))
    return f"{MINUS if value < 0 else '+'}{said}" if said != unit(0) else ""


def plain(value: float | Decimal) -> str:
    """Format a number without a unit."""
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
