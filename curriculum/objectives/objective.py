"""Protocol of objectives, their input (an encoding and facts about its document), and their result."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from curriculum.tokens.encoding import Encoding, Spans
from schemas.document import PART_KINDS, PartKind


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DocumentFacts:
    """Facts about a document that an objective may use in addition to the encoding."""

    flat_id: str
    """Id of the document; for a document with structure, that of its base document, so that random choices
    are the same with and without structure.
    """
    spans: Spans
    part_bytes: npt.NDArray[np.int32]
    """Borders of the parts, from 0 to the number of bytes, [parts + 1]."""
    part_kinds: npt.NDArray[np.int32]
    """Kind of each part, as an index into PART_KINDS, [parts]."""
    room: int
    """Number of tokens that a row has."""

    def parts(self, *kinds: PartKind) -> npt.NDArray[np.int32]:
        """Return the byte ranges of the parts of these kinds, [p, 2], in the order of the text."""
        wanted = np.isin(self.part_kinds, [PART_KINDS.index(kind) for kind in kinds])
        return np.stack((self.part_bytes[:-1][wanted], self.part_bytes[1:][wanted]), axis=1)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Result:
    """Encoding with its final targets, and counts about them."""

    encoding: Encoding
    counts: tuple[tuple[str, int], ...] = ()
    """Counts for a manifest's report; counts with equal names are summed."""


class Objective(Protocol):
    """Objective for one tokenizer."""

    @property
    def reserve(self) -> int:
        """Maximum number of tokens that the objective adds to an encoding; fitting leaves room for them."""
        ...

    def apply(self, encoding: Encoding, document: DocumentFacts) -> Result:
        """Apply this objective to an encoding that is in document order and has no structure."""
        ...
