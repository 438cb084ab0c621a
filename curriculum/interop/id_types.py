"""Type of the ids in a flat .bin file: given by --dtype, recorded in another file, or inferred.

    bytes   05 00 00 00 07 00 00 00      uint16 [5 0 7 0]      uint32 [5 7]

A file without a recorded type may be readable with several types. A type fits if the file's size is a
multiple of the type's size, all ids are in the vocabulary, and documents begin and end with BOS and EOS as
--document-tokens says. If exactly one type fits, it is used; otherwise --dtype is required. The type given
by --dtype is refused if every second id is 0, because the ids are then halves of wider ids.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from curriculum.interop.document_frames import IDS_AT_ONCE, count_frames
from curriculum.tokens.codec import Tokenizer
from schemas.errors import SchemaError

IdType = Literal["uint16", "int32", "uint32", "int64"]
TYPE_OPTION = "--dtype"
WIDTHS: tuple[IdType, ...] = ("uint16", "uint32", "int64")
"""Types of ids, one per width. Signed and unsigned types are the same for ids below 2^31."""
MIN_HALVES = 8
"""Minimum number of ids in which zeros can show that the type is wrong."""
Values = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """Ids and document edges of a file that is read with one type."""

    dtype: IdType
    ids: Values
    edges: Int64s


def id_type_of_size(file: Path, tokens: int) -> IdType | None:
    """Return the type with which the size of `file` corresponds to `tokens` ids; None if there is none."""
    size = file.stat().st_size
    return next((dtype for dtype in WIDTHS if size == tokens * np.dtype(dtype).itemsize), None)


def infer_id_type(
    file: Path, tokenizer: Tokenizer, edges_of: Callable[[Values], Int64s]
) -> tuple[Values, Int64s]:
    """Return the ids of a file and the edges of its documents, read with the only type that fits.

    `edges_of` returns the edges of the documents in some ids, and raises SchemaError if it finds none.

    Raises:
        SchemaError: if no type fits, with the fault of each type, or if several types fit.
    """
    possible = [dtype for dtype in WIDTHS if _holds(dtype, tokenizer.vocab_size)]
    misread: dict[IdType, SchemaError] = {}
    misframed: dict[IdType, SchemaError] = {}
    readings: list[_Reading] = []
    for dtype in possible:
        try:
            ids = _ids(file, dtype, tokenizer)
        except SchemaError as fault:
            misread[dtype] = fault
            continue
        try:
            readings.append(
                _Reading(dtype=dtype, ids=ids, edges=_edges(file, ids, tokenizer, edges_of))
            )
        except SchemaError as fault:
            misframed[dtype] = fault
    if not readings and len(misframed) == 1:
        raise next(iter(misframed.values()))
    if len(readings) == 1:
        return readings[0].ids, readings[0].edges
    if readings:
        raise SchemaError(
            str(file),
            ", or ".join(
                f"{len(reading.ids):,} ids of {reading.dtype} in {len(reading.edges) - 1:,} documents"
                for reading in readings
            ),
            cause="the file doesn't say of which type its ids are, and several fit",
            cure=f"Say {TYPE_OPTION} {' or '.join(reading.dtype for reading in readings)}, or write "
            "offsets.bin beside it",
        )
    raise _none_fits(file, misframed | misread)


def require_ids(name: str, ids: Values, tokenizer: Tokenizer) -> None:
    """Raise unless all ids are in the vocabulary.

    Raises:
        SchemaError: names the first invalid id.
    """
    for first in range(0, len(ids), IDS_AT_ONCE):
        some = ids[first : first + IDS_AT_ONCE]
        if int(some.max()) >= tokenizer.vocab_size or int(some.min()) < 0:
            at = int(np.flatnonzero((some >= tokenizer.vocab_size) | (some < 0))[0])
            raise SchemaError(
                f"token {first + at:,} of {name}",
                int(some[at]),
                cause=f"the tokenizer has ids 0 to {tokenizer.vocab_size - 1:,}",
                cure="Give the tokenizer that the ids were made with",
            )


def require_no_halves(file: Path, ids: Values) -> None:
    """Raise if every second id among the first millions is 0, because the ids are then halves of wider ids.

    Raises:
        SchemaError: names the type with which the ids were read.
    """
    if len(ids) >= MIN_HALVES and not ids[1:IDS_AT_ONCE:2].any():
        wider = [dtype for dtype in WIDTHS if np.dtype(dtype).itemsize > ids.dtype.itemsize]
        raise SchemaError(
            str(file),
            f"each second id of {ids.dtype.name} is 0",
            cause="they are halves of ids of a wider type",
            cure=f"Say {TYPE_OPTION} {' or '.join(wider)}" if wider else "Write it anew",
        )


def _holds(dtype: IdType, vocab_size: int) -> bool:
    """Return True if all ids of a vocabulary fit into `dtype`."""
    return vocab_size - 1 <= np.iinfo(dtype).max


def _ids(file: Path, dtype: IdType, tokenizer: Tokenizer) -> Values:
    size, width = file.stat().st_size, np.dtype(dtype).itemsize
    if size % width:
        raise SchemaError(
            str(file),
            f"{size:,} bytes",
            cause=f"they aren't whole ids of {width} bytes",
            cure="Copy it again",
        )
    ids: Values = np.memmap(file, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
    require_ids(file.name, ids, tokenizer)
    return ids


def _edges(
    file: Path, ids: Values, tokenizer: Tokenizer, edges_of: Callable[[Values], Int64s]
) -> Int64s:
    edges = edges_of(ids)
    count_frames(ids, edges, tokenizer).require(str(file))
    return edges


def _none_fits(file: Path, faults: dict[IdType, SchemaError]) -> SchemaError:
    """Return the error for a file that no type fits; it lists the fault of each type."""
    listed = "; ".join(f"as {dtype}: {_found(file, fault)}" for dtype, fault in faults.items())
    first = next(iter(faults.values()))
    return SchemaError(
        str(file),
        f"{file.stat().st_size:,} bytes",
        cause=f"no type of ids fits ({listed})",
        cure=f"{first.cure}; with {TYPE_OPTION} only one type is tried",
    )


def _found(file: Path, fault: SchemaError) -> str:
    found = fault.cause if fault.value is None else str(fault.value)
    return found if fault.name == str(file) else f"{fault.name} {found}"
