"""Conversations become encodings: each turn behind what says who speaks, and before what ends it.

One that is too long is divided before a user's turn, so that a question stays with its answer; where one
exchange alone is too long, between lines. A turn that goes on in the next division says there again who
speaks, and only its last piece is ended.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.encode.documents import Bools, FitResult, Int32s, Outcome, TokenizedDocument
from curriculum.tokens import Encoding
from curriculum.tokens.codec import Tokenizer, TurnMarks, turn_marks
from schemas.document import PART_KINDS
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE

_USER = PART_KINDS.index("user")
_NONE: Int32s = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Spoken:
    """A conversation as tokens, marks included, BOS and EOS not."""

    ids: Int32s
    """[n]"""
    texts: Int32s
    """[turns, 2]: where the tokens of each turn's text lie."""
    leads: tuple[Int32s, ...]
    """Marks of the speaker by turn, right before its text."""
    bytes_before: Int32s
    """[n + 1]: of the text, which marks are no part of."""
    exchanges: Int32s
    """Starts of the exchanges, but for the first."""

    @property
    def turns(self) -> Int32s:
        """[turns]: where each begins."""
        return self.texts[:, 0] - np.array([len(lead) for lead in self.leads], dtype=np.int32)

    def going_on(self, at: int) -> Int32s:
        """Return the marks of the speaker of the turn whose text is cut at `at`; nothing between turns."""
        turn = int(np.searchsorted(self.texts[:, 0], at, side="left")) - 1
        return self.leads[turn] if turn >= 0 and at < self.texts[turn, 1] else _NONE

    def pieces(self, start: int, end: int) -> Int32s:
        """[k, 5]: those of the tokens [start, end), which count from 0; marks are generated."""
        borders = np.concatenate(([0], self.texts.reshape(-1), [len(self.ids)]))
        first = np.clip(borders[:-1], start, end)
        last = np.clip(borders[1:], start, end)
        kinds = np.where(np.arange(len(first)) % 2, TEXT_PIECE, GENERATED_PIECE)
        columns = (kinds, first - start, last - start, *self.bytes_before[[first, last]])
        pieces: Int32s = np.stack(columns, axis=1)[last > first].astype(np.int32)
        return pieces


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnFitter:
    """Fits conversations to rows of one length with one tokenizer."""

    row_length: int
    marks: TurnMarks
    bos: Int32s
    eos: Int32s
    """None or one token."""
    token_bytes: Int32s
    ends_line: Bools
    mid_character: Bools
    leading_space: Int32s

    @staticmethod
    def of(tokenizer: Tokenizer, *, row_length: int) -> "TurnFitter":
        """The fitter."""
        marks = turn_marks(tokenizer)
        assert row_length > 2 * max(map(len, marks.leads.values())) + 8, row_length
        bos, eos = tokenizer.bos_id, tokenizer.eos_id
        return TurnFitter(
            row_length=row_length,
            marks=marks,
            bos=_NONE if bos is None else np.array([bos], dtype=np.int32),
            eos=_NONE if eos is None else np.array([eos], dtype=np.int32),
            token_bytes=tokenizer.token_bytes,
            ends_line=tokenizer.ends_line,
            mid_character=tokenizer.mid_character,
            leading_space=tokenizer.leading_space,
        )

    def fit(self, document: TokenizedDocument) -> FitResult:
        """The encodings of one conversation, at most `row_length` tokens each; no byte is left out.

        Their loss_mask is 1 but at the last token: an objective decides what counts.
        """
        spoken = self._spoken(document)
        encodings = tuple(self._encodings(document, spoken)) if document.num_bytes else ()
        outcome: Outcome = "whole" if len(encodings) == 1 else "divided"
        return FitResult(
            row=document.row,
            document_id=document.document_id,
            outcome=outcome if encodings else "dropped",
            encodings=encodings,
            num_bytes=document.num_bytes,
            num_tokens=len(self.bos) + len(spoken.ids) + len(self.eos),
            elided_bytes=0,
            other_side_bytes=0,
        )

    def _spoken(self, document: TokenizedDocument) -> _Spoken:
        text = document.ids[len(self.bos) : len(document.ids) - len(self.eos)].astype(np.int32)
        borders = document.part_tokens.tolist()
        leads = tuple(self.marks.leads[PART_KINDS[kind]] for kind in document.part_kinds)
        ids: list[Int32s] = []
        texts, at = [], 0
        for lead, start, end in zip(leads, borders[:-1], borders[1:], strict=True):
            ids += [lead, text[start:end], self.marks.end]
            texts.append((at + len(lead), at + len(lead) + end - start))
            at = texts[-1][1] + len(self.marks.end)
        joined = np.concatenate(ids) if ids else _NONE
        placed = np.array(texts, dtype=np.int32).reshape(-1, 2)
        is_text = _painted(placed, len(joined))
        sizes = np.where(is_text, self.token_bytes[joined], 0)
        users = np.flatnonzero(document.part_kinds == _USER)[1:]
        return _Spoken(
            ids=joined,
            texts=placed,
            leads=leads,
            bytes_before=np.concatenate(([0], np.cumsum(sizes))).astype(np.int32),
            exchanges=placed[users, 0] - np.int32(len(self.marks.leads["user"])),
        )

    def _encodings(self, document: TokenizedDocument, spoken: _Spoken) -> Iterator[Encoding]:
        start, count = 0, len(spoken.ids)
        while True:
            lead = np.concatenate((self.bos, spoken.going_on(start)))
            room = self.row_length - len(lead)
            if count - start <= room - len(self.eos):
                yield self._encoding(document, spoken, lead, start, count)
                return
            end = self._cut(spoken, start, start + room)
            yield self._encoding(document, spoken, lead, start, end)
            start = end

    def _cut(self, spoken: _Spoken, start: int, limit: int) -> int:
        """Return the end of a division that starts at `start`, `limit` at the latest.

        Before the last exchange that doesn't fit. Else behind the last line inside a turn, else before
        a turn, else behind the last character: a mark is never cut from its turn.
        """
        exchange = _last(spoken.exchanges, start, limit)
        if exchange is not None:
            return exchange
        at = np.arange(start + 1, min(limit, len(spoken.ids) - 1) + 1)
        turn = np.searchsorted(spoken.texts[:, 0], at, side="left") - 1
        inside = at[(turn >= 0) & (at < spoken.texts[turn, 1])]
        lines = inside[self.ends_line[spoken.ids[inside - 1]]]
        characters = inside[~self.mid_character[spoken.ids[inside]]]
        found = (_last(each, start, limit) for each in (lines, spoken.turns, characters))
        cut = next((each for each in found if each is not None), None)
        assert cut is not None, "a row holds a turn's mark and a character at least"
        return cut

    def _encoding(
        self, document: TokenizedDocument, spoken: _Spoken, lead: Int32s, start: int, end: int
    ) -> Encoding:
        """[BOS] [who goes on speaking] spoken[start:end] [EOS, where the conversation ends]."""
        trail = self.eos if end == len(spoken.ids) else _NONE
        ids = np.concatenate((lead, spoken.ids[start:end], trail))
        pieces = [spoken.pieces(start, end)]
        pieces[0][:, 1:3] += len(lead)
        for first, last, byte in (
            (0, len(lead), spoken.bytes_before[start]),
            (len(ids) - len(trail), len(ids), spoken.bytes_before[end]),
        ):
            if last > first:
                made = np.array([[GENERATED_PIECE, first, last, byte, byte]], dtype=np.int32)
                pieces.insert(0 if first == 0 else len(pieces), made)
        mask = np.ones(len(ids), dtype=np.uint8)
        mask[-1] = 0
        return Encoding(
            document_id=document.document_id,
            ids=ids,
            loss_mask=mask,
            pieces=np.concatenate(pieces),
        )


def _painted(ranges: Int32s, count: int) -> Bools:
    """[count]: whether each token lies in one of the ranges; [[1 3]] of 4 -> [F T T F]."""
    steps = np.zeros(count + 1, dtype=np.int32)
    steps[ranges[:, 0]] += 1
    steps[ranges[:, 1]] -= 1
    return np.cumsum(steps[:-1]) > 0


def _last(places: npt.NDArray[np.integer], start: int, limit: int) -> int | None:
    """The last of rising places in (start, limit].

    >>> places = np.array([2, 5, 9])
    >>> _last(places, 2, 8), _last(places, 5, 8)
    (5, None)
    """
    index = int(np.searchsorted(places, limit, side="right")) - 1
    return int(places[index]) if index >= 0 and places[index] > start else None
