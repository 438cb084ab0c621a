"""Who fits the documents of a family."""

from typing import Protocol

from curriculum.encode.documents import Fitted, Int32s, Tokenised
from curriculum.encode.fit import Fitter, policy_of
from curriculum.encode.turns import TurnFitter
from curriculum.tokens.codec import Tokenizer
from schemas.families import CHAT_FAMILY


class Fitting(Protocol):
    """Fits documents to rows of one length with one tokenizer."""

    @property
    def token_bytes(self) -> Int32s:
        """By id."""
        ...

    @property
    def leading_space(self) -> Int32s:
        """By id."""
        ...

    def fit(self, document: Tokenised) -> Fitted:
        """What becomes of a document."""
        ...


def fitter_of(tokenizer: Tokenizer, *, row_length: int, family: str) -> Fitting:
    """The fitter of a family; of what has structure it is its base family's."""
    if family == CHAT_FAMILY:
        return TurnFitter.of(tokenizer, row_length=row_length)
    return Fitter.of(tokenizer, row_length=row_length, policy=policy_of(family))
