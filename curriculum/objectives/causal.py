"""causal: scores every next token, except copies of earlier text. target: scores only tokens of targets.

Documents of the graph families end with their targets, which follow the context. So the model has read the
whole context before the first token that `target` scores.

loss_mask[t] belongs to the target ids[t + 1]: to exclude a token as a target, clear the mask one position
before the token.
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
    """Return the causal objective, which is the same for all variants."""
    return _Causal(token_bytes=tokenizer.token_bytes, targets_alone=False)


def target(tokenizer: Tokenizer, variant: int) -> Objective:
    """Return the target objective, which is the same for all variants."""
    return _Causal(token_bytes=tokenizer.token_bytes, targets_alone=True)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Causal:
    token_bytes: npt.NDArray[np.int32]
    targets_alone: bool
    reserve: int = 0

    def apply(self, encoding: Encoding, document: DocumentFacts) -> Result:
        """Return the encoding with the targets of `causal`; no token moves.

        With `targets_alone`, only tokens of target parts and the EOS after them stay targets.
        """
        done = apply(encoding, document.spans.of(*UNSCORED_KINDS), self.token_bytes)
        if self.targets_alone:
            done = within_targets(done, document, self.token_bytes)
        return Result(encoding=done)


def scored_where(scored: npt.NDArray[np.bool_], encoding: Encoding) -> Encoding:
    """Return the encoding with only those targets that are True in `scored`, [n].

    `scored` has the target token's own position, and not that of the token before it.
    """
    mask = encoding.loss_mask.copy()
    mask[:-1] &= scored[1:]
    return replace(encoding, loss_mask=mask)


def within_targets(
    encoding: Encoding, document: DocumentFacts, token_bytes: npt.NDArray[np.int32]
) -> Encoding:
    """Return the encoding with only those targets that are in target parts, or are the EOS after them."""
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
    """Return the encoding with the targets of the causal objective.

    A token is not a target if any of its bytes are in an `unscored` span ([r, 2] bytes, sorted, disjoint): a
    copy of text that is already in the input, or generated metadata. Only the position counts, so an equal
    line elsewhere stays scored. Elision lines aren't scored either, since they depend on the row length. EOS
    is scored; BOS is never a target.

    >>> encoding = Encoding(
    ...     document_id="d", ids=np.array([0, 2, 3, 4, 1], dtype=np.int32),
    ...     loss_mask=np.array([1, 1, 1, 1, 0], dtype=np.uint8),
    ...     pieces=np.array([[1, 0, 1, 0, 0], [0, 1, 4, 0, 6], [1, 4, 5, 6, 6]], dtype=np.int32))
    >>> token_bytes = np.array([0, 0, 1, 2, 3], dtype=np.int32)  # text tokens: [0, 1) [1, 3) [3, 6)
    >>> apply(encoding, np.array([[2, 3]], dtype=np.int32), token_bytes).loss_mask.tolist()
    [1, 0, 1, 1, 0]
    """
    # Inserted tokens with text are elision lines; control tokens have no text.
    lengths = encoding.pieces[:, TOKEN_END] - encoding.pieces[:, TOKEN_START]
    is_inserted = np.repeat(encoding.pieces[:, KIND] == GENERATED_PIECE, lengths)
    scored: npt.NDArray[np.bool_] = ~(is_inserted & (token_bytes[encoding.ids] > 0))
    if len(unscored):
        starts, ends = byte_ranges(encoding.ids, encoding.pieces, token_bytes)
        scored &= ~overlaps(starts, ends, unscored)
    return encoding if scored.all() else scored_where(scored, encoding)


def drop_repeated_targets(encoding: Encoding) -> tuple[Encoding, int]:
    """Return the encoding without targets in repeated runs, and the number of removed targets.

    A run consists of `repeats.RUN` tokens that also occur earlier in the encoding, in the encoding's own
    order, so that a model could copy them. Speed: some 10 Mtok/s.
    """
    repeated = in_repeats(encoding.ids)
    cleared = int((repeated[1:] & (encoding.loss_mask[:-1] == 1)).sum())
    return scored_where(~repeated, encoding) if cleared else encoding, cleared


def overlaps(
    starts: npt.NDArray[np.int32], ends: npt.NDArray[np.int32], spans: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Return a flag for each byte range [starts, ends): True if it isn't empty and overlaps one of the spans.

    `spans` is [r, 2], sorted and disjoint.

    >>> starts, ends = np.array([0, 2, 4, 5, 9]), np.array([2, 4, 5, 9, 9])
    >>> overlaps(starts, ends, np.array([[1, 2], [5, 9]])).tolist()
    [True, False, False, True, False]
    """
    starts_before = np.searchsorted(spans[:, 0], ends, side="left")
    over = np.searchsorted(spans[:, 1], starts, side="right")
    return (starts_before > over) & (ends > starts)
