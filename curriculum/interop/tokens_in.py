"""Import of documents that follow one another in .bin files, either as their original rows or as new rows.

Files exported from rows are converted back to the same rows. Documents of other files are packed by our own
best-fit packer. Their objective is causal: every token except a document's first is a target. Documents that
fit into a row stay whole. Longer documents are cut into pieces, and the cuts are counted. If BOS marks
documents, each piece begins with BOS. All pieces have the id of their document.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.interop.document_frames import count_frames
from curriculum.interop.eos_boundaries import Boundaries
from curriculum.interop.foreign_files import batches, opened, schema_of
from curriculum.interop.foreign_parquet import (
    as_known,
    check_facts,
    labels_of,
    require_types,
    stored_names,
)
from curriculum.interop.id_types import IdType
from curriculum.interop.publish import (
    FILLS,
    Completion,
    Imported,
    ImportedShard,
    RowFacts,
    document_digest,
    format_of,
)
from curriculum.interop.token_files import COPY, TokenFiles, open_tokens
from curriculum.packing import best_fit
from curriculum.packing.packed_rows import KNOWN, lists
from curriculum.packing.row_writer import SHARD_TOKENS
from curriculum.tokens.codec import Tokenizer
from schemas.document import list_of
from schemas.errors import SchemaError
from schemas.manifest import BESIDE_SCHEMA, TokenFormat
from schemas.packed_row import MAX_ROW_LENGTH, ROW_MULTIPLE, RowFormat
from schemas.reports import ImportReport

BATCH_TOKENS = 1 << 18
Int64s = npt.NDArray[np.int64]
SEED = 17
CAUSAL = "causal"


def token_lists(rows: npt.NDArray[Any]) -> Any:
    """Return an array [n, T] as an Arrow array of n lists, each with T values."""
    row_lengths = np.full(len(rows), rows.shape[1])
    return lists(pa.array(rows.reshape(-1)), row_lengths, pa.from_numpy_dtype(rows.dtype))


def packed_rows(
    tokens: TokenFiles, form: TokenFormat, given: RowFacts, tokenizer: Tokenizer, row_length: int
) -> Imported:
    """Pack the documents of `tokens`, which follow one another without gaps, into rows.

    Raises:
        SchemaError: if no family is given, or documents don't begin and end with the control tokens that the
            tokenizer's settings say.
    """
    if given.family is None:
        raise SchemaError(
            "--family",
            cause="tokens don't say of which family they are",
            cure="Say it: --family v3_simple, or a name of your own",
        )
    if given.objective not in (None, CAUSAL):
        raise SchemaError(
            "--objective",
            given.objective,
            cause="without a loss mask every next token is a target, which is causal",
            cure="Leave it out, or import rows with a loss mask as Parquet",
        )
    known = {name: getattr(given, name) for name in ("family", "variant", "domain", "split")}
    facts = replace(FILLS, **{name: value for name, value in known.items() if value is not None})
    frames = count_frames(tokens.ids, tokens.edges, tokenizer)
    frames.require(str(tokens.path))
    row_format = format_of(tokenizer, row_length)
    cuts = _cut(tokens.edges, row_format)
    return Imported(
        format=form,
        files=tokens.files,
        shards=_Packing(tokens, cuts, row_format, given.family).shards(),
        completion=Completion(row_format=row_format, facts=facts, stored=_STORED),
        # The width of ids is part of the key, because the same bytes can be read with another type.
        settings={"pack_seed": SEED, "id_bytes": tokens.ids.dtype.itemsize},
        boundaries=tokens.boundaries,
        notes=ImportReport(
            divided=cuts.divided,
            further_pieces=cuts.further_pieces,
            added_bos=cuts.added,
            empty=tokens.empty,
            unscored=len(cuts.lengths) - len(cuts.scored),
            **frames.report(),
            **({"boundaries_from_eos": len(tokens.edges) - 2} if tokens.boundaries else {}),
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cuts:
    """Pieces into which documents are cut; a document that fits into a row is one piece."""

    documents: Int64s
    """Index of each piece's document, [n]."""
    starts: Int64s
    """Index of each piece's first token in the ids of the file, [n]."""
    lengths: Int64s
    """Number of row positions of each piece, including a BOS that is added, [n]."""
    later: npt.NDArray[np.bool_]
    """True if a BOS is added before the piece, [n]."""
    divided: int
    added: int

    @property
    def scored(self) -> Int64s:
        """Indices of the pieces that have a target, which are those of at least two tokens."""
        return np.flatnonzero(self.lengths > 1)

    @property
    def further_pieces(self) -> int:
        """Number of scored pieces, not counting the first scored piece of each document."""
        return len(self.scored) - len(np.unique(self.documents[self.scored]))


def _cut(edges: Int64s, row_format: RowFormat) -> _Cuts:
    """Cut documents with the offsets `edges` into pieces that fit into a row.

    With rows of 4 tokens and BOS, a document of 9 tokens becomes pieces of 4, BOS + 3 and BOS + 2.
    """
    lengths, room = np.diff(edges), row_format.row_length
    lead = int(row_format.bos_marks_documents)
    long = np.flatnonzero(lengths > room)
    more = np.zeros(len(lengths), dtype=np.int64)
    more[long] = -(-(lengths[long] - room) // (room - lead))
    piece = _counted(more + 1)
    document = np.repeat(np.arange(len(lengths)), more + 1)
    inside = np.where(piece == 0, 0, room + (piece - 1) * (room - lead))
    left = lengths[document] - inside
    taken = np.minimum(left, np.where(piece == 0, room, room - lead))
    later = (piece > 0) & bool(lead)
    return _Cuts(
        documents=document,
        starts=edges[:-1][document] + inside,
        lengths=taken + later,
        later=later,
        divided=len(long),
        added=int(later.sum()),
    )


def _counted(counts: Int64s) -> Int64s:
    """Return the numbers 0, 1, 2 … up to each of `counts`: [2 1 3] -> [0 1 0 0 1 2]."""
    ends = np.cumsum(counts)
    numbers: Int64s = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    return numbers


class _Packing:
    """Best-fit packing of pieces into rows.

    Needs 48 bytes of memory per document, plus one id per document that is cut.
    """

    def __init__(self, tokens: TokenFiles, cuts: _Cuts, row_format: RowFormat, family: str) -> None:
        self._tokens, self._cuts, self._format = tokens, cuts, row_format
        self._family = family
        self._divided: dict[int, str] = {}
        scored = cuts.scored
        raw = np.zeros((len(scored), 16), dtype=np.uint8)
        raw[:, :8] = scored.astype("<u8").view(np.uint8).reshape(-1, 8)
        plan = best_fit.plan(
            cuts.lengths[scored], row_format.row_length, best_fit.tie_breakers(raw, SEED), SEED
        )
        self._plan = plan.reindex(scored)

    def shards(self) -> list[ImportedShard]:
        """Return the rows in shards of bounded size."""
        rows = max(1, SHARD_TOKENS // self._format.row_length)
        firsts = range(0, self._plan.num_rows, rows)
        return [self._shard(first, min(first + rows, self._plan.num_rows)) for first in firsts]

    def _shard(self, first: int, last: int) -> ImportedShard:
        at_once = max(1, BATCH_TOKENS // self._format.row_length)

        def tables() -> Iterator[pa.Table]:
            for row in range(first, last, at_once):
                yield self._table(row, min(row + at_once, last))

        return ImportedShard(name=self._tokens.path.name, tables=tables)

    def _table(self, first: int, last: int) -> pa.Table:
        edges = self._plan.row_starts[first : last + 1]
        shape = last - first, self._format.row_length
        ids = np.full(shape, self._format.pad_id, dtype=np.int32)
        mask = np.zeros(shape, dtype=np.uint8)
        starts: list[int] = []
        document_ids: list[str] = []
        valid = np.zeros(last - first, dtype=np.int32)
        for row in range(last - first):
            at = 0
            for piece in self._plan.order[edges[row] : edges[row + 1]].tolist():
                starts.append(at)
                document_ids.append(self._document_id(int(self._cuts.documents[piece])))
                at = self._put(ids[row], mask[row], at, piece)
            valid[row] = at
        counts = np.diff(edges)
        return pa.table(
            {
                "input_ids": token_lists(ids),
                "loss_mask": token_lists(mask),
                "doc_starts": lists(pa.array(np.array(starts, dtype=np.int32)), counts, pa.int32()),
                "valid_token_count": pa.array(valid),
                "document_ids": lists(pa.array(document_ids), counts, pa.string()),
            },
            schema=_PACKED,
        )

    def _document_id(self, document: int) -> str:
        """Return the id of a document, which all of its pieces share; the ids of cut documents are cached."""
        start, end = self._tokens.edges[document : document + 2].tolist()
        if end - start <= self._format.row_length:
            return document_digest(self._family, self._tokens.ids[start:end])
        if document not in self._divided:
            self._divided[document] = document_digest(self._family, self._tokens.ids[start:end])
        return self._divided[document]

    def _put(self, ids: Any, mask: Any, at: int, piece: int) -> int:
        """Write a piece into the row `ids` and its `mask` at position `at`; return the position after it."""
        cuts = self._cuts
        end = at + int(cuts.lengths[piece])
        mask[at : end - 1] = 1
        if cuts.later[piece]:
            ids[at] = self._format.bos_id
            at += 1
        start = int(cuts.starts[piece])
        ids[at:end] = self._tokens.ids[start : start + end - at]
        return end


_PACKED = pa.schema(
    [
        pa.field("input_ids", list_of(pa.int32())),
        pa.field("loss_mask", list_of(pa.uint8())),
        pa.field("doc_starts", list_of(pa.int32())),
        pa.field("valid_token_count", pa.int32()),
        pa.field("document_ids", list_of(pa.string())),
    ]
)
_STORED = tuple(name for name in _PACKED.names if name != "document_ids")
"""Columns that count as stored, because they come from the tokens themselves.

document_ids is not among them, because the ids are digests that are computed here.
"""


def token_rows(
    path: Path,
    form: TokenFormat,
    given: RowFacts,
    tokenizer: Tokenizer,
    row_length: int | None,
    boundaries: Boundaries | None = None,
    dtype: IdType | None = None,
) -> Imported:
    """Read the rows of .bin files.

    `row_length` is used for documents that aren't packed yet. `boundaries` is the source of boundaries that
    aren't stored; `dtype` is the type of ids if the type isn't stored.

    Raises:
        SchemaError: if files can't be read, there are several row lengths, or a required option is missing.
    """
    check_facts(given)
    tokens = open_tokens(path, form, tokenizer, boundaries, dtype)
    if not len(tokens.ids):
        raise SchemaError(
            str(tokens.path), cause="the file contains no tokens", cure="Give another file"
        )
    if tokens.beside is not None:
        return _as_they_were(tokens, tokens.beside, form, given, tokenizer)
    return packed_rows(tokens, form, given, tokenizer, _asked(row_length, path))


def _asked(row_length: int | None, path: Path) -> int:
    whole = row_length is not None and 0 < row_length <= MAX_ROW_LENGTH
    if row_length is None or not whole or row_length % ROW_MULTIPLE:
        raise SchemaError(
            "--row-length",
            row_length,
            cause=f"{path.name} holds documents that aren't packed",
            cure=f"Say how long rows are to be, a multiple of {ROW_MULTIPLE}, at most {MAX_ROW_LENGTH:,}: "
            "--row-length 4096",
        )
    return row_length


def _as_they_were(
    tokens: TokenFiles, beside: Path, form: TokenFormat, given: RowFacts, tokenizer: Tokenizer
) -> Imported:
    record = tokens.record
    assert record is not None, "what lies beside tokens is told by export.json"
    if len(record.row_lengths) != 1:
        raise SchemaError(
            str(beside),
            f"rows of {', '.join(map(str, record.row_lengths))} tokens",
            cause="rows of one artefact have one length",
            cure="Export and import each of the mixture's rows by itself",
        )
    (row_length,) = record.row_lengths
    names = _columns(beside)
    counts = ["valid_token_count", "num_docs"]
    with opened(beside) as content:
        kept = pa.schema([content.schema_arrow.field(name) for name in counts])
        lines = pa.Table.from_batches(batches(content, counts), schema=kept)
    places = _places(tokens, as_known(beside, lines, counts), beside, row_length)
    facts = labels_of([beside], names, given)
    row_format = format_of(tokenizer, row_length)
    stored = ("input_ids", "doc_starts", *tokens.marks, *names)

    def tables() -> Iterator[pa.Table]:
        at_once = max(1, BATCH_TOKENS // row_length)
        first = 0
        with opened(beside) as content:
            for batch in batches(content, names, at_once):
                some = places.slice(first, first + len(batch))
                table = _row_table(tokens, some, row_format)
                known = as_known(beside, pa.Table.from_batches([batch]), names)
                for name in names:
                    table = table.append_column(name, known[name])
                yield table
                first += len(batch)

    return Imported(
        format=form,
        files=tokens.files,
        shards=[ImportedShard(name=tokens.path.name, tables=tables)],
        completion=Completion(row_format=row_format, facts=facts, stored=stored),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Places:
    """Offsets of n rows into the documents and the tokens of .bin files; needs 32 bytes per row."""

    first_document: Int64s
    documents: Int64s
    start: Int64s
    valid: Int64s

    def slice(self, first: int, last: int) -> "_Places":
        """Return the offsets of row `first` and the later rows before row `last`."""
        names = ("first_document", "documents", "start", "valid")
        return _Places(**{name: getattr(self, name)[first:last] for name in names})


def _columns(beside: Path) -> list[str]:
    """Return the columns of rows.parquet that are known; raise if a column of BESIDE_SCHEMA is missing."""
    schema = schema_of(beside)
    lacking = [name for name in BESIDE_SCHEMA.names if name not in schema.names]
    if lacking:
        raise SchemaError(
            str(beside),
            f"no column {lacking[0]}",
            cause="an export must have this column",
            cure=COPY,
        )
    names = list(stored_names(schema.names, KNOWN))
    require_types(beside, schema, names)
    return names


def _places(tokens: TokenFiles, lines: pa.Table, beside: Path, row_length: int) -> _Places:
    if lines["num_docs"].null_count or lines["valid_token_count"].null_count:
        raise SchemaError(str(beside), "a null", cause="every row must have its counts", cure=COPY)
    counts = lines["num_docs"].to_numpy().astype(np.int64)
    valid = lines["valid_token_count"].to_numpy().astype(np.int64)
    last, ends = np.cumsum(counts), np.cumsum(valid)
    whole = len(last) and last[-1] == len(tokens.edges) - 1
    fits = not (counts < 1).any() and not (valid < 1).any() and not (valid > row_length).any()
    if not whole or not fits or not np.array_equal(tokens.edges[last], ends):
        raise SchemaError(
            str(beside),
            f"{int(counts.sum()):,} documents of {int(valid.sum()):,} tokens",
            cause=f"the ids have {len(tokens.edges) - 1:,} documents of {len(tokens.ids):,} tokens, "
            f"or others in a row of {row_length:,}",
            cure=COPY,
        )
    return _Places(first_document=last - counts, documents=counts, start=ends - valid, valid=valid)


def _row_table(tokens: TokenFiles, places: _Places, row_format: RowFormat) -> pa.Table:
    """Return rows padded to length T, with their document starts and all columns of the .bin files."""
    first = int(places.first_document[0])
    documents = int(places.documents.sum())
    starts = tokens.edges[first : first + documents] - np.repeat(places.start, places.documents)
    columns = {
        "input_ids": _filled(tokens.ids, places, row_format, np.int32, row_format.pad_id),
        "doc_starts": lists(pa.array(starts.astype(np.int32)), places.documents, pa.int32()),
    }
    for name, values in tokens.marks.items():
        columns[name] = _filled(values, places, row_format, np.uint8, 0)
    return pa.table(columns)


def _filled(
    values: npt.NDArray[Any],
    places: _Places,
    row_format: RowFormat,
    kind: type[np.generic],
    fill: int,
) -> Any:
    rows = np.full((len(places.valid), row_format.row_length), fill, dtype=kind)
    spans = zip(places.start.tolist(), places.valid.tolist(), strict=True)
    for row, (start, valid) in enumerate(spans):
        rows[row, :valid] = values[start : start + valid]
    return token_lists(rows)
