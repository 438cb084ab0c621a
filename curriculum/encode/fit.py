"""Fitting of one document, which yields encodings of at most T tokens each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from curriculum.encode.encoded_documents import Bools, FitResult, Int32s, Outcome, TokenizedDocument
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import BYTE_END, BYTE_START, KIND, TOKEN_END, TOKEN_START, Encoding
from schemas.corpus import LANGUAGES
from schemas.families import ENRICHED_FAMILY, FAMILIES, TooLong
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE

_SLASHES, _HASH = "// …\n", "# …\n"
ELISIONS: Mapping[str, str] = {
    language: _SLASHES if language in ("cpp", "c") else _HASH for language in LANGUAGES
}
"""Line that replaces elided text, by language."""


def policy_of(family: str) -> TooLong:
    """Return the way in which a family handles documents that don't fit even without their elidable parts.

    For documents with structure, `family` must be their base family.
    """
    assert family != ENRICHED_FAMILY, "ask for the policy of its base family"
    return FAMILIES[family].too_long


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _FittedLine:
    """Text tokens of a document that are kept, with elision lines between them, without BOS and EOS."""

    ids: Int32s
    pieces: Int32s
    borders: Int32s
    """Borders of the kept parts, as token positions."""
    dropped: Bools
    """True for each part that is removed, [parts]."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Fitter:
    """Fitter of one family's documents to rows of one length, for one tokenizer."""

    tokenizer: Tokenizer
    row_length: int
    policy: TooLong
    elisions: Mapping[str, Int32s]
    """Tokens of the line that replaces elided text, by language."""

    @staticmethod
    def from_tokenizer(tokenizer: Tokenizer, *, row_length: int, policy: TooLong) -> "Fitter":
        """Create the fitter; the elision line of each language is encoded only once."""
        assert row_length > 3, row_length
        elisions = {language: tokenizer.encode(line) for language, line in ELISIONS.items()}
        return Fitter(tokenizer=tokenizer, row_length=row_length, policy=policy, elisions=elisions)

    def fit(self, document: TokenizedDocument) -> FitResult:
        """Return the fit result of one document: encodings of at most `row_length` tokens each, or none.

        The loss_mask is 1 except at the last token; an objective chooses the targets.
        """
        if not document.num_bytes:
            return _fitted(document, "dropped", ())
        if document.straddles:
            return _fitted(document, "straddles", ())
        if len(document.ids) <= self.row_length and not document.forbidden.any():
            return _fitted(document, "whole", (self._whole(document),))
        room = self.row_length - self._lead - self._trail
        line = self._elide(document, room)
        if len(line.ids) <= room:
            return _fitted(
                document, "elided", (self._encoding(document, line, 0, len(line.ids)),), line
            )
        if self.policy == "route":
            return _fitted(document, "routed", ())
        return _fitted(document, "divided", tuple(self._divide(document, line)), line)

    @property
    def _lead(self) -> int:
        return int(self.tokenizer.bos_id is not None)

    @property
    def _trail(self) -> int:
        return int(self.tokenizer.eos_id is not None)

    def _whole(self, document: TokenizedDocument) -> Encoding:
        """Return the encoding of a document that fits. This is the common case; it takes no time per part."""
        text = document.ids[self._lead : len(document.ids) - self._trail]
        pieces = np.array([[TEXT_PIECE, 0, len(text), 0, document.num_bytes]], dtype=np.int32)
        return self._framed(document, text, pieces, is_end=True)

    def _elide(self, document: TokenizedDocument, room: int) -> _FittedLine:
        elision = self.elisions[document.language]
        dropped = elided_parts(
            lengths=np.diff(document.part_tokens),
            units=document.units,
            ranks=document.ranks,
            elidable=document.elidable,
            forbidden=document.forbidden,
            elision=len(elision),
            room=room,
        )
        text = document.ids[self._lead : len(document.ids) - self._trail]
        return _line(document, text, dropped, elision)

    def _divide(self, document: TokenizedDocument, line: _FittedLine) -> Iterator[Encoding]:
        start, count, room = 0, len(line.ids), self.row_length - self._lead
        while count - start > room - self._trail:
            # The rest may fit except for its EOS; then the last division still needs a token.
            limit = min(start + room, count - 1)
            end = self._cut(line, start, limit)
            yield self._encoding(document, line, start, end)
            start = end
        yield self._encoding(document, line, start, count)

    def _cut(self, line: _FittedLine, start: int, limit: int) -> int:
        """Return the end of the division that starts at `start`; it is at most `limit`.

        It is the last part border, if the division is at least half full there, so that a header isn't a
        division of its own. Otherwise, it is the last line start; if there is none, it is the last token that
        fits and ends a character.
        """
        border = int(line.borders[np.searchsorted(line.borders, limit, side="right") - 1])
        if border > start and 2 * (border - start) >= limit - start:
            return border
        lines = np.flatnonzero(self.tokenizer.ends_line[line.ids[start:limit]])
        if len(lines):
            return start + int(lines[-1]) + 1
        begins = np.flatnonzero(~self.tokenizer.mid_character[line.ids[start + 1 : limit + 1]])
        return start + 1 + int(begins[-1]) if len(begins) else limit

    def _encoding(
        self, document: TokenizedDocument, line: _FittedLine, start: int, end: int
    ) -> Encoding:
        """Return the encoding of the tokens `[start, end)` of the line."""
        pieces = self._clip(line, start, end)
        is_end = end == len(line.ids)
        return self._framed(document, line.ids[start:end], pieces, is_end=is_end)

    def _framed(
        self,
        document: TokenizedDocument,
        text: npt.NDArray[np.integer[Any]],
        pieces: Int32s,
        *,
        is_end: bool,
    ) -> Encoding:
        """Return the encoding of `text` with BOS before it and, if `is_end`, EOS after it.

        Token positions in `pieces` are relative to the text.
        """
        pieces[:, (TOKEN_START, TOKEN_END)] += self._lead
        start, last, size = pieces[0, BYTE_START], len(text) + self._lead, document.num_bytes
        ids, rows = [text], [pieces]
        if self.tokenizer.bos_id is not None:
            ids.insert(0, np.array([self.tokenizer.bos_id]))
            rows.insert(0, np.array([[GENERATED_PIECE, 0, 1, start, start]], dtype=np.int32))
        if self.tokenizer.eos_id is not None and is_end:
            ids.append(np.array([self.tokenizer.eos_id]))
            rows.append(np.array([[GENERATED_PIECE, last, last + 1, size, size]], dtype=np.int32))
        joined = np.concatenate(ids).astype(np.int32)
        return Encoding(
            document_id=document.document_id,
            ids=joined,
            loss_mask=all_but_last(len(joined)),
            pieces=np.concatenate(rows),
        )

    def _clip(self, line: _FittedLine, start: int, end: int) -> Int32s:
        """Return the pieces of the tokens `[start, end)` of the line.

        The byte range of a piece that is cut is computed from its tokens.
        """
        first = np.searchsorted(line.pieces[:, TOKEN_END], start, side="right")
        last = np.searchsorted(line.pieces[:, TOKEN_START], end, side="left")
        pieces = line.pieces[first:last].copy()
        for edge, token, byte, at in (
            (0, TOKEN_START, BYTE_START, max(start, pieces[0, TOKEN_START])),
            (-1, TOKEN_END, BYTE_END, min(end, pieces[-1, TOKEN_END])),
        ):
            if pieces[edge, KIND] == TEXT_PIECE:
                low, high = sorted((int(pieces[edge, token]), int(at)))
                moved = int(self.tokenizer.token_bytes[line.ids[low:high]].sum())
                pieces[edge, byte] += moved if edge == 0 else -moved
            pieces[edge, token] = at
        pieces[:, (TOKEN_START, TOKEN_END)] -= start
        return pieces


def elided_parts(
    *,
    lengths: npt.NDArray[np.integer[Any]],
    units: Int32s,
    ranks: Int32s,
    elidable: Bools,
    forbidden: Bools,
    elision: int,
    room: int,
) -> Bools:
    """Return a flag for each part: True if it must be removed.

    Parts in `forbidden` are always removed. If the rest doesn't fit in `room`, as few `elidable` parts as
    possible are removed, those of the highest rank first. If nothing fits, all elidable parts are removed,
    but never the whole text.

    All arrays are [parts]. The parts of one unit have one rank and are removed together; of units with equal
    rank, the earlier one is removed first. `elision` is the number of tokens of the line in each gap;
    adjacent removed parts share one gap.

    >>> lengths, ranks = np.array([9, 5, 5, 5, 9]), np.array([0, 1, 3, 2, 0], dtype=np.int32)
    >>> elidable, none = np.array([False, True, True, True, False]), np.zeros(5, dtype=np.bool_)
    >>> given = {"lengths": lengths, "elidable": elidable, "elision": 2, "room": 25}
    >>> units = np.arange(5, dtype=np.int32)
    >>> elided_parts(units=units, ranks=ranks, forbidden=none, **given).tolist()
    [False, False, True, True, False]
    >>> elided_parts(units=units, ranks=ranks, forbidden=np.arange(5) == 1, **given).tolist()
    [False, True, True, False, False]
    >>> ranks, units = np.array([0, 3, 1, 3, 0]), np.array([0, 1, 2, 1, 3])
    >>> elided_parts(units=units, ranks=ranks, forbidden=none, **given | {"room": 27}).tolist()
    [False, True, False, True, False]
    """
    count = int(units.max(initial=-1)) + 1
    _, starts = np.unique(units, return_index=True)
    first, may = forbidden[starts], (elidable | forbidden)[starts]
    order = np.lexsort((starts, -ranks[starts], ~first))
    order = order[may[order]]
    sizes = np.bincount(units, weights=lengths, minlength=count).astype(np.int64)
    left = lengths.sum() - np.cumsum(sizes[order]) + elision * _gaps(order, units, count)
    fewest = max(int(first.sum()), 1)
    fitting = np.flatnonzero(left[fewest - 1 :] <= room)
    dropped = np.zeros(count, dtype=np.bool_)
    dropped[order[: fitting[0] + fewest if len(fitting) else len(order)]] = True
    parts: Bools = dropped[units]
    return forbidden.copy() if parts.all() else parts


def _gaps(order: npt.NDArray[np.int64], units: Int32s, count: int) -> npt.NDArray[np.int64]:
    """Return the number of gaps after the first 1, 2, … units of `order` are removed: [0 2 1] -> [1 2 1]."""
    turn = np.full(count, count)
    turn[order] = np.arange(len(order))
    turns = turn[units]
    joined = np.maximum(turns[:-1], turns[1:])
    parts, joins = (
        np.bincount(values[values < count], minlength=len(order))[: len(order)]
        for values in (turns, joined)
    )
    gaps: npt.NDArray[np.int64] = np.cumsum(parts - joins)
    return gaps


def _line(
    document: TokenizedDocument,
    text: npt.NDArray[np.integer[Any]],
    dropped: Bools,
    elision: Int32s,
) -> _FittedLine:
    """Return the line of a document from which the parts in `dropped` are removed.

    It has one text piece per run of kept parts and one elision line per run of removed parts.
    """
    part_bytes, part_tokens = document.part_bytes, document.part_tokens
    runs = np.concatenate(([0], np.flatnonzero(np.diff(dropped)) + 1, [len(dropped)]))
    ids: list[Int32s] = []
    pieces: list[tuple[int, int, int, int, int]] = []
    borders: list[Int32s] = []
    at = 0
    for first, last in zip(runs[:-1].tolist(), runs[1:].tolist(), strict=True):
        byte, tokens = int(part_bytes[first]), part_tokens[first : last + 1]
        if dropped[first]:
            ids.append(elision)
            pieces.append((GENERATED_PIECE, at, at + len(elision), byte, byte))
            borders.append(np.array([at + len(elision)], dtype=np.int32))
        else:
            ids.append(text[tokens[0] : tokens[-1]].astype(np.int32))
            pieces.append((TEXT_PIECE, at, at + len(ids[-1]), byte, int(part_bytes[last])))
            borders.append(tokens[1:] - tokens[0] + np.int32(at))
        at += len(ids[-1])
    return _FittedLine(
        ids=np.concatenate(ids),
        pieces=np.array([piece for piece in pieces if piece[1] < piece[2]], dtype=np.int32),
        borders=np.concatenate([np.zeros(1, dtype=np.int32), *borders]),
        dropped=dropped,
    )


def all_but_last(count: int) -> npt.NDArray[np.uint8]:
    """Return a mask [count] of ones with a 0 at the end."""
    mask = np.ones(count, dtype=np.uint8)
    mask[-1] = 0
    return mask


def _fitted(
    document: TokenizedDocument,
    outcome: Outcome,
    encodings: tuple[Encoding, ...],
    line: _FittedLine | None = None,
) -> FitResult:
    dropped = np.zeros(len(document.ranks), dtype=np.bool_) if line is None else line.dropped
    sizes = np.diff(document.part_bytes)
    return FitResult(
        row=document.row,
        document_id=document.document_id,
        outcome=outcome,
        encodings=encodings,
        num_bytes=document.num_bytes,
        num_tokens=len(document.ids),
        elided_bytes=int(sizes[dropped].sum()),
        other_side_bytes=int(sizes[dropped & document.forbidden].sum()),
        chunks=document.chunks_of(dropped),
    )
