"""Yields of packed rows, beside those of other ways to pack the same documents, and why they aren't full."""

from collections.abc import Mapping
from dataclasses import dataclass

from curriculum.inspection.formats import percent
from schemas.reports import RowsReport

OTHER_YIELDS = ("lower bound", "first fit in order", "padded", "if mixed")
FULL = 0.95
"""Yield from which on nothing is said of the causes."""
MIN_NAMED = 0.005
"""Share of the positions from which on a reason is named."""
MANY = 10
"""Documents a row from which on their lengths leave no gaps that matter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowYields:
    """Shares of positions that hold a token, 0…1, each domain in rows of its own but where said otherwise."""

    packed: float
    """The yield of the rows as they are."""
    lower_bound: float
    """The yield of ⌈tokens ÷ T⌉ rows, which no packing of whole documents exceeds."""
    first_fit: float | None
    """The yield of first fit, in the order of the documents; None where it wasn't tried."""
    padded: float | None
    """The yield of one document a row; None where that isn't known."""
    mixed: float | None
    """The yield of rows that domains share; None where that isn't known."""
    documents_per_row: float

    @staticmethod
    def of(report: RowsReport, row_length: int) -> "RowYields | None":
        """Return the yields of a data set; None where it has no row."""
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
        """The other yields by their names; empty where one isn't known."""
        values = (self.lower_bound, self.first_fit, self.padded, self.mixed)
        words = ("" if value is None else percent(value) for value in values)
        return dict(zip(OTHER_YIELDS, words, strict=True))

    @property
    def comparison(self) -> str:
        """The yield beside the others, as a list of words."""
        own = {"yield": percent(self.packed), **self.others}
        return ", ".join(f"{name} {value}" for name, value in own.items() if value)

    @property
    def words(self) -> str:
        """The comparison, and the causes where there are any."""
        return f"{self.comparison}. {self.causes}".rstrip()

    @property
    def causes(self) -> str:
        """The causes why rows aren't full, as a sentence; empty where they are, or nothing explains it."""
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
    """Return the yield of several domains together, by their tokens; None where one isn't known."""
    if not all(share for _, share in parts):
        return None
    return sum(tokens for tokens, _ in parts) / sum(tokens / share for tokens, share in parts)
