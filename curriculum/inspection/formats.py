"""Formats of numbers, times and rows of tables, shared by the terminal, pages and messages."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from schemas.held_out import MIN_DOCUMENTS, MIN_LINEAGES, HeldOutCount
from schemas.visible import shortened

if TYPE_CHECKING:
    # The import loads pyarrow, which --help doesn't need.
    from curriculum.train.document_sums import PairedChange
    from schemas.diet import AdvanceWhen

Line = Mapping[str, str | int]
"""A row of a table: its cells by column."""


def percent(share: float) -> str:
    """Format a share as a percentage with one decimal place.

    >>> percent(0.9954)
    '99.5%'
    """
    return f"{100 * share:.1f}%"


def count(number: float) -> str:
    """Format a number with three digits and a letter for the power of ten.

    >>> count(950), count(16_100_000), count(2e20)
    ('950', '16.1M', '2e+20')
    """
    if number >= 0.9995e15:
        return f"{number:.3g}"
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def integer(amount: float) -> str:
    """Format a number as an integer with thousands separators.

    >>> integer(1200), integer(2209.7)
    ('1,200', '2,210')
    """
    return f"{round(amount):,}"


def money(amount: float) -> str:
    """Format an amount of money; small amounts have two significant digits.

    >>> money(1120), money(0.5), money(0.00123)
    ('1,120.00', '0.50', '0.0012')
    """
    return f"{amount:,.2f}" if amount >= 0.1 or amount == 0 else f"{amount:.2g}"


MAX_NAMED = 5
"""Maximum number of names to list in a message."""
MAX_NAME = 100
"""Maximum number of characters to show of each listed name."""


def first_names(names: Sequence[str], most: int = MAX_NAMED) -> str:
    """Return a text with the first names, and the number of the others.

    >>> first_names(["a", "b", "c"], 2), first_names(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    listed = ", ".join(shortened(name, MAX_NAME) for name in names[:most])
    more = len(names) - most
    return f"{listed} and {more:,} more" if more > 0 else listed


def number(amount: int, thing: str) -> str:
    """Return a number with a noun, in the singular or plural.

    >>> number(1, "file"), number(1200, "file"), number(2, "repository")
    ('1 file', '1,200 files', '2 repositories')
    """
    many = f"{thing.removesuffix('y')}ies" if thing.endswith("ry") else f"{thing}s"
    return f"{amount:,} {thing if amount == 1 else many}"


def duration(seconds: float) -> str:
    """Format a duration in its two largest units.

    >>> duration(4.2), duration(52), duration(200), duration(4_320), duration(273_600)
    ('4.2 s', '52 s', '3 min 20 s', '1 h 12 min', '3 d 4 h')
    >>> duration(0.0412), duration(0)
    ('41 ms', '0 s')
    """
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    units: list[str] = []
    rest = round(seconds)
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        amount, rest = divmod(rest, size)
        if amount or units:
            units.append(f"{amount} {name}" if amount else "")
    return " ".join(filter(None, units[:2]))


def family_title(labels: Mapping[str, str]) -> str:
    """Return the family of documents or rows; for a family that adds structure, also its base.

    >>> family_title({"family": "v6_enriched", "base": "v3_simple"})
    'v6_enriched of v3_simple'
    """
    return f"{labels['family']} of {labels['base']}" if "base" in labels else labels["family"]


MINUS = "\N{MINUS SIGN}"


def gpu_hours(seconds: float) -> str:
    """Format seconds of GPU time as GPU hours.

    >>> gpu_hours(1_612_800), gpu_hours(5_000), gpu_hours(1_280_000_000)
    ('448 GPU hours', '1.4 GPU hours', '355,556 GPU hours')
    """
    hours = seconds / 3_600
    return f"{hours:,.0f} GPU hours" if hours >= 10 else f"{hours:.2g} GPU hours"


def moment(iso: str) -> str:
    """Format an ISO time to the minute, in UTC.

    >>> moment("2026-11-21T13:50:17+00:00")
    '21 Nov 2026, 13:50'
    """
    then = datetime.datetime.fromisoformat(iso).astimezone(datetime.UTC)
    return f"{then.day} {then:%b %Y, %H:%M}"


def day(timestamp: int) -> str:
    """Format the day of a Unix timestamp, in UTC.

    >>> day(1_700_000_000)
    '14 Nov 2023'
    """
    then = datetime.datetime.fromtimestamp(timestamp, datetime.UTC)
    return f"{then.day} {then:%b %Y}"


def bits(figure: float) -> str:
    """Format a figure in bits per byte.

    >>> bits(1.8071)
    '1.807'
    """
    return f"{figure:.3f}"


TOO_FEW = "too few to tell"
"""Text in place of an interval, for a figure that has too few documents or lineages."""


def interval(low: float, high: float, *, is_sure: bool) -> str:
    """Format the 95 % interval of a figure in bits per byte, if the figure has enough documents.

    >>> interval(1.75, 1.812, is_sure=True), interval(1.75, 1.76, is_sure=False)
    ('1.750 to 1.812', 'too few to tell')
    """
    return f"{bits(low)} to {bits(high)}" if is_sure else TOO_FEW


def held_out_words(count: HeldOutCount) -> str:
    """Return a text with the number of documents and lineages behind a figure.

    If unequal weights make the figure unsure, the effective numbers follow.

    held_out_words(count) ->
    '21 documents of 10 lineages (by weight 4.0 of 1.0)'
    """
    words = f"{number(count.documents, 'document')} of {number(count.lineages, 'lineage')}"
    if count.is_sure or count.documents < MIN_DOCUMENTS or count.lineages < MIN_LINEAGES:
        return words
    return f"{words} (by weight {count.effective_documents:.1f} of {count.effective_lineages:.1f})"


def alike(lines: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return one line for each text, with all phases that have this text.

    Phases whose text is None are skipped.

    >>> alike([("syntax", "too few"), ("file_graph", None), ("anneal", "too few")])
    ['syntax, anneal: too few']
    """
    named: dict[str, list[str]] = {}
    for phase, words in lines:
        if words is not None:
            named.setdefault(words, []).append(phase)
    return [f"{', '.join(phases)}: {words}" for words, phases in named.items()]


def difference(by: float) -> str:
    """Format the change of a figure, with its sign.

    >>> difference(-0.1179), difference(0.0021), difference(-0.0001)
    ('−0.118', '+0.002', '±0.000')
    """
    said = f"{abs(by):.3f}"
    if float(said) == 0:
        return f"±{said}"
    return f"{MINUS if by < 0 else '+'}{said}"


def paired(change: "PairedChange") -> str:
    """Format a change on the same documents, with its interval if there are enough documents.

    paired(change) ->
    '−0.118 (−0.130 to −0.104)'
    """
    said = difference(change.change)
    if not change.count.is_sure:
        return f"{said} ({TOO_FEW})"
    return f"{said} ({difference(change.low)} to {difference(change.high)})"


def rule(gate: "AdvanceWhen | None") -> str:
    """Return the condition of a gate as a sentence; empty if there is no gate.

    rule(gate) ->
    'val_bpb gains less than 0.002 over 3 evaluations, after 1G tokens'
    """
    if gate is None or (gate.val_bpb is None and gate.min_tokens is None):
        return ""
    after = f"after {count(gate.min_tokens)} tokens" if gate.min_tokens else ""
    if gate.val_bpb is None:
        return after
    by, over = gate.val_bpb.stops_improving_by, gate.val_bpb.over_evaluations
    said = f"{gate.val_bpb.what} gains less than {by:g} over {number(over, 'evaluation')}"
    return f"{said}, {after}" if after else said
