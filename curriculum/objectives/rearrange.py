"""Reordering of an encoding: byte ranges of the text move together with their tokens.

Tokens are kept. Only if a cut falls inside a token, the text next to the cut is encoded again, up to the
border of its part, since no token crosses a border. The pieces of the result map its tokens to the document's
bytes.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE

Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """Bytes `[start, end)` of the document's text, which begin and end between two characters."""

    start: int
    end: int
    scored: bool = True
    """True if the tokens of the segment count as targets."""


def segments_without(removed: Int32s, start: int, end: int) -> list[Segment]:
    """Return the bytes `[start, end)` without the `removed` ranges ([r, 2], sorted, disjoint), as segments.

    >>> [(part.start, part.end) for part in segments_without(np.array([[2, 4], [6, 7]]), 3, 9)]
    [(4, 6), (7, 9)]
    """
    edges = [start, *np.clip(removed, start, end).ravel().tolist(), end]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [Segment(start=low, end=high) for low, high in pairs if low < high]


@dataclass(frozen=True, kw_only=True, slots=True)
class Inserted:
    """Tokens that are not in the document, such as a sentinel."""

    ids: tuple[int, ...]
    scored: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rearranged:
    """Reordered encoding, and the number of bytes that were removed."""

    encoding: Encoding
    masked_bytes: int
    """Number of bytes of text that are in no segment."""


class _Run(NamedTuple):
    """Consecutive tokens with their pieces; token offsets count from the run's first token."""

    ids: Int32s
    pieces: Int32s
    scored: bool


def reorder_encoding(
    encoding: Encoding,
    order: Sequence[Segment | Inserted],
    part_bytes: Int32s,
    tokenizer: Tokenizer,
    *,
    end_scored: bool = True,
) -> Rearranged:
    """Return the encoding with its text in the order of `order`, which also lists tokens to insert.

    The segments of `order` are disjoint; bytes in no segment are removed. The encoding is in document order;
    BOS stays first and EOS last. A gap line moves with the segment that contains the first byte of the gap.
    `part_bytes` [parts + 1] are the borders of the document's parts. The mask is new: BOS is no target, and
    EOS is one if `end_scored`.

    >>> class Bytes:  # two bytes a token, or one
    ...     bos_id, eos_id, token_bytes = 0, 1, np.array([0, 0, 0] + [1] * 9 + [2] * 9, dtype=np.int32)
    ...     decode_bytes = staticmethod(lambda ids: b"".join(_TEXT[token] for token in ids))
    ...     encode_batch = staticmethod(lambda texts: (
    ...         np.array([_BACK[letter] for text in texts for letter in text], dtype=np.int32),
    ...         np.cumsum([0, *map(len, texts)])))
    >>> _TEXT = {3: b"a", 4: b"b", 5: b"c", 6: b"d", 12: b"ab", 13: b"cd"}
    >>> _BACK = {"a": 3, "b": 4, "c": 5, "d": 6}
    >>> encoding = Encoding(
    ...     document_id="d", ids=np.array([0, 12, 13, 6, 1], dtype=np.int32),  # BOS ab cd d EOS
    ...     loss_mask=np.array([1, 1, 1, 1, 0], dtype=np.uint8),
    ...     pieces=np.array([[1, 0, 1, 0, 0], [0, 1, 4, 0, 5], [1, 4, 5, 5, 5]], dtype=np.int32))
    >>> order = [Segment(start=4, end=5), Inserted(ids=(2,)), Segment(start=0, end=3, scored=False)]
    >>> done = reorder_encoding(encoding, order, np.array([0, 2, 5], dtype=np.int32), Bytes())
    >>> done.encoding.ids.tolist(), done.masked_bytes  # BOS d # ab c EOS
    ([0, 6, 2, 12, 5, 1], 1)
    >>> done.encoding.loss_mask.tolist()
    [1, 0, 0, 0, 1, 0]
    >>> done.encoding.pieces.tolist()
    [[1, 0, 1, 0, 0], [0, 1, 2, 4, 5], [1, 2, 3, 5, 5], [0, 3, 5, 0, 3], [1, 5, 6, 5, 5]]
    """
    assert encoding.structure is None, "structure is added after reordering"
    ranges = sorted((item.start, item.end) for item in order if isinstance(item, Segment))
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(ranges)), (
        "segments must be disjoint"
    )
    source = _Source.from_encoding(encoding, part_bytes, tokenizer)
    runs = list(source.runs(order, end_scored=end_scored))
    ids = np.concatenate([run.ids for run in runs])
    scored = np.repeat([run.scored for run in runs], [len(run.ids) for run in runs])
    mask = np.zeros(len(ids), dtype=np.uint8)
    mask[:-1] = scored[1:]
    pieces = _pieces(runs)
    return Rearranged(
        encoding=replace(encoding, ids=ids, loss_mask=mask, pieces=pieces),
        masked_bytes=_text_bytes(encoding.pieces) - _text_bytes(pieces),
    )


def _text_bytes(pieces: Int32s) -> int:
    return int((pieces[:, BYTE_END] - pieces[:, BYTE_START]).sum())


class _KeptTokens(NamedTuple):
    """Tokens `[start, end)` of the old encoding that are kept."""

    start: int
    end: int


class _Reencoded(NamedTuple):
    """Bytes `[start, end)` that are encoded again, because a cut falls inside a token."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Source:
    """Encoding in its old order, with the byte positions of its tokens."""

    encoding: Encoding
    starts: Int32s
    """First byte of each token, [n], in ascending order; for tokens of a gap line, the first byte of the gap.
    """
    ends: Int32s
    first: int
    """Index of the first token that isn't BOS."""
    last: int
    """Index after the last token that isn't EOS."""
    part_bytes: Int32s
    tokenizer: Tokenizer

    @staticmethod
    def from_encoding(encoding: Encoding, part_bytes: Int32s, tokenizer: Tokenizer) -> "_Source":
        ids, kinds = encoding.ids, encoding.pieces[:, KIND]
        starts, ends = byte_ranges(ids, encoding.pieces, tokenizer.token_bytes)
        has_bos = kinds[0] == GENERATED_PIECE and ids[0] == tokenizer.bos_id
        has_eos = kinds[-1] == GENERATED_PIECE and ids[-1] == tokenizer.eos_id
        return _Source(
            encoding=encoding,
            starts=starts,
            ends=ends,
            first=int(has_bos),
            last=len(ids) - int(has_eos),
            part_bytes=part_bytes,
            tokenizer=tokenizer,
        )

    def runs(self, order: Sequence[Segment | Inserted], *, end_scored: bool) -> Iterator[_Run]:
        """Yield all tokens in their new order."""
        planned = [list(self._cuts(item)) if isinstance(item, Segment) else [] for item in order]
        reencoded = [cut for cuts in planned for cut in cuts if isinstance(cut, _Reencoded)]
        encoded = self._encoded(reencoded)
        byte = int(self.starts[0])
        yield from self._as_is(0, self.first, scored=False)
        for item, cuts in zip(order, planned, strict=True):
            if isinstance(item, Inserted):
                ids = np.array(item.ids, dtype=np.int32)
                yield _run(GENERATED_PIECE, ids, byte, byte, scored=item.scored)
            for cut in cuts:
                if isinstance(cut, _Reencoded):
                    yield _run(TEXT_PIECE, next(encoded), *cut, scored=item.scored)
                else:
                    yield from self._as_is(*cut, scored=item.scored)
                byte = cut.end if isinstance(cut, _Reencoded) else int(self.ends[cut.end - 1])
        yield from self._as_is(self.last, len(self.starts), scored=end_scored)

    def _cuts(self, segment: Segment) -> Iterator[_KeptTokens | _Reencoded]:
        """Yield the contents of a segment: whole tokens, and text next to a cut inside a token."""
        start, end = segment.start, segment.end
        if start >= end:
            return
        low, high = self._token(start), self._token(end)
        if low > self.first and self.ends[low - 1] > start:
            stop = min(end, self._border_after(start, low - 1))
            yield _Reencoded(start, stop)
            if stop == end:
                return
            low = self._token(stop)
        if high > low and self.ends[high - 1] > end:
            begin = max(start, self._border_before(end, high - 1))
            yield from self._whole(low, self._token(begin))
            yield _Reencoded(begin, end)
        else:
            yield from self._whole(low, high)

    def _whole(self, low: int, high: int) -> Iterator[_KeptTokens]:
        if low < high:
            yield _KeptTokens(low, high)

    def _token(self, byte: int) -> int:
        """Return the index of the first token, of text or of a gap line, that begins at or after `byte`."""
        return self.first + int(np.searchsorted(self.starts[self.first : self.last], byte))

    def _piece(self, token: int) -> Int32s:
        pieces = self.encoding.pieces
        found: Int32s = pieces[np.searchsorted(pieces[:, TOKEN_START], token, side="right") - 1]
        return found

    def _border_after(self, byte: int, token: int) -> int:
        """Return the end of the part or of the piece that contains `byte`, whichever comes first.

        `token` is the token that contains `byte`.
        """
        part = self.part_bytes[np.searchsorted(self.part_bytes, byte, side="right")]
        return int(min(part, self._piece(token)[BYTE_END]))

    def _border_before(self, byte: int, token: int) -> int:
        part = self.part_bytes[np.searchsorted(self.part_bytes, byte) - 1]
        return int(max(part, self._piece(token)[BYTE_START]))

    def _encoded(self, stretches: Sequence[_Reencoded]) -> Iterator[Int32s]:
        if not stretches:
            return
        texts = [self._read(stretch).decode() for stretch in stretches]
        ids, offsets = self.tokenizer.encode_batch(texts)
        yield from (ids[low:high] for low, high in itertools.pairwise(offsets.tolist()))

    def _read(self, stretch: _Reencoded) -> bytes:
        """Return the text of a stretch of bytes, which lies inside one piece."""
        low = int(np.searchsorted(self.starts, stretch.start, side="right")) - 1
        high = int(np.searchsorted(self.starts, stretch.end))
        skipped = stretch.start - int(self.starts[low])
        text = self.tokenizer.decode_bytes(self.encoding.ids[low:high].tolist())
        return text[skipped : skipped + stretch.end - stretch.start]

    def _as_is(self, low: int, high: int, *, scored: bool) -> Iterator[_Run]:
        if low == high:
            return
        pieces = self.encoding.pieces
        first = np.searchsorted(pieces[:, TOKEN_END], low, side="right")
        after = np.searchsorted(pieces[:, TOKEN_START], high)
        own = pieces[first:after].copy()
        own[0, TOKEN_START], own[-1, TOKEN_END] = low, high
        own[0, BYTE_START], own[-1, BYTE_END] = self.starts[low], self.ends[high - 1]
        own[:, (TOKEN_START, TOKEN_END)] -= low
        yield _Run(self.encoding.ids[low:high], own, scored)


def _run(kind: int, ids: Int32s, start: int, end: int, *, scored: bool) -> _Run:
    return _Run(ids, np.array([[kind, 0, len(ids), start, end]], dtype=np.int32), scored)


def _pieces(runs: Sequence[_Run]) -> Int32s:
    """Return the pieces of the joined runs; pieces of contiguous text are merged."""
    counts = [len(run.ids) for run in runs]
    shift = np.repeat(np.cumsum(counts) - counts, [len(run.pieces) for run in runs])
    pieces = np.concatenate([run.pieces for run in runs])
    pieces[:, (TOKEN_START, TOKEN_END)] += shift[:, None]
    text = pieces[:, KIND] == TEXT_PIECE
    begins = np.ones(len(pieces), dtype=np.bool_)
    begins[1:] = ~(text[1:] & text[:-1]) | (pieces[1:, BYTE_START] != pieces[:-1, BYTE_END])
    first = np.flatnonzero(begins)
    joined: Int32s = pieces[first]
    last = np.append(first[1:], len(pieces)) - 1
    joined[:, (TOKEN_END, BYTE_END)] = pieces[last][:, (TOKEN_END, BYTE_END)]
    return joined
