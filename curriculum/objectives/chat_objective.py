"""chat: scores the assistant's turns and the tokens that end these turns.

Other turns, and assistant turns that serve only as context, are not scored.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.objectives.causal import overlaps, scored_where
from curriculum.objectives.objective import DocumentFacts, Objective, Result
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import Encoding, byte_ranges
from curriculum.tokens.turns import TurnFormat, turn_format

Bools = npt.NDArray[np.bool_]


def objective(tokenizer: Tokenizer, variant: int) -> Objective:
    """Return the chat objective, which is the same for all variants."""
    return _Chat(
        token_bytes=tokenizer.token_bytes,
        special=tokenizer.special,
        format=turn_format(tokenizer),
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Chat:
    token_bytes: npt.NDArray[np.int32]
    special: Bools
    format: TurnFormat
    reserve: int = 0

    def apply(self, encoding: Encoding, document: DocumentFacts) -> Result:
        """Score the tokens of the assistant's turns, except context, and the tokens that end these turns.

        End tokens have no bytes, so the scored bytes are exactly the assistant's.
        """
        starts, ends = byte_ranges(encoding.ids, encoding.pieces, self.token_bytes)
        is_text = ends > starts
        said = overlaps(starts, ends, document.parts("assistant"))
        context = said & overlaps(starts, ends, document.spans.of("unscored"))
        said &= ~context
        ended = self._ended(encoding.ids, is_text)
        scored = said.copy()
        for last, end in ended:
            scored[last + 1 : end + 1] = said[last]
        turns = int((is_text[1:] & ~is_text[:-1]).sum())
        unscored = int((ends - starts)[context].sum())
        counts = (
            ("assistant_bytes", int((ends - starts)[said].sum())),
            *((("context_bytes", unscored),) if unscored else ()),
            *self._counts(turns, len(ended)),
        )
        return Result(encoding=scored_where(scored, encoding), counts=counts)

    def _ended(self, ids: npt.NDArray[np.int32], is_text: Bools) -> list[tuple[int, int]]:
        """Return pairs of indices: the last token of a turn's text, and the token that ends the turn.

        No other control token is between the two.
        """
        if self.format.ender is None:
            return self._ended_by_text(ids, is_text)
        controls = np.flatnonzero(self.special[ids] & ~is_text)
        texts = np.flatnonzero(is_text)
        before = np.searchsorted(texts, controls) - 1
        last = (
            np.where(before >= 0, texts[before], -1) if len(texts) else np.full(len(controls), -1)
        )
        first = np.concatenate(([True], last[1:] != last[:-1]))[: len(controls)]
        found = first & (last >= 0) & (ids[controls] == self.format.ender)
        return [*zip(last[found].tolist(), controls[found].tolist(), strict=True)]

    def _ended_by_text(self, ids: npt.NDArray[np.int32], is_text: Bools) -> list[tuple[int, int]]:
        """Return pairs of indices: the last token of a turn's text, and that of the text that ends it."""
        ending, size = self.format.ending, len(self.format.ending)
        lasts = np.flatnonzero(is_text & ~np.append(is_text[1:], False)) if size else ()
        return [
            (last, last + size)
            for last in map(int, lasts)
            if np.array_equal(ids[last + 1 : last + 1 + size], ending)
        ]

    def _counts(self, turns: int, ended: int) -> tuple[tuple[str, int], ...]:
        """Return the number of turns and of turns with an end, under names that tell how turns are marked."""
        if self.format.style == "template":
            return ("turns_by_template", turns), ("turns_ended_by_template", ended)
        return (
            (f"turns_with_role_{self.format.style}", turns),
            ("turns_ended_by_eos" if self.format.ends_by_eos else "turns_ended_by_token", ended),
        )
