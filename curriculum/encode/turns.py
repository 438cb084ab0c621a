"""Conversations become encodings: each turn behind what says who speaks, and before what ends it.

One that is too long is divided before a user's turn, so that a question stays with its answer; where one
exchange alone is too long, between lines. A turn that goes on in the next division says there again who
speaks, and only its last piece is ended.

Every turn of a document ends with a line feed that its family put there. A chat template ends turns in its
own way, so with one that line feed is left out, and counted as elided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from curriculum.encode.documents import Bools, FitResult, Int32s, Outcome, TokenizedDocument
from curriculum.tokens import Encoding
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.turns import Frame, TurnFormat, turn_format
from schemas.change import Role
from schemas.document import PART_KINDS
from schemas.errors import TokenizerError, TurnError
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
    """[n + 1]: of the document's text, which marks are no part of."""
    exchanges: Int32s
    """Starts of the exchanges, but for the first."""

    @property
    def turns(self) -> Int32s:
        """[turns - 1]: where each begins but for the first, which nothing is cut from."""
        leads = np.array([len(lead) for lead in self.leads[1:]], dtype=np.int32)
        return self.texts[1:, 0] - leads

    @property
    def num_bytes(self) -> int:
        """Bytes of the turns' texts."""
        return int(np.diff(self.bytes_before[self.texts], axis=1).sum())

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
        low, high = self.bytes_before[[first, last]]
        high = np.where(kinds == TEXT_PIECE, high, low)
        columns = (kinds, first - start, last - start, low, high)
        pieces: Int32s = np.stack(columns, axis=1)[last > first].astype(np.int32)
        return pieces


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnFitter:
    """Fits conversations to rows of one length with one tokenizer."""

    row_length: int
    format: TurnFormat
    tokenizer: Tokenizer
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
        bos, eos = tokenizer.bos_id, tokenizer.eos_id
        return TurnFitter(
            row_length=row_length,
            format=turn_format(tokenizer),
            tokenizer=tokenizer,
            bos=_NONE if bos is None else np.array([bos], dtype=np.int32),
            eos=_NONE if eos is None else np.array([eos], dtype=np.int32),
            token_bytes=tokenizer.token_bytes,
            ends_line=tokenizer.ends_line,
            mid_character=tokenizer.mid_character,
            leading_space=tokenizer.leading_space,
        )

    def fit(self, document: TokenizedDocument) -> FitResult:
        """The encodings of one conversation, at most `row_length` tokens each; no byte of a turn is left out.

        Their loss_mask is 1 but at the last token: an objective decides what counts. A conversation that the
        chat template can't mark is refused.

        Raises:
            TokenizerError: for rows too short for what the chat template writes, and for a template that
                fails.
        """
        try:
            spoken = self._spoken(document)
        except TurnError as refused:
            return _refused(document, refused)
        encodings = tuple(self._encodings(document, spoken)) if document.num_bytes else ()
        outcome: Outcome = "whole" if len(encodings) == 1 else "divided"
        return FitResult(
            row=document.row,
            document_id=document.document_id,
            outcome=outcome if encodings else "dropped",
            encodings=encodings,
            num_bytes=document.num_bytes,
            num_tokens=len(self.bos) + len(spoken.ids) + len(self.eos),
            elided_bytes=document.num_bytes - spoken.num_bytes,
            other_side_bytes=0,
        )

    def _spoken(self, document: TokenizedDocument) -> _Spoken:
        roles = [cast(Role, PART_KINDS[kind]) for kind in document.part_kinds]
        said = self._said(document)
        frame = self._frame(document, roles, said)
        ids: list[Int32s] = [frame.opening]
        texts, at = [], len(frame.opening)
        for lead, own, end in zip(frame.leads, said, frame.ends, strict=True):
            ids += [lead, own, end]
            texts.append((at + len(lead), at + len(lead) + len(own)))
            at = texts[-1][1] + len(end)
        joined = np.concatenate(ids)
        placed = np.array(texts, dtype=np.int32).reshape(-1, 2)
        users = np.flatnonzero(document.part_kinds == _USER)[1:]
        leads = np.array([len(frame.leads[user]) for user in users], dtype=np.int32)
        return _Spoken(
            ids=joined,
            texts=placed,
            leads=frame.leads,
            bytes_before=self._bytes_before(joined, placed, document.part_bytes),
            exchanges=placed[users, 0] - leads,
        )

    def _said(self, document: TokenizedDocument) -> list[Int32s]:
        """The ids of each turn's text; encoded anew where it is without its line feed."""
        text = document.ids[len(self.bos) : len(document.ids) - len(self.eos)].astype(np.int32)
        said = [text[start:end] for start, end in pairwise(document.part_tokens.tolist())]
        if self.format.style != "template" or not said:
            return said
        bare = [self.tokenizer.decode_bytes(ids).decode().removesuffix("\n") for ids in said]
        ids, offsets = self.tokenizer.encode_batch(bare)
        return [ids[start:end] for start, end in pairwise(offsets.tolist())]

    def _bytes_before(self, ids: Int32s, texts: Int32s, part_bytes: Int32s) -> Int32s:
        """[n + 1]: the byte of the document at each token; that of a turn's start from its text on."""
        sizes = np.where(_painted(texts, len(ids)), self.token_bytes[ids], 0)
        before = np.concatenate(([0], np.cumsum(sizes)))
        if not len(texts):
            return before.astype(np.int32)
        turn = np.searchsorted(texts[:, 0], np.arange(len(before)), side="right") - 1
        left_out = part_bytes[:-1] - before[texts[:, 0]]
        return (before + left_out[np.maximum(turn, 0)]).astype(np.int32)

    def _frame(
        self, document: TokenizedDocument, roles: Sequence[Role], said: Sequence[Int32s]
    ) -> Frame:
        """The marks of a conversation, once its contents and the row have room for them."""
        if not roles:
            return Frame(opening=_NONE, leads=(), ends=())
        title = f"conversation {document.document_id}"
        frame = self.format.frame(roles)
        if self.row_length <= 2 * frame.longest + 8:
            raise TokenizerError(
                title,
                f"{frame.longest} tokens between two of its turns",
                cause=f"a row of {self.row_length} tokens must hold them twice, and some text",
                cure="Take longer rows, or another chat template",
            )
        if self.format.reads_texts:
            self.format.check(title, roles, [self.tokenizer.decode_bytes(ids) for ids in said])
        return frame

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


def _refused(document: TokenizedDocument, refusal: TurnError) -> FitResult:
    return FitResult(
        row=document.row,
        document_id=document.document_id,
        outcome="refused",
        encodings=(),
        num_bytes=document.num_bytes,
        num_tokens=len(document.ids),
        elided_bytes=0,
        other_side_bytes=0,
        refusal=refusal,
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
