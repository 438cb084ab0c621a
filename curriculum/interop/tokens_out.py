"""Export of rows into .bin files in which documents follow one another, and which trainers can memory-map.

    tokens.bin           ids without padding, document after document, in row order
    tokens.idx           positions of documents, for Megatron        or, for flat files:
    offsets.bin          int64 [documents + 1]: the first token of each document, and the end
    loss_mask.bin        uint8 per token: 1 if the prediction of the next token is scored
    structure_ids.bin …  structure columns with one value per token, if rows have structure
    rows.parquet         one line per row: its documents, labels, pieces, chunks and edges
    export.json          the source artefact, and the size of each file in bytes
    tokenizer.json       the tokenizer of the ids

Megatron-LM's index has these fields, all little-endian:

    9 bytes   MMIDIDX, two zeros        8  version, 1        1  code of the dtype
    8         sequences                 8  document indices, one more than documents
    int32     tokens of each sequence   int64  where each begins, in bytes   int64  document indices

Exports have one sequence per document. Imports join the sequences of each document.

A trainer that reads only ids and documents needs tokens.bin with tokens.idx or offsets.bin. An import needs
the other files too, and restores all rows unchanged.
"""

import struct
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.interop.row_order import Ordered, training_order
from curriculum.store import Artefact
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import TokenStore
from schemas.errors import SchemaError
from schemas.manifest import (
    BESIDE_NAME,
    BESIDE_SCHEMA,
    BESIDE_STRUCTURE,
    RECORD_NAME,
    ExportRecord,
    TokenFormat,
)
from schemas.structure import STRUCTURE_TOKENS

Int64s = npt.NDArray[np.int64]
MAGIC, VERSION = b"MMIDIDX\x00\x00", 1
HEADER = struct.Struct("<9sQBQQ")
CODES: dict[int, str] = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
"""Integer types by their code in a Megatron index."""
SMALL_VOCABULARY = 65_500
"""Vocabulary size from which on Megatron stores ids as int32; it stores ids of smaller ones as uint16."""
DOCUMENTS_AT_ONCE = 1 << 20
"""Number of documents whose edges are written at a time."""


def dtype_of(vocab_size: int) -> str:
    """Return the dtype that Megatron uses for ids of a vocabulary of `vocab_size`."""
    return "uint16" if vocab_size < SMALL_VOCABULARY else "int32"


def write_index(file: Path, edges: Int64s, dtype: str) -> None:
    """Write the Megatron index of documents with the offsets `edges`.

    Memory is constant if `edges` is memory-mapped. For example, edges [0 3 5] of uint16 ids -> lengths [3 2],
    pointers [0 6], document indices [0 1 2].
    """
    documents, size = len(edges) - 1, np.dtype(dtype).itemsize
    code = next(code for code, name in CODES.items() if name == dtype)
    with file.open("wb") as index:
        index.write(HEADER.pack(MAGIC, VERSION, code, documents, documents + 1))
        for part in _parts(documents):
            np.diff(edges[part.start : part.stop + 1]).astype("<i4").tofile(index)
        for part in _parts(documents):
            (edges[part.start : part.stop] * size).astype("<i8").tofile(index)
        for part in _parts(documents + 1):
            np.arange(part.start, part.stop, dtype="<i8").tofile(index)


def read_index(file: Path) -> tuple[Int64s, str]:
    """Return the edges of documents in tokens, and the dtype of the ids, from a Megatron index.

    Needs 16 bytes of memory per sequence.

    Raises:
        SchemaError: if the file isn't an index, is truncated, or its sequences have gaps or overlap.
    """
    with file.open("rb") as index:
        sequences, indices, dtype = _header(file, index)
        lengths = _read(file, index, "<i4", sequences).astype(np.int64)
        pointers = _read(file, index, "<i8", sequences)
        documents = _read(file, index, "<i8", indices)
    edges = np.concatenate([[0], np.cumsum(lengths)])
    if (lengths < 0).any() or not np.array_equal(edges[:-1] * np.dtype(dtype).itemsize, pointers):
        raise SchemaError(
            file.name,
            cause="its sequences don't lie end to end in the .bin",
            cure="Write both anew with Megatron's IndexedDatasetBuilder",
        )
    ends = len(edges) - 1
    whole = len(documents) and documents[0] == 0 and documents[-1] == ends
    # Compare neighbours, because differences of offsets might overflow.
    if not whole or (documents[1:] < documents[:-1]).any():
        raise SchemaError(
            file.name,
            f"document indices {_shown(documents)} over {ends:,} sequences",
            cause="they begin with 0, rise, and end with the last sequence",
            cure="Write it anew: the last document was never ended",
        )
    return edges[documents], dtype


def _header(file: Path, index: BinaryIO) -> tuple[int, int, str]:
    found = index.read(HEADER.size)
    if len(found) < HEADER.size or not found.startswith(MAGIC):
        raise SchemaError(
            file.name,
            found[: len(MAGIC)],
            cause="an index begins with MMIDIDX",
            cure="Give the .idx that lies beside the .bin",
        )
    _, version, code, sequences, indices = HEADER.unpack(found)
    if version != VERSION:
        raise SchemaError(
            file.name, f"version {version}", cause="only version 1 is known", cure="Write it anew"
        )
    if code not in CODES:
        raise SchemaError(
            file.name,
            f"dtype code {code}",
            cause="token ids are whole numbers: codes 1 to 5, and 8",
            cure="Give an index of tokens",
        )
    return sequences, indices, CODES[code]


def _read(file: Path, index: BinaryIO, kind: str, count: int) -> npt.NDArray[np.int64]:
    room = file.stat().st_size - index.tell()
    if count * np.dtype(kind).itemsize > room:
        raise SchemaError(
            file.name,
            f"{room:,} bytes where {count:,} numbers should be",
            cause="the index is cut off",
            cure="Copy it again",
        )
    values: npt.NDArray[np.int64] = np.fromfile(index, dtype=kind, count=count)
    return values


def _parts(count: int) -> Iterator[range]:
    return (
        range(first, min(first + DOCUMENTS_AT_ONCE, count))
        for first in range(0, count, DOCUMENTS_AT_ONCE)
    )


def _shown(numbers: Int64s) -> str:
    return f"{numbers[0]} … {numbers[-1]}" if len(numbers) else "none"


TOKENS_NAME, INDEX_NAME, OFFSETS_NAME = "tokens.bin", "tokens.idx", "offsets.bin"
CARD_NAME = "README.md"
LOAD: Mapping[TokenFormat, str] = {
    "megatron": """\
from megatron.core.datasets.indexed_dataset import IndexedDataset

documents = IndexedDataset("tokens")
first = documents[0]
""",
    "flat": """\
import numpy as np

ids = np.memmap("tokens.bin", dtype="{dtype}", mode="r")
offsets = np.fromfile("offsets.bin", dtype="int64")
first = ids[offsets[0] : offsets[1]]
""",
}
"""Example code on the card for each format; a test runs the code."""
TOKENS_AT_ONCE = 1 << 22
"""Number of tokens that are copied at a time."""
MASK = "loss_mask"
Values = npt.NDArray[Any]


def flat_dtype(vocab_size: int) -> str:
    """Return the dtype of ids in our own flat files: uint16 if the vocabulary fits, else uint32."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def export_rows(ordered: Ordered, tokenizer: Tokenizer, folder: Path, form: TokenFormat) -> None:
    """Write the documents of rows one after another; those of a mixture are in training order.

    Writes more than 20 million tokens per second and core.

    Raises:
        SchemaError: if an id is outside the vocabulary.
    """
    marks = (MASK, *(STRUCTURE_TOKENS if ordered.structured else ()))
    beside = pa.schema([*BESIDE_SCHEMA, *(BESIDE_STRUCTURE if ordered.structured else ())])
    columns = {"input_ids", "doc_starts", *marks, *beside.names}
    with (
        tempfile.TemporaryDirectory(prefix=".scratch-", dir=folder.parent) as scratch,
        TokenWriter(folder, form, ordered.row_format.vocab_size, marks) as writer,
        pq.ParquetWriter(folder / BESIDE_NAME, beside, compression="zstd") as rows,
    ):
        number = 0
        for table in ordered.tables(sorted(columns), Path(scratch)):
            _write_rows(table, writer, marks)
            rows.write_table(_beside(table, beside))
            number += len(table)
    _finish(folder, form, ordered.artefact, tokenizer, writer, marks, ordered, number)


def export_tokens(tokens: Artefact, tokenizer: Tokenizer, folder: Path, form: TokenFormat) -> None:
    """Write all documents of a tokens artefact one after another, whether or not they are packed into rows.

    Raises:
        SchemaError: if an id is outside the vocabulary.
    """
    store = TokenStore.open(tokens.path)
    with TokenWriter(folder, form, tokenizer.vocab_size, ()) as writer:
        for first in range(0, len(store.ids), TOKENS_AT_ONCE):
            writer.add_tokens(np.asarray(store.ids[first : first + TOKENS_AT_ONCE]), {})
        writer.add_documents(np.asarray(store.offsets[:-1]))
    _finish(folder, form, tokens, tokenizer, writer, (), None, None)


class TokenWriter:
    """Writer of ids, document starts, and columns with one value per token; memory is constant."""

    def __init__(
        self, folder: Path, form: TokenFormat, vocab_size: int, marks: tuple[str, ...]
    ) -> None:
        self.dtype = dtype_of(vocab_size) if form == "megatron" else flat_dtype(vocab_size)
        self.tokens = 0
        self.documents = 0
        self._folder, self._form, self._vocab_size = folder, form, vocab_size
        self._files = {
            name: (folder / name).open("wb")
            for name in (TOKENS_NAME, OFFSETS_NAME, *(f"{mark}.bin" for mark in marks))
        }

    def add_documents(self, starts: Values) -> None:
        """Append documents that begin at `starts`, which are token positions in the whole file."""
        starts.astype("<i8").tofile(self._files[OFFSETS_NAME])
        self.documents += len(starts)

    def add_tokens(self, ids: Values, marks: dict[str, Values]) -> None:
        """Append `ids`; `marks` has one value per id for each column."""
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= self._vocab_size):
            wrong = int(np.flatnonzero((ids < 0) | (ids >= self._vocab_size))[0])
            raise SchemaError(
                f"token {self.tokens + wrong:,}",
                int(ids[wrong]),
                cause=f"ids are 0 to {self._vocab_size - 1:,}",
                cure="`curriculum check` says which rows are wrong",
            )
        ids.astype(np.dtype(self.dtype).newbyteorder("<"), copy=False).tofile(
            self._files[TOKENS_NAME]
        )
        for name, values in marks.items():
            values.tofile(self._files[f"{name}.bin"])
        self.tokens += len(ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        np.array([self.tokens], dtype="<i8").tofile(self._files[OFFSETS_NAME])
        for file in self._files.values():
            file.close()
        if error is None and self._form == "megatron":
            offsets = self._folder / OFFSETS_NAME
            edges = np.memmap(offsets, dtype="<i8", mode="r")
            write_index(self._folder / INDEX_NAME, edges, self.dtype)
            offsets.unlink()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spans:
    """Ranges of the valid tokens in a flat column, one per row.

    For example, rows that begin at 0 and 8, with 5 and 8 valid tokens, have the ranges 0:5 and 8:16.
    """

    starts: Values
    valid: Values

    def of(self, values: Values) -> Values:
        """Return those of `values` that belong to valid tokens."""
        ranges = zip(self.starts.tolist(), (self.starts + self.valid).tolist(), strict=True)
        return np.concatenate([values[start:end] for start, end in ranges])


def _write_rows(table: pa.Table, writer: TokenWriter, marks: tuple[str, ...]) -> None:
    batch = _batch(table)
    valid = batch["valid_token_count"].to_numpy().astype(np.int64)
    begin = writer.tokens + np.cumsum(valid) - valid
    starts = batch["doc_starts"].flatten().to_numpy()
    counts = batch["num_docs"].to_numpy()
    writer.add_documents(starts + np.repeat(begin, counts))
    spans = _Spans(starts=_list_starts(batch["input_ids"]), valid=valid)
    ids = spans.of(batch["input_ids"].flatten().to_numpy())
    writer.add_tokens(ids, {name: spans.of(batch[name].flatten().to_numpy()) for name in marks})


def _beside(table: pa.Table, schema: pa.Schema) -> pa.Table:
    batch = _batch(table)
    lengths = batch["input_ids"].value_lengths()
    columns = [lengths if name == "row_length" else batch[name] for name in schema.names]
    return pa.table(columns, schema=schema)


def _batch(table: pa.Table) -> Any:
    (batch,) = table.combine_chunks().to_batches()
    return batch


def _list_starts(lists: Any) -> Values:
    offsets: Values = lists.offsets.to_numpy().astype(np.int64)
    starts: Values = offsets[:-1] - offsets[0]
    return starts


def _finish(
    folder: Path,
    form: TokenFormat,
    artefact: Artefact,
    tokenizer: Tokenizer,
    writer: TokenWriter,
    marks: tuple[str, ...],
    ordered: Ordered | None,
    rows: int | None,
) -> None:
    tokenizer.write(folder)
    manifest = artefact.manifest
    record = ExportRecord.model_validate(
        {
            "format": form,
            "stage": manifest.stage,
            "key": manifest.key,
            "content": manifest.content,
            "labels": manifest.labels,
            "vocab_size": tokenizer.vocab_size,
            "pad_id": tokenizer.pad_id,
            "bos_id": tokenizer.bos_id,
            "eos_id": tokenizer.eos_id,
            "dtype": writer.dtype,
            "tokens": writer.tokens,
            "documents": writer.documents,
            "rows": rows,
            "row_lengths": ordered.row_lengths if ordered else (),
            "steps": ordered.steps if ordered else None,
            "columns": marks,
            "files": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
        }
    )
    (folder / RECORD_NAME).write_text(f"{record.model_dump_json(indent=1)}\n")
    (folder / CARD_NAME).write_text(_card(record), encoding="utf-8")


def _card(record: ExportRecord) -> str:
    labels = " ".join(record.labels.values())
    beside = (
        "Values a token lie in "
        + ", ".join(f"`{name}.bin`" for name in record.columns)
        + f" (uint8); `{BESIDE_NAME}` says which documents shared a row."
        if record.columns
        else "These are all documents that were tokenised, those that weren't kept too."
    )
    return f"""# {labels}

{record.tokens:,} tokens of {record.documents:,} documents, end to end; `tokenizer.json` says what ids mean.
{beside}{_order(record)}

Load it in this folder:

```python
{LOAD[record.format].format(dtype=record.dtype)}```
"""


def _order(record: ExportRecord) -> str:
    """Return the sentence about the order of a mixture's rows; "" for other data."""
    if record.steps is None or record.rows is None:
        return ""
    return f"\n{training_order(record.rows, record.steps)}"
