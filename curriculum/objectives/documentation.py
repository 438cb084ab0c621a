"""doc_to_code and code_to_doc: predict a function's body from its comment, or a comment from its code.

    doc_to_code   a comment, then the documented body, which is the target
    code_to_doc   the code, then its comment, which is the target

In doc_to_code, comment lines that copy code of the body are removed from the input. In code_to_doc, each
comment moves to the line below its code, also for declarations without a body; comment lines that copy code
aren't scored. Nothing else is scored, and no target repeats text from earlier in the document.

A comment line copies code if it overlaps a run of MIN_COPIED_UNITS words and punctuation marks that is also
in the code. White space is ignored, so that changed indentation or spacing doesn't hide a copy. Runs are not
counted in tokens, because the result must not depend on a vocabulary or on the beginnings of comment lines.
They are not counted in bytes, because a comment legitimately shares names of thirty bytes with its code.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from curriculum.objectives import causal
from curriculum.objectives.objective import DocumentFacts, Objective, Result
from curriculum.objectives.rearrange import Int32s, Segment, reorder_encoding, segments_without
from curriculum.packing.repeats import Int64s, first_copies, in_copied_windows
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import (
    BYTE_END,
    BYTE_START,
    KIND,
    TOKEN_END,
    TOKEN_START,
    Encoding,
    byte_ranges,
)
from schemas.document import UNSCORED_KINDS, PartKind
from schemas.packed_row import TEXT_PIECE

Bools = npt.NDArray[np.bool_]

DOCUMENTED_PARTS: tuple[PartKind, ...] = ("code", "target")
"""Kinds of parts whose documentation is used. The comment in a header documents the file, and context is only
input.
"""
START, END, CODE, BODY, LAST = range(5)
"""Columns of `documented`: the start and the end of the comment, the start of the code below it, the start of
the code's body, and the end of the code. Without a body, BODY equals LAST.
"""


def documented(document: DocumentFacts) -> Int32s:
    """Return the documented declarations in DOCUMENTED_PARTS, [d, 5], sorted.

    The columns are START, END, CODE, BODY and LAST.
    """
    parts = document.parts(*DOCUMENTED_PARTS)
    comments, declarations = (document.spans.of(kind) for kind in ("documentation", "declaration"))
    declared = declarations[declarations[:, 0] >= parts[0, 0]] if len(parts) else declarations[:0]
    comment = comments[np.searchsorted(comments[:, 0], declared[:, 0]) - 1]
    assert (comment[:, 1] <= declared[:, 0]).all(), "a declaration must be below its documentation"
    bodies = np.concatenate((document.spans.of("body"), [[-1, -1]]))
    body = bodies[np.searchsorted(bodies[:-1, 0], declared[:, 1])]
    last = np.where(body[:, 0] == declared[:, 1], body[:, 1], declared[:, 1])
    found: Int32s = np.column_stack((comment, declared, last)).astype(np.int32)
    return found


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EncodedLines:
    """Text of an encoding, which is accessed by byte offsets of the document.

    The pieces of the encoding are in the order of the document.
    """

    first: int
    """Offset in the document of the first byte of the encoding."""
    data: npt.NDArray[np.uint8]
    """Bytes of the document from `first` on; 0 for bytes that the encoding lacks."""
    pieces: Int32s
    """Byte range of each piece of text, [p, 2]."""
    ends: Int32s
    """Offsets of line ends: the byte after each newline."""

    @staticmethod
    def from_encoding(encoding: Encoding, tokenizer: Tokenizer) -> "EncodedLines":
        """Decode the text of an encoding, at some 20 million tokens per second."""
        text = encoding.pieces[encoding.pieces[:, KIND] == TEXT_PIECE]
        pieces = text[:, (BYTE_START, BYTE_END)]
        first = int(pieces[0, 0]) if len(text) else 0
        data = bytearray(int(pieces[-1, 1]) - first if len(text) else 0)
        for low, high, start, end in text[
            :, (TOKEN_START, TOKEN_END, BYTE_START, BYTE_END)
        ].tolist():
            data[start - first : end - first] = tokenizer.decode_bytes(
                encoding.ids[low:high].tolist()
            )
        found = np.frombuffer(bytes(data), dtype=np.uint8)
        ends = np.flatnonzero(found == ord("\n")) + (first + 1)
        return EncodedLines(first=first, data=found, pieces=pieces, ends=ends.astype(np.int32))

    def piece_of(self, at: Int32s) -> tuple[Int32s, Int32s]:
        """Return the start and the end of the piece that contains each byte of `at`.

        For a byte that the encoding lacks, the range is empty.
        """
        number = np.searchsorted(self.pieces[:, 0], at, side="right") - 1
        padded = np.concatenate((self.pieces, [[-1, -1]])).astype(np.int32)
        start, end = padded[number].T
        lacks = (at >= end) | (at < start)
        return np.where(lacks, at, start), np.where(lacks, at, end)

    def starts_of(self, at: Int32s) -> Int32s:
        """Return the start of the line that contains each byte of `at`, or of its piece if that is later."""
        before = np.concatenate((self.ends, [-1])).astype(np.int32)
        start = before[np.searchsorted(self.ends, at, side="right") - 1]
        return np.maximum(start, self.piece_of(at)[0])

    def ends_of(self, at: Int32s) -> Int32s:
        """Return the offset after the line that contains each byte of `at`.

        If no newline follows the byte, it is the int32 maximum.
        """
        after = np.concatenate((self.ends, [np.iinfo(np.int32).max])).astype(np.int32)
        return after[np.searchsorted(self.ends, at, side="right")]

    def in_one_piece(self, low: Int32s, high: Int32s) -> Bools:
        """Return a flag for each range `[low, high)`: True if it isn't empty and lies inside one piece."""
        found: Bools = self.piece_of(low)[1] >= high
        return found

    def text(self, low: int, high: int) -> bytes:
        """Return bytes `[low, high)` of the document."""
        return self.data[low - self.first : high - self.first].tobytes()


MIN_COPIED_UNITS = 8
"""Minimum number of words and marks in a copied run; `return a.first < b.first;` has nine."""
_UNIT = re.compile(rb"[\w\x80-\xff]+|[^\w\s]")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_OPENING = re.compile(rb"/\*[*!]?<?")
_WORD = re.compile(rb"\w")


def copied_spans(
    lines: EncodedLines, comments: Int32s, codes: Int32s, changes: Int32s
) -> tuple[Int32s, Bools]:
    """Return the bytes of comment lines that copy code, and a flag for each comment.

    The flag is True if nothing of the comment is left but lines without a word.

    Args:
        lines: text of the encoding, which contains all ranges below.
        comments: [c, 2] comments, sorted and disjoint.
        codes: [c, 2] the code that each comment is compared with. Consecutive comments with the same code
            share the cost.
        changes: [p, 2] parts that may repeat lines of the comments; equal lines there are returned as well.

    Returns:
        The sorted, disjoint ranges [r, 2], and the flags [c].
    """
    wordless = np.zeros(len(comments), dtype=np.bool_)
    # A word or mark has at least one byte, so shorter code can't contain a run.
    long_enough = codes[:, 1] - codes[:, 0] >= MIN_COPIED_UNITS
    copied = _spans(lines, comments[long_enough], codes[long_enough])
    if not len(copied):
        return np.empty((0, 2), dtype=np.int32), wordless
    masked = [np.empty((0, 2), dtype=np.int32)]
    gone_of: dict[bytes, Bools] = {}
    owners = np.searchsorted(comments[:, 0], copied, side="right") - 1
    for number in np.unique(owners).tolist():
        low = int(lines.starts_of(comments[number : number + 1, 0])[0])
        high = int(lines.ends_of(comments[number : number + 1, 1] - 1)[0])
        comment = lines.text(low, high)
        gone = masked_bytes(comment, copied[owners == number] - low)
        left = np.frombuffer(comment, dtype=np.uint8)[~gone].tobytes()
        wordless[number] = _WORD.search(left) is None
        masked.append(_ranges_of(gone) + low)
        gone_of |= _by_line(comment, gone)
    again = [_shown_again(lines, part, gone_of) for part in changes.tolist() if gone_of]
    found = np.concatenate((*masked, *again))
    return found[np.argsort(found[:, 0])], wordless


def masked_bytes(comment: bytes, spans: Int64s) -> Bools:
    r"""Return a flag for each byte of a comment, [n]: True if its line contains one of the offsets `spans`.

    If other lines of a block comment stay, its opening and closing marks stay as well.

    >>> comment = b"/** Adds:\n *  a + b\n */\n"
    >>> gone = masked_bytes(comment, np.array([5, 14]))
    >>> bytes(byte for byte, is_gone in zip(comment, gone) if not is_gone)
    b'/**\n */\n'
    """
    data = np.frombuffer(comment, dtype=np.uint8)
    newlines = np.flatnonzero(data == ord("\n"))
    line = np.searchsorted(newlines, np.arange(len(data)))
    goes = np.zeros(len(newlines) + 1, dtype=np.bool_)
    goes[line[spans]] = True
    masked: Bools = goes[line]
    for remark in _COMMENT.finditer(comment):
        first, last = line[remark.start()], line[remark.end() - 1]
        opening = _OPENING.match(comment, remark.start())
        if opening is not None and not goes[first : last + 1].all():
            masked[remark.start() : opening.end()] = False
            masked[newlines[[first, last]]] = False
            masked[remark.end() - len("*/") : remark.end()] = False
    return masked


def _spans(lines: EncodedLines, comments: Int32s, codes: Int32s) -> Int64s:
    """Return the sorted offsets of the words and marks in comments that belong to a copied run.

    A run is copied if it is also in the comment's code.
    """
    if not len(comments):
        return np.empty(0, dtype=np.int64)
    numbers: dict[bytes, int] = {}
    units: list[int] = []
    places: list[int] = []
    firsts: list[int] = []
    code_ends: list[int] = []
    pairs = zip(codes.tolist(), comments.tolist(), strict=True)
    for (first, last), group in itertools.groupby(pairs, key=lambda pair: pair[0]):
        firsts.append(len(units))
        code = [
            numbers.setdefault(unit, len(numbers))
            for unit in _UNIT.findall(lines.text(first, last))
        ]
        units += code
        places += [-1] * len(code)
        for number, (_, (start, end)) in enumerate(group):
            found = list(_UNIT.finditer(lines.text(start, end)))
            units += [numbers.setdefault(match.group(), len(numbers)) for match in found]
            places += [start + match.start() for match in found]
            # A unique number, so that no run continues from one comment into the next.
            units.append(-1 - number)
            places.append(-1)
        code_ends += [firsts[-1] + len(code)] * (len(units) - firsts[-1])
    at = np.array(places, dtype=np.int64)
    copies = first_copies(np.array(units, dtype=np.int64), np.array(firsts), run=MIN_COPIED_UNITS)
    copies[(at < 0) | (copies > np.array(code_ends, dtype=np.int64) - MIN_COPIED_UNITS)] = -1
    return at[in_copied_windows(copies, MIN_COPIED_UNITS)]


def _by_line(comment: bytes, masked: Bools) -> dict[bytes, Bools]:
    """Return those lines of a comment that have masked bytes, each with the flags of its bytes."""
    return {
        comment[start:end]: masked[start:end]
        for start, end in _line_ranges(comment)
        if masked[start:end].any()
    }


def _shown_again(
    lines: EncodedLines, part: Sequence[int], gone_of: Mapping[bytes, Bools]
) -> Int32s:
    """Return the bytes to mask in `part`, which repeats lines of masked comments, [r, 2].

    `gone_of` has the flags of the masked bytes for each such line.
    """
    low = max(part[0], lines.first)
    text = lines.text(low, part[1])
    masked = np.zeros(len(text), dtype=np.bool_)
    for start, end in _line_ranges(text):
        masked[start:end] = gone_of.get(text[start:end], False)
    return _ranges_of(masked) + low


def _line_ranges(text: bytes) -> Iterator[tuple[int, int]]:
    ends = [at.end() for at in re.finditer(rb"\n", text)]
    return itertools.pairwise([0, *ends, *([len(text)] if not text.endswith(b"\n") else [])])


def _ranges_of(chosen: Bools) -> Int32s:
    """Return the ranges in which `chosen` is True, [r, 2]: [0 1 1 0 1] -> [1 3) [4 5)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8)))
    return edges.reshape(-1, 2).astype(np.int32)


RESERVE = 16
"""Number of tokens for which fitting leaves room: a cut inside a token adds one or two per moved comment."""

Counts = tuple[tuple[str, int], ...]
NOTHING = np.empty((0, 2), dtype=np.int32)


def doc_to_code(tokenizer: Tokenizer, variant: int) -> Objective:
    """Return the objective that predicts bodies from their documentation, the same for all variants."""
    return _DocToCode(tokenizer=tokenizer)


def code_to_doc(tokenizer: Tokenizer, variant: int) -> Objective:
    """Return the objective that predicts documentation from its code, the same for all variants."""
    return _CodeToDoc(tokenizer=tokenizer)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _DocToCode:
    tokenizer: Tokenizer
    reserve: int = 0

    def apply(self, encoding: Encoding, document: DocumentFacts) -> Result:
        """Score the bodies below those comments that are completely in the encoding.

        If the encoding contains only the beginning of a body, this beginning is scored.
        """
        found = _within(encoding, documented(document))
        found = found[found[:, BODY] < found[:, LAST]]
        if not len(found):
            return _unscored_result(encoding)
        lines = EncodedLines.from_encoding(encoding, self.tokenizer)
        found = found[lines.in_one_piece(found[:, START], found[:, BODY] + 1)]
        found[:, LAST] = np.minimum(found[:, LAST], lines.piece_of(found[:, BODY])[1])
        changes = document.parts("changes")
        masked, wordless = copied_spans(
            lines, found[:, (START, END)], found[:, (BODY, LAST)], changes
        )
        order = segments_without(masked, 0, int(document.part_bytes[-1]))
        done = reorder_encoding(encoding, order, document.part_bytes, self.tokenizer)
        if len(done.encoding.ids) > document.room:
            return _unscored_result(encoding, ("no_room", 1))
        scored = found[~wordless]
        counts = (
            ("bodies", len(scored)),
            ("given_away", int(wordless.sum())),
            ("masked_bytes", done.masked_bytes),
        )
        targets = scored[:, (BODY, LAST)]
        return _score_targets(done.encoding, targets, document, self.tokenizer, counts)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _CodeToDoc:
    tokenizer: Tokenizer
    reserve: int = RESERVE

    def apply(self, encoding: Encoding, document: DocumentFacts) -> Result:
        """Move and score those comments whose lines and whose code are completely in the encoding.

        If the row is too short for all moves, only the first comments move.
        """
        found = _within(encoding, documented(document))
        if not len(found):
            return _unscored_result(encoding)
        lines = EncodedLines.from_encoding(encoding, self.tokenizer)
        moves = _moves(lines, found)
        while True:
            order = _below(moves, int(document.part_bytes[-1]))
            done = reorder_encoding(encoding, order, document.part_bytes, self.tokenizer).encoding
            if len(done.ids) <= document.room:
                break
            moves = moves[: len(moves) // 2]
        copied, wordless = copied_spans(lines, moves[:, 3:5], moves[:, 5:], NOTHING)
        in_encoding = int(lines.in_one_piece(found[:, START], found[:, START] + 1).sum())
        counts = (
            ("comments", len(moves)),
            ("comments_left", in_encoding - len(moves)),
            ("given_away", int(wordless.sum())),
            ("copied_bytes", int((copied[:, 1] - copied[:, 0]).sum())),
        )
        targets = moves[~wordless][:, :2]
        return _score_targets(done, targets, document, self.tokenizer, counts, copied=copied)


def _within(encoding: Encoding, found: Int32s) -> Int32s:
    """Return those documented declarations whose comment starts in the bytes of the encoding."""
    first, last = encoding.pieces[0, BYTE_START], encoding.pieces[-1, BYTE_END]
    within: Int32s = found[(found[:, START] >= first) & (found[:, START] < last)]
    return within


def _unscored_result(encoding: Encoding, *counts: tuple[str, int]) -> Result:
    """Return the encoding without targets. Such an encoding is not packed into rows."""
    mask = np.zeros_like(encoding.loss_mask)
    return Result(encoding=replace(encoding, loss_mask=mask), counts=counts)


def _moves(lines: EncodedLines, found: Int32s) -> Int32s:
    """Return the comments that can move, [m, 7].

    The columns are the start and the end of the comment's lines, the start of the line below its code, the
    start and the end of the comment, and the start and the end of its code.
    """
    low, high = lines.starts_of(found[:, START]), lines.ends_of(found[:, END] - 1)
    below = lines.ends_of(found[:, LAST] - 1)
    moves = np.column_stack((low, high, below, found[:, (START, END, CODE, LAST)]))
    moves = moves[lines.in_one_piece(low, below)]
    following = np.append(moves[1:, 0], np.iinfo(np.int32).max)
    clear: Int32s = moves[moves[:, 2] <= following]
    return clear


def _below(moves: Int32s, size: int) -> list[Segment]:
    """Return the segments of a text in the order in which each comment is below its code.

    `moves` has the columns of `_moves`; `size` is the number of bytes of the text.

    >>> [(part.start, part.end) for part in _below(np.array([[2, 4, 7]]), 9)]
    [(0, 2), (4, 7), (2, 4), (7, 9)]
    """
    order, done = [], 0
    for low, high, below in moves[:, :3].tolist():
        order += [Segment(start=done, end=low), Segment(start=high, end=below)]
        order.append(Segment(start=low, end=high))
        done = below
    return [*order, Segment(start=done, end=size)]


def _score_targets(
    encoding: Encoding,
    targets: Int32s,
    document: DocumentFacts,
    tokenizer: Tokenizer,
    counts: Counts,
    *,
    copied: Int32s = NOTHING,
) -> Result:
    """Return the result in which the tokens in `targets` are scored.

    Tokens in `copied`, in unscored spans, and in repeated runs are excluded. `targets` [t, 2] and `copied`
    [r, 2] are byte ranges, sorted and disjoint.
    """
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    scored = causal.overlaps(starts, ends, targets) & ~causal.overlaps(starts, ends, copied)
    unscored = document.spans.of(*UNSCORED_KINDS)
    done = causal.apply(causal.scored_where(scored, encoding), unscored, tokenizer.token_bytes)
    done, cleared = causal.drop_repeated_targets(done)
    return Result(encoding=done, counts=(*counts, ("repeated_tokens", cleared)))
