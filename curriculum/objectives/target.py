"""target: what a commit changed, behind the context that it is among, which is read and never scored.

Documents of graphs end with their targets, so a model has all of the context before the first of them.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from curriculum.objectives import causal
from curriculum.objectives.objective import Document, Objective, Result
from curriculum.tokens import KIND, Encoding, byte_ranges
from curriculum.tokens.codec import Tokenizer
from schemas.packed_row import GENERATED_PIECE


def objective(tokenizer: Tokenizer, variant: int) -> Objective:
    """Target; all variants are one."""
    return _Target(token_bytes=tokenizer.token_bytes)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Target:
    token_bytes: npt.NDArray[np.int32]
    reserve: int = 0

    def apply(self, encoding: Encoding, document: Document) -> Result:
        """Score the tokens of targets that causal scores, and the EOS behind the last; nothing moves."""
        starts, ends = byte_ranges(encoding.ids, encoding.pieces, self.token_bytes)
        scored = causal.overlaps(starts, ends, document.parts("target"))
        if scored.any() and encoding.pieces[-1, KIND] == GENERATED_PIECE:
            scored[-1] = True
        done = causal.apply(encoding, document.spans.of("repeated"), self.token_bytes)
        mask = done.loss_mask.copy()
        mask[:-1] &= scored[1:]
        return Result(encoding=replace(done, loss_mask=mask))
