"""Batches of documents as flat arrays, with the split of their context chunks and with their structure.

Split: a context document belongs to the split (training or held out) of its target. In a training document,
context chunks with text of a held-out file are removed. A held-out document keeps its context, but no token
of the context is scored. Chunks under a licence that the corpus refuses are removed from every document. A
document whose target has text from both splits is in no rows.

Structure: the structure of a document's bytes is mapped to the tokens of its encodings. A token gets the
values of its first byte that isn't white space, since tokens begin with the space before a word. A token of
only white space gets the values of its first byte. A chunk becomes the tokens that got its level, so chunks
stay disjoint. Chunks without tokens are dropped with their edges, and counted. Tokens without text have 0 in
all columns. A chunk continues after a gap line inside it. If an objective moves part of a chunk, each
contiguous stretch becomes a chunk of its own, without edges; these are counted as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from curriculum.encode.encoded_documents import (
    Bools,
    FitResult,
    Int32s,
    StructureCounts,
    TokenizedDocument,
)
from curriculum.tokens.encoding import (
    BYTE_START,
    KIND,
    TOKEN_END,
    TOKEN_START,
    EncodedStructure,
    Encoding,
    Spans,
    byte_ranges,
)
from curriculum.tokens.token_store import TokenStore
from schemas.corpus import USUAL_LICENCES, LicencesSpec
from schemas.document import PART_KINDS, SPAN_KINDS
from schemas.packed_row import TEXT_PIECE
from schemas.structure import RUN_COLUMNS, STRUCTURE_TOKENS

Codes = npt.NDArray[np.uint8]
_LEVEL = STRUCTURE_TOKENS.index("dep_levels")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ByteStructure:
    """Structure of one document (see schemas.structure.Structure), as arrays."""

    base_document_id: str
    ends: Int32s
    """Byte offset at which each run ends, [runs]."""
    codes: Codes
    """Values that the RUN_COLUMNS have in each run, [runs, 4]."""
    chunks: Int32s
    """Columns start, end, kind, dep_level; [chunks, 4]."""
    call_edges: Int32s
    """Columns source, target, label; [edges, 3]."""
    type_edges: Int32s


class _EncodedPart(NamedTuple):
    """Structure of one encoding, and flags that tell which chunks and edges of the document it contains."""

    structure: EncodedStructure
    chunks: Bools
    cut: Bools
    """True for each chunk that is in several stretches of the encoding."""
    calls: Bools
    types: Bools


def with_structure(
    fitted: FitResult, structure: ByteStructure, token_bytes: Int32s, leading_space: Int32s
) -> FitResult:
    """Return the fit result with `structure`, the structure of its document, added to its encodings.

    `token_bytes` (number of bytes) and `leading_space` (number of bytes of white space at the start) are
    indexed by token id.
    """
    if not fitted.encodings:
        return fitted
    held = [
        _encoded(structure, encoding, token_bytes, leading_space) for encoding in fitted.encodings
    ]
    chunks, cut, calls, types = (
        np.logical_or.reduce(masks)
        for masks in zip(
            *((part.chunks, part.cut, part.calls, part.types) for part in held), strict=True
        )
    )
    edges = len(calls) + len(types)
    return replace(
        fitted,
        encodings=tuple(
            replace(encoding, structure=part.structure)
            for encoding, part in zip(fitted.encodings, held, strict=True)
        ),
        structure=StructureCounts(
            chunks=len(chunks),
            chunks_without_tokens=int((~chunks).sum()),
            chunks_cut=int(cut.sum()),
            edges=edges,
            edges_dropped=edges - int(calls.sum()) - int(types.sum()),
        ),
    )


def _encoded(
    structure: ByteStructure, encoding: Encoding, token_bytes: Int32s, leading_space: Int32s
) -> _EncodedPart:
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, token_bytes)
    # First byte of each token that isn't white space; -1 for tokens without text.
    at = np.where(ends > starts, starts + leading_space[encoding.ids], np.int32(-1))
    chunk = chunk_of(at, structure.chunks)
    found = token_ranges(chunk, _stretches(encoding.pieces))
    stretches = np.bincount(found[:, 0], minlength=len(structure.chunks))
    place = np.full(len(structure.chunks), -1, dtype=np.int32)
    whole = np.flatnonzero(stretches[found[:, 0]] == 1)
    place[found[whole, 0]] = whole
    runs = structure.codes[np.searchsorted(structure.ends, at, side="right")]
    runs[at < 0] = 0
    levels = np.append(structure.chunks[:, 3], 0).astype(np.uint8)
    calls, call_edges = _renumbered(structure.call_edges, place)
    types, type_edges = _renumbered(structure.type_edges, place)
    encoded = EncodedStructure(
        base_document_id=structure.base_document_id,
        codes=np.insert(runs, _LEVEL, levels[chunk], axis=1),
        chunks=np.concatenate((found[:, 1:], structure.chunks[found[:, 0], 2:]), axis=1),
        call_edges=call_edges,
        type_edges=type_edges,
    )
    return _EncodedPart(encoded, stretches > 0, stretches > 1, calls, types)


def chunk_of(at: Int32s, chunks: Int32s) -> Int32s:
    """Return the index of the chunk that contains each byte of `at`, [n]; -1 if there is none.

    The first two columns of `chunks` [k, 2 or more] are start and end.

    >>> chunk_of(np.array([-1, 0, 2, 3, 5]), np.array([[0, 2], [3, 6]])).tolist()
    [-1, 0, -1, 1, 1]
    """
    number = np.searchsorted(chunks[:, 0], at, side="right").astype(np.int32) - np.int32(1)
    ends = np.append(chunks[:, 1], 0)
    number[at >= ends[number]] = -1
    return number


def token_ranges(chunk: Int32s, stretch: Int32s) -> Int32s:
    """Return the token ranges of chunks, [ranges, 3]: chunk, first token, and the token after the last one.

    `chunk` [n] and `stretch` [n] tell the chunk and the stretch of each token. A chunk has one range per
    stretch. Tokens with chunk -1 belong to no chunk and don't interrupt one.

    >>> chunk, stretch = np.array([-1, 0, 0, -1, 2, -1, 2, 2]), np.array([0, 0, 0, 0, 0, 0, 0, 1])
    >>> token_ranges(chunk, stretch).tolist()
    [[0, 1, 3], [2, 4, 7], [2, 7, 8]]
    """
    tokens = np.flatnonzero(chunk >= 0)
    numbers, own = chunk[tokens], stretch[tokens]
    begin = np.ones(len(tokens), dtype=np.bool_)
    begin[1:] = (numbers[1:] != numbers[:-1]) | (own[1:] != own[:-1])
    first = np.flatnonzero(begin)
    last = np.append(first[1:], len(tokens))[: len(first)] - 1
    found = (numbers[first], tokens[first], tokens[last] + 1)
    return np.stack(found, axis=1).astype(np.int32)


def _stretches(pieces: Int32s) -> Int32s:
    """Return the index of the stretch to which each token belongs, [n].

    Within a stretch, the text is in the order of the document. Text that an objective moved begins another
    stretch. Two pieces belong to one stretch if no other piece has text of the document that lies between
    them; a gap in the text doesn't separate them.

    >>> _stretches(np.array([[0, 0, 1, 0, 3], [1, 1, 2, 3, 3], [0, 2, 3, 7, 9], [0, 3, 5, 3, 7]])).tolist()
    [0, 0, 1, 2, 2]
    """
    text = np.flatnonzero(pieces[:, KIND] == TEXT_PIECE)
    rank = np.argsort(np.argsort(pieces[text, BYTE_START]))
    moved = np.zeros(len(pieces), dtype=np.int32)
    moved[text[1:]] = np.diff(rank) != 1
    lengths = pieces[:, TOKEN_END] - pieces[:, TOKEN_START]
    return np.repeat(np.cumsum(moved, dtype=np.int32), lengths)


def _renumbered(edges: Int32s, place: Int32s) -> tuple[Bools, Int32s]:
    """Return a flag for each edge, and the edges with a True flag, renumbered and sorted.

    `edges` is [e, 3]. `place` has the new number of each chunk, or -1; a flag is True if both chunks have a
    number.

    >>> edges = np.array([[0, 1, 1], [0, 2, 1], [2, 0, 4]], dtype=np.int32)
    >>> stays, kept = _renumbered(edges, np.array([1, -1, 0], dtype=np.int32))
    >>> stays.tolist(), kept.tolist()
    ([False, True, True], [[0, 1, 4], [1, 0, 1]])
    """
    stays: Bools = (place[edges[:, 0]] >= 0) & (place[edges[:, 1]] >= 0)
    kept = edges[stays]
    kept[:, :2] = place[kept[:, :2]]
    return stays, kept[np.lexsort((kept[:, 2], kept[:, 1], kept[:, 0]))]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Split:
    """Division of a corpus into training and held-out documents, as the selection decided it."""

    held_out: npt.NDArray[np.bool_]
    """True for each document whose file is held out, [documents]."""
    held_out_files: frozenset[str]
    """Lineages of held-out files; no version of them is trained on."""
    licences: LicencesSpec = USUAL_LICENCES
    """Licences that the corpus accepts."""

    @property
    def refuses(self) -> bool:
        """True if there are licences that the corpus refuses."""
        return self.licences != USUAL_LICENCES

    def are_refused(self, sources: Any) -> Bools:
        """Return a flag for each source, [sources]: True if the corpus refuses its licence."""
        coded = sources.field("licence").dictionary_encode()
        refused = [self.licences.refuses(name) for name in coded.dictionary.to_pylist()]
        unknown = self.licences.refuses(None)
        codes = coded.indices.fill_null(len(refused)).to_numpy(zero_copy_only=False)
        found: Bools = np.array([*refused, unknown], dtype=np.bool_)[codes]
        return found


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ContextParts:
    """Parts of one document that must be removed from its context."""

    context: Int32s
    """Range of parts [first, after) of each context chunk, [chunks, 2]."""
    other_side: Bools
    """True for each part of the context that must be removed because its chunk contains held-out text,
    [parts].
    """
    refused: Bools
    """True for each other part that must be removed because its chunk contains text under a refused licence,
    [parts].
    """
    straddles: bool
    held_out: bool
    """True for a held-out document, which keeps its context."""


def context_parts(
    chunks: Int32s,
    hops: Int32s,
    foreign: Bools,
    *,
    held_out: bool = False,
    refused: Bools | None = None,
) -> ContextParts:
    """Return the parts of a document that must be removed from its context.

    Args:
        chunks: [chunks, 2] ranges of parts.
        hops: [chunks] distances, 0 for the target's chunks.
        foreign: [parts] True for text from the other split.
        held_out: whether the document is held out; it may contain context from training files.
        refused: [parts] True for text under a refused licence, which is removed from the context of every
            document. The selection excludes targets with such text.

    >>> chunks = np.array([[0, 2], [2, 4], [4, 5]], dtype=np.int32)
    >>> hops = np.array([2, 1, 0], dtype=np.int32)
    >>> foreign = np.array([False, True, False, False, False])
    >>> found = context_parts(chunks, hops, foreign)
    >>> found.other_side.tolist(), found.straddles
    ([True, True, False, False, False], False)
    >>> context_parts(chunks, hops, foreign, held_out=True).other_side.any()
    np.False_
    >>> context_parts(chunks, hops, np.array([False, False, False, False, True])).straddles
    True
    """
    context = chunks[hops > 0]
    removed = context[:0] if held_out else context[_touched(context, foreign)]
    other_side = _inside_ranges(removed, len(foreign))
    under = context[:0] if refused is None else context[_touched(context, refused)]
    return ContextParts(
        context=context,
        other_side=other_side,
        refused=_inside_ranges(under, len(foreign)) & ~other_side,
        straddles=bool((foreign & ~_inside_ranges(context, len(foreign))).any()),
        held_out=held_out,
    )


def _touched(ranges: Int32s, marked: Bools) -> Bools:
    """Return a flag for each range of parts, [ranges]: True if it contains a `marked` part."""
    before = np.concatenate(([0], np.cumsum(marked)))
    found: Bools = before[ranges[:, 1]] > before[ranges[:, 0]]
    return found


def _inside_ranges(ranges: Int32s, count: int) -> Bools:
    """Return a flag for each of `count` parts: True if one of the ranges contains it.

    The range [[1 3]] of 4 parts gives [F T T F].
    """
    steps = np.zeros(count + 1, dtype=np.int32)
    np.add.at(steps, ranges[:, 0], 1)
    np.add.at(steps, ranges[:, 1], -1)
    return np.cumsum(steps[:-1]) > 0


_COLUMNS = ("document_id", "language", "num_bytes", "parts", "spans")
_CHUNKS, _LINEAGE = "chunks", "provenance.list.element.lineage"
_LICENCE = "provenance.list.element.licence"
_HOP = "chunks.list.element.hop"
_RUNS = tuple(f"run_{name}" for name in RUN_COLUMNS)
_STRUCTURE = (
    "base_document_id",
    "run_ends",
    *_RUNS,
    "structure_chunks",
    "call_edges",
    "type_edges",
)


def columns_of(path: Path, *, split: Split | None, structure: bool) -> list[str]:
    """Return the columns of a file that fitting needs.

    They include chunks only if the file has any, and sources only if there is also a split.
    """
    columns = [*_COLUMNS, *(_STRUCTURE if structure else ())]
    if _has_chunks(path):
        sources = [] if split is None else [_LINEAGE, *([_LICENCE] if split.refuses else [])]
        columns += [_CHUNKS, *sources]
    return columns


def _has_chunks(path: Path) -> bool:
    """Return True if the file contains context documents; takes some ms for files of other families."""
    with parquet.File(path) as file:
        if _CHUNKS not in file.schema_arrow.names:
            return False
        counts = (
            pc.sum(pc.list_value_length(batch.column(_CHUNKS))).as_py()
            for batch in file.iter_batches(columns=[_HOP])
        )
        return any(counts)


class DocumentBatch:
    """Consecutive documents of one artefact; `first_row` is the row number of the first document."""

    def __init__(self, batch: pa.RecordBatch, first_row: int, split: Split | None) -> None:
        self.first_row = first_row
        self._ids: list[Any] = batch.column("document_id").to_pylist()
        self._languages: list[Any] = batch.column("language").to_pylist()
        self._parts, part = flat(batch.column("parts"))
        self._spans, span = flat(batch.column("spans"))
        self._part_ends: Int32s = part.field("end").to_numpy()
        self._part_kinds = _codes(part.field("kind"), PART_KINDS)
        is_source = part.field("source").to_numpy() >= 0
        self._generated = ~is_source & (self._part_kinds != PART_KINDS.index("changes"))
        self._ranks: Int32s = part.field("rank").to_numpy()
        self._elidable = part.field("elidable").to_numpy(zero_copy_only=False).astype(np.bool_)
        self._kinds: Int32s = _codes(span.field("kind"), SPAN_KINDS)
        self._starts: Int32s = span.field("start").to_numpy()
        self._ends: Int32s = span.field("end").to_numpy()
        names = batch.schema.names
        self._context = _Context(batch, part, split) if _CHUNKS in names else None
        self._structure = _Structure(batch) if "run_ends" in names else None
        self.num_parts = int(self._parts[-1])

    def __len__(self) -> int:
        return len(self._ids)

    def document(
        self, index: int, store: TokenStore, tokens: npt.NDArray[np.int64]
    ) -> TokenizedDocument:
        """Return one document of the batch; `tokens` are the numbers of tokens of all parts of the batch."""
        row = self.first_row + index
        parts = slice(self._parts[index], self._parts[index + 1])
        spans = slice(self._spans[index], self._spans[index + 1])
        found = self._context and self._context.context_parts(index, row, parts)
        nothing = np.zeros(len(self._ranks[parts]), dtype=np.bool_)
        return TokenizedDocument(
            row=row,
            document_id=self._ids[index],
            flat_id=self._ids[index] if self._structure is None else self._structure.base(index),
            language=self._languages[index],
            ids=store.tokens(row),
            part_bytes=_after_zero(self._part_ends[parts]),
            part_tokens=_after_zero(np.cumsum(tokens[parts])),
            part_kinds=self._part_kinds[parts],
            ranks=self._ranks[parts],
            elidable=self._elidable[parts],
            spans=Spans(
                kinds=self._kinds[spans], starts=self._starts[spans], ends=self._ends[spans]
            ),
            generated=self._generated[parts],
            other_side=found.other_side if found else nothing,
            refused=found.refused if found else nothing,
            straddles=found.straddles if found else False,
            context=found.context if found else None,
            targets_alone=found.held_out if found else False,
        )

    def structure(self, index: int) -> ByteStructure:
        """Return the structure of one document; the batch must have the columns for structure."""
        assert self._structure is not None, "columns_of(…, structure=True)"
        return self._structure.structure(index)


class _Structure:
    """Structure of a batch's documents."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._bases: list[Any] = batch.column("base_document_id").to_pylist()
        self._runs, ends = flat(batch.column("run_ends"))
        self._run_ends: Int32s = ends.to_numpy()
        self._codes: Codes = np.stack(
            [flat(batch.column(name))[1].to_numpy() for name in _RUNS], axis=1
        )
        self._chunks = _table(batch.column("structure_chunks"), "start", "end", "kind", "dep_level")
        self._edges = [
            _table(batch.column(name), "source", "target", "label")
            for name in ("call_edges", "type_edges")
        ]

    def base(self, index: int) -> str:
        """Return the id of the base document to which the structure belongs."""
        return str(self._bases[index])

    def structure(self, index: int) -> ByteStructure:
        """Return the structure of one document; its arrays are views, not copies."""
        runs = slice(self._runs[index], self._runs[index + 1])
        chunks, calls, types = (
            rows[borders[index] : borders[index + 1]]
            for borders, rows in (self._chunks, *self._edges)
        )
        return ByteStructure(
            base_document_id=self._bases[index],
            ends=self._run_ends[runs],
            codes=self._codes[runs],
            chunks=chunks,
            call_edges=calls,
            type_edges=types,
        )


class _Context:
    """Chunks of a batch's documents, and the split to which their sources belong."""

    def __init__(self, batch: pa.RecordBatch, part: Any, split: Split | None) -> None:
        self._chunks, chunk = flat(batch.column(_CHUNKS))
        edges = [chunk.field(name).to_numpy() for name in ("first_part", "last_part")]
        self._ranges: Int32s = np.stack(edges, axis=1)
        self._hops: Int32s = chunk.field("hop").to_numpy()
        self._sources: Int32s = part.field("source").to_numpy()
        self._split = split
        if split is not None:
            self._provenance, source = flat(batch.column("provenance"))
            held_out = pa.array(sorted(split.held_out_files), type=pa.string())
            is_held_out = pc.is_in(source.field("lineage"), value_set=held_out)
            self._is_held_out = is_held_out.to_numpy(zero_copy_only=False).astype(np.bool_)
            self._is_refused = split.are_refused(source) if split.refuses else None

    def context_parts(self, index: int, row: int, parts: slice) -> ContextParts | None:
        """Return the context parts to remove from one document; None if the document has no chunks."""
        chunks = slice(self._chunks[index], self._chunks[index + 1])
        if chunks.start == chunks.stop:
            return None
        foreign, held_out = np.zeros(len(self._sources[parts]), dtype=np.bool_), False
        refused = foreign.copy()
        if self._split is not None:
            held_out = bool(self._split.held_out[row])
            cited = np.flatnonzero(self._sources[parts] >= 0)
            sources = self._provenance[index] + self._sources[parts][cited]
            foreign[cited] = self._is_held_out[sources] != held_out
            if self._is_refused is not None:
                refused[cited] = self._is_refused[sources]
        return context_parts(
            self._ranges[chunks], self._hops[chunks], foreign, held_out=held_out, refused=refused
        )


def flat(column: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Return the borders [n + 1] of the lists in a list column, and the items of all lists."""
    counts = pc.list_value_length(column).to_numpy()
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), column.flatten()


def _table(column: Any, *fields: str) -> tuple[npt.NDArray[np.int64], Int32s]:
    """Return the borders [n + 1] and the items [items, fields] of a column of lists of structs."""
    borders, items = flat(column)
    return borders, np.stack([items.field(name).to_numpy() for name in fields], axis=1)


def _codes(names: Any, known: Sequence[str]) -> Int32s:
    codes: Int32s = pc.index_in(names, value_set=pa.array(known)).to_numpy()
    return codes


def _after_zero(values: npt.NDArray[np.integer[Any]]) -> Int32s:
    borders = np.zeros(len(values) + 1, dtype=np.int32)
    borders[1:] = values
    return borders
