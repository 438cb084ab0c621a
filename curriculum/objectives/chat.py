"""chat: what the assistant says, and that it ends there; what others say is read and never scored."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from curriculum.objectives.causal import overlaps
from curriculum.objectives.objective import Document, Objective, Result
from curriculum.tokens import Encoding, byte_ranges
from curriculum.tokens.codec import Tokenizer, TurnMarks, turn_marks


def objective(tokenizer: Tokenizer, variant: int) -> Objective:
    """Chat; all variants are one."""
    return _Chat(token_bytes=tokenizer.token_bytes, marks=turn_marks(tokenizer))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Chat:
    token_bytes: npt.NDArray[np.int32]
    marks: TurnMarks
    reserve: int = 0

    def apply(self, encoding: Encoding, document: Document) -> Result:
        """Scored are the tokens of the assistant's turns and the control token that ends each of them.

        That token has no bytes, so the scored bytes are the assistant's, all of them and no others.
        """
        starts, ends = byte_ranges(encoding.ids, encoding.pieces, self.token_bytes)
        said = overlaps(starts, ends, document.parts("assistant"))
        is_end = np.isin(encoding.ids, self.marks.end) & (ends == starts)
        scored = said.copy()
        scored[1:] |= is_end[1:] & said[:-1]
        mask = np.zeros_like(encoding.loss_mask)
        mask[:-1] = scored[1:]
        counts = (
            ("assistant_bytes", int((ends - starts)[said].sum())),
            *self._turns(encoding, starts, ends),
        )
        return Result(encoding=replace(encoding, loss_mask=mask), counts=counts)

    def _turns(
        self, encoding: Encoding, starts: npt.NDArray[np.int32], ends: npt.NDArray[np.int32]
    ) -> tuple[tuple[str, int], ...]:
        """Count the turns, and pieces of turns, by the way in which they are marked."""
        is_text = ends > starts
        count = int((is_text[1:] & ~is_text[:-1]).sum())
        ended = int((~is_text[1:] & is_text[:-1] & np.isin(encoding.ids[1:], self.marks.end)).sum())
        return (
            ("turns_with_role_tokens" if self.marks.by_tokens else "turns_with_role_lines", count),
            ("turns_ended_by_eos" if self.marks.ends_by_eos else "turns_ended_by_token", ended),
        )
