"""One packed row as a value, and what the workspace knows of it."""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from curriculum import parquet
from curriculum.inspection.context_tree import Piece
from curriculum.inspection.documents import Line
from curriculum.inspection.origins import inputs, origins
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from schemas.errors import StoreError
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
