"""Objective: the protocol, its input beside an encoding, and its result."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from curriculum.tokens.encoding import Encoding, Spans
from schemas.document import PART_KINDS, PartKind


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DocumentFacts:
    """Facts of a document that an objective may read besides an encoding of it."""

    flat_id: str
    """The same with and without structure, so that what is drawn by it is the same too."""
    spans: Spans
    part_bytes: npt.NDArray[np.int32]
    """[parts + 1] borders, from 0 to the number of bytes."""
    part_kinds: npt.NDArray[np.int32]
    """[parts], which index PART_KINDS."""
    room: int
    """Tokens that a row has."""

    def parts(self, *kinds: PartKind) -> npt.NDArray[np.int32]:
        """[p, 2] byte ranges of the parts of some kinds, in the order of the text."""
        wanted = np.isin(self.part_kinds, [PART_KINDS.index(kind) for kind in kinds])
        return np.stack((self.part_bytes[:-1][wanted], self.part_bytes[1:][wanted]), axis=1)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Result:
    """An encoding with its targets decided, and what there is to count about that."""

    encoding: Encoding
    counts: tuple[tuple[str, int], ...] = ()
    """Counts for a manifest's report, where equal names are summed."""


class Objective(Protocol):
    """One objective with one tokenizer."""

    @property
    def reserve(self) -> int:
        """Tokens that it may add to an encoding: fitting leaves them free."""
        ...

    def apply(self, encoding: Encoding, document: DocumentFacts) -> Result:
        """The encoding as this objective has it; what is given has text in its order, and no structure."""
        ...
