"""Numbers of scored and of distinct tokens in rows that aren't built, estimated from the corpus."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from curriculum.mixing.repetition import ReadTokens, TokenCount
from curriculum.mixing.strata import Taken
from curriculum.supply import SupplyLine

Place = tuple[str, str]
"""A repository and a domain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimatedRows:
    """Rows that aren't built: the key that plans use for them, and their estimate."""

    key: str
    row_length: int
    lines: tuple[SupplyLine, ...]
    """Lines of the estimate, by repository and domain; lines with totals (ALL) are left out."""


class EstimatedTokens:
    """Estimate of the scored and distinct tokens in any selection of rows that plans make.

    All families, objectives and row lengths are assumed to show the same text of a repository and domain. Its
    amount is the maximum of their estimates. Rows of a serving are assumed to show a random part of this
    text.
    """

    def __init__(self, rows: Iterable[EstimatedRows], built: ReadTokens) -> None:
        self._built = built
        self._lanes: dict[tuple[str, str], tuple[SupplyLine, ...]] = {}
        self._rows: dict[tuple[str, str], int] = {}
        self._text: defaultdict[Place, float] = defaultdict(float)
        for row in rows:
            for domain in {line.domain for line in row.lines}:
                own = tuple(line for line in row.lines if line.domain == domain)
                tokens = round(sum(line.tokens for line in own))
                self._lanes[row.key, domain] = own
                self._rows[row.key, domain] = max(1, -(-tokens // row.row_length))
            for line in row.lines:
                place = (line.repository, line.domain)
                self._text[place] = max(self._text[place], line.distinct)

    def count(self, taken: Taken) -> TokenCount:
        """Return the token counts for rows, given how many rows of each artefact and domain are taken."""
        scored, unseen = 0.0, dict.fromkeys(self._text, 1.0)
        for lane, lines in self._lanes.items():
            passes = taken.get(lane, 0) / self._rows[lane]
            for line in lines:
                place = (line.repository, line.domain)
                scored += passes * line.scored
                if line.distinct:
                    unseen[place] *= 1 - min(1.0, passes) * line.distinct / self._text[place]
        distinct = sum(text * (1 - unseen[place]) for place, text in self._text.items())
        built = self._built.count(taken)
        return TokenCount(
            scored=round(scored) + built.scored, distinct=max(round(distinct), built.distinct)
        )
