"""Packed rows with the documents in them and the sources of each."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.inspection.documents import Line
from curriculum.inspection.rows import Row, row_of
from curriculum.store import Artefact
from schemas.packed_row import GENERATED_PIECE

COLUMNS = (
    *("pack_id", "input_ids", "loss_mask", "doc_starts", "valid_token_count", "loss_token_count"),
    *("attention_pairs", "context_histogram", "domain", "document_ids", "pieces"),
    *("structure_ids", "chunk_boundaries", "call_edges", "type_edges"),
)
"""Columns of a row; those of structure where it has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRange:
    """Some bytes of a file at a commit."""

    repository: str
    commit: str
    path: str
    num_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A document as it lies in the workspace: what it was made of, the target first."""

    licence: str | None = None
    timestamp: int = 0
    num_bytes: int = 0
    places: tuple[FileRange, ...] = ()

    @property
    def first(self) -> FileRange:
        """The place that stands for all of them."""
        return self.places[0] if self.places else NO_FILE


NO_FILE = FileRange(repository="?", commit="", path="", num_bytes=0)
UNKNOWN = Source()
"""Source of a document whose artefact is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentInRow:
    """A document in a row."""

    start: int
    end: int
    """Tokens of the row, half-open."""
    scored: int
    """Predictions that count."""
    document_id: str
    first_byte: int
    last_byte: int
    """End of the document's bytes in this row."""
    source: Source

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True, slots=True)
class RowView:
    """A packed row with what the workspace knows of its documents."""

    row: Row
    parts: tuple[DocumentInRow, ...]
    attention_pairs: int
    histogram: tuple[int, ...]
    generated: tuple[tuple[int, int], ...]
    """Token ranges that encode no byte of a document: BOS, EOS, sentinels, elision lines."""

    @property
    def length(self) -> int:
        """T."""
        return len(self.row.input_ids)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Token ranges of the documents."""
        return [(part.start, part.end) for part in self.parts]

    @property
    def density(self) -> float:
        """Pairs that attention computes, of those that one document of the row's length would need."""
        return self.attention_pairs / (self.length * (self.length + 1) / 2)


def spread(artefact: Artefact, most: int, columns: Collection[str] = COLUMNS) -> Iterator[Line]:
    """Rows of an artefact at even distances: the middle one of each of `most` parts of it.

    >>> [line["pack_id"] for line in spread(rows_of_nine, 3)]
    ['1', '4', '7']
    """
    files = artefact.files(".parquet")
    sizes = [parquet.read_metadata(file).num_rows for file in files]
    most = min(most, sum(sizes))
    wanted = [(2 * at + 1) * sum(sizes) // (2 * most) for at in range(most)]
    first = 0
    for file, rows in zip(files, sizes, strict=True):
        inside = [each - first for each in wanted if first <= each < first + rows]
        if inside:
            with parquet.File(file) as opened:
                yield from _lines_at(opened, inside, columns)
        first += rows


def _lines_at(
    file: pq.ParquetFile, wanted: Sequence[int], columns: Collection[str]
) -> Iterator[Line]:
    there = [name for name in columns if name in file.schema_arrow.names]
    first = 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        inside = [each - first for each in wanted if first <= each < first + size]
        if inside:
            table = file.read_row_group(group, columns=there, use_threads=False)
            for at in inside:
                yield table.slice(at, 1).to_pylist()[0]
        first += size


def shown(lines: Iterable[Line], documents: Sequence[Artefact]) -> Iterator[RowView]:
    """Rows with where their documents came from, which is looked up for all of them at once."""
    held = list(lines)
    names = {name for line in held for name in line["document_ids"]}
    known = sources_of(documents, names)
    for line in held:
        yield _shown(line, known)


def _shown(line: Line, known: Mapping[str, Source]) -> RowView:
    row = row_of(line)
    pieces = line.get("pieces") or ()
    return RowView(
        row=row,
        parts=tuple(_parts(row, pieces, known)),
        attention_pairs=line["attention_pairs"],
        histogram=tuple(line["context_histogram"]),
        generated=tuple(
            (each["token_start"], each["token_end"])
            for each in pieces
            if each["kind"] == GENERATED_PIECE
        ),
    )


def _parts(
    row: Row, pieces: Sequence[Line], known: Mapping[str, Source]
) -> Iterator[DocumentInRow]:
    ends = [*row.doc_starts[1:], row.valid]
    for number, (start, end) in enumerate(zip(row.doc_starts, ends, strict=False)):
        if start >= row.valid:
            return
        name = row.document_ids[number] if number < len(row.document_ids) else ""
        texts = [
            each for each in pieces if each["doc"] == number and each["kind"] != GENERATED_PIECE
        ]
        yield DocumentInRow(
            start=start,
            end=min(end, row.valid),
            scored=sum(row.loss_mask[start:end]),
            document_id=name,
            first_byte=min((each["byte_start"] for each in texts), default=0),
            last_byte=max((each["byte_end"] for each in texts), default=0),
            source=known.get(name, UNKNOWN),
        )


def sources_of(documents: Iterable[Artefact], names: set[str]) -> dict[str, Source]:
    """Return the sources of documents by id; only the row groups that hold one of them are read."""
    found: dict[str, Source] = {}
    wanted = pa.array(sorted(names), pa.string())
    for artefact in documents:
        for file in artefact.files(".parquet"):
            if file.name.startswith("part-") and len(found) < len(names):
                with parquet.File(file) as opened:
                    found |= dict(_sources(opened, wanted))
    return found


def _sources(file: pq.ParquetFile, wanted: pa.StringArray) -> Iterator[tuple[str, Source]]:
    # What adds structure to documents of another family names them, and where they came from too.
    columns = ["document_id", "licence", "timestamp", "num_bytes", "provenance"]
    for group in range(file.num_row_groups):
        ids = file.read_row_group(group, columns=["document_id"], use_threads=False)["document_id"]
        inside = pc.is_in(ids, value_set=wanted)
        if not pc.any(inside).as_py():
            continue
        table = file.read_row_group(group, columns=columns, use_threads=False)
        for line in table.filter(inside).to_pylist():
            yield line["document_id"], _source(line)


def _source(line: Line) -> Source:
    return Source(
        licence=line["licence"],
        timestamp=line["timestamp"],
        num_bytes=line["num_bytes"],
        places=tuple(
            FileRange(
                repository=each["repository"],
                commit=each["commit"],
                path=each["path"],
                num_bytes=each["end"] - each["start"],
            )
            for each in line["provenance"]
        ),
    )
