"""Packed rows as values: their columns, and their documents with the files and commits behind them."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from curriculum import parquet
from curriculum.inspection.line_selection import InspectOptions, Line, chosen_lines, lines_of
from curriculum.inspection.lineage import inputs
from curriculum.inspection.structure_text import StructuredText
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from schemas.errors import StoreError
from schemas.packed_row import GENERATED_PIECE
from schemas.structure import StructureEdge

COLUMNS = (
    *("pack_id", "input_ids", "loss_mask", "doc_starts", "valid_token_count", "loss_token_count"),
    *("attention_pairs", "context_histogram", "domain", "document_ids", "pieces"),
    *("structure_ids", "chunk_boundaries", "call_edges", "type_edges"),
)
"""Columns of a row that pages show. Structure columns are shown only if the row has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRange:
    """A range of bytes of one file at a commit."""

    repository: str
    commit: str
    path: str
    num_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentOrigin:
    """Origin of a document: the first file in its lineage, and all files that it shows."""

    repository: str = "?"
    commit: str = ""
    path: str = ""
    licence: str | None = None
    timestamp: int = 0
    num_bytes: int = 0
    files: tuple[FileRange, ...] = ()
    """Files with their commits, without repetition, in the order of the text."""


UNKNOWN = DocumentOrigin()
"""Origin of documents whose artefact was deleted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentInRow(DocumentOrigin):
    """A document in a packed row."""

    document_id: str
    start: int
    """Position of the document's first token in the row."""
    tokens: int
    scored: int
    """Number of the document's tokens whose prediction is scored."""
    first_byte: int
    last_byte: int
    """End of the document's bytes that this row shows (exclusive)."""

    @property
    def end(self) -> int:
        """Position after the document's last token in the row."""
        return self.start + self.tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class RowPiece:
    """A range of tokens in a row, and the bytes of a document that they encode."""

    doc: int
    kind: int
    token_start: int
    token_end: int
    byte_start: int
    byte_end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChunk:
    """A structure chunk as a range of tokens. Rows don't store the names of chunks."""

    start: int
    end: int
    kind: int
    dep_level: int
    doc: int


class RowView(BaseModel):
    """A packed row with all of its columns, including extra ones, and with its documents."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    pack_id: str
    input_ids: list[int]
    loss_mask: list[int]
    doc_starts: list[int]
    valid_token_count: int
    loss_token_count: int
    attention_pairs: int = 0
    context_histogram: tuple[int, ...] = ()
    domain: str
    document_ids: list[str]
    pieces: tuple[RowPiece, ...] = ()
    structure_ids: list[int] = []
    """One code per token; empty if the row has no structure columns."""
    chunk_boundaries: tuple[RowChunk, ...] = ()
    call_edges: tuple[StructureEdge, ...] = ()
    type_edges: tuple[StructureEdge, ...] = ()
    documents: tuple[DocumentInRow, ...] = ()

    @property
    def length(self) -> int:
        """Row length T in tokens."""
        return len(self.input_ids)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Ranges of tokens of the documents, half-open.

        RowView(..., doc_starts=[0, 3, 5], valid_token_count=5).spans -> [(0, 3), (3, 5)]
        """
        valid = self.valid_token_count
        return list(itertools.pairwise([*(at for at in self.doc_starts if at < valid), valid]))

    @property
    def is_structured(self) -> bool:
        """True if any token has a structure code."""
        return any(self.structure_ids)

    @property
    def generated(self) -> list[tuple[int, int]]:
        """Ranges of tokens that encode no byte of a document: BOS, EOS, sentinels and elision lines."""
        made = (piece for piece in self.pieces if piece.kind == GENERATED_PIECE)
        return [(piece.token_start, piece.token_end) for piece in made]

    @property
    def density(self) -> float:
        """Attention pairs in the row, divided by those of a single document that would fill the row."""
        return self.attention_pairs / (self.length * (self.length + 1) / 2)


def rows(store: Store, artefact: Artefact, options: InspectOptions) -> list[RowView]:
    """Return the first `options.rows` selected rows."""
    found = itertools.islice(chosen_lines(store, artefact, options), options.rows)
    return row_views((line for _, line in found), inputs(store, artefact, "documents"))


def row_views(lines: Iterable[Line], documents: Sequence[Artefact]) -> list[RowView]:
    """Return rows with their documents. The origins of documents are read once for all rows.

    Raises:
        StoreError: if a line isn't a row.
    """
    try:
        held = [RowView.model_validate(line) for line in lines]
    except ValidationError as wrong:
        raise StoreError(
            "rows", cause=f"a line is no row: {wrong.errors()[0]['msg']}", cure="Build them again"
        ) from None
    known = sources_of(documents, {name for row in held for name in row.document_ids})
    return [row.model_copy(update={"documents": tuple(_documents(row, known))}) for row in held]


def _documents(row: RowView, known: dict[str, DocumentOrigin]) -> Iterator[DocumentInRow]:
    names = dict(enumerate(row.document_ids))
    for number, (start, end) in enumerate(row.spans):
        name = names.get(number, "")
        texts = [
            piece for piece in row.pieces if piece.doc == number and piece.kind != GENERATED_PIECE
        ]
        source = known.get(name, UNKNOWN)
        yield DocumentInRow(
            **{field.name: getattr(source, field.name) for field in fields(source)},
            document_id=name,
            start=start,
            tokens=end - start,
            scored=sum(row.loss_mask[start:end]),
            first_byte=min((piece.byte_start for piece in texts), default=0),
            last_byte=max((piece.byte_end for piece in texts), default=0),
        )


def row_pieces(
    row: RowView, tokenizer: Tokenizer, start: int, end: int
) -> Iterator[StructuredText]:
    """Yield the text of the tokens [start, end), split where scoring, category or chunk changes."""
    chunk_of = [-1] * row.length
    for index, chunk in enumerate(row.chunk_boundaries):
        chunk_of[chunk.start : chunk.end] = [index] * (chunk.end - chunk.start)
    scored = [0, *row.loss_mask[:-1]]
    """loss_mask at position t - 1 belongs to the prediction of token t."""
    codes = row.structure_ids or [0] * row.length

    def what(at: int) -> tuple[int, int, bool]:
        return codes[at], chunk_of[at], bool(scored[at])

    for (code, place, counts), run in itertools.groupby(range(start, end), key=what):
        text = tokenizer.decode([row.input_ids[at] for at in run])
        yield StructuredText(text, code, place, counts)


def sources_in(
    store: Store, artefact: Artefact, pack_ids: Collection[str]
) -> dict[str, list[DocumentOrigin]]:
    """Return, for each pack_id, the origins of the documents in that row, in the order of the row."""
    wanted = [("pack_id", "in", pa.array(list(pack_ids), pa.string()))]
    held: dict[str, list[str]] = {
        line["pack_id"]: line["document_ids"]
        for file in artefact.shards()
        for line in parquet.read_table(
            file, columns=["pack_id", "document_ids"], filters=wanted
        ).to_pylist()
    }
    names = {name for ids in held.values() for name in ids}
    known = sources_of(inputs(store, artefact, "documents"), names)
    return {pack_id: [known.get(name, UNKNOWN) for name in ids] for pack_id, ids in held.items()}


def spread(artefact: Artefact, most: int, columns: Collection[str] = COLUMNS) -> Iterator[Line]:
    """Yield `most` rows at equal distances: the middle row of each of `most` equal parts of the artefact.

    >>> [line["pack_id"] for line in spread(rows_of_nine, 3)]
    ['1', '4', '7']
    """
    files = artefact.shards()
    sizes = [parquet.read_metadata(file).num_rows for file in files]
    most = min(most, sum(sizes))
    chosen = np.zeros(sum(sizes), np.bool_)
    chosen[[(2 * at + 1) * sum(sizes) // (2 * most) for at in range(most)]] = True
    masks = np.split(chosen, np.cumsum(sizes)[:-1])
    return (line for _, line in lines_of(files, masks, columns))


def sources_of(documents: Iterable[Artefact], names: Collection[str]) -> dict[str, DocumentOrigin]:
    """Return the origins of the documents `names` by id, reading only row groups that contain them."""
    found: dict[str, DocumentOrigin] = {}
    wanted = pa.array(sorted(names), pa.string())
    for artefact in documents:
        for file in parquet.shards_of(artefact.path):
            if len(found) < len(names):
                with parquet.File(file) as opened:
                    found |= dict(_sources(opened, wanted))
    return found


def _sources(file: pq.ParquetFile, wanted: pa.StringArray) -> Iterator[tuple[str, DocumentOrigin]]:
    # Artefacts with structure have the same document ids and origins as their base.
    columns = ["document_id", "licence", "timestamp", "num_bytes", "lineage", "provenance"]
    for group in range(file.num_row_groups):
        ids = file.read_row_group(group, columns=["document_id"], use_threads=False)["document_id"]
        inside = pc.is_in(ids, value_set=wanted)
        if not pc.any(inside).as_py():
            continue
        table = file.read_row_group(group, columns=columns, use_threads=False)
        for line in table.filter(inside).to_pylist():
            yield line["document_id"], _source(line)


def _source(line: Line) -> DocumentOrigin:
    sizes: dict[tuple[str, str, str], int] = {}
    for source in line["provenance"]:
        name = (source["repository"], source["commit"], source["path"])
        sizes[name] = sizes.get(name, 0) + source["end"] - source["start"]
    own = (source for source in line["provenance"] if source["lineage"] == line["lineage"])
    first = next(own, line["provenance"][-1])
    return DocumentOrigin(
        repository=first["repository"],
        commit=first["commit"],
        path=first["path"],
        licence=line["licence"],
        timestamp=line["timestamp"],
        num_bytes=line["num_bytes"],
        files=tuple(
            FileRange(repository=repository, commit=commit, path=path, num_bytes=size)
            for (repository, commit, path), size in sizes.items()
        ),
    )
