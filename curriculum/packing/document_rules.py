"""Rules 5 and 7 of the packed row: structure columns fit the documents; no byte is scored twice.

Rule 7 also holds that pack_ids rise. It compares the byte ranges of all rows by document: they are cut into
partitions by a hash of the document, which lie on disk past a million ranges, so memory stays flat.
"""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curriculum.packing.boundaries import Int64s, Layout, Values
from curriculum.packing.rows import RowBatch
from curriculum.packing.rules import BatchPosition, Rule, Violation, Violations
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE
from schemas.structure import (
    LABEL_CODES,
    LARGEST_CODES,
    LARGEST_LEVEL,
    STRUCTURE_CODES,
    STRUCTURE_COLUMNS,
)

NAMES = tuple(field.name for field in STRUCTURE_COLUMNS)
Bools = npt.NDArray[np.bool_]


def structure(columns: RowBatch, layout: Layout, place: BatchPosition) -> None:
    """Codes are in range and 0 where no text stands; chunks and edges are sorted, each of one document.

    The columns are all there. Pieces, where they are stored, are sound, and say which tokens encode no text.
    """
    silent = _generated(columns) | (np.arange(layout.row_length) >= layout.valid[:, None])
    for name, largest in LARGEST_CODES.items():
        _codes(name, columns.tokens(name), largest, silent, place)
    sound = _chunks(columns, layout, place)
    columns, place = columns.only(sound), place.only(sound)
    _levels(columns, silent[sound], place)
    for name in ("call_edges", "type_edges"):
        _edges(columns, name, place)


def _codes(name: str, found: Values, largest: int, silent: Bools, place: BatchPosition) -> None:
    def describe(i: int, t: int) -> str:
        return f"{name} is {found[i, t]} at token {t}"

    place.wrong_tokens(Rule.STRUCTURE, found > largest, f"{name} is at most {largest}", describe)
    cause = "padding and tokens that encode no text have 0"
    place.wrong_tokens(Rule.STRUCTURE, silent & (found > 0) & (found <= largest), cause, describe)


def _chunks(columns: RowBatch, layout: Layout, place: BatchPosition) -> Bools:
    """[n] rows with sound chunks."""
    chunk, edges = columns.fields("chunk_boundaries"), columns.offsets("chunk_boundaries")
    row, number = _rows(edges)
    before = np.where(number == 0, 0, np.roll(chunk["end"], 1))
    named = (chunk["doc"] >= 0) & (chunk["doc"] < layout.num_docs[row])
    document = layout.first_document[row] + np.where(named, chunk["doc"], 0)
    first, after = layout.start[document], layout.start[document] + layout.lengths[document]
    wrong = (chunk["start"] < before) | (chunk["start"] >= chunk["end"]) | ~named
    wrong |= (chunk["start"] < first) | (chunk["end"] > after)
    wrong |= ~np.isin(chunk["kind"], list(STRUCTURE_CODES.values()))
    wrong |= (chunk["dep_level"] < 1) | (chunk["dep_level"] > LARGEST_LEVEL)
    bad = np.bincount(row[wrong], minlength=len(columns)) > 0

    def describe(i: int) -> str:
        number = int(wrong[edges[i] : edges[i + 1]].argmax())
        value = {name: int(values[edges[i] + number]) for name, values in chunk.items()}
        return f"chunk {number} is {value}"

    cause = "chunks are sorted, disjoint, each inside its document, their codes in range"
    place.wrong(Rule.STRUCTURE, bad, cause, describe)
    return ~bad


def _levels(columns: RowBatch, silent: Bools, place: BatchPosition) -> None:
    """dep_levels are those of the chunks; without pieces a 0 in a chunk may be a line of a gap."""
    found = columns.tokens("dep_levels")
    chunk, edges = columns.fields("chunk_boundaries"), columns.offsets("chunk_boundaries")
    expected = _painted(columns, chunk, _rows(edges)[0], chunk["dep_level"])
    expected[silent] = 0
    wrong = (found != expected) & ~(silent & (found > 0)) & (found <= LARGEST_LEVEL)
    if not columns.has("pieces"):
        wrong &= found > 0
    place.wrong_tokens(
        Rule.STRUCTURE,
        wrong,
        "it is the dep_level of the chunk that holds the token, 0 outside",
        lambda i, t: f"dep_levels is {found[i, t]} at token {t}, not {expected[i, t]}",
    )


def _generated(columns: RowBatch) -> Bools:
    """[n, T]: which tokens stand in generated pieces; none where pieces aren't stored."""
    if not columns.has("pieces"):
        return np.zeros((len(columns), columns.row_format.row_length), dtype=np.bool_)
    piece = columns.fields("pieces")
    ranges = {"start": piece["token_start"], "end": piece["token_end"]}
    ours = (piece["kind"] == GENERATED_PIECE).astype(np.int64)
    return _painted(columns, ranges, _rows(columns.offsets("pieces"))[0], ours) > 0


def _painted(columns: RowBatch, ranges: dict[str, Int64s], row: Int64s, values: Int64s) -> Int64s:
    """[n, T]: the value of the range that holds each token; ranges are disjoint and inside their rows."""
    length = columns.row_format.row_length
    steps = np.zeros(len(columns) * length + 1, dtype=np.int64)
    np.add.at(steps, row * length + ranges["start"], values)
    np.subtract.at(steps, row * length + ranges["end"], values)
    return np.cumsum(steps[:-1]).reshape(len(columns), length)


def _edges(columns: RowBatch, name: str, place: BatchPosition) -> None:
    edge, edges = columns.fields(name), columns.offsets(name)
    row, number = _rows(edges)
    chunks = columns.offsets("chunk_boundaries")
    document = columns.fields("chunk_boundaries")["doc"]
    count = np.diff(chunks)[row]
    ends = (edge["source"], edge["target"])
    inside = np.logical_and.reduce([(end >= 0) & (end < count) for end in ends])
    apart = ~inside
    source, target = (document[chunks[row[inside]] + end[inside]] for end in ends)
    apart[inside] = source != target
    unknown = ~np.isin(edge["label"], list(LABEL_CODES.values()))
    before = [np.roll(end, 1) for end in ends]
    falls = (ends[0] < before[0]) | ((ends[0] == before[0]) & (ends[1] < before[1]))
    falls &= number > 0

    def describe(wrong: Bools, i: int) -> str:
        number = int(wrong[edges[i] : edges[i + 1]].argmax())
        at = edges[i] + number
        label = edge["label"][at]
        return f"{name} {number} joins chunks {ends[0][at]} and {ends[1][at]} with label {label}"

    for wrong, cause in (
        (apart, "an edge joins two chunks of one document"),
        (
            unknown & ~apart,
            f"labels are {min(LABEL_CODES.values())} to {max(LABEL_CODES.values())}",
        ),
        (falls & ~apart & ~unknown, "edges are sorted by source and target"),
    ):
        bad = np.bincount(row[wrong], minlength=len(columns)) > 0
        place.wrong(Rule.STRUCTURE, bad, cause, lambda i, wrong=wrong: describe(wrong, i))  # type: ignore[misc]


def _rows(edges: Int64s) -> tuple[Int64s, Int64s]:
    """The row of each item, and its number there: edges [0 2 3] -> [0 0 1], [0 1 0]."""
    row = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    return row, np.arange(len(row)) - edges[row]


RANGE = np.dtype(
    [
        ("high", np.uint64),
        ("low", np.uint64),
        ("start", np.int32),
        ("end", np.int32),
        ("shard", np.int32),
        ("row", np.int64),
        ("doc", np.int32),
    ]
)
"""Bytes start:end of the document whose 128-bit hash is high, low stand in a row as its document doc."""
HELD_RANGES = 1 << 20
PARTITIONS = 64
LABELS = ("objective", "variant")
"""The same bytes may come again under another objective or variant."""


class Coverage:
    """Collects the ranges of one data set, and finds those that overlap."""

    def __init__(self, folder: Path, *, held_ranges: int = HELD_RANGES) -> None:
        """An empty folder for what doesn't fit into memory; the caller removes it."""
        self._folder = folder
        self._held: list[Values] = []
        self._held_ranges = held_ranges
        self._spilled = False
        self._last_pack_id = b""
        self._shards: list[str] = []

    def begin(self, shard: str) -> None:
        """Begin a shard: everything that is added from now on is in it."""
        self._shards.append(shard)

    def add(self, columns: RowBatch, layout: Layout, rows: Int64s) -> None:
        """The text ranges of rows whose pieces are sound; `rows` are their numbers in the shard."""
        ranges = _text_ranges(columns, layout, rows)
        ranges["shard"] = len(self._shards) - 1
        self._held.append(ranges)
        if sum(map(len, self._held)) > self._held_ranges:
            self._spill()

    def pack_ids(self, columns: RowBatch, place: BatchPosition) -> None:
        """Files a fault for each pack_id that isn't greater than the one before it, over all shards."""
        ids = [self._last_pack_id, *columns.text("pack_id")]
        self._last_pack_id = ids[-1]
        falls = np.array([after <= before for before, after in itertools.pairwise(ids)])
        place.wrong(
            Rule.COVERAGE,
            falls,
            "pack_ids rise",
            lambda i: f"pack_id {ids[i + 1].decode()} comes after {ids[i].decode()}",
        )

    def finish(self, faults: Violations) -> None:
        """Files a fault for each range that begins inside another of its document."""
        for ranges in self._partitions():
            self._overlaps(ranges, faults)

    def _overlaps(self, ranges: Values, faults: Violations) -> None:
        keys = [ranges[name] for name in ("row", "shard", "start", "low", "high")]
        ranges = ranges[np.lexsort(keys)]
        before, after = ranges[:-1], ranges[1:]
        same = (before["high"] == after["high"]) & (before["low"] == after["low"])
        for index in np.flatnonzero(same & (after["start"] < before["end"])).tolist():
            faults.add(self._fault(before[index], after[index]))

    def _fault(self, first: np.void, second: np.void) -> Violation:
        later, earlier = sorted((first, second), key=_place, reverse=True)
        start, end = second["start"], min(first["end"], second["end"])
        return Violation(
            rule=Rule.COVERAGE,
            shard=self._shards[later["shard"]],
            row=int(later["row"]),
            found=(
                f"bytes {start}:{end} of its document {later['doc']} stand in row {earlier['row']} of "
                f"{self._shards[earlier['shard']]} too"
            ),
            cause="a byte is scored once in each objective and variant",
        )

    def _spill(self) -> None:
        ranges = np.concatenate(self._held)
        self._held, self._spilled = [], True
        partition = ranges["high"] % PARTITIONS
        for number in range(PARTITIONS):
            with self._partition(number).open("ab") as file:
                ranges[partition == number].tofile(file)

    def _partitions(self) -> Iterator[Values]:
        if not self._spilled:
            yield np.concatenate([np.zeros(0, dtype=RANGE), *self._held])
            return
        self._spill()
        for number in range(PARTITIONS):
            yield np.fromfile(self._partition(number), dtype=RANGE)

    def _partition(self, number: int) -> Path:
        return self._folder / str(number)


def _text_ranges(columns: RowBatch, layout: Layout, rows: Int64s) -> Values:
    """Byte ranges of the text, continuing ones joined: 0:5, 5:9, 12:13, 13:20, 30:31 -> 0:9, 12:20, 30:31."""
    edges, piece = columns.offsets("pieces"), columns.fields("pieces")
    row = np.repeat(np.arange(len(columns)), np.diff(edges))
    text = piece["kind"] == TEXT_PIECE
    if not text.any():
        return np.zeros(0, dtype=RANGE)
    document = (layout.first_document[row] + piece["doc"])[text]
    start, end = piece["byte_start"][text], piece["byte_end"][text]
    begins = np.ones(len(start), dtype=np.bool_)
    begins[1:] = (document[1:] != document[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(begins)
    ranges = np.zeros(len(first), dtype=RANGE)
    names = _document_hashes(columns)[document[first]]
    ranges["high"], ranges["low"] = names[:, 0], names[:, 1]
    ranges["start"] = start[first]
    ranges["end"] = end[np.append(first[1:], len(end)) - 1]
    ranges["row"] = rows[layout.row[document[first]]]
    ranges["doc"] = layout.slot[document[first]]
    return ranges


def _document_hashes(columns: RowBatch) -> npt.NDArray[np.uint64]:
    """[d, 2]: of (document, objective, variant), by row and slot."""
    labels = [columns.text(name) for name in LABELS if columns.has(name)]
    suffixes = [b"\0".join(label) for label in zip(*labels, strict=True)] or [b""] * len(columns)
    counts = np.diff(columns.offsets("document_ids"))
    row = np.repeat(np.arange(len(columns)), counts).tolist()
    ids = columns.texts("document_ids")
    digests = [
        hashlib.blake2b(name + b"\0" + suffixes[i], digest_size=16).digest()
        for i, name in zip(row, ids, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def _place(found: np.void) -> tuple[int, int, int]:
    return int(found["shard"]), int(found["row"]), int(found["doc"])
