"""fim: fill in the middle of a document's main text; the head of the document stays in place.

    psm   head <prefix> before <suffix> after <middle> the middle
    spm   head <prefix> <suffix> after <middle> before the middle

The main text is the code of a file, or the target of a context document. Header, changes and context form the
head, so text of the main text that repeats them still comes after them. Half of the middles are a function's
body, a statement or the arguments of a call; the other half is any text. Half of the encodings have the form
psm, half spm. A hash of (document, variant) decides. Documentation lines that copy code of the middle are
removed from the input. Tokens that repeat earlier text of the encoding aren't scored.
"""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curriculum.objectives import causal
from curriculum.objectives.documentation import (
    CODE,
    END,
    LAST,
    NOTHING,
    START,
    Counts,
    EncodedLines,
    copied_spans,
    documented,
)
from curriculum.objectives.objective import DocumentFacts, Objective, Result
from curriculum.objectives.rearrange import (
    Inserted,
    Int32s,
    Segment,
    reorder_encoding,
    segments_without,
)
from curriculum.tokens.codec import NAMES, ControlRole, Tokenizer
from curriculum.tokens.encoding import BYTE_END, BYTE_START, KIND, Encoding, byte_ranges
from schemas.document import UNSCORED_KINDS, PartKind, SpanKind
from schemas.errors import TokenizerError
from schemas.packed_row import TEXT_PIECE

SENTINELS: tuple[ControlRole, ...] = ("fim_prefix", "fim_suffix", "fim_middle")
SPLIT_PARTS: tuple[PartKind, ...] = ("code", "target")
SYNTACTIC: tuple[SpanKind, ...] = ("body", "statement", "arguments")
RESERVE = 16
"""Number of tokens for which fitting leaves room: three sentinels, and additional tokens of cuts inside a
token.
"""
MIN_SPLIT_BYTES = 16
"""Minimum bytes of a text that is split."""
MAX_CHARACTER_BYTES = 4
"""Maximum bytes of a UTF-8 character, and therefore also the maximum number of its tokens."""


def objective(tokenizer: Tokenizer, variant: int) -> Objective:
    """Return the fim objective, which splits documents at other places in each variant.

    Raises:
        TokenizerError: if the tokenizer lacks one of the SENTINELS.
    """
    lacking = [role for role in SENTINELS if role not in tokenizer.ids_of]
    if lacking:
        raise TokenizerError(
            tokenizer.name,
            f"objective fim, no {' and no '.join(NAMES[role][0] for role in lacking)}",
            cause="the tokenizer lacks the control tokens with which fim marks prefix, suffix and middle",
            cure="Train a tokenizer (tokenizer: corpus), which has them, or remove the objective fim",
        )
    before, after, middle = (Inserted(ids=(tokenizer.ids_of[role],)) for role in SENTINELS)
    return _Fim(tokenizer=tokenizer, variant=variant, before=before, after=after, middle=middle)


class _Draws(NamedTuple):
    """Four pseudo-random numbers in [0, 1).

    They depend on the document, the variant and the encoding's first byte.
    """

    form: float
    source: float
    first: float
    second: float

    @staticmethod
    def from_document(document_id: str, variant: int, start: int) -> "_Draws":
        digest = hashlib.blake2b(f"{document_id} {variant} {start}".encode()).digest()[:32]
        return _Draws(*(np.frombuffer(digest, dtype="<u8") / 2.0**64).tolist())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Split:
    """Byte range of the middle of a document, and the kind of text that it is."""

    start: int
    end: int
    kind: str


def _masked_and_copied(
    encoding: Encoding, document: DocumentFacts, split: _Split, tokenizer: Tokenizer
) -> tuple[Int32s, Int32s]:
    """Return two arrays of byte ranges, [r, 2]: text to remove, and text not to score.

    To remove are comment lines outside of the middle that copy the middle. Not to score are comment lines
    inside of the middle that copy the rest of their code, which comes after the middle.
    """
    text = encoding.pieces[encoding.pieces[:, KIND] == TEXT_PIECE]
    comments = _shared(document.spans.of("documentation"), text[:, (BYTE_START, BYTE_END)])
    if not len(comments):
        # Without comments, the text isn't decoded.
        return NOTHING, NOTHING
    lines = EncodedLines.from_encoding(encoding, tokenizer)
    start, end = split.start, split.end
    size = int(document.part_bytes[-1])
    around = _shared(comments, np.array([[0, start], [end, size]]))
    middles = np.tile(np.array([[start, end]], dtype=np.int32), (len(around), 1))
    masked, _ = copied_spans(lines, around, middles, document.parts("changes"))
    found = documented(document)
    found = found[(found[:, START] < end) & (found[:, END] > start) & (found[:, LAST] > end)]
    code = np.maximum(found[:, CODE], end)
    codes = np.column_stack((code, np.minimum(found[:, LAST], lines.piece_of(code)[1])))
    copied, _ = copied_spans(lines, np.clip(found[:, (START, END)], start, end), codes, NOTHING)
    return masked, copied


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Fim:
    tokenizer: Tokenizer
    variant: int
    before: Inserted
    after: Inserted
    middle: Inserted
    reserve: int = RESERVE

    def apply(self, encoding: Encoding, document: DocumentFacts) -> Result:
        """Return the encoding with the causal targets, split if it is large enough and the row has room."""
        done, counts, copied = self._split(encoding, document)
        scored = done
        for unscored in (document.spans.of(*UNSCORED_KINDS), copied):
            scored = causal.apply(scored, unscored, self.tokenizer.token_bytes)
        scored, cleared = causal.drop_repeated_targets(scored)
        return Result(encoding=scored, counts=(*counts, ("repeated_tokens", cleared)))

    def _split(
        self, encoding: Encoding, document: DocumentFacts
    ) -> tuple[Encoding, Counts, Int32s]:
        """Return the split encoding, counts, and the byte ranges that must not be scored, [r, 2]."""
        code = document.parts(*SPLIT_PARTS)
        text = _text_from(int(code[0, 0]), encoding.pieces) if len(code) else code
        if (text[:, 1] - text[:, 0]).sum() < MIN_SPLIT_BYTES:
            return encoding, (("unsplit_too_small", 1),), NOTHING
        draws = _Draws.from_document(
            document.flat_id, self.variant, int(encoding.pieces[0, BYTE_START])
        )
        split = _syntactic(document, text, draws) if draws.source < 0.5 else None
        split = split or self._random(encoding, text, draws)
        is_psm = draws.form < 0.5
        masked, copied = _masked_and_copied(encoding, document, split, self.tokenizer)
        borders = (0, int(code[0, 0]), split.start, split.end, int(document.part_bytes[-1]))
        order = self._order(masked, borders, is_psm=is_psm)
        done = reorder_encoding(encoding, order, document.part_bytes, self.tokenizer)
        if len(done.encoding.ids) > len(encoding.ids) + self.reserve:
            return encoding, (("unsplit_no_room", 1),), NOTHING
        counts = (
            ("psm" if is_psm else "spm", 1),
            (split.kind, 1),
            ("masked_bytes", done.masked_bytes),
            ("copied_bytes", int((copied[:, 1] - copied[:, 0]).sum())),
        )
        return done.encoding, counts, copied

    def _order(
        self, masked: Int32s, borders: Sequence[int], *, is_psm: bool
    ) -> tuple[Segment | Inserted, ...]:
        """Return the segments of the document in their new order, without the `masked` bytes.

        `borders` are the five borders of the head and of the text before, in and after the middle.
        """
        head, before, middle, after = (
            segments_without(masked, start, end) for start, end in itertools.pairwise(borders)
        )
        if is_psm:
            return (*head, self.before, *before, self.after, *after, self.middle, *middle)
        return (*head, self.before, self.after, *after, self.middle, *before, *middle)

    def _random(self, encoding: Encoding, text: Int32s, draws: _Draws) -> _Split:
        """Return a middle between two random bytes of one piece of text.

        The first of these bytes is uniformly distributed over `text`.
        """
        lengths = np.cumsum(text[:, 1] - text[:, 0])
        at = int(draws.first * lengths[-1])
        number = int(np.searchsorted(lengths, at, side="right"))
        low, high = text[number].tolist()
        one = at + high - int(lengths[number])
        other = low + int(draws.second * (high - low))
        starts, ends = byte_ranges(encoding.ids, encoding.pieces, self.tokenizer.token_bytes)
        start, end = (
            byte if byte == high else self._character(encoding, starts, ends, byte)
            for byte in sorted((one, other + (other >= one)))
        )
        if start == end:
            start, end = (low, end) if low < end else (start, high)
        return _Split(start=start, end=end, kind="random")

    def _character(self, encoding: Encoding, starts: Int32s, ends: Int32s, byte: int) -> int:
        """Return the offset at which the UTF-8 character begins that contains the byte at `byte`."""
        token = int(np.searchsorted(starts, byte, side="right")) - 1
        near = encoding.ids[max(0, token - MAX_CHARACTER_BYTES + 1) : token + 1]
        shown = self.tokenizer.decode_bytes(near.tolist())
        at = last = len(shown) - int(ends[token]) + byte
        while shown[at] & 0xC0 == 0x80:
            at -= 1
        return byte - (last - at)


def _text_from(region: int, pieces: Int32s) -> Int32s:
    """Return the byte ranges of those text pieces that are after the byte `region`, [p, 2].

    A piece that contains `region` is cut there.

    >>> pieces = np.array([[1, 0, 1, 0, 0], [0, 1, 3, 0, 4], [0, 4, 5, 4, 9], [0, 5, 9, 12, 20]])
    >>> _text_from(6, pieces).tolist()
    [[6, 9], [12, 20]]
    """
    text = pieces[(pieces[:, KIND] == TEXT_PIECE) & (pieces[:, BYTE_END] > region)]
    found: Int32s = np.maximum(text[:, (BYTE_START, BYTE_END)], region)
    return found


def _shared(ranges: Int32s, others: Int32s) -> Int32s:
    """Return the intersection of two sets of ranges, [s, 2]; both sets are sorted and disjoint.

    >>> _shared(np.array([[0, 4], [6, 9]]), np.array([[2, 3], [3, 7]])).tolist()
    [[2, 3], [3, 4], [6, 7]]
    """
    first = np.searchsorted(others[:, 1], ranges[:, 0], side="right")
    after = np.searchsorted(others[:, 0], ranges[:, 1], side="left")
    counts = np.maximum(after - first, 0)
    own = np.repeat(np.arange(len(ranges)), counts)
    other = np.arange(len(own)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    start = np.maximum(ranges[own, 0], others[other, 0])
    end = np.minimum(ranges[own, 1], others[other, 1])
    found: Int32s = np.stack((start, end), axis=1).astype(np.int32)[start < end]
    return found


def _syntactic(document: DocumentFacts, text: Int32s, draws: _Draws) -> _Split | None:
    """Return a middle that is a random body, statement or argument list inside one piece of text.

    Each of these kinds that the document has is equally likely. None if there is no such span.
    """
    repeated = document.spans.of("repeated")
    found = {
        kind: spans[_within(spans, text) & ~_within(spans, repeated)]
        for kind in SYNTACTIC
        if len(spans := document.spans.of(kind))
    }
    kinds = [kind for kind, spans in found.items() if len(spans)]
    if not kinds:
        return None
    kind = kinds[int(draws.second * len(kinds))]
    start, end = found[kind][int(draws.first * len(found[kind]))].tolist()
    return _Split(start=start, end=end, kind=kind)


def _within(spans: Int32s, ranges: Int32s) -> npt.NDArray[np.bool_]:
    """Return a flag for each of `spans` ([s, 2]): True if it lies inside a single one of `ranges`.

    `ranges` is [r, 2], sorted and disjoint.

    >>> _within(np.array([[0, 2], [1, 4], [5, 6]]), np.array([[0, 3], [4, 6]])).tolist()
    [True, False, True]
    """
    after = np.searchsorted(ranges[:, 0], spans[:, 0], side="right")
    ends = np.concatenate(([-1], ranges[:, 1]))
    inside: npt.NDArray[np.bool_] = spans[:, 1] <= ends[after]
    return inside
