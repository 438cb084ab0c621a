"""doc_to_code, code_to_doc: from what is said of a function to what it does, and back.

    doc_to_code   a comment, then the body that it is about, which is the target
    code_to_doc   the code, then the comment that stood above it, which is the target

In the first, lines of the comment that give the body away are masked from the input. In the second, a
comment moves to the line below its code; what is declared without a body, too, has it below. Nothing else
is scored, and nothing that stands earlier in the document.
"""

from dataclasses import dataclass, replace

import numpy as np

from curriculum.objectives import causal
from curriculum.objectives.documented import (
    BODY,
    END,
    LAST,
    START,
    Int32s,
    Lines,
    documented,
)
from curriculum.objectives.given_away import given_away
from curriculum.objectives.lesson import Document, Lesson, Taught
from curriculum.objectives.rearrange import Segment, rearranged
from curriculum.repeats import in_repeats
from curriculum.tokens import BYTE_END, BYTE_START, Encoding, byte_ranges
from curriculum.tokens.codec import Tokenizer

REVISION = 1
RESERVE = 16
"""Tokens for what text cut inside a token takes more than before: one or two for each comment that moves."""

Counts = tuple[tuple[str, int], ...]


def doc_to_code(tokenizer: Tokenizer, variant: int) -> Lesson:
    """Documentation is read and bodies are learnt; all variants are one."""
    return _DocToCode(tokenizer=tokenizer)


def code_to_doc(tokenizer: Tokenizer, variant: int) -> Lesson:
    """Code is read and its documentation is learnt; all variants are one."""
    return _CodeToDoc(tokenizer=tokenizer)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _DocToCode:
    tokenizer: Tokenizer
    reserve: int = 0

    def teach(self, encoding: Encoding, document: Document) -> Taught:
        """The bodies below comments that the encoding has whole are scored, as far as it has them."""
        found = _within(encoding, documented(document))
        found = found[found[:, BODY] < found[:, LAST]]
        if not len(found):
            return _untaught(encoding)
        lines = Lines.of(encoding, self.tokenizer)
        found = found[lines.has(found[:, START], found[:, BODY] + 1)]
        found[:, LAST] = np.minimum(found[:, LAST], lines.piece_of(found[:, BODY])[1])
        masked, wordless = given_away(lines, found)
        order = _without(masked, int(document.part_bytes[-1]))
        done = rearranged(encoding, order, document.part_bytes, self.tokenizer)
        if len(done.encoding.ids) > document.room:
            return _untaught(encoding, ("no_room", 1))
        learnt = found[~wordless]
        counts = (
            ("bodies", len(learnt)),
            ("given_away", int(wordless.sum())),
            ("masked_bytes", done.masked_bytes),
        )
        targets = learnt[:, (BODY, LAST)]
        return _taught(done.encoding, targets, document, self.tokenizer, counts)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _CodeToDoc:
    tokenizer: Tokenizer
    reserve: int = RESERVE

    def teach(self, encoding: Encoding, document: Document) -> Taught:
        """Comments of which the encoding has all lines, and all of their code, move and are scored.

        Where there isn't room for all that moving takes, the first ones.
        """
        found = _within(encoding, documented(document))
        if not len(found):
            return _untaught(encoding)
        lines = Lines.of(encoding, self.tokenizer)
        moves = _moves(lines, found)
        while True:
            order = _below(moves, int(document.part_bytes[-1]))
            done = rearranged(encoding, order, document.part_bytes, self.tokenizer).encoding
            if len(done.ids) <= document.room:
                break
            moves = moves[: len(moves) // 2]
        here = int(lines.has(found[:, START], found[:, START] + 1).sum())
        counts = (("comments", len(moves)), ("comments_left", here - len(moves)))
        return _taught(done, moves[:, :2], document, self.tokenizer, counts)


def _within(encoding: Encoding, found: Int32s) -> Int32s:
    """What is documented between the first byte that an encoding has and the last."""
    first, last = encoding.pieces[0, BYTE_START], encoding.pieces[-1, BYTE_END]
    within: Int32s = found[(found[:, START] >= first) & (found[:, START] < last)]
    return within


def _untaught(encoding: Encoding, *counts: tuple[str, int]) -> Taught:
    """There is nothing to learn; rows leave it out."""
    mask = np.zeros_like(encoding.loss_mask)
    return Taught(encoding=replace(encoding, loss_mask=mask), counts=counts)


def _moves(lines: Lines, found: Int32s) -> Int32s:
    """[m, 3]: the lines of each comment, start and end, and where the line below its code begins."""
    low, high = lines.starts_of(found[:, START]), lines.ends_of(found[:, END] - 1)
    below = lines.ends_of(found[:, LAST] - 1)
    moves = np.column_stack((low, high, below))[lines.has(low, below)]
    following = np.append(moves[1:, 0], np.iinfo(np.int32).max)
    clear: Int32s = moves[moves[:, 2] <= following]
    return clear


def _below(moves: Int32s, size: int) -> list[Segment]:
    """The text with each comment moved below its code.

    >>> [(each.start, each.end) for each in _below(np.array([[2, 4, 7]]), 9)]
    [(0, 2), (4, 7), (2, 4), (7, 9)]
    """
    order, done = [], 0
    for low, high, below in moves.tolist():
        order += [Segment(start=done, end=low), Segment(start=high, end=below)]
        order.append(Segment(start=low, end=high))
        done = below
    return [*order, Segment(start=done, end=size)]


def _without(masked: Int32s, size: int) -> list[Segment]:
    """The text without what is masked.

    >>> [(each.start, each.end) for each in _without(np.array([[2, 4], [6, 7]]), 9)]
    [(0, 2), (4, 6), (7, 9)]
    """
    starts, ends = [0, *masked[:, 1].tolist()], [*masked[:, 0].tolist(), size]
    return [Segment(start=low, end=high) for low, high in zip(starts, ends, strict=True)]


def _taught(
    encoding: Encoding, targets: Int32s, document: Document, tokenizer: Tokenizer, counts: Counts
) -> Taught:
    """Scored where tokens have a byte of the targets ([t, 2], sorted, disjoint) and repeat nothing."""
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    mask = np.zeros_like(encoding.loss_mask)
    mask[:-1] = causal.overlaps(starts, ends, targets)[1:]
    repeated = document.spans.of("repeated")
    scored = causal.apply(replace(encoding, loss_mask=mask), repeated, tokenizer.token_bytes)
    mask = scored.loss_mask.copy()
    mask[:-1] &= ~in_repeats(encoding.ids)[1:]
    cleared = int(scored.loss_mask.sum()) - int(mask.sum())
    counts = (*counts, ("repeated_tokens", cleared))
    return Taught(encoding=replace(encoding, loss_mask=mask), counts=counts)
