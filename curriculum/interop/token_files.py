"""Documents that follow one another in .bin files, exported here or by Megatron or other tools.

A tokens artefact has such files too. The files are memory-mapped. If export.json exists, all files that it
lists must exist. Otherwise only ids and boundaries are known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from curriculum.interop import tokens_out
from curriculum.interop.document_frames import FRAMES_OPTION
from curriculum.interop.eos_boundaries import BY_EOS, OPTION, Boundaries, edges_of, require_eos
from curriculum.interop.id_types import (
    TYPE_OPTION,
    IdType,
    id_type_of_size,
    infer_id_type,
    require_ids,
    require_no_halves,
)
from curriculum.interop.tokens_out import INDEX_NAME, OFFSETS_NAME, TOKENS_NAME
from curriculum.tokens.codec import Tokenizer
from schemas.errors import SchemaError
from schemas.json_text import read_json
from schemas.manifest import BESIDE_NAME, RECORD_NAME, ExportRecord, TokenFormat
from schemas.regular_files import kind_at

Values = npt.NDArray[Any]
AT_ONCE = 1 << 22
"""Number of tokens that are compared at a time."""
COPY = "Copy the export again, all of its files"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenFiles:
    """Token ids, the edges of documents, and columns with one value per token."""

    path: Path
    """Path of the file of ids."""
    ids: Values
    """Token ids [tokens]."""
    edges: npt.NDArray[np.int64]
    """Offsets of the documents in `ids`, [documents + 1]."""
    marks: Mapping[str, Values]
    """Columns with one value per token by name: loss_mask, structure_ids …"""
    record: ExportRecord | None
    files: tuple[Path, ...]
    empty: int
    """Number of documents without tokens, which are left out of `edges`."""
    boundaries: Boundaries | None
    """Token from which the edges were inferred; None if they were stored."""

    @property
    def beside(self) -> Path | None:
        """Path of the file that says which documents share a row; None if there is no such file."""
        if self.record is None or self.record.rows is None:
            return None
        return self.path.parent / BESIDE_NAME


def open_tokens(
    path: Path,
    form: TokenFormat,
    tokenizer: Tokenizer,
    boundaries: Boundaries | None = None,
    dtype: IdType | None = None,
) -> TokenFiles:
    """Open the files of an export folder, or of a .bin file, whose suffix may be omitted.

    `boundaries` is the source of boundaries that aren't stored; `dtype` is the type of ids if the type isn't
    stored.

    Raises:
        SchemaError: if files are missing, truncated or inconsistent, ids are outside the vocabulary, or ids
            could have several types.
    """
    ids_file = _ids_file(path)
    record = _record(ids_file, form, tokenizer)
    other = _boundaries_file(ids_file, form)
    if boundaries is not None:
        _require_none_stored(other, form)
    if dtype is not None:
        _require_no_other_type(dtype, other, form, record)
    if form == "megatron":
        edges, stored = tokens_out.read_index(other)
        ids = _mapped(ids_file, stored, int(edges[-1]))
    elif other.is_file():
        edges = _offsets(other)
        known = record.dtype if record else dtype
        ids = _mapped(ids_file, known or _id_type(ids_file, int(edges[-1])), int(edges[-1]))
    else:
        ids, edges = _without_offsets(ids_file, other, tokenizer, boundaries, dtype)
    marks = {
        name: _mapped(ids_file.parent / f"{name}.bin", "uint8", len(ids))
        for name in (record.columns if record else ())
    }
    if other.is_file():
        require_ids(ids_file.name, ids, tokenizer)
    kept = np.unique(edges)
    beside = [ids_file.parent / BESIDE_NAME] if record and record.rows is not None else []
    files = (ids_file, other, *(ids_file.parent / f"{name}.bin" for name in marks), *beside)
    return TokenFiles(
        path=ids_file,
        ids=ids,
        edges=kept,
        marks=marks,
        record=record,
        files=tuple(file for file in files if file.is_file()),
        empty=len(edges) - len(kept),
        boundaries=boundaries,
    )


def _ids_file(path: Path) -> Path:
    names = (
        [path / TOKENS_NAME]
        if path.is_dir()
        else [path.with_suffix(".bin"), path.with_name(f"{path.name}.bin")]
    )
    file = next((name for name in names if name.is_file()), None)
    if file is None:
        kinds = {name.name: kind_at(name) for name in names}
        others = [f"{name} is {kind}" for name, kind in kinds.items() if kind != "nothing"]
        raise SchemaError(
            str(path),
            cause=", ".join(others) or f"there is no {' or '.join(kinds)}",
            cure="Give the folder of an export, or a .bin by its path",
        )
    return file


def _boundaries_file(ids_file: Path, form: TokenFormat) -> Path:
    whole = ids_file.name == TOKENS_NAME
    if form == "megatron":
        return ids_file.with_name(INDEX_NAME) if whole else ids_file.with_suffix(".idx")
    return ids_file.with_name(OFFSETS_NAME if whole else f"{ids_file.stem}.{OFFSETS_NAME}")


def _record(ids_file: Path, form: TokenFormat, tokenizer: Tokenizer) -> ExportRecord | None:
    """Return the content of export.json, after checking the files that it lists.

    Tokens of other tools have no export.json; None is returned for them.
    """
    file = ids_file.with_name(RECORD_NAME)
    if ids_file.name != TOKENS_NAME or not file.is_file():
        return None
    record = _read_record(file)
    if record.format != form:
        raise SchemaError(
            file.name,
            f"format {record.format}",
            cause=f"--format says {form}",
            cure=f"Say --format {record.format}",
        )
    for name, num_bytes in record.files.items():
        found = file.with_name(name)
        size = found.stat().st_size if found.is_file() else None
        if size != num_bytes:
            raise SchemaError(
                str(found),
                "missing" if size is None else f"{size:,} bytes",
                cause=f"export.json says that it has {num_bytes:,} bytes",
                cure=COPY,
            )
    theirs = record.vocab_size, record.pad_id, record.bos_id, record.eos_id
    ours = tokenizer.vocab_size, tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id
    if theirs != ours:
        framed = "_".join(
            role
            for role, token in (("bos", record.bos_id), ("eos", record.eos_id))
            if token is not None
        )
        raise SchemaError(
            file.name,
            f"vocab_size, pad_id, bos_id, eos_id {theirs}",
            cause=f"the tokenizer has {ours}",
            cure="Give the tokenizer.json that lies beside it"
            f", and say {FRAMES_OPTION} {framed or 'none'}",
        )
    return record


def _read_record(file: Path) -> ExportRecord:
    return read_json(
        ExportRecord,
        file,
        error=SchemaError,
        cause="it was changed, or written by another version",
        cure=COPY,
    )


def _require_none_stored(other: Path, form: TokenFormat) -> None:
    """Raise if the file `other` stores boundaries, although the user asks to infer them from EOS."""
    if form == "megatron" or other.is_file():
        raise SchemaError(
            BY_EOS,
            other.name,
            cause="that file says where documents begin",
            cure=f"Leave {OPTION} out",
        )


def _require_no_other_type(
    dtype: IdType, other: Path, form: TokenFormat, record: ExportRecord | None
) -> None:
    """Raise if `dtype` contradicts the type that export.json or a Megatron index records.

    A Megatron index always records a type.
    """
    if form == "megatron":
        raise SchemaError(
            f"{TYPE_OPTION} {dtype}",
            other.name,
            cause="that file says of which type the ids are",
            cure=f"Leave {TYPE_OPTION} out",
        )
    if record is not None and np.dtype(record.dtype).itemsize != np.dtype(dtype).itemsize:
        raise SchemaError(
            f"{TYPE_OPTION} {dtype}",
            record.dtype,
            cause=f"{RECORD_NAME} says that the ids are of this type",
            cure=f"Leave {TYPE_OPTION} out",
        )


def _offsets(file: Path) -> npt.NDArray[np.int64]:
    """Return the edges [documents + 1] stored in `file`.

    They are the start of each document, followed by the end of the last one.
    """
    size = file.stat().st_size
    if size % 8 or not size:
        raise _cut_off(file, size, "whole numbers of 8 bytes")
    edges = np.memmap(file, dtype="<i8", mode="r")
    # Compare neighbours, because differences of offsets might overflow.
    if edges[0] != 0 or (edges[1:] < edges[:-1]).any():
        raise SchemaError(
            file.name,
            f"{edges[0]} … {edges[-1]}",
            cause="offsets must begin with 0 and ascend",
            cure="Write int64 offsets: the start of each document, then the end of the last document",
        )
    return np.asarray(edges)


def _id_type(ids_file: Path, tokens: int) -> IdType:
    if dtype := id_type_of_size(ids_file, tokens):
        return dtype
    raise _cut_off(ids_file, ids_file.stat().st_size, f"{tokens:,} ids of 2, 4 or 8 bytes")


def _without_offsets(
    ids_file: Path,
    offsets_file: Path,
    tokenizer: Tokenizer,
    boundaries: Boundaries | None,
    dtype: IdType | None,
) -> tuple[Values, npt.NDArray[np.int64]]:
    """Return the ids, after checking them, and the edges of documents.

    The edges aren't stored, so they are inferred from BOS or EOS.
    """
    if boundaries is not None:
        marks = tokenizer.bos_id not in (None, tokenizer.pad_id)
        require_eos((), tokenizer.eos_id, bos_marks_documents=marks, name=ids_file.name)

    def edges(ids: Values) -> npt.NDArray[np.int64]:
        if boundaries is None:
            return _inferred(ids_file, offsets_file, ids, tokenizer)
        assert tokenizer.eos_id is not None
        return edges_of(ids, tokenizer.eos_id, AT_ONCE)

    if not ids_file.stat().st_size:
        return np.empty(0, dtype="uint16"), np.zeros(1, dtype=np.int64)
    if dtype is None:
        return infer_id_type(ids_file, tokenizer, edges)
    ids = _mapped(ids_file, dtype, None)
    require_ids(ids_file.name, ids, tokenizer)
    require_no_halves(ids_file, ids)
    return ids, edges(ids)


def _mapped(file: Path, dtype: str, count: int | None) -> Values:
    kind = np.dtype(dtype).newbyteorder("<")
    if not file.is_file():
        raise SchemaError(str(file), cause="it isn't there", cure=COPY)
    size = file.stat().st_size
    if size % kind.itemsize or (count is not None and size != count * kind.itemsize):
        wanted = f"{count:,} values" if count is not None else "whole values"
        raise _cut_off(file, size, f"{wanted} of {dtype}")
    return np.memmap(file, dtype=kind, mode="r") if size else np.empty(0, dtype=kind)


def _cut_off(file: Path, size: int, wanted: str) -> SchemaError:
    return SchemaError(
        str(file),
        f"{size:,} bytes",
        cause=f"there should be {wanted}: it is cut off, or of another kind",
        cure="Copy it again, and the file beside it",
    )


def _inferred(
    ids_file: Path, offsets_file: Path, ids: Values, tokenizer: Tokenizer
) -> npt.NDArray[np.int64]:
    """Return the edges of documents, inferred from the positions of BOS.

    Raises:
        SchemaError: if BOS doesn't mark documents.
    """
    bos = tokenizer.bos_id
    if bos is None or bos == tokenizer.pad_id or not len(ids) or ids[0] != bos:
        raise SchemaError(
            str(offsets_file),
            "missing",
            cause="without it a BOS that differs from padding must begin every document",
            cure="Write it: int64, where each document begins, and the end of the last"
            + _or_eos(tokenizer),
        )
    starts = [
        first + np.flatnonzero(ids[first : first + AT_ONCE] == bos)
        for first in range(0, len(ids), AT_ONCE)
    ]
    return np.concatenate([*starts, [len(ids)]]).astype(np.int64)


def _or_eos(tokenizer: Tokenizer) -> str:
    """Return advice to infer boundaries from EOS, or "" if that isn't possible."""
    if tokenizer.eos_id is None:
        return ""
    without_bos = "" if tokenizer.bos_id is None else "--document-tokens eos "
    return f"; or, if each EOS ends a document, say {without_bos}{BY_EOS}"
