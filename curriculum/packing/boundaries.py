"""Boundaries of documents in a row: one convention in several views, and conversions between them.

    input_ids   [BOS a EOS BOS c PAD PAD]      doc_starts   [0 3]
    doc_ids     [ 0  0 0   1  1  2   2 ]       cu_seqlens   [0 3 5 7]
    position_ids[ 0  1 2   0  1  0   1 ]

Padding is the last segment, with id num_docs; cu_seqlens always ends at the row length T. A batch of n
rows is one flat row of n·T positions: `flat_cu_seqlens` joins the rows, and all else follows from it.
"""

import numpy as np
import numpy.typing as npt

from schemas.errors import SchemaError

Int32s = npt.NDArray[np.int32]
IntegerArray = npt.NDArray[np.integer]


def cu_seqlens(doc_starts: IntegerArray, valid_token_count: int, row_length: int) -> Int32s:
    """Edges of all segments, padding's included: starts [0 3], 5 valid of 7 -> [0 3 5 7].

    A full row has no padding segment: starts [0 3], 7 valid of 7 -> [0 3 7].
    """
    tail = [row_length] if valid_token_count == row_length else [valid_token_count, row_length]
    return np.concatenate([doc_starts, tail]).astype(np.int32)


def doc_ids(doc_starts: IntegerArray, valid_token_count: int, row_length: int) -> Int32s:
    """The segment of each position: starts [0 3], 5 valid of 7 -> [0 0 0 1 1 2 2]."""
    lengths = np.diff(cu_seqlens(doc_starts, valid_token_count, row_length))
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)


def doc_starts(doc_ids: IntegerArray, num_docs: int) -> Int32s:
    """First position of each document, padding's left out: [0 0 0 1 1 2 2], 2 documents -> [0 3]."""
    return flat_cu_seqlens(doc_ids)[:num_docs]


def flat_cu_seqlens(doc_ids: IntegerArray) -> Int32s:
    """Edges of all segments of one row [T] or of n rows [n, T] laid end to end.

    [[0 0 1] [0 1 1]] -> [0 2 3 4 6]: a row's first position is an edge whatever id came before it.
    """
    rows = np.atleast_2d(doc_ids)
    begins = np.ones(rows.shape, dtype=np.bool_)
    begins[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return np.append(np.flatnonzero(begins), rows.size).astype(np.int32)


def position_ids(cu_seqlens: IntegerArray) -> Int32s:
    """Positions that restart at each segment: [0 3 5 7] -> [0 1 2 0 1 0 1]."""
    starts = cu_seqlens[:-1]
    everywhere = np.arange(cu_seqlens[-1], dtype=np.int32)
    return (everywhere - np.repeat(starts, np.diff(cu_seqlens))).astype(np.int32)


def infer_doc_starts(input_ids: IntegerArray, bos_id: int | None, pad_id: int) -> Int32s:
    """First position of each document by its BOS: [BOS a EOS BOS c PAD PAD] -> [0 3].

    Raises:
        SchemaError: where the tokens don't tell: no BOS, BOS == PAD, or no BOS at index 0.
    """
    if bos_id is None or bos_id == pad_id:
        raise SchemaError(
            "doc_starts",
            f"bos_id {bos_id}, pad_id {pad_id}",
            cause="boundaries are inferred only from a BOS that differs from PAD",
            cure="Store doc_ids or doc_starts in the rows",
        )
    if len(input_ids) == 0 or input_ids[0] != bos_id:
        raise SchemaError(
            "doc_starts",
            f"first token {input_ids[0]}" if len(input_ids) else "an empty row",
            cause=f"boundaries are inferred only from rows that begin with BOS {bos_id}",
            cure="Store doc_ids or doc_starts in the rows",
        )
    return np.flatnonzero(input_ids == bos_id).astype(np.int32)


def infer_valid_token_count(input_ids: IntegerArray, eos_id: int | None, pad_id: int) -> int:
    """Tokens up to the last that isn't PAD: [BOS a EOS BOS c PAD PAD] -> 5.

    Raises:
        SchemaError: where PAD == EOS, since a last EOS then looks like padding.
    """
    if eos_id == pad_id:
        raise SchemaError(
            "valid_token_count",
            f"eos_id and pad_id {pad_id}",
            cause="padding can't be told from a document's end where PAD == EOS",
            cure="Store valid_token_count in the rows",
        )
    tokens = np.flatnonzero(input_ids != pad_id)
    return int(tokens[-1]) + 1 if len(tokens) else 0
