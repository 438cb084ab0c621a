"""A document as tokens: tokenizers create it, objectives rearrange it, and packing puts it into rows.

This module imports only numpy, so that a training job can read tokens without a tokenizer.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.document import SPAN_KINDS, SpanKind

KIND, TOKEN_START, TOKEN_END, BYTE_START, BYTE_END = range(5)
"""Indices of the columns of `Encoding.pieces`."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Spans:
    """Byte ranges in the text of one document, each of a kind; `kinds` are indices into SPAN_KINDS."""

    kinds: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]

    def of(self, *kinds: SpanKind) -> npt.NDArray[np.int32]:
        """Return the byte ranges [r, 2] of some kinds, sorted; ranges of these kinds must not overlap."""
        chosen = np.isin(self.kinds, [SPAN_KINDS.index(kind) for kind in kinds])
        found = np.stack((self.starts[chosen], self.ends[chosen]), axis=1)
        return found[np.argsort(found[:, 0])] if len(kinds) > 1 else found


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedStructure:
    """Structure of a document, mapped to the tokens of its encoding; schemas.structure defines the codes."""

    base_document_id: str
    """Id of the same document without structure.

    Rows of documents with structure are packed like the rows of these documents.
    """
    codes: npt.NDArray[np.uint8]
    """Columns of STRUCTURE_TOKENS for each token, 0 for tokens that encode no text, [n, 5]."""
    chunks: npt.NDArray[np.int32]
    """Chunks as (start, end, kind, dep_level), [k, 4]; half-open token ranges, sorted and disjoint."""
    call_edges: npt.NDArray[np.int32]
    """Edges as (source, target, label), [e, 3], sorted; source and target are indices of chunks."""
    type_edges: npt.NDArray[np.int32]
    """Edges in the form of `call_edges`, [e, 3]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoding:
    """Tokens of a document as they appear in a row; a divided document has one encoding per part."""

    document_id: str
    ids: npt.NDArray[np.int32]
    """Token ids, [n]."""
    loss_mask: npt.NDArray[np.uint8]
    """1 at t if the prediction of ids[t + 1] from ids[≤ t] counts in the loss, [n]; the last value is 0."""
    pieces: npt.NDArray[np.int32]
    """Pieces as (kind, token_start, token_end, byte_start, byte_end), [k, 5]; token ranges tile [0, n)."""
    structure: EncodedStructure | None = None
    """Structure of the document; None unless its family is v6_enriched."""


def byte_ranges(
    ids: npt.NDArray[np.integer],
    pieces: npt.NDArray[np.int32],
    token_bytes: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the half-open byte range of each token in the document's text, as arrays of starts and ends [n].

    A token of a generated piece encodes no byte of the text, so its start equals its end.

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
