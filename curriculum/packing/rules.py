"""Rules of the packed row in one table: the claim of each rule, and a function that finds violations.

A rule checks a batch of rows at a time. Rows that violate a rule aren't passed to the later rules, so that
every row has at most one fault. The rules are checked in this order: SHAPES of columns, EDGES of documents,
CONTENT, STRUCTURE.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.packing.boundaries import Int64s, RowLayout, Values
from curriculum.packing.packed_rows import DERIVED, KNOWN, REQUIRED, RowBatch, RowTokens
from curriculum.packing.repeats import REPEAT_FREE, RUN, in_repeats
from schemas.packed_row import GENERATED_PIECE, HISTOGRAM_EDGES, TEXT_PIECE, TOKEN_COLUMNS
from schemas.structure import (
    LABEL_CODES,
    MAX_CODES,
    MAX_LEVEL,
    STRUCTURE_CODES,
    STRUCTURE_COLUMNS,
    STRUCTURE_TOKENS,
)

NAMES = tuple(field.name for field in STRUCTURE_COLUMNS)
MAX_SHOWN_ITEMS = 8
"""Maximum number of list items that the text of a fault shows."""
BUCKETS = len(HISTOGRAM_EDGES) + 1
Bools = npt.NDArray[np.bool_]


Rule = Enum("Rule", "FILE SHAPE BOUNDARIES BOS TARGETS STRUCTURE LOSS COVERAGE REPEATS", start=0)
"""Numbered invariants of the packed row. Number 0, FILE, means that the file can be read as rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedRows:
    """Rows of a shard, with values that several rules need.

    All properties except `batch` require that the rows have passed the rules SHAPES and EDGES.
    """

    batch: RowBatch
    numbers: Int64s
    """[n]: indices of the rows in their shard."""
    last_pack_id: bytes = b""
    """The pack_id of the row that precedes the first of these rows."""

    def __len__(self) -> int:
        return len(self.batch)

    def filter(self, rows: Bools) -> "CheckedRows":
        """Return those rows for which the mask `rows` [n] is True; no copy is made if it is True for all."""
        if rows.all():
            return self
        return replace(self, batch=self.batch.filter(rows), numbers=self.numbers[rows])

    @cached_property
    def valid(self) -> Int64s:
        """Number of tokens of each row without padding, [n]."""
        return self.batch.valid_counts()

    @cached_property
    def starts(self) -> tuple[Int64s, Int64s]:
        """First position of each document in its row, row after row, and the borders of the rows, [n + 1]."""
        return self.batch.doc_starts(self.valid)

    @cached_property
    def tokens(self) -> RowTokens:
        """Document boundaries, tokens and loss mask of the rows."""
        starts, edges = self.starts
        row_format = self.batch.row_format
        return RowTokens(
            layout=RowLayout.from_starts(starts, np.diff(edges), self.valid, row_format.row_length),
            input_ids=self.batch.input_ids,
            loss_mask=self.batch.loss_mask,
            pad_id=row_format.pad_id,
        )

    @property
    def layout(self) -> RowLayout:
        """Positions of the documents."""
        return self.tokens.layout

    @cached_property
    def padding(self) -> Bools:
        """Flag for each position, [n, T]: True for padding."""
        return np.arange(self.layout.row_length) >= self.valid[:, None]

    @cached_property
    def scored_repeats(self) -> Bools:
        """Flag for each position, [n, T]: True if it is scored and the token that it predicts is in a repeat.

        A repeat is a run of RUN tokens that also occurs earlier in the document.
        """
        lengths, repeated = self.layout.lengths, np.zeros(self.padding.shape, dtype=np.bool_)
        ids = self.tokens.input_ids[~self.padding]
        repeated[~self.padding] = in_repeats(ids, np.cumsum(lengths) - lengths)
        scored = np.zeros_like(repeated)
        scored[:, :-1] = repeated[:, 1:] & (self.tokens.loss_mask[:, :-1] == 1)
        return scored

    @cached_property
    def textless(self) -> Bools:
        """Flag for each position, [n, T]: True for padding and, if pieces are stored, generated tokens."""
        if not self.batch.has("pieces"):
            return self.padding
        piece, edges = self.batch.fields("pieces"), self.batch.offsets("pieces")
        generated = (piece["kind"] == GENERATED_PIECE).astype(np.int64)
        values_by_token = self.values_by_token(
            piece["token_start"], piece["token_end"], edges, generated
        )
        return self.padding | (values_by_token > 0)

    def values_by_token(self, start: Int64s, end: Int64s, edges: Int64s, values: Int64s) -> Int64s:
        """Return, for each token, the value of the range that contains it, or 0, [n, T].

        `start`, `end` and `values` describe disjoint token ranges; `edges` are the borders of the rows in
        these arrays.
        """
        length = self.batch.row_format.row_length
        first, steps = row_of(edges) * length, np.zeros(len(self) * length + 1, dtype=np.int64)
        np.add.at(steps, first + start, values)
        np.subtract.at(steps, first + end, values)
        return np.cumsum(steps[:-1]).reshape(len(self), length)

    def outside(self, name: str, start: Int64s, end: Int64s) -> Bools:
        """Return a flag for each token range `[start, end)`: True if it is empty or not within its document.

        The ranges are items of the list column `name`, whose field `doc` names the document.
        """
        row, layout = row_of(self.batch.offsets(name)), self.layout
        doc = self.batch.fields(name)["doc"]
        named = (doc >= 0) & (doc < layout.num_docs[row])
        document = layout.first_document[row] + np.where(named, doc, 0)
        first = layout.start[document]
        return ~named | (start >= end) | (start < first) | (end > first + layout.lengths[document])

    def stored(self, name: str) -> Values:
        """Return a stored column, as [n] or [n, k]."""
        if name == "valid_token_count":
            return self.valid
        if not pa.types.is_list(KNOWN[name]):
            return self.batch.scalars(name)
        return self.batch.values(name).reshape(len(self), -1)


class RowRule(NamedTuple):
    """Rule that one column of packed rows must obey."""

    invariant: Rule
    column: str
    """Column that the text of a fault shows; empty if it may be any column."""
    holds: str
    """Claim of the rule, in which names in braces are fields of the row format."""
    where: Callable[[CheckedRows, str], Bools]
    """Function that returns a flag for each violation: [n], [n, k], or [items] for lists of structs."""
    needs: tuple[str, ...] = ()
    """Columns that must be stored for the rule to apply; if empty, only `column`."""

    def broken(self, rows: CheckedRows, where: Bools) -> Bools:
        """Return a flag for each row, [n]: True if it violates the rule.

        `where` is the result of `self.where`.
        """
        if self.column in _ITEMS:
            row = row_of(rows.batch.offsets(self.column))
            return np.bincount(row[where], minlength=len(rows)) > 0
        broken: Bools = np.logical_or.reduce(where.reshape(len(rows), -1), axis=1)
        return broken

    def found(self, rows: CheckedRows, where: Bools, row: int) -> str:
        """Return a text that describes the value of `row` which violates the rule."""
        column, batch = self.column, rows.batch
        if not column:
            return "a null in a column"
        if column in _ITEMS:
            edges = batch.offsets(column)
            number = int(where[edges[row] : edges[row + 1]].argmax())
            fields = batch.fields(column).items()
            item = {name: int(values[edges[row] + number]) for name, values in fields}
            return f"{column} {number} is {item}"
        if column == "doc_starts":
            starts, edges = rows.starts
            found = starts[edges[row] : edges[row + 1]].tolist()
            return f"doc_starts is {found[:MAX_SHOWN_ITEMS]}{' …' if len(found) > MAX_SHOWN_ITEMS else ''}"
        if where.ndim == 1 and pa.types.is_list(KNOWN[column]):
            return f"{column} has {np.diff(batch.offsets(column))[row]} values"
        at = (row,) if where.ndim == 1 else (row, int(where[row].argmax()))
        unit = "bucket" if column == "context_histogram" else "token"
        place = "" if where.ndim == 1 else f" at {unit} {at[-1]}"
        other = f", expected {DERIVED[column](rows.tokens)[at]}" if self.where is _differs else ""
        return f"{column} is {rows.stored(column)[at]}{place}{other}"


def row_of(edges: Int64s) -> Int64s:
    """Return the row of each item of a list column: lists with the borders [0 2 3] -> [0 0 1]."""
    return np.repeat(np.arange(len(edges) - 1), np.diff(edges))


def _before(ends: Int64s, edges: Int64s) -> Int64s:
    """Return, for each list item, the end of the previous item of its row; 0 for the first one.

    Items with the ends [3 5 2] in lists with the borders [0 2 3] give [0 3 0].
    """
    before = np.roll(ends, 1)
    before[edges[:-1][np.diff(edges) > 0]] = 0
    return before


def _other_lengths(rows: CheckedRows, column: str) -> Bools:
    length = BUCKETS if column == "context_histogram" else rows.batch.row_format.row_length
    wrong: Bools = np.diff(rows.batch.offsets(column)) != length
    return wrong


def _disordered(rows: CheckedRows, _: str) -> Bools:
    starts, edges = rows.starts
    row = row_of(edges)
    first = np.arange(len(starts)) == edges[row]
    wrong = np.where(first, starts != 0, starts <= np.roll(starts, 1)) | (starts >= rows.valid[row])
    disordered: Bools = (np.bincount(row[wrong], minlength=len(rows)) > 0) | (np.diff(edges) == 0)
    return disordered


def _unknown_ids(rows: CheckedRows, _: str) -> Bools:
    ids = rows.tokens.input_ids
    return (ids < 0) | (ids >= rows.batch.row_format.vocab_size)


def _differs(rows: CheckedRows, column: str) -> Bools:
    wrong: Bools = rows.stored(column) != DERIVED[column](rows.tokens)
    return wrong


def _misplaced_bos(rows: CheckedRows, _: str) -> Bools:
    misplaced: Bools = rows.tokens.input_ids == rows.batch.row_format.bos_id
    misplaced.reshape(-1)[rows.layout.flat_start] ^= True
    return misplaced & rows.batch.row_format.bos_marks_documents


def _leaks(rows: CheckedRows, _: str) -> Bools:
    silent = rows.padding.copy()
    silent.reshape(-1)[rows.layout.flat_start + rows.layout.lengths - 1] = True
    leaks: Bools = silent & (rows.tokens.loss_mask != 0)
    return leaks


def _untargeted(rows: CheckedRows, _: str) -> Bools:
    untargeted: Bools = rows.tokens.loss_mask.max(axis=1, keepdims=True) == 0
    return untargeted


def _forbidden_repeats(rows: CheckedRows, _: str) -> Bools:
    free = {name.encode() for name in REPEAT_FREE}
    forbidden = np.array([name in free for name in rows.batch.text("objective")], dtype=np.bool_)
    return rows.scored_repeats & forbidden[:, None]


def _falling_pack_ids(rows: CheckedRows, _: str) -> Bools:
    ids = [rows.last_pack_id, *rows.batch.text("pack_id")]
    return np.array([after <= before for before, after in itertools.pairwise(ids)], dtype=np.bool_)


def _unsound_pieces(rows: CheckedRows, column: str) -> Bools:
    edges, piece = rows.batch.offsets(column), rows.batch.fields(column)
    begin, end = piece["token_start"], piece["token_end"]
    spans = piece["byte_end"] - piece["byte_start"]
    generated, text = piece["kind"] == GENERATED_PIECE, piece["kind"] == TEXT_PIECE
    wrong: Bools = rows.outside(column, begin, end) | (begin != _before(end, edges))
    wrong |= ~(generated | text) | (generated & (spans != 0)) | (text & (spans <= 0))
    wrong |= piece["byte_start"] < 0
    return wrong


def _untiled(rows: CheckedRows, _: str) -> Bools:
    edges, end = rows.batch.offsets("pieces"), rows.batch.fields("pieces")["token_end"]
    last = np.append(end, 0)[np.maximum(edges[1:] - 1, 0)]
    untiled: Bools = (np.diff(edges) == 0) | (last != rows.valid)
    return untiled


def _unsound_chunks(rows: CheckedRows, column: str) -> Bools:
    edges, chunk = rows.batch.offsets(column), rows.batch.fields(column)
    start, end, level = chunk["start"], chunk["end"], chunk["dep_level"]
    wrong = rows.outside(column, start, end) | (start < _before(end, edges))
    wrong |= ~np.isin(chunk["kind"], list(STRUCTURE_CODES.values()))
    return wrong | (level < 1) | (level > MAX_LEVEL)


def _other_levels(rows: CheckedRows, column: str) -> Bools:
    """Return a flag for each token: True if its level differs from the level of its chunk.

    If pieces aren't stored, a 0 inside a chunk is no fault, because it may belong to a gap line.
    """
    edges, chunk = rows.batch.offsets("chunk_boundaries"), rows.batch.fields("chunk_boundaries")
    found = rows.stored(column)
    levels = rows.values_by_token(chunk["start"], chunk["end"], edges, chunk["dep_level"])
    wrong: Bools = (found != levels) & ~rows.textless
    return wrong if rows.batch.has("pieces") else wrong & (found > 0)


def _edges_apart(rows: CheckedRows, column: str) -> Bools:
    edge, row = rows.batch.fields(column), row_of(rows.batch.offsets(column))
    chunks = rows.batch.offsets("chunk_boundaries")
    document = rows.batch.fields("chunk_boundaries")["doc"]
    ends = np.stack([edge["source"], edge["target"]])
    apart: Bools = np.logical_or.reduce((ends < 0) | (ends >= np.diff(chunks)[row]))
    source, target = document[chunks[row[~apart]] + ends[:, ~apart]]
    apart[~apart] = source != target
    return apart


def _falling_edges(rows: CheckedRows, column: str) -> Bools:
    edge, row = rows.batch.fields(column), row_of(rows.batch.offsets(column))
    rises = np.diff(np.stack([row, edge["source"], edge["target"]]), axis=1)
    falls = np.zeros(len(row), dtype=np.bool_)
    falls[1:] = (rises[0] == 0) & ((rises[1] < 0) | ((rises[1] == 0) & (rises[2] < 0)))
    return falls


def _unknown_labels(rows: CheckedRows, column: str) -> Bools:
    return ~np.isin(rows.batch.fields(column)["label"], _LABELS)


def _too_large(rows: CheckedRows, column: str) -> Bools:
    return rows.stored(column) > MAX_CODES[column]


def _coded_without_text(rows: CheckedRows, column: str) -> Bools:
    return rows.textless & (rows.stored(column) > 0)


_ITEMS = ("pieces", "chunk_boundaries", "call_edges", "type_edges")
_LABELS = [*LABEL_CODES.values()]
_TILES = "pieces must cover the valid tokens, stay within documents, and only text has bytes"
_ONCE = f"{', '.join(REPEAT_FREE)} must not score runs of {RUN} tokens that repeat earlier tokens"
_shape = partial(RowRule, Rule.SHAPE)
_boundaries = partial(RowRule, Rule.BOUNDARIES)
_structure = partial(RowRule, Rule.STRUCTURE, needs=NAMES)
SHAPES = (
    _shape("", "rows must not contain nulls", lambda rows, _: rows.batch.nulls(), REQUIRED),
    *(
        _shape(name, "a row must have {row_length} values", _other_lengths)
        for name in (*TOKEN_COLUMNS, *STRUCTURE_TOKENS)
    ),
    _shape("context_histogram", f"a row must have {BUCKETS} values", _other_lengths),
)
EDGES = (
    _boundaries(
        "valid_token_count",
        "a row must have 1 to {row_length} valid tokens",
        lambda rows, _: (rows.valid < 1) | (rows.valid > rows.batch.row_format.row_length),
        REQUIRED,
    ),
    _boundaries(
        "doc_starts", "documents must begin at 0 and increasing valid tokens", _disordered, REQUIRED
    ),
)
CONTENT = (
    _shape("input_ids", "ids must be at least 0 and less than {vocab_size}", _unknown_ids),
    _shape("loss_mask", "the mask must be 0 or 1", lambda rows, _: rows.tokens.loss_mask > 1),
    _boundaries(
        "input_ids",
        "positions after the valid tokens must be padding, {pad_id}",
        lambda rows, _: rows.padding & (rows.tokens.input_ids != rows.tokens.pad_id),
    ),
    _boundaries("doc_ids", "documents must be numbered from 0, with padding last", _differs),
    _boundaries("num_docs", "it must match the document boundaries", _differs),
    _boundaries("attention_pairs", "it must match the document boundaries", _differs),
    _boundaries(
        "document_ids",
        "every document must have an id",
        lambda rows, column: np.diff(rows.batch.offsets(column)) != rows.layout.num_docs,
    ),
    RowRule(Rule.BOS, "input_ids", "every document must begin with BOS {bos_id}", _misplaced_bos),
    RowRule(Rule.TARGETS, "loss_mask", "it must be 0 at document ends and padding", _leaks),
    RowRule(Rule.TARGETS, "target_ids", "it must be the next token where loss_mask is 1", _differs),
    RowRule(Rule.LOSS, "loss_mask", "a row must have at least one target", _untargeted),
    RowRule(Rule.LOSS, "loss_token_count", "it must be the sum of loss_mask", _differs),
    RowRule(Rule.LOSS, "context_histogram", "it must count scored tokens by context", _differs),
    RowRule(Rule.REPEATS, "loss_mask", _ONCE, _forbidden_repeats, ("objective",)),
    RowRule(Rule.COVERAGE, "pack_id", "pack_ids must increase from row to row", _falling_pack_ids),
    _boundaries("pieces", _TILES, _unsound_pieces),
    _boundaries("valid_token_count", _TILES, _untiled, ("pieces",)),
)
STRUCTURE = (
    *(
        _structure(name, f"it must be at most {largest}", _too_large)
        for name, largest in MAX_CODES.items()
    ),
    *(
        _structure(name, "it must be 0 at padding and generated tokens", _coded_without_text)
        for name in MAX_CODES
    ),
    _structure(
        "chunk_boundaries",
        "chunks must be sorted, disjoint and within their document, and have valid codes",
        _unsound_chunks,
    ),
    _structure("dep_levels", "it must be the level of the token's chunk", _other_levels),
    *(
        _structure(name, holds, where)
        for name in ("call_edges", "type_edges")
        for holds, where in (
            ("an edge must connect two chunks of one document", _edges_apart),
            (f"labels must be {min(_LABELS)} to {max(_LABELS)}", _unknown_labels),
            ("edges must be sorted by source and target", _falling_edges),
        )
    ),
)
RULES = (*SHAPES, *EDGES, *CONTENT, *STRUCTURE)
