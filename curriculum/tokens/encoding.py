"""A document as tokens: tokenizers create it, objectives rearrange it, and packing puts it into rows.

This module only needs numpy, so a training job can read tokens without a tokenizer.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.document import SPAN_KINDS, SpanKind

KIND, TOKEN_START, TOKEN_END, BYTE_START, BYTE_END = range(5)
"""Columns of `Encoding.pieces`."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Spans:
    """Spans of one document; `kinds` are indices into SPAN_KINDS."""

    kinds: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]

    def of(self, *kinds: SpanKind) -> npt.NDArray[np.int32]:
        """Return the [r, 2] byte ranges of some kinds, sorted; the kinds must not overlap."""
        chosen = np.isin(self.kinds, [SPAN_KINDS.index(kind) for kind in kinds])
        found = np.stack((self.starts[chosen], self.ends[chosen]), axis=1)
        return found[np.argsort(found[:, 0])] if len(kinds) > 1 else found


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedStructure:
    """Structure of an encoding, over its tokens; codes are those of schemas.structure."""

    base_document_id: str
    """Id of the flat document; documents with the same one are packed alike and fill the same rows."""
    codes: npt.NDArray[np.uint8]
    """[n, 5]: the columns of STRUCTURE_TOKENS, 0 at tokens that encode no text."""
    chunks: npt.NDArray[np.int32]
    """[k, 4]: start, end, kind, dep_level; half-open token ranges, sorted and disjoint."""
    call_edges: npt.NDArray[np.int32]
    """[e, 3]: source, target, label; source and target are indices of chunks; sorted."""
    type_edges: npt.NDArray[np.int32]
    """[e, 3]: as `call_edges`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoding:
    """A document, or one part of a divided document, as it appears in a row."""

    document_id: str
    ids: npt.NDArray[np.int32]
    """[n]"""
    loss_mask: npt.NDArray[np.uint8]
    """[n]: 1 at t if the prediction of ids[t + 1] from ids[≤ t] counts in the loss; the last is 0."""
    pieces: npt.NDArray[np.int32]
    """[k, 5]: kind, token_start, token_end, byte_start, byte_end; the token ranges tile [0, n)."""
    structure: EncodedStructure | None = None
    """Structure, for documents of v6_enriched."""


def byte_ranges(
    ids: npt.NDArray[np.integer],
    pieces: npt.NDArray[np.int32],
    token_bytes: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the half-open byte range of each token in the document's text; both arrays are [n].

    A token of a generated piece encodes no byte of the text: its start equals its end.

    >>> pieces = np.array([[1, 0, 1, 7, 7], [0, 1, 4, 7, 13], [1, 4, 5, 13, 13]], dtype=np.int32)
    >>> token_bytes = np.array([0, 1, 2, 3], dtype=np.int32)
    >>> start, end = byte_ranges(np.array([0, 1, 2, 3, 0]), pieces, token_bytes)
    >>> start.tolist(), end.tolist()
    ([7, 7, 8, 10, 13], [7, 8, 10, 13, 13])
    """
    lengths = pieces[:, TOKEN_END] - pieces[:, TOKEN_START]
    is_text = np.repeat(pieces[:, KIND] == 0, lengths)
    num_bytes = np.where(is_text, token_bytes[ids], 0).astype(np.int32)
    ends = np.cumsum(num_bytes, dtype=np.int32)
    starts = ends - num_bytes
    first = np.minimum(pieces[:, TOKEN_START], max(len(ids) - 1, 0))
    shift = np.repeat(pieces[:, BYTE_START] - starts[first], lengths) if len(ids) else 0
    return starts + shift, ends + shift
