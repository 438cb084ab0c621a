"""Packed rows with the documents in them, and what the workspace has of their sources."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.inspection.documents import Line, Piece
from curriculum.inspection.lineage import inputs, origins, tokenizer_artefact
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from schemas.packed_row import GENERATED_PIECE
from schemas.structure import StructureChunk, StructureEdge


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Origin of a document: of several files its lineage's, the target's largest."""

    repository: str
    commit: str
    path: str
    licence: str | None = None


NOWHERE = Origin(repository="?", commit="", path="")
"""Origin of a document whose artefact is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Content of one packed row, for showing."""

    pack_id: str
    input_ids: list[int]
    loss_mask: list[int]
    doc_starts: list[int]
    valid: int
    scored: int
    document_ids: list[str]
    domain: str
    structure_ids: tuple[int, ...] = ()
    """A code a token; none where the row has no structure columns."""
    chunks: tuple[StructureChunk, ...] = ()
    """Over tokens; rows don't keep names."""
    call_edges: tuple[StructureEdge, ...] = ()
    type_edges: tuple[StructureEdge, ...] = ()

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Half-open token ranges of the documents.

        Row(..., doc_starts=[0, 3], valid=5).spans -> [(0, 3), (3, 5)]
        """
        return list(itertools.pairwise([*self.doc_starts[: len(self.document_ids)], self.valid]))

    @property
    def is_structured(self) -> bool:
        """Return True if any token has structure."""
        return any(self.structure_ids)


def row_of(line: Line) -> Row:
    """A row from its line; structure columns that it lacks are empty."""
    chunks = line.get("chunk_boundaries") or ()
    return Row(
        pack_id=line["pack_id"],
        input_ids=line["input_ids"],
        loss_mask=line["loss_mask"],
        doc_starts=line["doc_starts"],
        valid=line["valid_token_count"],
        scored=line["loss_token_count"],
        document_ids=line["document_ids"],
        domain=line["domain"],
        structure_ids=tuple(line.get("structure_ids") or ()),
        chunks=tuple(
            StructureChunk(
                start=each["start"],
                end=each["end"],
                kind=each["kind"],
                name="",
                dep_level=each["dep_level"],
            )
            for each in chunks
        ),
        call_edges=tuple(StructureEdge(**each) for each in line.get("call_edges") or ()),
        type_edges=tuple(StructureEdge(**each) for each in line.get("type_edges") or ()),
    )


def row_pieces(row: Row, tokenizer: Tokenizer, start: int, end: int) -> Iterator[Piece]:
    """The text of the tokens [start, end), cut where scoring, category or chunk change."""
    chunk_of = [-1] * len(row.input_ids)
    for index, chunk in enumerate(row.chunks):
        chunk_of[chunk.start : chunk.end] = [index] * (chunk.end - chunk.start)
    scored = [0, *row.loss_mask[:-1]]
    """Token t is predicted at t - 1."""
    codes = row.structure_ids or (0,) * len(row.input_ids)

    def what(at: int) -> tuple[int, int, bool]:
        return codes[at], chunk_of[at], bool(scored[at])

    for (code, place, counts), run in itertools.groupby(range(start, end), key=what):
        text = tokenizer.decode([row.input_ids[at] for at in run])
        yield Piece(text, code, place, counts)


def origins_of(store: Store, artefact: Artefact, row: Row) -> dict[str, Origin]:
    """Return the origins of the row's documents; one whose documents artefact is gone has none."""
    return _origins(inputs(store, artefact, "documents"), row.document_ids)


def origins_in(
    store: Store, artefact: Artefact, pack_ids: Collection[str]
) -> dict[str, list[Origin]]:
    """Return the origins of the documents of some rows of an artefact, in the rows' order, by pack_id."""
    wanted = [("pack_id", "in", pa.array(list(pack_ids), pa.string()))]
    held: list[Line] = [
        line
        for file in artefact.files(".parquet")
        for line in parquet.read_table(
            file, columns=["pack_id", "document_ids"], filters=wanted
        ).to_pylist()
    ]
    ids = list({name for line in held for name in line["document_ids"]})
    known = _origins(inputs(store, artefact, "documents"), ids)
    return {line["pack_id"]: [known[name] for name in line["document_ids"]] for line in held}


def _origins(documents: list[Artefact], ids: list[str]) -> dict[str, Origin]:
    found = dict.fromkeys(ids, NOWHERE)
    for line in origins(documents, ids).to_pylist():
        found[line["document_id"]] = Origin(
            repository=line["repository"],
            commit=line["commit"],
            path=line["path"],
            licence=line["licence"],
        )
    return found


def tokenizer_of(store: Store, artefact: Artefact) -> Tokenizer:
    """The tokenizer that a rows artefact was made with.

    Raises:
        StoreError: naming its folder, where it is gone.
    """
    return tokenizer_in(tokenizer_artefact(store, artefact))


def tokenizer_in(artefact: Artefact) -> Tokenizer:
    """Return the tokenizer of an artefact."""
    return load_tokenizer(artefact)


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
        for file in parquet.shards_of(artefact.path):
            if len(found) < len(names):
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
