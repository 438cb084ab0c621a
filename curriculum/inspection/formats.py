"""Numbers as text, and lines of tables, the same in the terminal, reports and messages."""

from collections.abc import Mapping

Line = Mapping[str, str | int]
"""A line of a table: its cells by their columns."""


def percent(share: float) -> str:
    """A share to a tenth of a percent.

    >>> percent(0.9954)
    '99.5%'
    """
    return f"{100 * share:.1f}%"


def count(number: float) -> str:
    """A number in three digits and a letter.

    >>> count(950), count(16_100_000)
    ('950', '16.1M')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def number(amount: int, thing: str) -> str:
    """So many of a thing.

    >>> number(1, "file"), number(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{amount:,} {thing}{'' if amount == 1 else 's'}"
