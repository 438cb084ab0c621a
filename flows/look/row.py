"""One packed row as a value, and what the workspace knows of it."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from flows.look.find import inputs
from flows.look.pieces import Piece
from flows.look.read import Line
from schemas.errors import StoreError
from schemas.structure import StructureChunk, StructureEdge


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a document came from: the first of its provenance."""

    repository: str
    commit: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What one packed row holds, for showing."""

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

        >>> Row(..., doc_starts=[0, 3], valid=5).spans
        [(0, 3), (3, 5)]
        """
        return list(itertools.pairwise([*self.doc_starts[: len(self.document_ids)], self.valid]))

    @property
    def is_structured(self) -> bool:
        """Whether any token has structure."""
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
    """Where the row's documents came from; one whose documents artefact is gone has no origin."""
    origins = dict.fromkeys(row.document_ids, Origin(repository="?", commit="", path=""))
    wanted = pc.field("document_id").isin(row.document_ids)
    for documents in inputs(store, artefact, "documents"):
        for file in documents.files(".parquet"):
            if not file.name.startswith("part-"):
                continue
            columns = ["document_id", "provenance"]
            for line in pq.read_table(file, columns=columns, filters=wanted).to_pylist():
                first = line["provenance"][0]
                origins[line["document_id"]] = Origin(
                    repository=first["repository"], commit=first["commit"], path=first["path"]
                )
    return origins


def tokenizer_of(store: Store, artefact: Artefact) -> Tokenizer:
    """The tokenizer that a rows artefact was made with.

    Raises:
        StoreError: where it is gone.
    """
    found = inputs(store, artefact, "tokenizers")
    if not found:
        raise StoreError(
            str(artefact.path),
            cause="the tokenizer that it was made with is gone",
            cure="Build again, or read it with --json",
        )
    return Tokenizer.load(found[0].path / "tokenizer.json")
