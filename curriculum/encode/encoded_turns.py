"""Fitting of conversations: tokens before and after each turn name its speaker and end the turn.

A conversation is never divided, since an answer would lose its question or the system turn. A conversation
that is longer than a row is left out, or it loses its oldest exchanges (a question and its answer) until the
rest fits; the system turn and the last exchange stay.

Every turn of a document ends with a line feed that its family added. A chat template has its own ends of
turns, so with a template this line feed is removed and counted as elided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from curriculum.encode.encoded_documents import FitResult, Int32s, Outcome, TokenizedDocument
from curriculum.encode.fit import all_but_last
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import Encoding
from curriculum.tokens.turns import Frame, TurnFormat
from schemas.change import Role
from schemas.corpus import Overlong
from schemas.document import PART_KINDS
from schemas.errors import TurnError
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Turns:
    """Tokens of some turns of a conversation with the marks around them, without BOS and EOS."""

    numbers: tuple[int, ...]
    """Indices of the turns in the document."""
    texts: tuple[Int32s, ...]
    """Tokens of each turn's text."""
    frame: Frame

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all texts and marks."""
        return len(self.frame.opening) + sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """Number of tokens of each turn, including its marks."""
        turns = zip(self.frame.leads, self.texts, self.frame.ends, strict=True)
        return [len(lead) + len(text) + len(end) for lead, text, end in turns]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnFitter:
    """Fitter of conversations to rows of one length, for one tokenizer."""

    tokenizer: Tokenizer
    row_length: int
    overlong: Overlong
    format: TurnFormat
    """Marks that the tokenizer puts around turns."""

    @property
    def bos(self) -> Int32s:
        """BOS as an array; empty if the tokenizer has none."""
        return _tokens(self.tokenizer.bos_id)

    @property
    def eos(self) -> Int32s:
        """EOS as an array; empty if the tokenizer has none."""
        return _tokens(self.tokenizer.eos_id)

    def fit(self, document: TokenizedDocument) -> FitResult:
        """Return the fit result of one conversation: one encoding of at most `row_length` tokens, or none.

        The loss_mask is 1 except at the last token; an objective chooses the targets. A conversation that the
        chat template can't mark gets the outcome `refused`.

        Raises:
            TokenizerError: if the template fails.
        """
        frame_tokens = len(self.bos) + len(self.eos)
        if not document.num_bytes:
            return self._fitted(document, "dropped", frame_tokens)
        roles = [cast(Role, PART_KINDS[kind]) for kind in document.part_kinds]
        try:
            whole = self._framed(roles, self._text_ids(document), range(len(roles)))
            kept = self._fitting(roles, whole, _last_scored(document, roles))
            if kept is not None:
                self._require_contents(document, roles, kept)
        except TurnError as refused:
            return self._fitted(document, "refused", len(document.ids), refusal=refused)
        num_tokens = whole.num_tokens + frame_tokens
        if kept is None:
            return self._fitted(document, "too_long", num_tokens)
        return self._fitted(document, "whole" if kept is whole else "elided", num_tokens, kept)

    def _fitted(
        self,
        document: TokenizedDocument,
        outcome: Outcome,
        num_tokens: int,
        kept: _Turns | None = None,
        refusal: TurnError | None = None,
    ) -> FitResult:
        lengths = self.tokenizer.token_bytes
        said = sum(int(lengths[text].sum()) for text in kept.texts) if kept else document.num_bytes
        return FitResult(
            row=document.row,
            document_id=document.document_id,
            outcome=outcome,
            encodings=(self._encoding(document, kept),) if kept else (),
            num_bytes=document.num_bytes,
            num_tokens=num_tokens,
            elided_bytes=document.num_bytes - said,
            refusal=refusal,
        )

    def _text_ids(self, document: TokenizedDocument) -> list[Int32s]:
        """Return the token ids of each turn's text.

        If a chat template marks the turns, each text is encoded again without the line feed at its end.
        """
        text = document.ids[len(self.bos) : len(document.ids) - len(self.eos)].astype(np.int32)
        said = [text[start:end] for start, end in pairwise(document.part_tokens.tolist())]
        if self.format.style != "template":
            return said
        bare = [self.tokenizer.decode_bytes(ids).decode().removesuffix("\n") for ids in said]
        ids, offsets = self.tokenizer.encode_batch(bare)
        return [ids[start:end] for start, end in pairwise(offsets.tolist())]

    def _framed(
        self, roles: Sequence[Role], said: Sequence[Int32s], numbers: Sequence[int]
    ) -> _Turns:
        """Return the turns with the indices `numbers`, marked as if they were a whole conversation."""
        return _Turns(
            numbers=tuple(numbers),
            texts=tuple(said[number] for number in numbers),
            frame=self.format.frame([roles[number] for number in numbers]),
        )

    def _fitting(self, roles: Sequence[Role], whole: _Turns, last_scored: int) -> _Turns | None:
        """Return the turns of a conversation that fit a row; None if the conversation is left out.

        If not all turns fit and `overlong` allows it, the oldest exchanges are removed. The question of the
        last scored answer is kept, since otherwise nothing would be scored.
        """
        room = self.row_length - len(self.bos) - len(self.eos)
        if whole.num_tokens <= room:
            return whole
        if self.overlong == "skip":
            return None
        system = [number for number, role in enumerate(roles) if role == "system"]
        questions = [number for number, role in enumerate(roles) if role == "user"]
        sizes = np.array(whole.sizes)
        from_each = np.cumsum(sizes[::-1])[::-1][questions]
        fixed = len(whole.frame.opening) + int(sizes[system].sum())
        # Fewer turns may have other marks, so the exchange before the first that fits is tried as well.
        fits = int(np.count_nonzero(fixed + from_each > room))
        for first in (
            question for question in questions[max(1, fits - 1) :] if question < last_scored
        ):
            left = self._framed(roles, whole.texts, [*system, *range(first, len(roles))])
            if left.num_tokens <= room:
                return left
        return None

    def _require_contents(
        self, document: TokenizedDocument, roles: Sequence[Role], kept: _Turns
    ) -> None:
        """Raise a TurnError if the chat template would change the text of a kept turn."""
        if self.format.reads_texts:
            texts = [b""] * len(roles)
            for number, said in zip(kept.numbers, kept.texts, strict=True):
                texts[number] = self.tokenizer.decode_bytes(said)
            self.format.check(f"conversation {document.document_id}", roles, texts)

    def _encoding(self, document: TokenizedDocument, kept: _Turns) -> Encoding:
        """Return the encoding of the kept turns with their marks, [BOS] and [EOS].

        Marks are generated pieces.
        """
        frame = kept.frame
        marks_before = (frame.opening, *frame.ends[:-1])
        runs: list[tuple[Int32s, int | None]] = [(self.bos, None)]
        for before, lead, number, said in zip(
            marks_before, frame.leads, kept.numbers, kept.texts, strict=True
        ):
            runs += [(np.concatenate((before, lead)), None), (said, number)]
        runs += [(frame.ends[-1], None), (self.eos, None)]
        pieces, at, byte = [], 0, 0
        for ids, turn in runs:
            start = byte if turn is None else int(document.part_bytes[turn])
            byte = start if turn is None else start + int(self.tokenizer.token_bytes[ids].sum())
            if len(ids):
                kind = GENERATED_PIECE if turn is None else TEXT_PIECE
                pieces.append((kind, at, at + len(ids), start, byte))
            at += len(ids)
        return Encoding(
            document_id=document.document_id,
            ids=np.concatenate([ids for ids, _ in runs]).astype(np.int32),
            loss_mask=all_but_last(at),
            pieces=np.array(pieces, dtype=np.int32),
        )


def _tokens(token: int | None) -> Int32s:
    return np.array([] if token is None else [token], dtype=np.int32)


def _last_scored(document: TokenizedDocument, roles: Sequence[Role]) -> int:
    """Return the index of the last assistant turn that isn't context; -1 if there is none."""
    context = set(document.spans.of("unscored")[:, 0].tolist())
    starts = document.part_bytes.tolist()
    learnt = (
        turn
        for turn, role in enumerate(roles)
        if role == "assistant" and starts[turn] not in context
    )
    return max(learnt, default=-1)
