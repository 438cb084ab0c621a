"""causal: every next token counts, except what the input has trivially leaked. target: of targets only.

Documents of graphs end with their targets, behind the context that they are among. So a model has read all
of it before the first token that `target` scores.

loss_mask[t] speaks of the target ids[t + 1], so a target that must not count clears the mask before it.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from curriculum.objectives.objective import DocumentFacts, Objective, Result
from curriculum.packing.repeats import in_repeats
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import KIND, TOKEN_END, TOKEN_START, Encoding, byte_ranges
from schemas.document import UNSCORED_KINDS
from schemas.packed_row import GENERATED_PIECE


def objective(tokenizer: Tokenizer, variant: int) -> Objective:
    """Causal; all variants are one."""
    return _Causal(token_bytes=tokenizer.token_bytes, targets_alone=False)


def target(tokenizer: Tokenizer, variant: int) -> Objective:
    """Target; all variants are one."""
    return _Causal(token_bytes=tokenizer.token_bytes, targets_alone=True)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Causal:
    token_bytes: npt.NDArray[np.int32]
    targets_alone: bool
    reserve: int = 0

    def apply(self, encoding: Encoding, document: DocumentFacts) -> Result:
        """Score what causal scores, or of it the tokens of targets and the EOS behind; nothing moves."""
        done = apply(encoding, document.spans.of(*UNSCORED_KINDS), self.token_bytes)
        if self.targets_alone:
            done = within_targets(done, document, self.token_bytes)
        return Result(encoding=done)


def scored_where(scored: npt.NDArray[np.bool_], encoding: Encoding) -> Encoding:
    """Return the encoding with those of its targets that are `scored` [n], each by its own place."""
    mask = encoding.loss_mask.copy()
    mask[:-1] &= scored[1:]
    return replace(encoding, loss_mask=mask)


def within_targets(
    encoding: Encoding, document: DocumentFacts, token_bytes: npt.NDArray[np.int32]
) -> Encoding:
    """The encoding with those of its scored tokens that lie in targets, and the EOS behind them."""
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, token_bytes)
    inside = overlaps(starts, ends, document.parts("target"))
    if inside.any() and encoding.pieces[-1, KIND] == GENERATED_PIECE:
        inside[-1] = True
    return scored_where(inside, encoding)


def apply(
    encoding: Encoding,
    unscored: npt.NDArray[np.int32],
    token_bytes: npt.NDArray[np.int32],
) -> Encoding:
    """The encoding, scored where its targets are worth learning.

    A target isn't scored if any of its bytes lie in an `unscored` span ([r, 2] bytes, sorted, disjoint): a
    copy of text that stands already in the input, or generated metadata. It goes by position, so an equal
    line elsewhere stays scored. An elision line isn't scored either: what it stands for was
    chosen by the row length, not by a programmer. EOS is scored; BOS is never a target.

    >>> encoding = Encoding(
    ...     document_id="d", ids=np.array([0, 2, 3, 4, 1], dtype=np.int32),
    ...     loss_mask=np.array([1, 1, 1, 1, 0], dtype=np.uint8),
    ...     pieces=np.array([[1, 0, 1, 0, 0], [0, 1, 4, 0, 6], [1, 4, 5, 6, 6]], dtype=np.int32))
    >>> token_bytes = np.array([0, 0, 1, 2, 3], dtype=np.int32)  # text tokens: [0, 1) [1, 3) [3, 6)
    >>> apply(encoding, np.array([[2, 3]], dtype=np.int32), token_bytes).loss_mask.tolist()
    [1, 0, 1, 1, 0]
    """
    # Tokens that were inserted and yet spell text are elision lines; control tokens spell none.
    lengths = encoding.pieces[:, TOKEN_END] - encoding.pieces[:, TOKEN_START]
    is_inserted = np.repeat(encoding.pieces[:, KIND] == GENERATED_PIECE, lengths)
    scored: npt.NDArray[np.bool_] = ~(is_inserted & (token_bytes[encoding.ids] > 0))
    if len(unscored):
        starts, ends = byte_ranges(encoding.ids, encoding.pieces, token_bytes)
        scored &= ~overlaps(starts, ends, unscored)
    return encoding if scored.all() else scored_where(scored, encoding)


def unrepeated(encoding: Encoding) -> tuple[Encoding, int]:
    """The encoding without targets in runs of tokens that it has before, and how many those were.

    A run has `repeats.RUN` tokens. In whatever order an encoding has its text, what comes first is read
    first: a copy of it is not worth learning. Some 10 Mtok/s.
    """
    repeated = in_repeats(encoding.ids)
    cleared = int((repeated[1:] & (encoding.loss_mask[:-1] == 1)).sum())
    return scored_where(~repeated, encoding) if cleared else encoding, cleared


def overlaps(
    starts: npt.NDArray[np.int32], ends: npt.NDArray[np.int32], spans: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Flag byte ranges that share a byte with a span ([r, 2], sorted, disjoint); empty ones don't.

    >>> starts, ends = np.array([0, 2, 4, 5, 9]), np.array([2, 4, 5, 9, 9])
    >>> overlaps(starts, ends, np.array([[1, 2], [5, 9]])).tolist()
    [True, False, False, True, False]
    """
    starts_before = np.searchsorted(spans[:, 0], ends, side="left")
    over = np.searchsorted(spans[:, 1], starts, side="right")
    return (starts_before > over) & (ends > starts)
