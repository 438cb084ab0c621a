"""doc_to_code, code_to_doc: from what is said of a function to what it does, and back.

    doc_to_code   a comment, then the body that it is about, which is the target
    code_to_doc   the code, then the comment that stood above it, which is the target

In the first, lines of the comment that give the body away are masked from the input. In the second, a
comment moves to the line below its code; what is declared without a body, too, has it below; lines of it
that its code gives away aren't scored. Nothing else is scored, and nothing that stands earlier in the
document.
"""

from dataclasses import dataclass, replace

import numpy as np

from curriculum.objectives import causal
from curriculum.objectives.documented import (
    BODY,
    CODE,
    END,
    LAST,
    START,
    Int32s,
    Lines,
    copied_spans,
    documented,
)
from curriculum.objectives.objective import Document, Objective, Result
from curriculum.objectives.rearrange import Segment, rearranged, segments_without
from curriculum.tokens import BYTE_END, BYTE_START, Encoding, byte_ranges
from curriculum.tokens.codec import Tokenizer

RESERVE = 16
"""Tokens for what text cut inside a token takes more than before: one or two for each comment that moves."""

Counts = tuple[tuple[str, int], ...]
_NOTHING = np.empty((0, 2), dtype=np.int32)


def doc_to_code(tokenizer: Tokenizer, variant: int) -> Objective:
    """Documentation is read and bodies are learnt; all variants are one."""
    return _DocToCode(tokenizer=tokenizer)


def code_to_doc(tokenizer: Tokenizer, variant: int) -> Objective:
    """Code is read and its documentation is learnt; all variants are one."""
    return _CodeToDoc(tokenizer=tokenizer)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _DocToCode:
    tokenizer: Tokenizer
    reserve: int = 0

    def apply(self, encoding: Encoding, document: Document) -> Result:
        """The bodies below comments that the encoding has whole are scored, as far as it has them."""
        found = _within(encoding, documented(document))
        found = found[found[:, BODY] < found[:, LAST]]
        if not len(found):
            return _untaught(encoding)
        lines = Lines.of(encoding, self.tokenizer)
        found = found[lines.has(found[:, START], found[:, BODY] + 1)]
        found[:, LAST] = np.minimum(found[:, LAST], lines.piece_of(found[:, BODY])[1])
        changes = document.parts("changes")
        masked, wordless = copied_spans(
            lines, found[:, (START, END)], found[:, (BODY, LAST)], changes
        )
        order = segments_without(masked, 0, int(document.part_bytes[-1]))
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

    def apply(self, encoding: Encoding, document: Document) -> Result:
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
        copied, wordless = copied_spans(lines, moves[:, 3:5], moves[:, 5:], _NOTHING)
        here = int(lines.has(found[:, START], found[:, START] + 1).sum())
        counts = (
            ("comments", len(moves)),
            ("comments_left", here - len(moves)),
            ("given_away", int(wordless.sum())),
            ("copied_bytes", int((copied[:, 1] - copied[:, 0]).sum())),
        )
        targets = moves[~wordless][:, :2]
        return _taught(done, targets, document, self.tokenizer, counts, copied=copied)


def _within(encoding: Encoding, found: Int32s) -> Int32s:
    """Return the documentation between the first byte that an encoding has and the last."""
    first, last = encoding.pieces[0, BYTE_START], encoding.pieces[-1, BYTE_END]
    within: Int32s = found[(found[:, START] >= first) & (found[:, START] < last)]
    return within


def _untaught(encoding: Encoding, *counts: tuple[str, int]) -> Result:
    """Return the encoding without a target; rows leave it out."""
    mask = np.zeros_like(encoding.loss_mask)
    return Result(encoding=replace(encoding, loss_mask=mask), counts=counts)


def _moves(lines: Lines, found: Int32s) -> Int32s:
    """[m, 7]: the lines of each comment, start and end, and where the line below its code begins.

    Then the comment itself, start and end, and its code.
    """
    low, high = lines.starts_of(found[:, START]), lines.ends_of(found[:, END] - 1)
    below = lines.ends_of(found[:, LAST] - 1)
    moves = np.column_stack((low, high, below, found[:, (START, END, CODE, LAST)]))
    moves = moves[lines.has(low, below)]
    following = np.append(moves[1:, 0], np.iinfo(np.int32).max)
    clear: Int32s = moves[moves[:, 2] <= following]
    return clear


def _below(moves: Int32s, size: int) -> list[Segment]:
    """The text with each comment moved below its code.

    >>> [(each.start, each.end) for each in _below(np.array([[2, 4, 7]]), 9)]
    [(0, 2), (4, 7), (2, 4), (7, 9)]
    """
    order, done = [], 0
    for low, high, below in moves[:, :3].tolist():
        order += [Segment(start=done, end=low), Segment(start=high, end=below)]
        order.append(Segment(start=low, end=high))
        done = below
    return [*order, Segment(start=done, end=size)]


def _taught(
    encoding: Encoding,
    targets: Int32s,
    document: Document,
    tokenizer: Tokenizer,
    counts: Counts,
    *,
    copied: Int32s = _NOTHING,
) -> Result:
    """Scored where tokens have a byte of the targets, none that is copied, and repeat nothing.

    `targets` [t, 2] and `copied` [r, 2] are sorted and disjoint.
    """
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    scored = causal.overlaps(starts, ends, targets) & ~causal.overlaps(starts, ends, copied)
    mask = np.zeros_like(encoding.loss_mask)
    mask[:-1] = scored[1:]
    repeated = document.spans.of("repeated")
    done = causal.apply(replace(encoding, loss_mask=mask), repeated, tokenizer.token_bytes)
    done, cleared = causal.unrepeated(done)
    return Result(encoding=done, counts=(*counts, ("repeated_tokens", cleared)))
