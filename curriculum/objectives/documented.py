"""Documentation in an encoding, with the code below it, and their lines."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curriculum.objectives.objective import Document
from curriculum.tokens import BYTE_END, BYTE_START, KIND, TOKEN_END, TOKEN_START, Encoding
from curriculum.tokens.codec import Tokenizer
from schemas.document import PartKind
from schemas.packed_row import TEXT_PIECE

Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

TAUGHT_PARTS: tuple[PartKind, ...] = ("code", "target")
"""A header's documentation is about the file, and the context of a target is only read."""
START, END, CODE, BODY, LAST = range(5)
"""Columns of what is documented: the comment's start and end, where the code below it begins, where its
body does, and where the code ends. Without a body, that begins where the code ends."""


def documented(document: Document) -> Int32s:
    """[d, 5]: every documentation that stands above a declaration in the parts that are scored, sorted."""
    parts = document.parts(*TAUGHT_PARTS)
    comments, declarations = (document.spans.of(kind) for kind in ("documentation", "declaration"))
    declared = declarations[declarations[:, 0] >= parts[0, 0]] if len(parts) else declarations[:0]
    comment = comments[np.searchsorted(comments[:, 0], declared[:, 0]) - 1]
    assert (comment[:, 1] <= declared[:, 0]).all(), "a declaration stands below its documentation"
    bodies = np.concatenate((document.spans.of("body"), [[-1, -1]]))
    body = bodies[np.searchsorted(bodies[:-1, 0], declared[:, 1])]
    last = np.where(body[:, 0] == declared[:, 1], body[:, 1], declared[:, 1])
    found: Int32s = np.column_stack((comment, declared, last)).astype(np.int32)
    return found


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lines:
    """The text of an encoding, whose pieces are in the document's order, by bytes of the document."""

    first: int
    """The first byte that the encoding has."""
    data: npt.NDArray[np.uint8]
    """The bytes from there on; 0 for those that it lacks."""
    pieces: Int32s
    """[p, 2]: the bytes of each piece of text."""
    ends: Int32s
    """The first byte after each newline."""

    @staticmethod
    def of(encoding: Encoding, tokenizer: Tokenizer) -> "Lines":
        """Decodes the encoding; some 20 Mtok/s."""
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
        return Lines(first=first, data=found, pieces=pieces, ends=ends.astype(np.int32))

    def piece_of(self, at: Int32s) -> tuple[Int32s, Int32s]:
        """Start and end of the piece that has each byte; an empty one at the byte for one it lacks."""
        number = np.searchsorted(self.pieces[:, 0], at, side="right") - 1
        padded = np.concatenate((self.pieces, [[-1, -1]])).astype(np.int32)
        start, end = padded[number].T
        lacks = (at >= end) | (at < start)
        return np.where(lacks, at, start), np.where(lacks, at, end)

    def starts_of(self, at: Int32s) -> Int32s:
        """The first byte of the line that has each byte, as far as its piece goes back."""
        before = np.concatenate((self.ends, [-1])).astype(np.int32)
        start = before[np.searchsorted(self.ends, at, side="right") - 1]
        return np.maximum(start, self.piece_of(at)[0])

    def ends_of(self, at: Int32s) -> Int32s:
        """The first byte after the line that has each byte; far away without a newline."""
        after = np.concatenate((self.ends, [np.iinfo(np.int32).max])).astype(np.int32)
        return after[np.searchsorted(self.ends, at, side="right")]

    def has(self, low: Int32s, high: Int32s) -> Bools:
        """Mask of ranges `[low, high)`, each of one byte at least, that are in one piece."""
        found: Bools = self.piece_of(low)[1] >= high
        return found

    def text(self, low: int, high: int) -> bytes:
        """Bytes `[low, high)` of the document."""
        return self.data[low - self.first : high - self.first].tobytes()
