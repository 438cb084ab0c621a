"""Token ids of a documents artefact on disk; each text is tokenized once and read memory-mapped.

    tokens.bin      ids of all documents in order, uint16, or uint32 from 65,536 ids on
    offsets.bin     int64 [documents + 1]: beginning of each document, including BOS and EOS
    parts.parquet   token range of each part

Writing holds one batch of documents in memory; reading holds none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.published_files import require_published
from curriculum.tokens.codec import Tokenizer
from schemas.cures import cure_of
from schemas.document import TOKEN_PARTS_SCHEMA
from schemas.errors import SchemaError, TokenizerError
from schemas.reports import TokensReport

REVISION = 1
BATCH_DOCUMENTS = 128
GROUP_ROWS = 65_536
Int64s = npt.NDArray[np.int64]


def tokenize_documents(files: Sequence[Path], tokenizer: Tokenizer, folder: Path) -> TokensReport:
    """Write tokens.bin, offsets.bin and parts.parquet into `folder`; return the report for the manifest.

    Each part is encoded separately, so that no token spans two parts.

    Raises:
        SchemaError: for parts that have gaps or overlap in their text.
        TokenizerError: for ids that don't encode exactly the bytes of their part.
    """
    documents, position, num_bytes = 0, 0, 0
    dtype = np.uint16 if tokenizer.vocab_size < 65_536 else np.uint32
    with (
        (folder / "tokens.bin").open("wb") as tokens,
        (folder / "offsets.bin").open("wb") as offsets,
        _PartWriter(folder / "parts.parquet") as parts,
    ):
        offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        for batch in document_batches(files, ["document_id", "text", "num_bytes", "parts"]):
            made = _tokenize(batch, tokenizer)
            tokens.write(made.ids.astype(dtype).tobytes())
            offsets.write((made.ends + position).tobytes())
            parts.write(made, document=documents, position=position)
            documents += batch.num_rows
            position += len(made.ids)
            num_bytes += made.num_bytes
    return TokensReport(
        documents=documents,
        tokens=position,
        num_bytes=num_bytes,
        vocab_size=tokenizer.vocab_size,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        pad_id=tokenizer.pad_id,
        engine=tokenizer.engine,
        engine_reason=tokenizer.engine_reason,
    )


def document_batches(files: Sequence[Path], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield `columns` of all documents in order, in batches of at most BATCH_DOCUMENTS."""
    for path in files:
        with parquet.File(path) as opened:
            yield from opened.iter_batches(BATCH_DOCUMENTS, columns=columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tokenized:
    ids: npt.NDArray[np.int32]
    ends: Int64s
    """Index in `ids` at which each document ends, [documents]."""
    parts_per_document: npt.NDArray[np.int32]
    part_starts: Int64s
    part_ends: Int64s
    num_bytes: int


def _tokenize(batch: pa.RecordBatch, tokenizer: Tokenizer) -> _Tokenized:
    counts, starts, ends = _part_bytes(batch)
    ids, offsets = tokenizer.encode_batch(_part_texts(batch, counts, starts, ends))
    _check_bytes(ids, offsets, ends - starts, tokenizer)
    bos, eos = tokenizer.bos_id, tokenizer.eos_id
    lead, trail = int(bos is not None), int(eos is not None)
    first_part = np.concatenate(([0], np.cumsum(counts)))
    borders = offsets[first_part] + np.arange(len(counts) + 1) * (lead + trail)
    shift = np.arange(len(counts)) * (lead + trail) + lead
    framed = np.empty(int(borders[-1]), dtype=np.int32)
    framed[np.arange(len(ids)) + np.repeat(shift, np.diff(offsets[first_part]))] = ids
    if bos is not None:
        framed[borders[:-1]] = bos
    if eos is not None:
        framed[borders[1:] - 1] = eos
    part_shift = np.repeat(shift, counts)
    return _Tokenized(
        ids=framed,
        ends=borders[1:],
        parts_per_document=counts,
        part_starts=offsets[:-1] + part_shift,
        part_ends=offsets[1:] + part_shift,
        num_bytes=int((ends - starts).sum()),
    )


def _part_bytes(
    batch: pa.RecordBatch,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the number of parts of each document, and the start and end of each part in bytes.

    Raise if the parts of a document have gaps or overlap.
    """
    column: Any = batch.column("parts")
    counts = pc.list_value_length(column).to_numpy()
    flat = column.flatten()
    starts, ends = flat.field("start").to_numpy(), flat.field("end").to_numpy()
    sizes = batch.column("num_bytes").to_numpy()
    first = np.cumsum(counts) - counts
    held = counts > 0
    expected = np.empty_like(starts)
    expected[1:] = ends[:-1]
    expected[first[held]] = 0
    last = np.zeros_like(sizes)
    last[held] = ends[(first + counts - 1)[held]]
    document = np.repeat(np.arange(len(counts)), counts)
    wrong = [*document[(starts != expected) | (ends < starts)], *np.flatnonzero(last != sizes)]
    if wrong:
        raise SchemaError(
            f"document {batch.column('document_id')[int(wrong[0])]}",
            cause="its parts don't cover its text without gaps and overlaps",
            cure="Fix the family that made it",
        )
    return counts, starts, ends


def _part_texts(
    batch: pa.RecordBatch,
    counts: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int32],
) -> list[str]:
    pieces: list[str] = []
    ranges = zip(starts.tolist(), ends.tolist(), strict=True)
    texts: list[Any] = batch.column("text").to_pylist()
    for text, count, size in zip(
        texts, counts.tolist(), batch.column("num_bytes").to_pylist(), strict=True
    ):
        own = [next(ranges) for _ in range(count)]
        if len(text) == size:
            pieces += [text[start:end] for start, end in own]
        else:
            data = text.encode()
            pieces += [data[start:end].decode() for start, end in own]
    return pieces


def _check_bytes(
    ids: npt.NDArray[np.int32],
    offsets: Int64s,
    sizes: npt.NDArray[np.int32],
    tokenizer: Tokenizer,
) -> None:
    before = np.concatenate(([0], np.cumsum(tokenizer.token_bytes[ids], dtype=np.int64)))
    if not np.array_equal(np.diff(before[offsets]), sizes):
        raise TokenizerError(
            tokenizer.name,
            cause="its ids don't encode exactly the bytes of a text",
            cure="Report the text; meanwhile train a tokenizer: curriculum tokenizer train",
        )


class _PartWriter:
    """Writer of parts.parquet; each row group has at least GROUP_ROWS rows."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, TOKEN_PARTS_SCHEMA)
        self._waiting: list[pa.Table] = []

    def __enter__(self) -> "_PartWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def write(self, made: _Tokenized, *, document: int, position: int) -> None:
        """Add the parts of a batch.

        `document` is the number of the batch's first document, and `position` that of its first token.
        """
        counts = made.parts_per_document
        first = np.cumsum(counts) - counts
        columns = {
            "document": np.repeat(np.arange(len(counts), dtype=np.int64) + document, counts),
            "part": (np.arange(int(counts.sum())) - np.repeat(first, counts)).astype(np.int32),
            "token_start": made.part_starts + position,
            "token_end": made.part_ends + position,
        }
        self._waiting.append(pa.table(columns, schema=TOKEN_PARTS_SCHEMA))
        if sum(table.num_rows for table in self._waiting) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.concat_tables(self._waiting).combine_chunks()
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
            self._waiting = []


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenStore:
    """Memory-mapped tokens of a documents artefact, which are read by the row number of a document."""

    folder: Path
    ids: npt.NDArray[np.unsignedinteger[Any]]
    """Ids of all documents end to end, [tokens], uint16 or uint32."""
    offsets: Int64s
    """Index in `ids` at which each document begins, followed by the number of ids, [documents + 1]."""

    @staticmethod
    def open(folder: Path) -> "TokenStore":
        """Open the files written by `tokenize_documents` without reading them into memory.

        Raises:
            SchemaError: for offsets that don't ascend from 0 or don't end at the number of ids.
            StoreError: for files that differ from the published ones.
        """
        path, edges = folder / "tokens.bin", folder / "offsets.bin"
        for file in (path, edges):
            require_published(file)
        size = edges.stat().st_size
        if not size or size % 8:
            raise _no_tokens(edges, f"{size:,} bytes")
        offsets = np.memmap(edges, dtype=np.int64, mode="r")
        count = int(offsets[-1])
        # Neighbours are compared, because differences of offsets might overflow.
        if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
            raise _no_tokens(edges, f"{offsets[0]} … {count}")
        if not count:
            return TokenStore(folder=folder, ids=np.empty(0, dtype=np.uint16), offsets=offsets)
        found = path.stat().st_size
        kinds = {2 * count: np.uint16, 4 * count: np.uint32}
        if found not in kinds:
            raise _no_tokens(path, f"{found:,} bytes for {count:,} ids")
        kind = kinds[found]
        ids = np.memmap(path, dtype=kind, mode="r", shape=(count,))
        return TokenStore(folder=folder, ids=ids, offsets=offsets)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.offsets) - 1

    def tokens(self, document: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the ids of a document, including BOS and EOS if it has them, as a view into the file."""
        return self.ids[self.offsets[document] : self.offsets[document + 1]]

    def part_ranges(self, document: int) -> Int64s:
        """Return the token range in `ids` of each part of one document, [parts, 2].

        Only the row groups of parts.parquet with this document are read. To read the parts of all documents,
        use `part_lengths`.
        """
        table = parquet.read_table(
            self.folder / "parts.parquet",
            columns=["token_start", "token_end"],
            filters=[("document", "=", document)],
        )
        columns = [table.column(name).to_numpy() for name in ("token_start", "token_end")]
        return np.stack(columns, axis=1)

    def part_lengths(self) -> "PartLengths":
        """Return a stream of the number of tokens of every part, in document order."""
        return PartLengths(self.folder / "parts.parquet")


def _no_tokens(file: Path, found: str) -> SchemaError:
    return SchemaError(
        str(file), found,
        cause="offsets are int64 and rise from 0 to the number of ids, which have 2 or 4 bytes",
        cure=cure_of(file),
    )  # fmt: skip


class PartLengths:
    """Stream of the number of tokens of each part; holds one batch in memory."""

    def __init__(self, path: Path) -> None:
        self._batches = parquet.File(path).iter_batches(columns=["token_start", "token_end"])
        self._waiting: Int64s = np.empty(0, dtype=np.int64)

    def take(self, count: int) -> Int64s:
        """Return the next `count` lengths, or fewer at the end of the file."""
        while len(self._waiting) < count:
            batch = next(self._batches, None)
            if batch is None:
                break
            lengths = batch.column(1).to_numpy() - batch.column(0).to_numpy()
            self._waiting = np.concatenate((self._waiting, lengths))
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken
