"""Yields of packed rows, compared with other packings of the same documents, and causes of low yields."""

from collections.abc import Mapping
from dataclasses import dataclass

from curriculum.inspection.formats import percent
from schemas.reports import RowsReport

OTHER_YIELDS = ("lower bound", "first fit in order", "padded", "if mixed")
FULL = 0.95
"""Causes are only listed for yields below this."""
MIN_NAMED = 0.005
"""A cause is only named if it accounts for more than this share of the positions."""
MANY = 10
"""If a row has more documents than this on average, the gaps that their lengths leave don't matter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowYields:
    """Yields (tokens ÷ positions, 0…1) of several ways to pack the same documents.

    Every packing except `mixed` packs each domain into separate rows.
    """

    packed: float
    """Yield of the actual rows."""
    lower_bound: float
    """Yield of ⌈tokens ÷ T⌉ rows, the smallest number in which whole documents could fit."""
    first_fit: float | None
    """Yield of first-fit packing in document order; None if it wasn't computed."""
    padded: float | None
    """Yield with one document per row; None if unknown."""
    mixed: float | None
    """Yield if domains shared rows; None if unknown."""
    documents_per_row: float

    @staticmethod
    def of(report: RowsReport, row_length: int) -> "RowYields | None":
        """Return the yields of a data set, or None if it has no rows."""
        domains = report.domains.values()
        rows, tokens, documents = (
            sum(getattr(domain, name) for domain in domains)
            for name in ("rows", "tokens", "documents")
        )
        if not rows:
            return None
        return RowYields(
            packed=tokens / (rows * row_length),
            lower_bound=tokens / (-(-tokens // row_length) * row_length),
            first_fit=_mean([(domain.tokens, domain.first_fit_yield) for domain in domains]),
            padded=_mean([(domain.tokens, domain.padded_yield) for domain in domains]),
            mixed=tokens / (report.rows_if_mixed * row_length) if report.rows_if_mixed else None,
            documents_per_row=documents / rows,
        )

    @property
    def others(self) -> Mapping[str, str]:
        """Yields of the other packings as text, by name; empty if unknown."""
        values = (self.lower_bound, self.first_fit, self.padded, self.mixed)
        words = ("" if value is None else percent(value) for value in values)
        return dict(zip(OTHER_YIELDS, words, strict=True))

    @property
    def comparison(self) -> str:
        """Text that compares the yield of the rows with those of the other packings."""
        own = {"yield": percent(self.packed), **self.others}
        return ", ".join(f"{name} {value}" for name, value in own.items() if value)

    @property
    def words(self) -> str:
        """The comparison, followed by the causes of a low yield if there are any."""
        return f"{self.comparison}. {self.causes}".rstrip()

    @property
    def causes(self) -> str:
        """Sentence with the causes of a low yield; empty if the yield is high or no cause is known."""
        if self.packed >= FULL:
            return ""
        apart = (self.mixed or self.packed) - self.packed
        apart = apart if apart >= MIN_NAMED else 0.0
        parts = []
        if apart:
            parts.append(f"{percent(apart)} since each domain is packed into rows of its own")
        if self.documents_per_row < MANY:
            parts.append(
                f"{percent(1 - self.packed - apart)} since documents nearly fill rows "
                f"({self.documents_per_row:.1f} documents a row)"
            )
        empty = f"{percent(1 - self.packed)} of the positions hold no token"
        return f"{empty}: {', '.join(parts)}." if parts else ""


def _mean(parts: list[tuple[int, float]]) -> float | None:
    """Return the joint yield of several domains, given pairs of tokens and yield; None if one is unknown."""
    if not all(share for _, share in parts):
        return None
    return sum(tokens for tokens, _ in parts) / sum(tokens / share for tokens, share in parts)
