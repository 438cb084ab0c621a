"""Rules 1 to 4, 6 and 8 of the packed row, on a batch of rows at a time.

Rules that need sound boundaries run on the rows that have them, so one violation is reported once. Rule 8:
nothing is scored that its document has before, where the objective says so.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from curriculum.packing.boundaries import Int64s, Layout
from curriculum.packing.repeats import REPEAT_FREE, RUN, in_repeats
from curriculum.packing.rows import RowBatch, target_ids
from schemas.errors import SchemaError
from schemas.packed_row import GENERATED_PIECE, HISTOGRAM_EDGES, TEXT_PIECE, TOKEN_COLUMNS
from schemas.structure import STRUCTURE_TOKENS

Bools = npt.NDArray[np.bool_]
CURE = "Rebuild with: curriculum build"


class Rule(Enum):
    """The invariants of the packed row by number; 0 is that a file can be read as rows at all."""

    FILE = 0
    SHAPE = 1
    BOUNDARIES = 2
    BOS = 3
    TARGETS = 4
    STRUCTURE = 5
    LOSS = 6
    COVERAGE = 7
    REPEATS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """One row that breaks one rule; `row` is None where a whole file does."""

    rule: Rule
    shard: str
    row: int | None
    found: str
    cause: str

    def error(self) -> SchemaError:
        """An exception that reads `row 17 of part-00003.parquet: doc_ids falls …; …. Rebuild with: …`."""
        name = self.shard if self.row is None else f"row {self.row} of {self.shard}"
        return SchemaError(name, self.found, cause=self.cause, cure=CURE)

    def __str__(self) -> str:
        return str(self.error())


@dataclass(kw_only=True, slots=True)
class Violations:
    """Counts all faults and keeps the first `limit` of them."""

    limit: int
    count: int = 0
    kept: list[Violation] = field(default_factory=list)

    def add(self, fault: Violation) -> None:
        """One fault more."""
        self.count += 1
        if len(self.kept) < self.limit:
            self.kept.append(fault)


@dataclass(kw_only=True, slots=True)
class BatchPosition:
    """Files faults of a batch of rows; `rows` are their numbers in the shard."""

    faults: Violations
    shard: str
    rows: npt.NDArray[np.int64]

    def only(self, rows: npt.NDArray[np.bool_]) -> "BatchPosition":
        """The rows where `rows` is true."""
        return BatchPosition(faults=self.faults, shard=self.shard, rows=self.rows[rows])

    def wrong(
        self,
        rule: Rule,
        rows: npt.NDArray[Any],
        cause: str,
        describe: Callable[[int], str],
    ) -> None:
        """Every row where `rows` is true breaks `rule`; describe(i) says what was found in the i-th."""
        for index in np.flatnonzero(rows).tolist():
            found = describe(index) if len(self.faults.kept) < self.faults.limit else ""
            self.faults.add(
                Violation(
                    rule=rule,
                    shard=self.shard,
                    row=int(self.rows[index]),
                    found=found,
                    cause=cause,
                )
            )

    def wrong_tokens(
        self,
        rule: Rule,
        tokens: npt.NDArray[np.bool_],
        cause: str,
        describe: Callable[[int, int], str],
    ) -> None:
        """Every row of `tokens` [n, T] with a true token breaks `rule`; describe(i, t) is of the first."""
        if not tokens.any():
            return
        first = tokens.argmax(axis=1)
        rows = tokens[np.arange(len(tokens)), first]
        self.wrong(rule, rows, cause, lambda i: describe(i, int(first[i])))


def whole(batch: RowBatch, place: BatchPosition) -> Bools:
    """Rule 1: no nulls; [n] rows without."""
    nulls = batch.nulls()
    place.wrong(Rule.SHAPE, nulls, "rows have no nulls", lambda i: "a null in a column")
    return ~nulls


def shape(batch: RowBatch, place: BatchPosition) -> Bools:
    """Rule 1: lists of T values; [n] rows that have them."""
    sound = np.ones(len(batch), dtype=np.bool_)
    lengths = dict.fromkeys((*TOKEN_COLUMNS, *STRUCTURE_TOKENS), batch.row_format.row_length)
    lengths["context_histogram"] = len(HISTOGRAM_EDGES) + 1
    for name in filter(batch.has, lengths):
        found = np.diff(batch.offsets(name))
        wrong = found != lengths[name]
        place.wrong(
            Rule.SHAPE,
            wrong,
            f"a row has {lengths[name]}",
            lambda i, name=name, found=found: f"{name} has {found[i]} values",  # type: ignore[misc]
        )
        sound &= ~wrong
    return sound


def values(batch: RowBatch, place: BatchPosition) -> None:
    """Rule 1, of rows whose lists have T values: ids in the vocabulary, a mask of 0 and 1."""
    ids, mask = batch.tokens("input_ids"), batch.tokens("loss_mask")
    size = batch.row_format.vocab_size
    place.wrong_tokens(
        Rule.SHAPE,
        (ids < 0) | (ids >= size),
        f"ids are 0 to {size - 1}",
        lambda i, t: f"input_ids is {ids[i, t]} at token {t}",
    )
    place.wrong_tokens(
        Rule.SHAPE,
        mask > 1,
        "a mask is 0 or 1",
        lambda i, t: f"loss_mask is {mask[i, t]} at token {t}",
    )


def boundaries(batch: RowBatch, place: BatchPosition) -> tuple[Bools, Layout | None]:
    """Rule 2, what else rests on: [n] rows with sound doc_starts and counts, and the layout of those."""
    valid = batch.valid_counts()
    row_length = batch.row_format.row_length
    outside = (valid < 1) | (valid > row_length)
    place.wrong(
        Rule.BOUNDARIES,
        outside,
        f"a row has 1 to {row_length} valid tokens",
        lambda i: f"valid_token_count is {valid[i]}",
    )
    starts, edges = batch.doc_starts(valid)
    disordered = _disordered(starts, edges, valid)
    place.wrong(
        Rule.BOUNDARIES,
        disordered & ~outside,
        "documents begin at 0 and at rising valid tokens",
        lambda i: f"doc_starts is {_shown(starts[edges[i] : edges[i + 1]])}",
    )
    sound = ~(outside | disordered)
    if not sound.any():
        return sound, None
    counts = np.diff(edges)
    starts = starts[np.repeat(sound, counts)]
    return sound, Layout.of(starts, counts[sound], valid[sound], row_length)


def agreement(batch: RowBatch, layout: Layout, place: BatchPosition) -> None:
    """Rule 2: doc_ids, num_docs, document_ids and attention_pairs agree; padding only at the tail."""
    ids, pad_id = batch.tokens("input_ids"), batch.row_format.pad_id
    place.wrong_tokens(
        Rule.BOUNDARIES,
        _padding(layout) & (ids != pad_id),
        f"what follows the valid tokens is padding, {pad_id}",
        lambda i, t: f"input_ids is {ids[i, t]} at token {t}, after {layout.valid[i]} valid tokens",
    )
    if batch.has("doc_ids"):
        _doc_ids(batch, layout, place)
    counted: dict[str, tuple[Any, Int64s]] = {
        "num_docs": (batch.scalars, layout.num_docs),
        "attention_pairs": (batch.scalars, layout.attention_pairs),
        "document_ids": (lambda name: np.diff(batch.offsets(name)), layout.num_docs),
    }
    for name in filter(batch.has, counted):
        read, expected = counted[name]
        found = read(name)
        many = " entries" if name == "document_ids" else ""
        place.wrong(
            Rule.BOUNDARIES,
            found != expected,
            "it must agree with doc_starts and valid_token_count",
            lambda i, name=name, found=found, expected=expected, many=many: (  # type: ignore[misc]
                f"{name} is {found[i]}{many} where the boundaries give {expected[i]}"
            ),
        )


def _doc_ids(batch: RowBatch, layout: Layout, place: BatchPosition) -> None:
    found = batch.tokens("doc_ids")
    expected = layout.doc_ids.reshape(found.shape)

    def describe(i: int, t: int) -> str:
        if t and found[i, t] < found[i, t - 1]:
            return f"doc_ids falls from {found[i, t - 1]} to {found[i, t]} at token {t}"
        return f"doc_ids is {found[i, t]} at token {t}, where the boundaries give {expected[i, t]}"

    place.wrong_tokens(
        Rule.BOUNDARIES,
        found != expected,
        "documents must be contiguous, numbered from 0, padding last",
        describe,
    )


def pieces(batch: RowBatch, layout: Layout, place: BatchPosition) -> Bools:
    """Rule 2: pieces tile the valid tokens, each inside its document; [n] rows where they do."""
    edges, piece = batch.offsets("pieces"), batch.fields("pieces")
    counts = np.diff(edges)
    row = np.repeat(np.arange(len(batch)), counts)
    number = np.arange(len(row)) - edges[row]
    begin, end = piece["token_start"], piece["token_end"]
    before = np.where(number == 0, 0, np.roll(end, 1))
    named = (piece["doc"] >= 0) & (piece["doc"] < layout.num_docs[row])
    document = layout.first_document[row] + np.where(named, piece["doc"], 0)
    first, after = layout.start[document], layout.start[document] + layout.lengths[document]
    spans = piece["byte_end"] - piece["byte_start"]
    generated, text = piece["kind"] == GENERATED_PIECE, piece["kind"] == TEXT_PIECE
    wrong = (begin != before) | (begin >= end) | ~named | (begin < first) | (end > after)
    wrong |= ~(generated | text) | (generated & (spans != 0)) | (text & (spans <= 0))
    wrong |= piece["byte_start"] < 0
    whole = counts > 0
    last = np.minimum(edges[1:] - 1, len(row) - 1)
    whole[whole] = end[last[whole]] == layout.valid[whole]
    bad = np.bincount(row[wrong], minlength=len(batch)) > 0

    def describe(i: int) -> str:
        at = edges[i] + int(wrong[edges[i] : edges[i + 1]].argmax())
        return f"piece {at - edges[i]} is {_shown_piece(piece, at)}"

    tile = "pieces tile the valid tokens, each in its document, and only text has bytes"
    place.wrong(Rule.BOUNDARIES, bad, tile, describe)
    place.wrong(
        Rule.BOUNDARIES,
        ~whole & ~bad,
        tile,
        lambda i: f"its {counts[i]} pieces end elsewhere than its {layout.valid[i]} valid tokens",
    )
    return whole & ~bad


def bos(batch: RowBatch, layout: Layout, place: BatchPosition) -> None:
    """Rule 3: where a BOS marks documents, it stands at each doc_start and nowhere else."""
    if not batch.row_format.bos_marks_documents:
        return
    found = batch.tokens("input_ids") == batch.row_format.bos_id
    expected = np.zeros(found.size, dtype=np.bool_)
    expected[layout.flat_start] = True
    expected = expected.reshape(found.shape)
    place.wrong_tokens(
        Rule.BOS,
        found != expected,
        "BOS stands at each document's first token and nowhere else",
        lambda i, t: f"{'a' if found[i, t] else 'no'} BOS at token {t}",
    )


def targets(batch: RowBatch, layout: Layout, place: BatchPosition) -> None:
    """Rule 4: the next token where the mask is 1; never across a boundary, the row's end or padding."""
    ids, mask = batch.tokens("input_ids"), batch.tokens("loss_mask")
    silent = _padding(layout)
    silent.reshape(-1)[layout.flat_start + layout.lengths - 1] = True
    place.wrong_tokens(
        Rule.TARGETS,
        silent & (mask != 0),
        "a document's last token and padding predict nothing",
        lambda i, t: f"loss_mask is {mask[i, t]} at token {t}",
    )
    if not batch.has("target_ids"):
        return
    found = batch.tokens("target_ids")
    expected = target_ids(ids, mask, batch.row_format.pad_id)
    place.wrong_tokens(
        Rule.TARGETS,
        (found != expected) & ~(silent & (mask != 0)),
        "a target is the next token where loss_mask is 1, and pad_id elsewhere",
        lambda i, t: f"target_ids is {found[i, t]} at token {t}, and should be {expected[i, t]}",
    )


def loss(batch: RowBatch, layout: Layout, place: BatchPosition) -> None:
    """Rule 6: a row has targets, and its counts of them and their context are right."""
    mask = batch.tokens("loss_mask")
    scored = mask.sum(axis=1, dtype=np.int64)
    place.wrong(
        Rule.LOSS,
        scored == 0,
        "a row without targets trains nothing",
        lambda i: "loss_mask is all 0",
    )
    if batch.has("loss_token_count"):
        stored = batch.scalars("loss_token_count")
        place.wrong(
            Rule.LOSS,
            stored != scored,
            "loss_token_count is the sum of loss_mask",
            lambda i: f"loss_token_count is {stored[i]} where loss_mask has {scored[i]}",
        )
    if batch.has("context_histogram"):
        found = batch.values("context_histogram").reshape(len(batch), -1)
        expected = layout.context_histogram(mask.reshape(-1))
        place.wrong(
            Rule.LOSS,
            (found != expected).any(axis=1),
            "it counts scored tokens by the tokens of their document before them",
            lambda i: f"context_histogram is {found[i].tolist()}, not {expected[i].tolist()}",
        )


def _disordered(starts: Int64s, edges: Int64s, valid: Int64s) -> Bools:
    counts = np.diff(edges)
    row = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(starts)) - edges[row]
    before = np.where(number == 0, -1, np.roll(starts, 1))
    wrong = (starts <= before) | (starts >= valid[row]) | ((number == 0) & (starts != 0))
    disordered: Bools = (np.bincount(row[wrong], minlength=len(counts)) > 0) | (counts == 0)
    return disordered


def _padding(layout: Layout) -> Bools:
    """[n, T]: true after the valid tokens."""
    return np.arange(layout.row_length) >= layout.valid[:, None]


def _shown(numbers: Int64s) -> str:
    shown = ", ".join(map(str, numbers[:8].tolist()))
    return f"[{shown}{', …' if len(numbers) > 8 else ''}]"


def _shown_piece(piece: dict[str, Int64s], at: int) -> str:
    value = {name: int(values[at]) for name, values in piece.items()}
    return (
        f"tokens {value['token_start']}:{value['token_end']} of document {value['doc']}, "
        f"kind {value['kind']}, bytes {value['byte_start']}:{value['byte_end']}"
    )


_FREE = {name.encode() for name in REPEAT_FREE}


def repeats(batch: RowBatch, layout: Layout, place: BatchPosition) -> int:
    """Count the scored tokens in runs of RUN tokens that are earlier in their document too.

    Where the objective isn't stored, they are only counted.
    """
    repeated = _repeated(batch, layout)
    scored = np.zeros_like(repeated)
    scored[:, :-1] = repeated[:, 1:] & (batch.tokens("loss_mask")[:, :-1] == 1)
    if batch.has("objective"):
        objectives = batch.text("objective")
        forbidden = np.array([each in _FREE for each in objectives], dtype=np.bool_)
        place.wrong_tokens(
            Rule.REPEATS,
            scored & forbidden[:, None],
            f"{', '.join(REPEAT_FREE)} score no run of {RUN} tokens that stands there before",
            lambda i, t: (
                f"token {t + 1} is a target in a run of {_length(repeated[i], t + 1)} tokens "
                f"that its document has before"
            ),
        )
    return int(scored.sum())


def _repeated(batch: RowBatch, layout: Layout) -> Bools:
    """[n, T]: which tokens lie in repeats."""
    ids = batch.tokens("input_ids")
    valid = np.arange(layout.row_length) < layout.valid[:, None]
    repeated = np.zeros(ids.shape, dtype=np.bool_)
    repeated[valid] = in_repeats(ids[valid], np.cumsum(layout.lengths) - layout.lengths)
    return repeated


def _length(repeated: Bools, token: int) -> int:
    """Return the length of the stretch of repeated tokens around one: [0 1 1 0 1] has 2 around 1."""
    others = np.flatnonzero(~repeated)
    before, after = others[others < token], others[others > token]
    first = int(before[-1]) + 1 if len(before) else 0
    return (int(after[0]) if len(after) else len(repeated)) - first
